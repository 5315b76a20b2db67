//! What the workers of one run share.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use checkpoint_store::{Attempt, RuntimeRef};
use tokio_util::sync::CancellationToken;

use super::prepare::Prepared;
use super::same_ids;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::output::{EncodeOptions, schema_drift, schema_with_wide_keys, with_wide_keys};
use crate::pipeline::Pipeline;
use crate::report::Counters;
use crate::transform::TransformRef;

/// Everything a worker needs to know.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) attempt: Arc<Attempt>,
    pub(super) transform: TransformRef,
    pub(super) runtime: RuntimeRef,
    pub(super) counters: Arc<Counters>,
    pub(super) id_column: String,
    pub(super) format: Format,
    pub(super) rows_per_task: u64,
    pub(super) bytes_per_task: u64,
    pub(super) task_age: std::time::Duration,
    pub(super) max_failed_rows: u64,
    /// Cancelled when the run must end: a stop, or a worker that failed.
    pub(super) halt: CancellationToken,
    encode: EncodeOptions,
    version: Option<String>,
    schema: Mutex<Option<SchemaRef>>,
}

impl Shared {
    pub(super) fn new(pipeline: &Pipeline, prepared: &Prepared, attempt: &Arc<Attempt>) -> Result<Self> {
        let share = pipeline.memory / pipeline.workers.max(1);
        let encode = EncodeOptions::new()
            .row_group_bytes((share / 4).clamp(4 << 20, 64 << 20))
            .spool_memory((share / 8).clamp(1 << 20, 16 << 20));
        Ok(Self {
            attempt: attempt.clone(),
            transform: pipeline.transform.clone(),
            runtime: pipeline.runtime.clone(),
            counters: pipeline.counters(),
            id_column: pipeline.ids.column().to_owned(),
            format: prepared.output_format,
            rows_per_task: pipeline.rows_per_task,
            bytes_per_task: pipeline.bytes_per_task,
            task_age: pipeline.task_age,
            max_failed_rows: pipeline.max_failed_rows,
            halt: CancellationToken::new(),
            encode,
            version: pipeline.version.clone(),
            schema: Mutex::new(attempt.output_schema().map(|s| schema_with_wide_keys(&Arc::new(s.clone())))),
        })
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
