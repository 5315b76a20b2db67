//! A checkpoint as Python sees it: what the commands of `ckpt` do, and the beginning of attempts.

use std::sync::Arc;
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchReader;
use checkpoint_fs::StorageRef;
use checkpoint_pipeline::DataFiles;
use checkpoint_store::{
    Begin, BeginOptions, Checkpoint, CompactOptions, Error, ErrorKind, IdColumn, IdSetBuilder, IdSetOptions,
    LeaseOptions, RecoverOptions, Result, SystemRuntime, VerifyOptions, same_ids,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde::Serialize;
use tokio::runtime::Handle;

use crate::arrow_data::ArrowStream;
use crate::attempt::Attempt;
use crate::awaitable::start;
use crate::fingerprint::Job;
use crate::ids::IdSet;
use crate::places::Places;
use crate::runtime::{block, handle, run};

/// A checkpoint. Reports come as the JSON that `ckpt` prints. Methods named ``..._async`` give futures of ``asyncio``.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct Store {
    path: String,
    places: Places,
    lease_url: Option<String>,
    lease: LeaseOptions,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, options = None, lease_url = None, *, assume_exclusive = false, trust_process = true))]
    fn new(
        py: Python<'_>,
        path: String,
        options: Option<&str>,
        lease_url: Option<String>,
        assume_exclusive: bool,
        trust_process: bool,
    ) -> PyResult<Self> {
        let mut lease = LeaseOptions::default();
        lease.assume_exclusive = assume_exclusive;
        lease.trust_process = trust_process;
        Ok(Self { path, places: Places::new(py, options)?, lease_url, lease })
    }

    fn status(&self, py: Python<'_>) -> PyResult<String> {
        run(py, self.status_report().err_into())
    }

    fn verify(&self, py: Python<'_>, output: &str) -> PyResult<String> {
        run(py, self.verify_report(output).err_into())
    }

    fn recover(&self, py: Python<'_>, output: &str, dry_run: bool, repair: bool) -> PyResult<String> {
        run(py, self.recover_report(output, dry_run, repair).err_into())
    }

    fn compact(&self, py: Python<'_>) -> PyResult<String> {
        run(py, self.compact_report().err_into())
    }

    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.remove_all().err_into())
    }

    fn committed_ids(&self, py: Python<'_>) -> PyResult<ArrowStream> {
        let handle = handle(py)?;
        run(py, self.committed_stream(handle).err_into())
    }

    fn id_set(&self, py: Python<'_>) -> PyResult<IdSet> {
        run(py, self.committed_set().err_into())
    }

    /// Begins an attempt; `None` when the job is complete.
    fn begin(
        &self,
        py: Python<'_>,
        output: &str,
        job: Job,
        allow_changed_read: bool,
        append: bool,
    ) -> PyResult<Option<Attempt>> {
        run(py, self.begin_attempt(output, &job, allow_changed_read, append).err_into())
    }

    /// As ``status``.
    fn status_async(this: Py<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        start(py, async move { this.get().status_report().err_into().await })
    }

    /// As ``verify``.
    fn verify_async(this: Py<Self>, py: Python<'_>, output: String) -> PyResult<Bound<'_, PyAny>> {
        start(py, async move { this.get().verify_report(&output).err_into().await })
    }

    /// As ``recover``.
    fn recover_async(
        this: Py<Self>,
        py: Python<'_>,
        output: String,
        dry_run: bool,
        repair: bool,
    ) -> PyResult<Bound<'_, PyAny>> {
        start(py, async move { this.get().recover_report(&output, dry_run, repair).err_into().await })
    }

    /// As ``compact``.
    fn compact_async(this: Py<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        start(py, async move { this.get().compact_report().err_into().await })
    }

    /// As ``remove``.
    fn remove_async(this: Py<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        start(py, async move { this.get().remove_all().err_into().await })
    }

    /// As ``committed_ids``.
    fn committed_ids_async(this: Py<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let handle = handle(py)?;
        start(py, async move { this.get().committed_stream(handle).err_into().await })
    }

    /// As ``id_set``.
    fn id_set_async(this: Py<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        start(py, async move { this.get().committed_set().err_into().await })
    }

    /// As ``begin``.
    fn begin_async(
        this: Py<Self>,
        py: Python<'_>,
        output: String,
        job: Job,
        allow_changed_read: bool,
        append: bool,
    ) -> PyResult<Bound<'_, PyAny>> {
        start(py, async move { this.get().begin_attempt(&output, &job, allow_changed_read, append).err_into().await })
    }
}

