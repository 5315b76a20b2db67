//! Committing tasks that an earlier attempt finished and did not commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use checkpoint_fs::{ObjectPath, RenameOptions, StorageExt, StorageRef, WriteOutcome};
use futures::stream::{self, StreamExt};

use super::close::unknown;
use crate::checkpoint::{Checkpoint, create};
use crate::error::Result;
use crate::layout;

/// Tasks that are committed at a time.
const CONCURRENCY: usize = 16;

/// A pending record whose task is proven complete, and will be committed.
#[derive(Debug, Clone)]
pub(crate) struct RollForward {
    /// The task.
    pub(crate) name: String,
    /// The bytes of its pending record, to be published as they are.
    pub(crate) bytes: Bytes,
    /// Its data files in the output.
    pub(crate) data: Vec<ObjectPath>,
}

/// Commits all of them. After a failure no other is begun, and those under way are waited for: nothing is sent that
/// nobody waits for any more.
///
/// # Errors
/// `Conflict` when the lease is lost, `OutcomeUnknown`, `Storage`: the first of them.
pub(super) async fn roll_forward(c: &Checkpoint, output: &StorageRef, tasks: &[RollForward]) -> Result<()> {
    let failed = Arc::new(AtomicBool::new(false));
    let has_failed = failed.clone();
    let begun =
        stream::iter(tasks.to_vec()).take_while(move |_| std::future::ready(!has_failed.load(Ordering::Relaxed)));
    let ended = begun.map(move |task| {
        let (c, output, failed) = (c.clone(), output.clone(), failed.clone());
        async move {
            let done = commit(&c, &output, &task).await;
            failed.fetch_or(done.is_err(), Ordering::Relaxed);
            done
        }
    });
    let ended: Vec<Result<()>> = ended.buffer_unordered(CONCURRENCY).collect().await;
    ended.into_iter().collect()
}

async fn commit(c: &Checkpoint, output: &StorageRef, task: &RollForward) -> Result<()> {
    // Whoever wrote the data may have been killed before it was on disk.
    for file in &task.data {
        settle_in_place(output, file).await?;
    }
    let path = layout::committed(&task.name)?;
    match create(&c.storage, &path, task.bytes.clone()).await? {
        WriteOutcome::Done(_) => Ok(()),
        // Already there: the task's own owner was late, with the same task. It counts either way.
        WriteOutcome::AlreadyExists => settle_in_place(&c.storage, &path).await,
        WriteOutcome::Unknown(error) => match c.storage.stat_optional(&path).await? {
            Some(_) => settle_in_place(&c.storage, &path).await,
            None => Err(unknown(&format!("task {} was committed", task.name), error)),
        },
    }
}

/// Makes an object that somebody wrote durable, with all names in its directory. Where nothing is renamed, every
/// write is durable when it is seen.
///
/// # Errors
/// `Conflict` when the lease is lost; `Storage`.
pub(super) async fn settle_in_place(storage: &StorageRef, path: &ObjectPath) -> Result<()> {
    if storage.capabilities().atomic_rename {
        let settled = storage.rename(path, path, RenameOptions::new().settle(true)).await?;
        settled.into_result(storage.url_of(path))?;
    }
    Ok(())
}
