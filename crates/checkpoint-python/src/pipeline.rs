//! The pipeline of one machine, as Python sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use checkpoint_fs::{Registry, StorageOptions};
use checkpoint_pipeline::{Counters, ErrorKind, Format, Ids, Phase, Pipeline as Job, Result};
use checkpoint_store::LeaseOptions;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::{pipeline_raised, raised, store_raised};
use crate::runtime::{TICK, handle, wait};
use crate::store::as_json;
use crate::transform::{FirstFailure, PythonTransform};

/// What is set of a pipeline; what is not has the defaults of `ckpt run`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    input: Vec<String>,
    output: String,
    checkpoint: String,
    id_column: Option<String>,
    storage_options: Option<String>,
    input_format: Option<String>,
    output_format: Option<String>,
    workers: Option<usize>,
    batch_rows: Option<usize>,
    rows_per_task: Option<u64>,
    memory: Option<usize>,
    keep_checkpoint: bool,
    append: bool,
    version: Option<String>,
    allow_changed_read: bool,
    check_unique: bool,
    max_failed_rows: u64,
    lease_url: Option<String>,
    assume_exclusive: bool,
}

/// One run of a pipeline, or a plan of it.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct Pipeline {
    job: Mutex<Option<Job>>,
    counters: std::sync::Arc<Counters>,
    failure: Option<FirstFailure>,
}

#[pymethods]
impl Pipeline {
    /// A pipeline that copies its input, or that does to it what the workers do.
    #[new]
    #[pyo3(signature = (settings, workers = None))]
    fn new(py: Python<'_>, settings: Settings, workers: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut job = job_of(py, settings)?;
        let mut failure = None;
        if let Some(workers) = workers {
            let transform = PythonTransform::new(&workers)?;
            failure = Some(transform.failure());
            job = job.transform(transform);
        }
        Ok(Self { counters: job.counters(), job: Mutex::new(Some(job)), failure })
    }

    /// Runs the job to its end. The first Ctrl-C ends it well: what is finished is committed; a second one at once.
    fn run(&self, py: Python<'_>) -> PyResult<String> {
        let job = self.take()?;
        let (stop, handle) = (job.stop(), handle(py)?);
        let (ended, interrupted) = py.detach(|| {
            handle.block_on(async {
                let mut job = Box::pin(job.run());
                let mut interrupted: Option<PyErr> = None;
                loop {
                    tokio::select! {
                        biased;
                        ended = &mut job => return (Some(ended), interrupted),
                        () = tokio::time::sleep(TICK) => {}
                    }
                    let Err(signal) = Python::attach(|py| py.check_signals()) else { continue };
                    let nothing_yet = matches!(self.counters.phase(), Phase::Discovering | Phase::Resuming);
                    if nothing_yet || interrupted.is_some() {
                        return (None, Some(signal));
                    }
                    stop.request();
                    interrupted = Some(signal);
                }
            })
        });
        match (ended, interrupted) {
            (Some(Ok(report)), None) => as_json(&report).map_err(|e| store_raised(py, &e)),
            (Some(Err(error)), None) => Err(self.failed(py, &error)),
            (_, Some(signal)) => Err(signal),
            (None, None) => Err(PyRuntimeError::new_err("the run has ended without a word")),
        }
    }

    /// Says what a run would do.
    fn plan(&self, py: Python<'_>) -> PyResult<String> {
        let planned = wait(py, Box::pin(self.take()?.plan()))?;
        as_json(&planned.map_err(|e| self.failed(py, &e))?).map_err(|e| store_raised(py, &e))
    }

    /// How far it is: the phase, and rows of the input (0 while that is not known), read, skipped, processed, written
    /// and failed, and tasks committed.
    fn counters(&self) -> (&'static str, [u64; 7]) {
        let phase = match self.counters.phase() {
            Phase::Discovering => "discovering",
            Phase::Resuming => "resuming",
            Phase::Finishing => "finishing",
            _ => "running",
        };
        let Counters { total_rows, read_rows, skipped_rows, processed_rows, .. } = &*self.counters;
        let Counters { written_rows, failed_rows, committed_tasks, .. } = &*self.counters;
        let counters: [&AtomicU64; 7] =
            [total_rows, read_rows, skipped_rows, processed_rows, written_rows, failed_rows, committed_tasks];
        (phase, counters.map(|counter| counter.load(Ordering::Relaxed)))
    }
}

impl Pipeline {
    fn take(&self) -> PyResult<Job> {
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner).take();
        job.ok_or_else(|| PyRuntimeError::new_err("it has run already; make another"))
    }

    /// The exception of a run that failed; that of the callable is its cause.
    fn failed(&self, py: Python<'_>, error: &checkpoint_pipeline::Error) -> PyErr {
        let raised = pipeline_raised(py, error);
        if error.kind() == ErrorKind::Transform
            && let Some(failure) = &self.failure
            && let Some(cause) = failure.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            raised.set_cause(py, Some(cause));
        }
        raised
    }
}

fn job_of(py: Python<'_>, settings: Settings) -> PyResult<Job> {
    let options =
        settings.storage_options.as_deref().map_or_else(|| Ok(StorageOptions::new()), StorageOptions::from_json);
    let options = options.map_err(|e| raised(py, &e))?;
    let registry = Registry::from_process();
    registry.check_options(&options).map_err(|e| raised(py, &e))?;
    let format = |name: Option<String>| -> Result<Option<Format>> { name.map(|name| Format::parse(&name)).transpose() };
    let input_format = format(settings.input_format).map_err(|e| pipeline_raised(py, &e))?;
    let output_format = format(settings.output_format).map_err(|e| pipeline_raised(py, &e))?;
    let ids = settings.id_column.map_or(Ids::RowHash, Ids::Column);
    let mut lease = LeaseOptions::default();
    lease.assume_exclusive = settings.assume_exclusive;
    let mut job = Job::new(settings.input, settings.output, settings.checkpoint, ids)
        .registry(registry)
        .storage_options(options)
        .input_format(input_format)
        .output_format(output_format)
        .keep_checkpoint(settings.keep_checkpoint)
        .append(settings.append)
        .version(settings.version)
        .allow_changed_read(settings.allow_changed_read)
        .check_unique(settings.check_unique)
        .max_failed_rows(settings.max_failed_rows)
        .lease_url(settings.lease_url)
        .lease(lease);
    if let Some(workers) = settings.workers {
        job = job.workers(workers);
    }
    if let Some(rows) = settings.batch_rows {
        job = job.batch_rows(rows);
    }
    if let Some(rows) = settings.rows_per_task {
        job = job.rows_per_task(rows);
    }
    if let Some(bytes) = settings.memory {
        job = job.memory(bytes);
    }
    Ok(job)
}
