//! How fast it goes: over the last minute, so that a slow start is soon forgotten.

use std::collections::VecDeque;
use std::time::Duration;

/// How far back the rate looks.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts over time, and the rate between the oldest and the newest of a minute.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    samples: VecDeque<(Duration, u64)>,
}

impl Rate {
    /// Notes the count at a moment; moments go forward.
    pub(crate) fn note(&mut self, now: Duration, count: u64) {
        self.samples.push_back((now, count));
        while self.samples.get(1).is_some_and(|(then, _)| now.saturating_sub(*then) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Counts a second; `None` while nothing has come of it.
    pub(crate) fn per_second(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let seconds = last.0.saturating_sub(first.0).as_secs_f64();
        let gained = last.1.saturating_sub(first.1);
        (seconds >= 0.5 && gained > 0).then(|| gained as f64 / seconds)
    }

    /// The time that so many more will take at this rate.
    pub(crate) fn time_for(&self, remaining: u64) -> Option<Duration> {
        Duration::try_from_secs_f64(remaining as f64 / self.per_second()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_counts() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), None);
        for second in 0..=100 {
            rate.note(Duration::from_secs(second), if second <= 40 { 0 } else { (second - 40) * 10 });
        }
        assert_eq!(rate.per_second(), Some(10.0));
        assert_eq!(rate.time_for(50), Some(Duration::from_secs(5)));
        assert!(rate.samples.len() <= 62);
    }

    #[test]
    fn no_rows_no_rate() {
        let mut rate = Rate::default();
        rate.note(Duration::ZERO, 5);
        rate.note(Duration::from_secs(9), 5);
        assert_eq!(rate.time_for(1), None);
    }
}
