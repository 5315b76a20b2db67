//! SIGINT, SIGTERM and SIGHUP: the first asks, the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::console::console;
use crate::exit::Exit;

/// How long a command that is not asked to end well may take to notice.
const NOTICE: Duration = Duration::from_secs(1);

/// Watches the signals while it lives.
#[derive(Debug)]
pub(crate) struct Signals {
    first: watch::Receiver<Option<Exit>>,
    graceful: Arc<AtomicBool>,
    watcher: AbortHandle,
}

impl Signals {
    /// Begins to watch. A SIGHUP that the parent made us ignore (`nohup`) stays ignored. Where handlers
    /// cannot be set, signals keep their usual effect.
    pub(crate) fn watch() -> Self {
        let (first, seen) = watch::channel(None);
        let graceful = Arc::new(AtomicBool::new(false));
        let watcher = tokio::spawn(watch_signals(first, Arc::clone(&graceful))).abort_handle();
        Self { first: seen, graceful, watcher }
    }

    /// Says that the command ends by itself after the first signal, however long that takes.
    pub(crate) fn end_well(&self) {
        self.graceful.store(true, Ordering::Relaxed);
    }

    /// The exit that the first signal asks for, once there is one.
    pub(crate) fn received(&self) -> Option<Exit> {
        *self.first.borrow()
    }

    /// Resolves with the first signal.
    pub(crate) async fn first(&self) -> Exit {
        let mut first = self.first.clone();
        let seen = first.wait_for(Option::is_some).await.ok().and_then(|seen| *seen);
        match seen {
            Some(exit) => exit,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

async fn watch_signals(first: watch::Sender<Option<Exit>>, graceful: Arc<AtomicBool>) {
    let mut interrupt = signal(SignalKind::interrupt()).ok();
    let mut terminate = signal(SignalKind::terminate()).ok();
    let mut hangup = if is_hangup_ignored() { None } else { signal(SignalKind::hangup()).ok() };
    let exit = next(&mut interrupt, &mut terminate, &mut hangup).await;
    let patient = graceful.load(Ordering::Relaxed);
    first.send_replace(Some(exit));
    if patient {
        next(&mut interrupt, &mut terminate, &mut hangup).await;
    } else {
        let _ = tokio::time::timeout(NOTICE, next(&mut interrupt, &mut terminate, &mut hangup)).await;
    }
    console().clear();
    leave(exit);
}

#[expect(clippy::exit, reason = "the user insists; what was committed stays, the rest is settled by the next run")]
fn leave(exit: Exit) -> ! {
    std::process::exit(i32::from(exit.code()))
}

async fn next(interrupt: &mut Option<Signal>, terminate: &mut Option<Signal>, hangup: &mut Option<Signal>) -> Exit {
    tokio::select! {
        () = received(interrupt) => Exit::Interrupted,
        () = received(terminate) => Exit::Terminated,
        () = received(hangup) => Exit::HungUp,
    }
}

async fn received(signal: &mut Option<Signal>) {
    let got = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if got.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Whether SIGHUP came to us ignored.
fn is_hangup_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status))
}

fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_is_ignored() {
        assert!(ignores_hangup("Name:\tckpt\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\n"));
        assert!(!ignores_hangup("Name:\tckpt\n"));
    }
}
