//! One task while it is being made: its IDs, its encoded output, the rows it sets aside.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use checkpoint_fs::{ObjectPath, StorageExt, StorageRef, WriteOptions, WriteOutcome};
use checkpoint_store::{CommitOutcome, DataFile, FAILED_DIR, TaskName, TaskPlan, TaskRecord, UniqueIds, show_id};

use super::failing::{self, Applied};
use super::item::{Item, Places};
use super::settings::Shared;
use super::task_size::Filled;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::output::{EncodedFile, FileEncoder, mostly_unlike};
use crate::report::{Stage, add};

/// A task that takes batches in.
#[derive(Debug)]
pub(super) struct OpenTask {
    name: TaskName,
    encoder: Option<FileEncoder>,
    failed: Option<FileEncoder>,
    failed_rows: u64,
    id_bytes: u64,
    seen: UniqueIds,
    places: Vec<Places>,
    rows: u64,
    began: std::time::Duration,
}

/// A task that is encoded and not written yet.
#[derive(Debug)]
pub(super) struct BuiltTask {
    record: TaskRecord,
    files: Vec<(DataFile, EncodedFile)>,
    rows: u64,
    written: u64,
}

impl OpenTask {
    pub(super) fn new(shared: &Shared) -> Self {
        Self {
            name: shared.attempt.next_task(),
            encoder: None,
            failed: None,
            failed_rows: 0,
            id_bytes: 0,
            seen: UniqueIds::new(),
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
        let filled = Filled {
            rows: self.rows,
            encoded: self.encoder.as_ref().map_or(0, FileEncoder::expected_bytes),
            ids: self.id_bytes,
            age: self.age(shared),
        };
        !self.is_empty() && shared.task_size.is_reached(filled)
    }

    /// How long it may still wait for more; an empty one waits for ever.
    pub(super) fn patience(&self, shared: &Shared) -> Option<std::time::Duration> {
        (!self.is_empty()).then(|| shared.task_size.patience(self.age(shared)))
    }

    fn age(&self, shared: &Shared) -> std::time::Duration {
        shared.runtime.elapsed().saturating_sub(self.began)
    }

    /// Finds an ID of the batch that the task, or the batch itself, has already: before it is paid for.
    pub(super) fn refuse_repeats(&mut self, item: &Item) -> Result<()> {
        let Some(repeat) = self.seen.add(&item.ids) else { return Ok(()) };
        let first = self.places.get(repeat.column).unwrap_or(&item.places).show(repeat.first);
        Err(Error::bad_data(format!(
            "an ID occurs twice in the input: id={} at={first} and at={}",
            show_id(item.ids.array(), repeat.second),
            item.places.show(repeat.second)
        ))
        .with_hint("IDs must be unique in a job; remove the repeated rows, or use --row-hash"))
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
        self.id_bytes += array_bytes(item.ids.array());
        self.places.push(item.places.clone());
        shared.counters.spent(Stage::Write, shared.runtime.elapsed().saturating_sub(began));
        Ok(self)
    }

    fn encode(&mut self, shared: &Shared, name: &str, output: &RecordBatch) -> Result<()> {
        let output = shared.with_known_types(output)?;
        let schema = shared.agree_on_schema(&output.schema())?;
        if self.encoder.is_none() {
            let options = shared.encode_options(name).plain_columns(mostly_unlike(&output, &shared.id_column));
            self.encoder = Some(FileEncoder::new(shared.format, schema, options)?);
        }
        match &mut self.encoder {
            Some(encoder) => encoder.write(&output),
            None => Ok(()),
        }
    }

    /// Ends the encoding, and makes the record. Blocks.
    ///
    /// # Errors
    /// As encoding gives, and as [`Attempt::record`](checkpoint_store::Attempt::record).
    pub(super) fn build(mut self, shared: &Shared) -> Result<BuiltTask> {
        // Not those of a batch that was looked at and never came to be part of the task.
        self.seen.keep(self.places.len());
        if self.seen.len() as u64 != self.rows {
            let message = format!("rows of a task are unaccounted for: rows={} ids={}", self.rows, self.seen.len());
            return Err(
                Error::new(ErrorKind::OutcomeUnknown, message).with_hint("nothing is committed; please report this")
            );
        }
        let began = shared.runtime.elapsed();
        let mut files = Vec::new();
        let schema = self.encoder.as_ref().map(|e| e.schema().clone());
        let data = self.encoder.map(|e| (format!("{}.{}", self.name, shared.format.extension()), e));
        let failed = self.failed.map(|e| (format!("{FAILED_DIR}/{}.jsonl", self.name), e));
        for (name, encoder) in data.into_iter().chain(failed) {
            let file = encoder.finish()?;
            files.push((DataFile { name, bytes: file.bytes(), rows: file.rows() }, file));
        }
        let encoded_at = shared.runtime.elapsed();
        let plan = TaskPlan::new(files.iter().map(|(file, _)| file.clone()).collect())
            .with_output_schema(schema)
            .with_failed_rows(self.failed_rows);
        let (rows, written) = (self.rows, plan.output_rows);
        let record = shared.attempt.record_unique(&self.name, self.seen, plan)?;
        shared.counters.spent(Stage::Write, encoded_at.saturating_sub(began));
        shared.counters.spent(Stage::Commit, shared.runtime.elapsed().saturating_sub(encoded_at));
        Ok(BuiltTask { record, files, rows, written })
    }
}

impl BuiltTask {
    /// Bytes that it holds in memory until it is committed.
    pub(super) fn memory(&self) -> u64 {
        self.record.bytes() + self.files.iter().map(|(_, file)| file.memory()).sum::<u64>()
    }

