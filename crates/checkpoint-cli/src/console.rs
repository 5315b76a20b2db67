//! Standard error: errors, warnings, logs and the progress line, none of which tears another.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use indicatif::ProgressBar;

/// Standard error with at most one progress line at its end. A terminal that has gone is no error.
#[derive(Debug, Default)]
pub(crate) struct Console {
    bar: Mutex<Option<ProgressBar>>,
}

/// The process's own. Logs reach it from everywhere.
pub(crate) fn console() -> &'static Console {
    static CONSOLE: OnceLock<Console> = OnceLock::new();
    CONSOLE.get_or_init(Console::default)
}

impl Console {
    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a line that changes in place can be shown.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Writes bytes above the progress line.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let write = || {
            let _ = io::stderr().lock().write_all(bytes);
        };
        match &*self.bar() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Writes a line above the progress line.
    pub(crate) fn line(&self, text: &str) {
        self.write(format!("{text}\n").as_bytes());
    }

    /// Makes a bar the progress line.
    pub(crate) fn show(&self, bar: ProgressBar) {
        *self.bar() = Some(bar);
    }

    /// Removes the progress line.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }
}
