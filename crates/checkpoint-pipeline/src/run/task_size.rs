//! When a task has enough.

use std::time::Duration;

use crate::pipeline::Pipeline;

/// Rows of a task where the user sets no number.
pub(super) const USUAL_ROWS: u64 = 10_000;
/// How long a task goes on beyond the usual rows where these come faster: a commit each few milliseconds
/// would cost more than what it saves.
const LINGER: Duration = Duration::from_secs(1);

/// The limits of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskSize {
    rows: u64,
    linger: Duration,
    /// Encoded bytes beyond which a task does not linger.
    light_bytes: u64,
    bytes: u64,
    age: Duration,
}

/// What a task has so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Filled {
    pub(super) rows: u64,
    /// Bytes of output, encoded or about to be.
    pub(super) encoded: u64,
    /// Bytes of its IDs.
    pub(super) ids: u64,
    pub(super) age: Duration,
}

impl TaskSize {
    /// The limits of a pipeline's tasks, which linger up to so many encoded bytes.
    pub(super) fn of(pipeline: &Pipeline, light_bytes: usize) -> Self {
        Self {
            rows: pipeline.rows_per_task.unwrap_or(USUAL_ROWS),
            linger: if pipeline.rows_per_task.is_some() { Duration::ZERO } else { LINGER },
            light_bytes: light_bytes as u64,
            bytes: pipeline.bytes_per_task,
            age: pipeline.task_age,
        }
    }

    /// Whether a task that holds rows has as much as it should have, or is as old.
    pub(super) fn is_reached(&self, filled: Filled) -> bool {
        let enough = filled.rows >= self.rows
            && (filled.age >= self.linger || filled.encoded >= self.light_bytes || filled.ids >= self.light_bytes);
        enough || filled.encoded >= self.bytes || filled.ids >= self.bytes / 8 || self.patience(filled.age).is_zero()
    }

    /// How long a task of this age may still wait for more.
    pub(super) fn patience(&self, age: Duration) -> Duration {
        self.age.saturating_sub(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Ids;

    fn pipeline() -> Pipeline {
        Pipeline::new(["in"], "out", "checkpoint", Ids::RowHash).task_age(Duration::from_secs(60))
    }

    fn filled(rows: u64, seconds: u64) -> Filled {
        Filled { rows, age: Duration::from_secs(seconds), ..Filled::default() }
    }

    #[test]
    fn a_number_of_rows_is_kept_to() {
        let size = TaskSize::of(&pipeline().rows_per_task(20), 1 << 20);
        assert!(!size.is_reached(filled(19, 0)));
        assert!(size.is_reached(filled(20, 0)));
    }

    #[test]
    fn without_one_fast_rows_make_larger_tasks() {
        let size = TaskSize::of(&pipeline(), 1 << 20);
        assert!(!size.is_reached(filled(USUAL_ROWS, 0)));
        assert!(size.is_reached(filled(USUAL_ROWS, 1)));
        assert!(!size.is_reached(filled(USUAL_ROWS - 1, 59)));
        assert!(size.is_reached(filled(1, 60)), "too old");
        let heavy = Filled { encoded: 1 << 20, ..filled(USUAL_ROWS, 0) };
        assert!(size.is_reached(heavy), "as much as fits into memory");
        assert!(!size.is_reached(Filled { rows: 1, ..heavy }));
        assert!(size.is_reached(Filled { encoded: 256 << 20, ..filled(1, 0) }));
        assert!(size.is_reached(Filled { ids: 32 << 20, ..filled(1, 0) }));
    }
}