    /// The protocol of a task: the pending record, the data, the committed record.
    ///
    /// # Errors
    /// `Conflict` when the checkpoint is another's now, `OutcomeUnknown`, `Storage`. Nothing is deleted.
    pub(super) async fn commit(self, shared: &Shared) -> Result<()> {
        let attempt = &shared.attempt;
        let written_files = self.files.iter().filter(|(f, _)| !f.name.starts_with(FAILED_DIR)).count() as u64;

        let began = shared.runtime.elapsed();
        let prepared = attempt.write_pending(self.record).await?;
        let prepared_at = shared.runtime.elapsed();
        for (file, encoded) in self.files {
            write(attempt.output(), &file, encoded).await?;
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
        add(&counters.processed_rows, self.rows);
        add(&counters.written_rows, self.written);
        add(&counters.written_files, written_files);
        add(&counters.committed_tasks, 1);
        Ok(())
    }
}

/// Writes one file of a task.
async fn write(output: &StorageRef, file: &DataFile, encoded: EncodedFile) -> Result<()> {
    let path = ObjectPath::parse(file.name.as_str())?;
    match encoded.publish(output, &path, WriteOptions::new()).await? {
        WriteOutcome::Done(_) => Ok(()),
        WriteOutcome::AlreadyExists => Err(Error::new(
            ErrorKind::Conflict,
            format!("a data file of this task is there already: url={}", output.url_of(&path)),
        )),
        WriteOutcome::Unknown(error) => Err(Error::new(
            ErrorKind::OutcomeUnknown,
            format!("whether a data file was written cannot be found out: {error}"),
        )
        .with_hint("nothing was deleted; run the same command again, it finds out and goes on")
        .with_source(error)),
    }
}

/// Bytes of the values that an array shows.
fn array_bytes(array: &ArrayRef) -> u64 {
    let shown = array.to_data().get_slice_memory_size();
    shown.unwrap_or_else(|_| array.get_array_memory_size()) as u64
}

/// Shared settings, as blocking work holds them.
pub(super) type SharedRef = Arc<Shared>;
