//! Time, as it is measured here: on the wall, and on the processors.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Time since a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    wall: Instant,
    thread: f64,
}

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), thread: computed() }
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    /// Seconds that this thread has computed since. Ask on the thread that started.
    pub(crate) fn thread_seconds(&self) -> f64 {
        computed() - self.thread
    }
}

fn computed() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
