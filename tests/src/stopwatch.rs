//! Time, as tests measure it.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Time since a moment.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "real processes are watched in real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Asks until the answer is there.
///
/// # Errors
/// As `ask` gives; when there is no answer within a minute, with `what` was waited for.
pub fn wait_until<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    const LIMIT: Duration = Duration::from_secs(60);
    let watch = Stopwatch::start();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if watch.elapsed() > LIMIT {
            bail!("waited {} s in vain for {what}", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
