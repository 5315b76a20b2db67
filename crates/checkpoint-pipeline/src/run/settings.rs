//! What the workers of one run share.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use checkpoint_store::{Attempt, RuntimeRef};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::prepare::Prepared;
use super::same_ids;
use super::task_size::TaskSize;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::output::{EncodeOptions, schema_drift, schema_with_wide_keys, with_wide_keys};
use crate::pipeline::Pipeline;
use crate::report::Counters;
use crate::transform::TransformRef;

/// Memory is counted in units of this many bytes.
const UNIT: u64 = 1024;

/// Everything a worker needs to know.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) attempt: Arc<Attempt>,
    pub(super) transform: TransformRef,
    pub(super) runtime: RuntimeRef,
    pub(super) counters: Arc<Counters>,
    pub(super) id_column: String,
    pub(super) format: Format,
    pub(super) task_size: TaskSize,
    pub(super) max_failed_rows: u64,
    /// Cancelled when the run must end: a stop, or a worker that failed.
    pub(super) halt: CancellationToken,
    /// Encoded output that waits for its commit in memory, over all workers, in units of [`UNIT`] bytes.
    encoded: Semaphore,
    encoded_units: u32,
    encode: EncodeOptions,
    version: Option<String>,
    schema: Mutex<Option<SchemaRef>>,
}

impl Shared {
    pub(super) fn new(pipeline: &Pipeline, prepared: &Prepared, attempt: &Arc<Attempt>) -> Result<Self> {
        let share = pipeline.memory / pipeline.workers.max(1);
        // Beyond it a task goes through a temporary file, and is written twice.
        let in_memory = (share / 3).clamp(1 << 20, 32 << 20);
        let encode = EncodeOptions::new().row_group_bytes((share / 4).clamp(4 << 20, 64 << 20)).spool_memory(in_memory);
        let encoded_units = u32::try_from(pipeline.memory as u64 / 4 / UNIT).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            attempt: attempt.clone(),
            transform: pipeline.transform.clone(),
            runtime: pipeline.runtime.clone(),
            counters: pipeline.counters(),
            id_column: pipeline.ids.column().to_owned(),
            format: prepared.output_format,
            task_size: TaskSize::of(pipeline, in_memory / 8 * 3),
            max_failed_rows: pipeline.max_failed_rows,
            halt: CancellationToken::new(),
            encoded: Semaphore::new(encoded_units as usize),
            encoded_units,
            encode,
            version: pipeline.version.clone(),
            schema: Mutex::new(attempt.output_schema().map(|s| schema_with_wide_keys(&Arc::new(s.clone())))),
        })
    }

    /// Waits until so many bytes of encoded output may wait for their commit. A task that is larger than all
    /// the room there is takes all of it.
    pub(super) async fn room_for(&self, bytes: u64) -> Option<SemaphorePermit<'_>> {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).clamp(1, self.encoded_units);
        // The semaphore is never closed; without its permit the task is committed all the same.
        self.encoded.acquire_many(units).await.ok()
    }

    /// The schema of the output so far, from this attempt or earlier ones.
    pub(super) fn output_schema(&self) -> Option<SchemaRef> {
        self.schema.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The batch with dictionary keys that do for a whole file, and its IDs in the type that the output has
    /// for them, where they are the same IDs.
    pub(super) fn with_known_types(&self, output: &RecordBatch) -> Result<RecordBatch> {
        let output = with_wide_keys(output)?;
        Ok(match self.output_schema() {
            Some(schema) => same_ids::in_type_of(&schema, &self.id_column, &output),
            None => output,
        })
    }

    /// Settles the schema with the first batch, and holds every later one to it.
    pub(super) fn agree_on_schema(&self, got: &SchemaRef) -> Result<SchemaRef> {
        let mut schema = self.schema.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(expected) = schema.as_ref() else {
            // Whether the first batch happens to hold nulls says nothing about later ones.
            let nullable = got.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
            let bare: SchemaRef = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
            return Ok(schema.insert(bare).clone());
        };
        match schema_drift(expected, got) {
            None => Ok(expected.clone()),
            Some(drift) => Err(Error::bad_data(format!("the output's columns changed between batches: {drift}"))
                .with_hint("every batch must come out with the same columns and types; make the transform or the input files agree")),
        }
    }

    /// Whether the run is being stopped; waits a moment for a signal that is on its way.
    pub(super) async fn halted_soon(&self) -> bool {
        tokio::select! {
            () = self.halt.cancelled() => true,
            () = self.runtime.sleep(std::time::Duration::from_millis(20)) => false,
        }
    }

    /// How a task's file is encoded; the metadata says whose it is.
    pub(super) fn encode_options(&self, task: &str) -> EncodeOptions {
        let mut metadata = vec![
            ("checkpoint.job".to_owned(), self.attempt.job().to_string()),
            ("checkpoint.attempt".to_owned(), self.attempt.number().to_string()),
            ("checkpoint.task".to_owned(), task.to_owned()),
        ];
        metadata.extend(self.version.iter().map(|v| ("checkpoint.job_version".to_owned(), v.clone())));
        self.encode.clone().metadata(metadata)
    }
}
