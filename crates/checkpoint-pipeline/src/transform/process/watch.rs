//! How long a child that owes an answer is waited for: until it is certain that it waits for input itself.

use std::time::Duration;

use super::process_tree::Waiting;

/// The pauses between two looks at a child that owes an answer.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a child that waits for input may owe an answer while it has other threads that seem to rest.
const THREADS: Duration = Duration::from_secs(10);

/// Looks at a child that owes an answer, ever less often while it is busy.
#[derive(Debug)]
pub(super) struct Watch {
    pause: Duration,
    /// How long it has waited, and the number of bytes that it had written.
    waited: Option<(Duration, u64)>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { pause: FIRST_LOOK, waited: None }
    }
}

impl Watch {
    /// The time until the next look.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Takes what was seen after a pause. Whether it is certain by now that the child waits in vain: at once
    /// where nothing else can be going on, after a while where other threads might yet do something.
    pub(super) fn look(&mut self, waiting: Waiting, bytes: u64) -> bool {
        let patience = match waiting {
            Waiting::No => {
                self.waited = None;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                return false;
            }
            Waiting::Surely => FIRST_LOOK,
            Waiting::Likely => THREADS,
        };
        let waited = match self.waited {
            Some((waited, before)) if before == bytes => waited + self.pause,
            _ => Duration::ZERO,
        };
        self.waited = Some((waited, bytes));
        self.pause = FIRST_LOOK.max(waited / 4);
        waited >= patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time until the watch is certain, in looks at what `seen` shows.
    fn certain_after(mut seen: impl FnMut(Duration) -> (Waiting, u64)) -> Option<Duration> {
        let mut watch = Watch::default();
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(100) {
            now += watch.pause;
            let (waiting, bytes) = seen(now);
            if watch.look(waiting, bytes) {
                return Some(now);
            }
        }
        None
    }

    #[test]
    fn a_child_is_given_up_when_it_waits_and_nothing_moves() {
        let surely = certain_after(|_| (Waiting::Surely, 5)).expect("is certain");
        assert!(surely <= FIRST_LOOK * 3, "{surely:?}");
        let likely = certain_after(|_| (Waiting::Likely, 5)).expect("is certain");
        assert!((THREADS..THREADS * 2).contains(&likely), "{likely:?}");
        assert_eq!(certain_after(|_| (Waiting::No, 5)), None);
        // Output goes on.
        assert_eq!(certain_after(|now| (Waiting::Surely, now.as_millis() as u64)), None);
        // It computes for seconds, between looks too.
        let busy = |now: Duration| if now.as_secs() % 8 == 7 { Waiting::Likely } else { Waiting::No };
        assert_eq!(certain_after(|now| (busy(now), 5)), None);
    }
}
