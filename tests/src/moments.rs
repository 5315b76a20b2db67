//! Random moments in a run, told by how far it has come and not by the clock alone: a busy machine makes a
//! run slow, and its moments come later.

use std::time::Duration;

use anyhow::{Context, Result};
use checkpoint_testkit::When;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::effect_kind::EffectKind;
use crate::running::Running;
use crate::stopwatch::Stopwatch;
use crate::trace::{TraceLine, read_trace};

/// From where a run is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The start of the process.
    Start,
    /// The first effect.
    FirstEffect,
    /// The first file of a merging.
    Merge,
    /// The first closed list.
    Closing,
    /// The end of the lease, or its renewal, after a closed list.
    LeaseAfterClosing,
    /// The first commit of a run that has prepared nothing, which is a roll-forward.
    RollForward,
    /// The first pending record.
    Prepared,
    /// The last sweep of a run that ends: the first deletion, the mark or `complete` after a commit.
    Ending,
}

impl Anchor {
    /// The line of a trace that reaches it.
    fn line(self, lines: &[TraceLine]) -> Option<usize> {
        let first = |wanted: &dyn Fn(&TraceLine) -> bool| lines.iter().position(wanted);
        match self {
            Anchor::Start => Some(0),
            Anchor::FirstEffect => first(&|_| true),
            Anchor::Merge => first(&|line| line.kind == EffectKind::Merge),
            Anchor::Closing => first(&|line| line.kind == EffectKind::Closing),
            Anchor::LeaseAfterClosing => {
                let closing = first(&|line| line.kind == EffectKind::Closing)?;
                let after = lines[closing..].iter().position(|line| line.kind == EffectKind::Lease)?;
                Some(closing + after)
            }
            Anchor::RollForward => first(&|line| matches!(line.kind, EffectKind::Commit | EffectKind::Pending)),
            Anchor::Prepared => first(&|line| line.kind == EffectKind::Pending && line.when == When::After),
            Anchor::Ending => {
                let prepared = first(&|line| line.kind == EffectKind::Pending)?;
                let ends = |line: &TraceLine| {
                    matches!(line.kind, EffectKind::Delete | EffectKind::Mark | EffectKind::Complete)
                };
                lines[prepared..].iter().position(ends).map(|after| prepared + after)
            }
        }
    }
}

/// A moment: so many lines of the trace after an anchor, and a pause.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) anchor: Anchor,
    lines: usize,
    pause: Duration,
}

/// How long the parts of a run are that nobody kills.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Phases {
    whole: Duration,
    /// The usual time between two lines.
    gap: Duration,
    /// Lines from the first effect to the first pending record.
    pub(crate) starting: usize,
    /// Lines from the first pending record to the last commit.
    pub(crate) working: usize,
    /// Lines after that.
    pub(crate) ending: usize,
}

impl Phases {
    /// Measures a run that ends by itself.
    ///
    /// # Errors
    /// When it does no work.
    pub(crate) fn measure(running: &mut Running) -> Result<Self> {
        let watch = Stopwatch::start();
        let mut first = None;
        while !running.has_ended()? {
            if first.is_none() && !read_trace(running.trace())?.is_empty() {
                first = Some(watch.elapsed());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let whole = watch.elapsed();
        let lines = read_trace(running.trace())?;
        let prepared = Anchor::Prepared.line(&lines).context("the run prepared nothing")?;
        let committed = lines.iter().rposition(|line| line.kind == EffectKind::Commit);
        let committed = committed.context("the run committed nothing")?;
        let gap = whole.saturating_sub(first.unwrap_or_default()) / u32::try_from(lines.len())?.max(1);
        Ok(Self { whole, gap, starting: prepared, working: committed - prepared, ending: lines.len() - committed - 1 })
    }

    /// Any time of a whole run.
    pub(crate) fn any_time(&self, rng: &mut StdRng) -> Moment {
        let pause = self.whole.mul_f64(rng.random_range(0.0..1.0));
        Moment { anchor: Anchor::Start, lines: 0, pause }
    }

    /// Within a number of lines after an anchor.
    pub(crate) fn after(&self, anchor: Anchor, lines: usize, rng: &mut StdRng) -> Moment {
        let pause = self.gap.mul_f64(rng.random_range(0.0..1.5));
        Moment { anchor, lines: rng.random_range(0..lines.max(1)), pause }
    }
}

impl Moment {
    pub(crate) fn new(anchor: Anchor, lines: usize, pause: Duration) -> Self {
        Self { anchor, lines, pause }
    }

    /// Waits for it. Returns early when the run ends.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub(crate) fn wait(self, running: &mut Running) -> Result<()> {
        loop {
            let lines = read_trace(running.trace())?;
            let reached = self.anchor.line(&lines);
            if reached.is_some_and(|at| self.anchor == Anchor::Start || lines.len() > at + self.lines) {
                break;
            }
            if running.has_ended()? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        std::thread::sleep(self.pause);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_found_in_a_trace() {
        use EffectKind::{Commit, Data, Delete, Lease, Pending};
        let kinds = [Lease, Commit, Delete, Pending, Data, Commit, Delete];
        let both = |(index, kind)| {
            [When::Before, When::After].map(|when| TraceLine { index, when, kind, what: String::new() })
        };
        let lines: Vec<TraceLine> = (0..).zip(kinds).flat_map(both).collect();
        let at = |anchor: Anchor| anchor.line(&lines);
        assert_eq!(at(Anchor::FirstEffect), Some(0));
        assert_eq!(at(Anchor::RollForward), Some(2));
        assert_eq!(at(Anchor::Prepared), Some(7));
        assert_eq!(at(Anchor::Ending), Some(12));
        assert_eq!(Anchor::Ending.line(&lines[..8]), None);
        assert_eq!(Anchor::Start.line(&[]), Some(0));
    }
}
