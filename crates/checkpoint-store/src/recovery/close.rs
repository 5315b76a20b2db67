//! Making the decision: committing what is rolled forward, and writing the closed list.

use checkpoint_fs::{StorageExt, StorageRef, WriteOutcome};

use super::plan::Plan;
use super::roll_forward::{roll_forward, settle_in_place};
use crate::checkpoint::{Checkpoint, create};
use crate::closed::ClosedList;
use crate::error::{Error, ErrorKind, Result};
use crate::layout;
use crate::sealed::seal;
use crate::snapshot::Snapshot;

/// Commits what the plan rolls forward, all of it durable, then closes the attempts before with one create-only write of `list`.
///
/// Answers the list that holds; `None` when another one is there and everything must be planned again by it.
/// Only the owner of attempt `k + 1` writes `closed/<k>`, so it can only be a try of this very write.
///
/// # Errors
/// `Conflict` when the lease is lost, `OutcomeUnknown`, `Storage`.
pub(crate) async fn apply(
    c: &Checkpoint,
    output: Option<&StorageRef>,
    snapshot: &Snapshot,
    plan: &Plan,
    list: ClosedList,
) -> Result<Option<ClosedList>> {
    if let Some(output) = output.filter(|_| !plan.roll_forward.is_empty()) {
        roll_forward(c, output, &plan.roll_forward).await?;
    } else if let Some(name) = plan.newcomer(snapshot) {
        // Whoever published it may have been killed before its name was on disk, and the list must not outlive it.
        // The records are in one directory: this one stands for all, as one that is rolled forward does.
        settle_in_place(&c.storage, &layout::committed(&name)?).await?;
    }
    let closes = list.attempt;
    let path = layout::closed(closes)?;
    let doubt = match create(&c.control, &path, seal(&list)?).await? {
        WriteOutcome::Done(_) => return Ok(Some(list)),
        WriteOutcome::AlreadyExists => None,
        WriteOutcome::Unknown(error) => Some(error),
    };
    match (c.read_closed(closes).await?, doubt) {
        (Some(winner), _) => Ok((winner == list).then_some(winner)),
        (None, Some(error)) => Err(unknown(&format!("attempt {closes} was closed"), error)),
        (None, None) => Err(Error::conflict(format!(
            "the closed list of attempt {closes} was removed while it was read: url={}",
            c.control.url_of(&path)
        ))),
    }
}

pub(super) fn unknown(what: &str, error: checkpoint_fs::Error) -> Error {
    Error::new(ErrorKind::OutcomeUnknown, format!("whether {what} cannot be found out: {error}"))
        .with_hint("nothing was deleted; run the same command again, it finds out and goes on")
        .with_source(error)
}
