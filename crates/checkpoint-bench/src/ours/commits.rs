//! Committing tasks.

use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::Int64Array;
use bytes::Bytes;
use checkpoint_fs::{ObjectPath, Registry, StorageOptions, WriteOptions};
use checkpoint_store::{
    Attempt, AttemptState, Checkpoint, CommitOutcome, DataFile, SystemRuntime, TaskPlan, committed_ids,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::json;

use super::{mark, runtime};
use crate::ids::IdKind;
use crate::records;

/// Which tasks.
#[derive(Debug, Deserialize)]
pub(super) struct Spec {
    checkpoint: String,
    output: String,
    tasks: u64,
    ids_per_task: u64,
    /// Bytes of data that each task writes; none when there are none.
    data_bytes: usize,
    /// Tasks at a time.
    at_once: usize,
}

pub(super) fn run(spec: &Spec) -> Result<()> {
    runtime()?.block_on(Box::pin(commit(spec)))
}

async fn commit(spec: &Spec) -> Result<()> {
    let registry = Registry::from_process();
    let options = StorageOptions::new();
    let storage = registry.open_dir(&spec.checkpoint, &options).await?;
    let output = registry.open_dir(&spec.output, &options).await?;
    let attempt = records::begin(&storage, &output, IdKind::Int64).await?;
    let data = Bytes::from(vec![7; spec.data_bytes]);
    mark("begun", json!({}))?;
    let tasks = stream::iter(0..spec.tasks).map(|task| one(&attempt, spec, task, data.clone()));
    tasks.buffer_unordered(spec.at_once).try_collect::<()>().await?;
    mark("committed", json!({}))?;
    attempt.end(AttemptState::Interrupted).await?;
    mark("ended", json!({}))?;
    let checkpoint = Checkpoint::new(storage, SystemRuntime::shared());
    let ids: u64 =
        committed_ids(&checkpoint).await?.map_ok(|ids| ids.len() as u64).try_fold(0, async |a, b| Ok(a + b)).await?;
    mark("counted", json!({ "ids": ids }))
}

async fn one(attempt: &Attempt, spec: &Spec, task: u64, data: Bytes) -> Result<()> {
    let first = (task * spec.ids_per_task).cast_signed();
    let ids = Int64Array::from_iter_values(first..first + spec.ids_per_task.cast_signed());
    let name = attempt.next_task();
    let file = DataFile { name: format!("{name}.bin"), bytes: data.len() as u64, rows: spec.ids_per_task };
    let path = ObjectPath::parse(file.name.as_str())?;
    let files = if data.is_empty() { Vec::new() } else { vec![file] };
    let prepared = attempt.prepare(&name, &(Arc::new(ids) as _), TaskPlan::new(files)).await?;
    if !data.is_empty() {
        attempt.output().write(&path, data, WriteOptions::new()).await?.into_result(path.as_str())?;
    }
    match attempt.commit(prepared).await? {
        CommitOutcome::Committed => Ok(()),
        other => bail!("a task was not committed: {other:?}"),
    }
}
