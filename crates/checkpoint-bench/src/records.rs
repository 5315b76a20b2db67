//! Checkpoints to load: made by the store itself, each task with its share of the IDs and no data.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow::array::ArrayRef;
use checkpoint_fs::{MemoryStorage, ObjectPath, ReadOptions, Registry, StorageExt, StorageOptions, StorageRef};
use checkpoint_store::{
    Attempt, AttemptState, Begin, BeginOptions, Checkpoint, CommitOutcome, Fingerprint, IdClass, ParquetIds,
    SystemRuntime, TaskPlan,
};
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::ids::IdKind;

/// IDs that are kept in memory while their checkpoint is made; more go to the disk at once.
const IN_MEMORY: u64 = 20_000_000;

/// The job that the checkpoints are of.
pub(crate) fn job(kind: IdKind, output: &StorageRef) -> Result<Fingerprint> {
    let data_type = kind.data_type();
    Ok(Fingerprint {
        id_column: kind.column().to_owned(),
        id_class: IdClass::of(&data_type)?.to_string(),
        id_type: data_type.to_string(),
        row_hash: kind == IdKind::RowHash,
        filter: None,
        output: output.url().to_owned(),
        version: None,
        inputs: Vec::new(),
        inputs_unknown: false,
    })
}

/// Begins an attempt at the checkpoint.
pub(crate) async fn begin(checkpoint: &StorageRef, output: &StorageRef, kind: IdKind) -> Result<Attempt> {
    let checkpoint = Checkpoint::new(checkpoint.clone(), SystemRuntime::shared());
    let job = job(kind, output)?;
    match Box::pin(Attempt::begin(&checkpoint, output, job, BeginOptions::default(), &ParquetIds)).await? {
        Begin::Attempt(attempt) => Ok(*attempt),
        _ => bail!("the job is complete already"),
    }
}

/// A directory of this machine as a storage.
pub(crate) async fn storage(dir: &Path) -> Result<StorageRef> {
    let dir = dir.to_str().context("a path that is no text")?;
    Ok(Registry::from_process().open_dir(dir, &StorageOptions::new()).await?)
}

/// Makes a checkpoint with a task for each range of numbers, whose IDs `array` gives. Answers the bytes of the records.
pub(crate) async fn make(
    dir: &Path,
    output: &Path,
    kind: IdKind,
    tasks: Vec<Range<u64>>,
    array: impl Fn(Range<u64>) -> ArrayRef,
) -> Result<u64> {
    let (disk, output) = (storage(dir).await?, storage(output).await?);
    let ids: u64 = tasks.iter().map(|task| task.end - task.start).sum();
    let memory: StorageRef = Arc::new(MemoryStorage::new(disk.url()));
    let made = if ids <= IN_MEMORY { &memory } else { &disk };
    let attempt = begin(made, &output, kind).await?;
    let commits = stream::iter(tasks).map(|numbers| async {
        let prepared = attempt.prepare(&attempt.next_task(), &array(numbers), TaskPlan::new(Vec::new())).await?;
        match attempt.commit(prepared).await? {
            CommitOutcome::Committed => Ok(()),
            other => bail!("a record could not be made: {other:?}"),
        }
    });
    commits.buffer_unordered(16).try_collect::<()>().await?;
    attempt.end(AttemptState::Interrupted).await?;
    if ids <= IN_MEMORY {
        // Without the syncs of a real commit: a file for each object.
        for (object, _) in memory.list_files(&ObjectPath::root(), true).await? {
            let path = dir.join(object.as_str());
            std::fs::create_dir_all(path.parent().context("a file without a directory")?)?;
            std::fs::write(path, memory.read(&object, ReadOptions::new()).await?.bytes)?;
        }
    }
    record_bytes(dir)
}

/// Bytes of the records in a directory.
pub(crate) fn record_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|ending| ending == "parquet") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// The numbers below `ids`, in so many tasks of the same size.
pub(crate) fn shares(ids: u64, tasks: u64) -> Vec<Range<u64>> {
    let each = ids.div_ceil(tasks.max(1));
    (0..tasks).map(|task| ids.min(task * each)..ids.min((task + 1) * each)).collect()
}
