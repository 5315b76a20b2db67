//! Removing a checkpoint by the user's wish.

use crate::checkpoint::{Checkpoint, FORMAT};
use crate::complete::CompleteFile;
use crate::error::Result;
use crate::job::Fingerprint;
use crate::lease::{AttemptState, Lease, LeaseOptions, timestamp};
use crate::names::JobId;

/// Deletes a checkpoint, under its lease, so that a deletion that is killed is finished by the next run and
/// never taken for a checkpoint with fewer rows. The output is not touched.
///
/// # Errors
/// `NoCheckpoint`, also for Parquet files that nothing tells to be records; `Conflict` while a job is using it;
/// `Storage`.
pub async fn remove(checkpoint: &Checkpoint, options: LeaseOptions) -> Result<()> {
    let found = checkpoint.snapshot().await?;
    if found.is_empty() {
        return Err(checkpoint.none_here());
    }
    found.refuse_strangers(checkpoint.url())?;
    let floor = found.highest_attempt();
    if found.complete.as_ref().is_some_and(|c| c.removed) {
        return crate::end::finish_deletion(checkpoint, None, &options, floor).await;
    }
    let lease = Lease::acquire(checkpoint, options, floor).await?;
    let removed = Box::pin(remove_under(&checkpoint.fenced(&lease), &lease)).await;
    if removed.is_err() {
        let _ = lease.end(AttemptState::Failed).await;
    }
    removed
}

/// Removes what is there now that nobody else can change it; another job may have begun since the first look.
async fn remove_under(fenced: &Checkpoint, lease: &Lease) -> Result<()> {
    let snapshot = fenced.snapshot().await?;
    let nobody = Fingerprint {
        id_column: String::new(),
        id_class: String::new(),
        id_type: String::new(),
        row_hash: false,
        filter: None,
        output: String::new(),
        version: None,
        inputs: Vec::new(),
        inputs_unknown: false,
    };
    let file = CompleteFile {
        format: FORMAT,
        job: snapshot.job.map_or_else(|| JobId::random(fenced.runtime.as_ref()), |j| j.job),
        attempt: lease.attempt(),
        removed: true,
        checkpoint: fenced.url().to_owned(),
        finished: timestamp(&fenced.runtime),
        rows: snapshot.closed.rows,
        fingerprint: snapshot.fingerprint.unwrap_or(nobody),
        data_files: Vec::new(),
        writes: Vec::new(),
    };
    crate::end::remove(fenced, lease, file).await
}
