//! One task while it is being made: its IDs, its encoded output, the rows it sets aside.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use checkpoint_fs::{ObjectPath, StorageExt, WriteOptions, WriteOutcome};
use checkpoint_store::{CommitOutcome, DataFile, ExactIdSet, FAILED_DIR, IdProblem, TaskName, TaskPlan, show_id};

use super::failing::{self, Applied};
use super::item::{Item, Places};
use super::same_ids;
use super::settings::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::output::{EncodedFile, FileEncoder};
use crate::report::{Stage, add};

/// A task that takes batches in.
#[derive(Debug)]
pub(super) struct OpenTask {
    name: TaskName,
    encoder: Option<FileEncoder>,
    failed: Option<FileEncoder>,
    failed_rows: u64,
    ids: Vec<ArrayRef>,
    seen: ExactIdSet,
    places: Vec<Places>,
    rows: u64,
    began: std::time::Duration,
}

/// A task that is encoded and not written yet.
#[derive(Debug)]
pub(super) struct BuiltTask {
    name: TaskName,
    ids: ArrayRef,
    failed_rows: u64,
    files: Vec<(DataFile, EncodedFile)>,
    schema: Option<arrow::datatypes::SchemaRef>,
}

impl OpenTask {
    pub(super) fn new(shared: &Shared) -> Self {
        Self {
            name: shared.attempt.next_task(),
            encoder: None,
            failed: None,
            failed_rows: 0,
            ids: Vec::new(),
            seen: ExactIdSet::new(),
            places: Vec::new(),
            rows: 0,
            began: shared.runtime.elapsed(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether it has as much as a task should have, or is as old.
    pub(super) fn is_full(&self, shared: &Shared) -> bool {
        self.patience(shared).is_some_and(|left| left.is_zero())
            || self.rows >= shared.rows_per_task
            || self.encoder.as_ref().is_some_and(|e| e.encoded_bytes() >= shared.bytes_per_task)
            || self.ids.iter().map(|ids| ids.get_array_memory_size() as u64).sum::<u64>() >= shared.bytes_per_task / 8
    }

    /// How long it may still wait for more; an empty one waits for ever.
    pub(super) fn patience(&self, shared: &Shared) -> Option<std::time::Duration> {
        let age = shared.runtime.elapsed().saturating_sub(self.began);
        (!self.is_empty()).then(|| shared.task_age.saturating_sub(age))
    }

    /// Finds an ID of the batch that the task, or the batch itself, has already: before it is paid for.
    pub(super) fn refuse_repeats(&mut self, item: &Item) -> Result<()> {
        let repeat = |id: String, first: String, second: String| {
            Error::bad_data(format!("an ID occurs twice in the input: id={id} at={first} and at={second}"))
                .with_hint("IDs must be unique in a job; remove the repeated rows, or use --row-hash")
        };
        if let Some(IdProblem::Duplicate { first, second, id }) = item.ids.duplicate() {
            return Err(repeat(id, item.places.show(first), item.places.show(second)));
        }
        if let Some(row) = self.seen.first_common(&item.ids)? {
            let id = show_id(item.ids.array(), row);
            let first = self.place_of(item, row)?;
            return Err(repeat(id, first, item.places.show(row)));
        }
        self.seen.insert(&item.ids)?;
        Ok(())
    }

    /// Where in the task an ID of a new batch stands already.
    fn place_of(&self, item: &Item, row: usize) -> Result<String> {
        let mut one = ExactIdSet::new();
        let id: ArrayRef = item.ids.array().slice(row, 1);
        if let Ok(id) = checkpoint_store::IdColumn::try_new(&id)? {
            one.insert(&id)?;
        }
        for (ids, places) in self.ids.iter().zip(&self.places) {
            if let Ok(ids) = checkpoint_store::IdColumn::try_new(ids)?
                && let Some(found) = one.first_common(&ids)?
            {
                return Ok(places.show(found));
            }
        }
        Ok(String::from("an earlier row"))
    }

    /// Takes in a batch with its output. Blocks: it encodes.
    ///
    /// # Errors
    /// `BadData` when the output does not fit what was written before; the task cannot be used then.
    pub(super) fn take(mut self, shared: &Shared, item: &Item, applied: Applied) -> Result<Self> {
        let began = shared.runtime.elapsed();
        let set_aside = failing::set_aside(item, &applied.failed)?;
        let name = self.name.to_string();
        if let Some(rows) = &set_aside {
            // What JSON cannot hold is often what the transform failed on, and input files may differ.
            let options = shared.encode_options(&name).loose_json(true);
            if self.failed.is_none() {
                self.failed = Some(FileEncoder::new(Format::JsonLines, rows.schema(), options)?);
            }
            if let Some(encoder) = &mut self.failed {
                encoder.write(rows)?;
            }
            self.failed_rows += rows.num_rows() as u64;
        }
        for output in &applied.outputs {
            self.encode(shared, &name, output)?;
        }
        self.rows += item.records.num_rows() as u64;
        self.ids.push(item.ids.array().clone());
        self.places.push(item.places.clone());
        shared.counters.spent(Stage::Write, shared.runtime.elapsed().saturating_sub(began));
        Ok(self)
    }

    fn encode(&mut self, shared: &Shared, name: &str, output: &RecordBatch) -> Result<()> {
        let output = shared.with_known_types(output)?;
        let schema = shared.agree_on_schema(&output.schema())?;
        if self.encoder.is_none() {
            self.encoder = Some(FileEncoder::new(shared.format, schema, shared.encode_options(name))?);
        }
        match &mut self.encoder {
            Some(encoder) => encoder.write(&output),
            None => Ok(()),
        }
    }

    /// Ends the encoding. Blocks.
    pub(super) fn build(self, shared: &Shared) -> Result<BuiltTask> {
        let began = shared.runtime.elapsed();
        let ids = same_ids::concat(&self.ids)?;
        let mut files = Vec::new();
        let schema = self.encoder.as_ref().map(|e| e.schema().clone());
        let data = self.encoder.map(|e| (format!("{}.{}", self.name, shared.format.extension()), e));
        let failed = self.failed.map(|e| (format!("{FAILED_DIR}/{}.jsonl", self.name), e));
        for (name, encoder) in data.into_iter().chain(failed) {
            let file = encoder.finish()?;
            files.push((DataFile { name, bytes: file.bytes(), rows: file.rows() }, file));
        }
        shared.counters.spent(Stage::Write, shared.runtime.elapsed().saturating_sub(began));
        Ok(BuiltTask { name: self.name, ids, failed_rows: self.failed_rows, files, schema })
    }
}

impl BuiltTask {
    /// The protocol of a task: the pending record, the data, the committed record.
    ///
    /// # Errors
    /// `Conflict` when the checkpoint is another's now, `OutcomeUnknown`, `Storage`. Nothing is deleted.
    pub(super) async fn commit(self, shared: &Shared) -> Result<()> {
        let attempt = &shared.attempt;
        let files: Vec<DataFile> = self.files.iter().map(|(file, _)| file.clone()).collect();
        let written_files = files.iter().filter(|f| !f.name.starts_with(FAILED_DIR)).count() as u64;
        let plan = TaskPlan::new(files).with_output_schema(self.schema).with_failed_rows(self.failed_rows);
        let (rows, written) = (self.ids.len() as u64, plan.output_rows);

        let began = shared.runtime.elapsed();
        let prepared = attempt.prepare(&self.name, &self.ids, plan).await?;
        let prepared_at = shared.runtime.elapsed();
        for (file, encoded) in self.files {
            let path = ObjectPath::parse(file.name.as_str())?;
            match encoded.publish(attempt.output(), &path, WriteOptions::new()).await? {
                WriteOutcome::Done(_) => {}
                WriteOutcome::AlreadyExists => {
                    return Err(Error::new(
                        ErrorKind::Conflict,
                        format!("a data file of this task is there already: url={}", attempt.output().url_of(&path)),
                    ));
                }
                WriteOutcome::Unknown(error) => {
                    return Err(Error::new(
                        ErrorKind::OutcomeUnknown,
                        format!("whether a data file was written cannot be found out: {error}"),
                    )
                    .with_hint("nothing was deleted; run the same command again, it finds out and goes on")
                    .with_source(error));
                }
            }
        }
        let written_at = shared.runtime.elapsed();
        let outcome = attempt.commit(prepared).await?;
        let counters = &shared.counters;
        let committed_at = shared.runtime.elapsed();
        counters.spent(Stage::Write, written_at.saturating_sub(prepared_at));
        counters.spent(Stage::Commit, prepared_at.saturating_sub(began) + committed_at.saturating_sub(written_at));
        match outcome {
            CommitOutcome::Committed => {}
            CommitOutcome::Conflict(error) | CommitOutcome::Unknown(error) => return Err(error.into()),
        }
        add(&counters.processed_rows, rows);
        add(&counters.written_rows, written);
        add(&counters.written_files, written_files);
        add(&counters.committed_tasks, 1);
        Ok(())
    }
}

/// Runs blocking work on a task's behalf.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|e| Error::new(ErrorKind::BadData, format!("encoding the output failed: {e}")))?
}

/// Shared settings, as blocking work holds them.
pub(super) type SharedRef = Arc<Shared>;
