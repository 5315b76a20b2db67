//! What an attempt would find, without taking one.

use std::sync::Arc;

use checkpoint_fs::StorageRef;

use crate::begin::{BeginOptions, compare, judge_output};
use crate::checkpoint::Checkpoint;
use crate::complete::Found;
use crate::data::DataReader;
use crate::error::{ErrorKind, Result};
use crate::id::IdSet;
use crate::job::Fingerprint;
use crate::recovery::{Damage, RecoveryReport, Wants, foresee};
use crate::snapshot::Snapshot;

/// How often a look is made before a checkpoint that keeps changing is an error.
const TRIES: usize = 4;

/// What [`Attempt::begin`](crate::Attempt::begin) would find.
#[derive(Debug)]
#[non_exhaustive]
pub struct Preview {
    /// The rows of a job that ended before, when nothing has changed since.
    pub already_complete: Option<u64>,
    /// The IDs that would be done.
    pub ids: Arc<dyn IdSet>,
    /// What recovery would do.
    pub recovery: RecoveryReport,
}

/// Looks, as the beginning of an attempt would, and writes nothing. Takes no lease, so beside a live job it
/// shows one moment.
///
/// # Errors
/// As [`Attempt::begin`](crate::Attempt::begin), save those of the lease.
pub async fn preview(
    checkpoint: &Checkpoint,
    output: &StorageRef,
    fingerprint: &Fingerprint,
    options: &BeginOptions,
    reader: &dyn DataReader,
) -> Result<Preview> {
    crate::apart::check(checkpoint.url(), output.url())?;
    for _ in 1..TRIES {
        let snapshot = checkpoint.snapshot().await?;
        let closed = snapshot.closed.attempt;
        match look(checkpoint, snapshot, output, fingerprint, options, reader).await {
            // A closing that fell into the look may have merged or voided what was about to be read.
            Err(error) if error.kind() == ErrorKind::BadData => {
                if checkpoint.snapshot().await?.closed.attempt == closed {
                    return Err(error);
                }
            }
            looked => return looked,
        }
    }
    look(checkpoint, checkpoint.snapshot().await?, output, fingerprint, options, reader).await
}

async fn look(
    checkpoint: &Checkpoint,
    mut snapshot: Snapshot,
    output: &StorageRef,
    fingerprint: &Fingerprint,
    options: &BeginOptions,
    reader: &dyn DataReader,
) -> Result<Preview> {
    if let Some(complete) = snapshot.complete.take() {
        // The deletion would be finished first; what is left of the checkpoint does not count any more.
        let unchanged = !complete.removed && complete.fingerprint == *fingerprint;
        let rows = unchanged.then_some(complete.rows);
        return Ok(Preview {
            already_complete: rows,
            ids: Arc::new(crate::id::ExactIdSet::new()),
            recovery: RecoveryReport::default(),
        });
    }
    if let Found::Complete(mark) = judge_output(checkpoint, &snapshot, output, fingerprint, options.append).await? {
        return Ok(Preview {
            already_complete: Some(mark.rows),
            ids: Arc::new(crate::id::ExactIdSet::new()),
            recovery: RecoveryReport::default(),
        });
    }
    snapshot.refuse_headless(checkpoint.url())?;
    compare(&snapshot, fingerprint, options.allow_changed_read, checkpoint.url())?;
    let wants = Wants { job: Some(fingerprint), ids: options.ids.clone(), ..Wants::default() };
    let (plan, recovery, _) = foresee(checkpoint, &snapshot, wants, output, reader, Damage::Refuse).await?;
    let ids = plan.ids.into_set(checkpoint.runtime.as_ref(), false).await?;
    Ok(Preview { already_complete: None, ids, recovery })
}
