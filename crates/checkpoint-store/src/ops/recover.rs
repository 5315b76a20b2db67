//! Recovering without running: close the past, sweep, and repair what is damaged.

use std::sync::Arc;

use checkpoint_fs::StorageRef;
use serde::Serialize;

use super::refuse_without_job;
use crate::checkpoint::Checkpoint;
use crate::compact::MergePolicy;
use crate::data::DataReader;
use crate::error::{Error, Result};
use crate::fence::FencedStorage;
use crate::id::IdSetOptions;
use crate::lease::{AttemptState, Lease, LeaseOptions};
use crate::recovery::{Damage, RecoveryReport, Settling, Wants, foresee, settle};
use crate::snapshot::Snapshot;

/// How to recover.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RecoverOptions {
    /// Say what would be done and do nothing. Takes no lease.
    pub dry_run: bool,
    /// Void tasks whose record is damaged or whose data is gone, so that their rows are computed again.
    pub repair: bool,
    /// How the lease is kept.
    pub lease: LeaseOptions,
    /// How the set of the IDs that are done is built. Whether they are row hashes is what the job says.
    pub ids: IdSetOptions,
}

/// What `ckpt recover` did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecoverReport {
    /// Tasks committed because all their data is there.
    pub rolled_forward: u64,
    /// Tasks that do not count, whose remains were removed.
    pub voided: u64,
    /// Data files removed.
    pub deleted_files: u64,
    /// Tasks that counted before and are to be computed again.
    pub repaired_tasks: u64,
    /// Whether this only says what would be done.
    pub dry_run: bool,
}

/// Closes the past and sweeps what is void, as the start of a run would.
///
/// # Errors
/// `NoCheckpoint`, with `repair` also for Parquet files that nothing tells to be records; `Conflict` while another
/// owns it, or when the output is not the job's; `BadData` for a
/// damaged committed record without `repair`; `InvalidConfig` when the IDs do not fit in the memory limit; `Storage`.
pub async fn recover(
    checkpoint: &Checkpoint,
    output: &StorageRef,
    options: RecoverOptions,
    reader: &dyn DataReader,
) -> Result<RecoverReport> {
    crate::apart::check(checkpoint.url(), output.url())?;
    let snapshot = checkpoint.existing().await?;
    if options.repair {
        snapshot.refuse_strangers(checkpoint.url())?;
    }
    check_output(&snapshot, output)?;
    let damage = if options.repair { Damage::Repair } else { Damage::Refuse };
    if snapshot.complete.is_some() {
        if !options.dry_run {
            let floor = snapshot.highest_attempt();
            crate::end::finish_deletion(checkpoint, Some(output), &options.lease, floor).await?;
        }
        return Ok(report(RecoveryReport::default(), 0, options.dry_run));
    }
    let wants = Wants { ids: options.ids, ..Wants::default() };
    if options.dry_run {
        let (_, recovery, repaired) = foresee(checkpoint, &snapshot, wants, output, reader, damage).await?;
        return Ok(report(recovery, repaired.len(), true));
    }
    let lease = Lease::acquire(checkpoint, options.lease, snapshot.highest_attempt()).await?;
    let recovered = Box::pin(recover_under(&checkpoint.fenced(&lease), output, &lease, wants, reader, damage)).await;
    if recovered.is_err() {
        let _ = lease.end(AttemptState::Failed).await;
    }
    recovered
}

fn ended(checkpoint: &Checkpoint) -> Error {
    Error::conflict(format!("the job ended meanwhile: url={}", checkpoint.url()))
        .with_hint("there is nothing to recover any more")
}

async fn recover_under(
    fenced: &Checkpoint,
    output: &StorageRef,
    lease: &Lease,
    wants: Wants<'_>,
    reader: &dyn DataReader,
    damage: Damage,
) -> Result<RecoverReport> {
    let snapshot = fenced.snapshot().await?;
    check_output(&snapshot, output)?;
    refuse_without_job(fenced, lease, &snapshot, ended).await?;
    snapshot.refuse_headless(fenced.url())?;
    let output: StorageRef = Arc::new(FencedStorage::new(output.clone(), lease.guard()));
    let how = Settling {
        attempt: lease.attempt(),
        fingerprint: snapshot.fingerprint_of,
        wants,
        reader,
        damage,
        merge: MergePolicy::Never,
    };
    let settled = settle(fenced, Some(&output), &how).await?;
    lease.end(AttemptState::Maintained).await?;
    Ok(report(settled.recovery, settled.repaired.len(), false))
}

fn report(recovery: RecoveryReport, repaired: usize, dry_run: bool) -> RecoverReport {
    RecoverReport {
        rolled_forward: recovery.rolled_forward,
        voided: recovery.voided,
        deleted_files: recovery.deleted_files,
        repaired_tasks: repaired as u64,
        dry_run,
    }
}

/// Refuses an output that is not the job's.
pub(super) fn check_output(snapshot: &Snapshot, output: &StorageRef) -> Result<()> {
    let job = snapshot.fingerprint.as_ref().or(snapshot.complete.as_ref().map(|end| &end.fingerprint));
    match job.filter(|f| f.output != output.url()) {
        None => Ok(()),
        Some(fingerprint) => Err(Error::conflict(format!(
            "this is not the job's output: given={} recorded={}",
            output.url(),
            fingerprint.output
        ))
        .with_hint("give the --output that the job was run with")),
    }
}
