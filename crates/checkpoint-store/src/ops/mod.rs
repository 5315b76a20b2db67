//! What people do with a checkpoint besides running a job over it.

mod check_task;
mod collect;
mod compact;
mod orphans;
mod recover;
mod remove;
mod status;
mod verify;

pub use collect::{Found, find_checkpoints};
pub use compact::{CompactOptions, CompactReport, compact};
pub use recover::{RecoverOptions, RecoverReport, recover};
pub use remove::remove;
pub use status::{LastAttempt, Status, committed_ids, status};
pub use verify::{VerifyOptions, VerifyReport, verify};

use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::snapshot::Snapshot;

/// Gives the lease back where there is nothing to work on: the job may have ended since the first look, and another
/// may have begun.
///
/// # Errors
/// What `ended` says of a job that has; `NoCheckpoint` where there is none.
async fn refuse_without_job(
    fenced: &Checkpoint,
    lease: &Lease,
    snapshot: &Snapshot,
    ended: impl FnOnce(&Checkpoint) -> Error,
) -> Result<()> {
    let refusal = match &snapshot.complete {
        Some(_) => ended(fenced),
        None if snapshot.job.is_none() && snapshot.listing.is_empty() => no_job(fenced),
        None => return Ok(()),
    };
    crate::end::give_back(fenced, lease, snapshot.job.is_some()).await?;
    Err(refusal)
}

/// For a directory that has attempts and nothing else: a start was killed before it made the job, or a job ended and
/// is gone.
fn no_job(checkpoint: &Checkpoint) -> Error {
    Error::new(ErrorKind::NoCheckpoint, format!("no job has begun here, or it has ended: url={}", checkpoint.url()))
        .with_hint("there is nothing to merge or recover: run the job, or check the path")
}
