//! What a run tells: counters while it goes on, a report at its end, and a way to stop it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

/// What `ckpt run --json` prints. Fields are only ever added.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunReport {
    /// Rows that were read, or known to be done without reading.
    pub input_rows: u64,
    /// Rows of them that earlier attempts had done.
    pub skipped_rows: u64,
    /// Rows that this run transformed and committed, failed ones included.
    pub processed_rows: u64,
    /// Rows that this run wrote.
    pub written_rows: u64,
    /// Data files that this run wrote.
    pub written_files: u64,
    /// Rows set aside under `_failed`, earlier attempts included.
    pub failed_rows: u64,
    /// Tasks of earlier attempts that were finished and are now committed.
    pub rolled_forward_tasks: u64,
    /// Tasks of earlier attempts that did not count and were removed.
    pub voided_tasks: u64,
    /// Bytes read of the input.
    pub bytes_read: u64,
    /// The attempt's number; 0 when the job was complete already and none began.
    pub attempt: u64,
    /// Whether there was nothing left to do.
    pub already_complete: bool,
    /// Time from start to end.
    pub seconds: f64,
    /// Time spent reading and decoding.
    pub read_seconds: f64,
    /// Time spent in the transform, over all workers.
    pub transform_seconds: f64,
    /// Time spent encoding and writing data, over all workers.
    pub write_seconds: f64,
    /// Time spent writing records, over all workers.
    pub commit_seconds: f64,
}

/// What `ckpt plan --json` prints. Fields are only ever added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlanReport {
    /// Input files.
    pub input_files: u64,
    /// Rows in them.
    pub input_rows: u64,
    /// Rows of them that are done.
    pub done_rows: u64,
    /// Rows that are left.
    pub remaining_rows: u64,
    /// Files with rows that are left.
    pub remaining_files: u64,
    /// Tasks that would be committed without computing them again.
    pub would_roll_forward: u64,
    /// Tasks whose remains would be removed.
    pub would_void: u64,
    /// Whether there is nothing left to do.
    pub already_complete: bool,
    /// Bytes read of the input to find this out.
    pub bytes_read: u64,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Phase {
    /// Looking at the input.
    #[default]
    Discovering,
    /// Taking the lease, closing the past, loading what is done.
    Resuming,
    /// At work.
    Running,
    /// Sweeping and ending the job.
    Finishing,
}

/// Counters of a run, readable at any time from any thread.
#[derive(Debug, Default)]
pub struct Counters {
    /// Rows of the input; 0 while it is not known.
    pub total_rows: AtomicU64,
    /// Rows read so far.
    pub read_rows: AtomicU64,
    /// Rows of them that were done already.
    pub skipped_rows: AtomicU64,
    /// Rows committed by this run.
    pub processed_rows: AtomicU64,
    /// Rows written by this run.
    pub written_rows: AtomicU64,
    /// Data files written by this run.
    pub written_files: AtomicU64,
    /// Rows set aside by this run.
    pub failed_rows: AtomicU64,
    /// Tasks committed by this run.
    pub committed_tasks: AtomicU64,
    /// Bytes read of the input.
    pub bytes_read: Arc<AtomicU64>,
    read_nanos: AtomicU64,
    transform_nanos: AtomicU64,
    write_nanos: AtomicU64,
    commit_nanos: AtomicU64,
    phase: Mutex<Phase>,
}

/// A stage whose time is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    Read,
    Transform,
    Write,
    Commit,
}

impl Counters {
    /// What the run is doing.
    pub fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    fn nanos(&self, stage: Stage) -> &AtomicU64 {
        match stage {
            Stage::Read => &self.read_nanos,
            Stage::Transform => &self.transform_nanos,
            Stage::Write => &self.write_nanos,
            Stage::Commit => &self.commit_nanos,
        }
    }

    pub(crate) fn spent(&self, stage: Stage, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanos(stage).fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn seconds(&self, stage: Stage) -> f64 {
        Duration::from_nanos(self.nanos(stage).load(Ordering::Relaxed)).as_secs_f64()
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, by: u64) -> u64 {
    counter.fetch_add(by, Ordering::Relaxed) + by
}

/// Reads a counter.
pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// A request to stop, shared. Once given it stays.
#[derive(Debug, Clone, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// A request that nobody has given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives it.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// Whether it was given.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Resolves once it is given.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }
}
