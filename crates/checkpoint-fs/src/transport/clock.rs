//! The wall clock of signatures and credentials, injected so that tests need not wait.

use std::fmt::Debug;
use std::time::SystemTime;

/// Tells the time by the wall clock.
pub(crate) trait WallClock: Debug + Send + Sync {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock;

impl WallClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "signatures carry the wall clock's time; this is where it is read")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