impl Store {
    async fn status_report(&self) -> Result<String> {
        as_json(&checkpoint_store::status(&self.checkpoint().await?).await?)
    }

    async fn verify_report(&self, output: &str) -> Result<String> {
        let (checkpoint, output) = (self.checkpoint().await?, self.places.open(output).await?);
        as_json(&checkpoint_store::verify(&checkpoint, &output, VerifyOptions::default(), &DataFiles::new()).await?)
    }

    async fn recover_report(&self, output: &str, dry_run: bool, repair: bool) -> Result<String> {
        let (checkpoint, output) = (self.checkpoint().await?, self.places.open(output).await?);
        let mut options = RecoverOptions::default();
        options.dry_run = dry_run;
        options.repair = repair;
        options.lease = self.lease.clone();
        as_json(&checkpoint_store::recover(&checkpoint, &output, options, &DataFiles::new()).await?)
    }

    async fn compact_report(&self) -> Result<String> {
        let checkpoint = self.checkpoint().await?;
        let output = self.recorded_output(&checkpoint).await?;
        let mut options = CompactOptions::default();
        options.lease = self.lease.clone();
        as_json(&checkpoint_store::compact(&checkpoint, output.as_ref(), options, &DataFiles::new()).await?)
    }

    async fn remove_all(&self) -> Result<()> {
        checkpoint_store::remove(&self.checkpoint().await?, self.lease.clone()).await
    }

    async fn committed_stream(&self, handle: Handle) -> Result<ArrowStream> {
        let checkpoint = self.checkpoint().await?;
        let (name, id_type) = self.id_column(&checkpoint).await?;
        let mut ids = checkpoint_store::committed_ids(&checkpoint).await?.boxed();
        let first = ids.try_next().await?;
        let told = || id_type.and_then(|text| text.parse().ok());
        let id_type = first.as_ref().map(|ids| ids.array().data_type().clone()).or_else(told);
        let field = Field::new(name, id_type.unwrap_or(arrow::datatypes::DataType::Utf8), false);
        let ids = futures::stream::iter(first.map(Ok)).chain(ids).boxed();
        let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
        Ok(ArrowStream::new(Box::new(CommittedIds { handle, process: std::process::id(), schema, ids })))
    }

    async fn committed_set(&self) -> Result<IdSet> {
        let checkpoint = self.checkpoint().await?;
        let mut options = IdSetOptions::default();
        options.row_hash = checkpoint.existing().await?.fingerprint().is_some_and(|job| job.row_hash);
        let builder = Arc::new(IdSetBuilder::new(options));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let pushed = checkpoint_store::committed_ids(&checkpoint).await?.map(|ids| {
            let builder = builder.clone();
            async move { on_a_thread(move || builder.push(&ids?)).await }
        });
        pushed.buffer_unordered(cores).try_collect::<()>().await?;
        let builder = Arc::into_inner(builder).ok_or_else(|| given_up("a set is still being filled"))?;
        Ok(IdSet::new(on_a_thread(|| builder.finish()).await?))
    }

