//! Compacting without running: many small records become few.

use std::sync::Arc;

use checkpoint_fs::StorageRef;
use serde::Serialize;

use super::recover::check_output;
use super::refuse_without_job;
use crate::checkpoint::Checkpoint;
use crate::compact::{MergeOptions, MergePolicy, Sizes};
use crate::data::DataReader;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::FencedStorage;
use crate::id::IdSetOptions;
use crate::lease::{AttemptState, Lease, LeaseOptions};
use crate::recovery::{Damage, Settling, Wants, settle};

/// How to compact.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CompactOptions {
    /// How the lease is kept.
    pub lease: LeaseOptions,
    /// The shape of merged records.
    pub merge: MergeOptions,
    /// How the set of the IDs that are done is built. Whether they are row hashes is what the job says.
    pub ids: IdSetOptions,
}

/// What `ckpt compact` did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CompactReport {
    /// Record files that held the IDs before.
    pub records_before: u64,
    /// Record files that hold them now.
    pub records_after: u64,
    /// Bytes of the record files before, and of the facts beside merged ones.
    pub bytes_before: u64,
    /// Those bytes now.
    pub bytes_after: u64,
}

impl CompactReport {
    fn new(before: Sizes, after: Sizes) -> Self {
        Self {
            records_before: before.records,
            records_after: after.records,
            bytes_before: before.bytes,
            bytes_after: after.bytes,
        }
    }
}

/// Closes the past as the start of a run would, and merges small records into few, under the lease. Killed
/// anywhere, what counts is what counted before; the next start sweeps what is left.
///
/// Without the output, no task may be pending. A checkpoint that Ray alone has written is left as it is.
///
/// # Errors
/// `NoCheckpoint`, also for Parquet files that nothing tells to be records, and for a job that has ended;
/// `Conflict` while another owns it, or when the output is not the job's; `BadData` for a damaged committed record;
/// `InvalidConfig` for a pending task without the output, or IDs that do not fit in the memory limit; `OutcomeUnknown`; `Storage`.
pub async fn compact(
    checkpoint: &Checkpoint,
    output: Option<&StorageRef>,
    options: CompactOptions,
    reader: &dyn DataReader,
) -> Result<CompactReport> {
    if let Some(output) = output {
        crate::apart::check(checkpoint.url(), output.url())?;
    }
    let snapshot = checkpoint.existing_for_sure().await?;
    if let Some(output) = output {
        check_output(&snapshot, output)?;
    }
    if snapshot.complete.is_some() {
        return Err(ended(checkpoint));
    }
    let lease = Lease::acquire(checkpoint, options.lease, snapshot.highest_attempt()).await?;
    let (merge, wants) = (options.merge, Wants { ids: options.ids, ..Wants::default() });
    let compacted = Box::pin(compact_under(&checkpoint.fenced(&lease), output, &lease, merge, wants, reader)).await;
    if compacted.is_err() {
        let _ = lease.end(AttemptState::Failed).await;
    }
    compacted
}

fn ended(checkpoint: &Checkpoint) -> Error {
    Error::new(
        ErrorKind::NoCheckpoint,
        format!("the job has ended and its checkpoint is being deleted: url={}", checkpoint.url()),
    )
    .with_hint("there is nothing to compact any more; run the job or `ckpt rm` once more to finish the deletion")
}

async fn compact_under(
    fenced: &Checkpoint,
    output: Option<&StorageRef>,
    lease: &Lease,
    merge: MergeOptions,
    wants: Wants<'_>,
    reader: &dyn DataReader,
) -> Result<CompactReport> {
    let snapshot = fenced.snapshot().await?;
    refuse_without_job(fenced, lease, &snapshot, ended).await?;
    if snapshot.job.is_none() {
        let records = snapshot.counting().len() as u64;
        let bytes = snapshot.listing.committed.iter().map(|(_, meta)| meta.size).sum();
        let same = Sizes { records, bytes };
        crate::end::give_back(fenced, lease, false).await?;
        tracing::warn!(
            url = fenced.url(),
            "records that Ray wrote are merged only once a job of ours owns the checkpoint; nothing was changed"
        );
        return Ok(CompactReport::new(same, same));
    }
    if let Some(output) = output {
        check_output(&snapshot, output)?;
    }
    let output = output.map(|o| -> StorageRef { Arc::new(FencedStorage::new(o.clone(), lease.guard())) });
    let how = Settling {
        attempt: lease.attempt(),
        fingerprint: snapshot.fingerprint_of,
        wants,
        reader,
        damage: Damage::Refuse,
        merge: MergePolicy::Always(merge),
    };
    let settled = settle(fenced, output.as_ref(), &how).await?;
    lease.end(AttemptState::Maintained).await?;
    Ok(CompactReport::new(settled.before, settled.after))
}
