//! How often and when a failed attempt is repeated.

use std::time::Duration;

use rand::RngExt;

/// The longest pause that a service's `Retry-After` is followed for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// How often a request that failed in passing is tried, and the pauses between.
///
/// The pause before attempt n+1 is random between half and all of `base * 2^(n-1)`, at most `max_pause`;
/// a service that says `Retry-After` gets at least that (up to a minute).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    attempts: u32,
    base: Duration,
    max_pause: Duration,
}

impl RetryPolicy {
    /// Up to `attempts` attempts in all (at least one), the first pause about `base`, none above `max_pause`.
    pub fn new(attempts: u32, base: Duration, max_pause: Duration) -> Self {
        Self { attempts: attempts.max(1), base, max_pause }
    }

    /// Sets the number of attempts in all, at least one.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Attempts in all.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The pause after `attempt` (from 1) failed.
    pub(crate) fn pause(&self, attempt: u32, retry_after: Option<Duration>) -> Duration {
        let doubled = self.base.saturating_mul(1 << attempt.saturating_sub(1).min(20)).min(self.max_pause);
        let jittered = doubled.mul_f64(rand::rng().random_range(0.5..=1.0));
        jittered.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
    }
}

impl Default for RetryPolicy {
    /// Five attempts over about two to four seconds.
    fn default() -> Self {
        Self::new(5, Duration::from_millis(250), Duration::from_secs(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_with_jitter_up_to_a_limit() {
        let policy = RetryPolicy::new(9, Duration::from_millis(100), Duration::from_secs(1));
        for (attempt, most) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (60, 1_000)] {
            let most = Duration::from_millis(most);
            for _ in 0..50 {
                let pause = policy.pause(attempt, None);
                assert!(pause >= most / 2 && pause <= most, "attempt {attempt}: {pause:?}");
            }
        }
    }

    #[test]
    fn the_service_may_ask_for_more_within_reason() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.pause(1, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(policy.pause(1, Some(Duration::from_secs(86_400))), MAX_RETRY_AFTER);
        assert_eq!(RetryPolicy::new(0, Duration::ZERO, Duration::ZERO).attempts(), 1);
    }
}
