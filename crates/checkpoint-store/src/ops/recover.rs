//! Recovering without running: close the past, sweep, and repair what is damaged.

use std::sync::Arc;

use checkpoint_fs::StorageRef;
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::data::DataReader;
use crate::error::{Error, Result};
use crate::fence::FencedStorage;
use crate::lease::{AttemptState, Lease, LeaseOptions};
use crate::recovery::{Damage, foresee, settle};

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
/// `NoCheckpoint`; `Conflict` while another owns it, or when the output is not the job's; `BadData` for a
/// damaged committed record without `repair`; `Storage`.
pub async fn recover(
    checkpoint: &Checkpoint,
    output: &StorageRef,
    options: RecoverOptions,
    reader: &dyn DataReader,
) -> Result<RecoverReport> {
    crate::apart::check(checkpoint.url(), output.url())?;
    let snapshot = checkpoint.existing().await?;
    if let Some(fingerprint) = snapshot.fingerprint.as_ref().filter(|f| f.output != output.url()) {
        return Err(Error::conflict(format!(
            "this is not the job's output: given={} recorded={}",
            output.url(),
            fingerprint.output
        ))
        .with_hint("give the --output that the job was run with"));
    }
    let damage = if options.repair { Damage::Repair } else { Damage::Refuse };
    if options.dry_run {
        let (_, recovery, repaired) = foresee(checkpoint, &snapshot, output, reader, damage).await?;
        return Ok(RecoverReport {
            rolled_forward: recovery.rolled_forward,
            voided: recovery.voided,
            deleted_files: recovery.deleted_files,
            repaired_tasks: repaired.len() as u64,
            dry_run: true,
        });
    }
    if snapshot.complete.is_some() {
        crate::end::finish_deletion(checkpoint, Some(output), &options.lease).await?;
        return Ok(RecoverReport { rolled_forward: 0, voided: 0, deleted_files: 0, repaired_tasks: 0, dry_run: false });
    }
    let lease = Lease::acquire(checkpoint, options.lease).await?;
    let fenced: StorageRef = Arc::new(FencedStorage::new(output.clone(), lease.guard()));
    let settled = settle(&checkpoint.fenced(&lease), &fenced, lease.attempt(), reader, damage).await;
    match settled {
        Ok(settled) => {
            lease.end(AttemptState::Maintained).await?;
            Ok(RecoverReport {
                rolled_forward: settled.recovery.rolled_forward,
                voided: settled.recovery.voided,
                deleted_files: settled.recovery.deleted_files,
                repaired_tasks: settled.repaired.len() as u64,
                dry_run: false,
            })
        }
        Err(error) => {
            let _ = lease.end(AttemptState::Failed).await;
            Err(error)
        }
    }
}
