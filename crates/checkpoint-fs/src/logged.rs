//! What a test logs on its own thread.
//!
//! One subscriber serves the whole process. With one for a thread, an event that another thread meets first is taken for
//! one that nobody wants, and is then not logged anywhere.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

thread_local! {
    static LOG: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// The log of this thread, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Logged(());

impl Logged {
    pub(crate) fn start() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
            tracing::subscriber::set_global_default(lines.with_writer(|| ThisThread).finish())
                .expect("is the only one");
            // Events that were met in the meantime.
            tracing::callsite::rebuild_interest_cache();
        });
        LOG.set(Some(Vec::new()));
        Self(())
    }

    /// What has been logged.
    pub(crate) fn text(&self) -> String {
        LOG.with_borrow(|log| String::from_utf8_lossy(log.as_deref().unwrap_or_default()).into_owned())
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        LOG.set(None);
    }
}

struct ThisThread;

impl io::Write for ThisThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.iter_mut().for_each(|log| log.extend_from_slice(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