    async fn begin_attempt(
        &self,
        output: &str,
        job: &Job,
        allow_changed_read: bool,
        append: bool,
    ) -> Result<Option<Attempt>, checkpoint_pipeline::Error> {
        let mut options = BeginOptions::default();
        options.lease = self.lease.clone();
        options.allow_changed_read = allow_changed_read;
        options.append = append;
        options.flat_ids = true;
        let (checkpoint, output) = (self.checkpoint().await?, self.places.open(output).await?);
        let fingerprint = job.fingerprint(&self.places, &checkpoint, &output).await?;
        let files = DataFiles::new();
        let begin = checkpoint_store::Attempt::begin(&checkpoint, &output, fingerprint, options, &files);
        Ok(match Box::pin(begin).await? {
            Begin::Attempt(attempt) => Some(Attempt::new(*attempt)),
            _ => None,
        })
    }

    async fn checkpoint(&self) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::new(self.places.open(&self.path).await?, SystemRuntime::shared());
        match &self.lease_url {
            Some(url) => Ok(checkpoint.with_control(self.places.open(url).await?)),
            None => Ok(checkpoint),
        }
    }

    async fn recorded_output(&self, checkpoint: &Checkpoint) -> Result<Option<StorageRef>> {
        match checkpoint.existing().await?.fingerprint().map(|job| job.output.clone()) {
            Some(url) => Ok(Some(self.places.open(&url).await?)),
            None => Ok(None),
        }
    }

    /// The name of the ID column, and its type as text where it is known.
    async fn id_column(&self, checkpoint: &Checkpoint) -> Result<(String, Option<String>)> {
        if let Some(job) = checkpoint.existing().await?.fingerprint() {
            return Ok((job.id_column.clone(), Some(job.id_type.clone())));
        }
        // A checkpoint that Ray alone has written: its records tell.
        let status = checkpoint_store::status(checkpoint).await?;
        Ok((status.id_column.unwrap_or_else(|| "id".to_owned()), status.id_type))
    }
}

/// A report as the JSON that `ckpt` prints.
///
/// # Errors
/// `BadData`, which no report gives.
pub(crate) fn as_json(report: &impl Serialize) -> Result<String> {
    serde_json::to_string(report).map_err(|e| Error::bad_data(format!("the report is no JSON: {e}")))
}

async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|e| given_up(&e.to_string()))?
}

fn given_up(why: &str) -> Error {
    Error::new(ErrorKind::Storage, format!("the IDs that are done were not loaded: {why}"))
}

/// The IDs that are done, read while they are taken.
struct CommittedIds {
    handle: Handle,
    process: u32,
    schema: SchemaRef,
    ids: BoxStream<'static, Result<IdColumn>>,
}

impl Iterator for CommittedIds {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.process != std::process::id() {
            let what = "the stream was opened by the parent of this process; ask for one here";
            return Some(Err(ArrowError::InvalidArgumentError(what.to_owned())));
        }
        match block(&self.handle, self.ids.try_next()) {
            Err(interrupted) => {
                // Arrow's errors carry no exception. Ctrl-C is given once more, to whoever called that library; until it
                // is there, nothing of Python may be run here, or it would be lost.
                Python::attach(|py| {
                    if interrupted.is_instance_of::<PyKeyboardInterrupt>(py) {
                        let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
                    }
                    drop(interrupted);
                });
                Some(Err(ArrowError::ExternalError("the reading was interrupted".into())))
            }
            Ok(Err(error)) => Some(Err(ArrowError::ExternalError(error.into()))),
            Ok(Ok(None)) => None,
            Ok(Ok(Some(ids))) => Some(self.batch(&ids)),
        }
    }
}

impl CommittedIds {
    fn batch(&self, ids: &IdColumn) -> Result<RecordBatch, ArrowError> {
        let id_type = self.schema.field(0).data_type();
        let column = same_ids(ids.array(), id_type).ok_or_else(|| {
            let other = ids.array().data_type();
            ArrowError::InvalidArgumentError(format!(
                "the records differ in the type of their IDs: {id_type} and {other}; id_set() takes all of them"
            ))
        })?;
        RecordBatch::try_new(self.schema.clone(), vec![column])
    }
}

impl RecordBatchReader for CommittedIds {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
