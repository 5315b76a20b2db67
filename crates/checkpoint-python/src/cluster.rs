//! An attempt whose tasks another engine runs, on any machine of a cluster.

use std::num::NonZeroUsize;
use std::process;
use std::sync::Arc;

use checkpoint_fs::{Location, Registry, StorageOptions, StorageRef};
use checkpoint_store::{
    Attempt, AttemptState, Begin, BeginOptions, Checkpoint, CompactIdSet, Error, ErrorKind, Fingerprint, IdClass,
    InputFile, ParquetIds, ReadElsewhere, RecoveryReport, Result, SystemRuntime, read_part,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::capsule::import;
use crate::error::{raised, store_raised};
use crate::ids::IdSet;
use crate::machines::Machines;
use crate::runtime::wait;

/// What the engine's side knows of the job. What it does not know is taken over from attempts before.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    checkpoint: String,
    output: String,
    id_column: String,
    row_hash: bool,
    filter: Option<String>,
    version: Option<String>,
    /// `None` where nobody knows which files are read.
    inputs: Option<Vec<InputFile>>,
    lease_url: Option<String>,
    assume_exclusive: bool,
    allow_changed_read: bool,
    append: bool,
}

/// The places of a job, open.
struct Places {
    job: Job,
    checkpoint: Checkpoint,
    output: StorageRef,
    fingerprint: Fingerprint,
}

impl Places {
    async fn open(job: Job, options: &StorageOptions, class: Option<(String, String)>) -> Result<Self> {
        let registry = Registry::from_process();
        registry.check_options(options)?;
        let output = registry.open_location(&Location::parse(&job.output)?, options).await?;
        let storage = registry.open_location(&Location::parse(&job.checkpoint)?, options).await?;
        let mut checkpoint = Checkpoint::new(storage, SystemRuntime::shared());
        if let Some(url) = &job.lease_url {
            checkpoint = checkpoint.with_control(registry.open_dir(url, options).await?);
        }
        let (id_class, id_type) = class.unwrap_or_default();
        let fingerprint = Fingerprint {
            id_column: job.id_column.clone(),
            id_class,
            id_type,
            row_hash: job.row_hash,
            filter: job.filter.clone(),
            output: output.url().to_owned(),
            version: job.version.clone(),
            inputs: job.inputs.clone().unwrap_or_default(),
            inputs_unknown: job.inputs.is_none(),
        };
        Ok(Self { job, checkpoint, output, fingerprint })
    }

    async fn begin(&self, elsewhere: Option<ReadElsewhere>) -> Result<Begin> {
        let mut fingerprint = self.fingerprint.clone();
        if let Some(recorded) = self.checkpoint.recorded_fingerprint(&self.output).await {
            fingerprint.fill_unknown(&recorded);
            fingerprint.fill_rows(&recorded);
        }
        let mut options = BeginOptions::default();
        options.flat_ids = true;
        options.elsewhere = elsewhere;
        options.append = self.job.append;
        options.allow_changed_read = self.job.allow_changed_read;
        options.lease.assume_exclusive = self.job.assume_exclusive;
        Box::pin(Attempt::begin(&self.checkpoint, &self.output, fingerprint, options, &ParquetIds)).await
    }
}

/// The owner of a checkpoint whose tasks run elsewhere. Its lease is renewed until it is ended or let go of.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct ClusterAttempt {
    places: Places,
    attempt: Mutex<Option<Attempt>>,
    process: u32,
    number: u64,
    nonce: String,
    rows: u64,
    ids: CompactIdSet,
    recovery: RecoveryReport,
}

#[pymethods]
impl ClusterAttempt {
    /// Takes the lease, closes the past and loads the IDs that are done. `id_type` is an empty array of the type of the
    /// IDs, where it is known. `read_parts`, with how many parts there may be and from how many bytes of records on it is
    /// asked, has records read on other machines. Where the job has ended before, its rows, and no attempt.
    #[staticmethod]
    #[pyo3(signature = (job, storage_options = None, id_type = None, read_parts = None))]
    fn begin(
        py: Python<'_>,
        job: &str,
        storage_options: Option<&str>,
        id_type: Option<&Bound<'_, PyAny>>,
        read_parts: Option<(Py<PyAny>, NonZeroUsize, u64)>,
    ) -> PyResult<(Option<Self>, u64)> {
        let elsewhere = read_parts.map(|(read, parts, at_least)| {
            let mut elsewhere = ReadElsewhere::new(Arc::new(Machines::new(read)), parts);
            elsewhere.at_least = at_least;
            elsewhere
        });
        let options = storage_options.map_or_else(|| Ok(StorageOptions::new()), StorageOptions::from_json);
        let options = options.map_err(|e| raised(py, &e))?;
        let class = match id_type {
            None => None,
            Some(array) => {
                let data_type = import(array)?.field.data_type().clone();
                let class = IdClass::of(&data_type).map_err(|e| store_raised(py, &e))?;
                Some((class.to_string(), data_type.to_string()))
            }
        };
        let job: Job = serde_json::from_str(job).map_err(|e| {
            store_raised(py, &Error::new(ErrorKind::InvalidConfig, format!("the job is not what it must be: {e}")))
        })?;
        let begun = wait(py, async {
            let places = Places::open(job, &options, class).await?;
            match places.begin(elsewhere).await? {
                Begin::AlreadyComplete { rows } => Ok((None, rows)),
                Begin::Attempt(attempt) => {
                    let rows = attempt.rows();
                    Ok((Some(Self::new(places, *attempt).await?), rows))
                }
                _ => Err(Error::conflict("the checkpoint is in a state that is not known here")),
            }
        })?;
        begun.map_err(|e: Error| store_raised(py, &e))
    }

    /// What `read_parts` does with a part, on any machine: reads the records that it names.
    #[staticmethod]
    #[pyo3(signature = (checkpoint, part, storage_options = None))]
    fn read_part<'py>(
        py: Python<'py>,
        checkpoint: &str,
        part: &str,
        storage_options: Option<&str>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let options = storage_options.map_or_else(|| Ok(StorageOptions::new()), StorageOptions::from_json);
        let options = options.map_err(|e| raised(py, &e))?;
        let answer = wait(py, async {
            let storage = Registry::from_process().open_location(&Location::parse(checkpoint)?, &options).await?;
            read_part(&Checkpoint::new(storage, SystemRuntime::shared()), part).await
        })?;
        answer.map(|bytes| PyBytes::new(py, &bytes)).map_err(|e: Error| store_raised(py, &e))
    }

    /// The number of the attempt, from 1.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// What tells it from any other attempt of its number.
    #[getter]
    fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The rows that are done, by the records of earlier attempts.
    #[getter]
    fn rows(&self) -> u64 {
        self.rows
    }

    /// The IDs that are done.
    #[getter]
    fn ids(&self) -> IdSet {
        IdSet::new(self.ids.clone())
    }

    /// What recovery did: tasks that were rolled forward, tasks that are void, data files that were deleted.
    #[getter]
    fn recovery(&self) -> (u64, u64, u64) {
        (self.recovery.rolled_forward, self.recovery.voided, self.recovery.deleted_files)
    }

    /// Writes down what is in the names of the tasks of this attempt, before the first of them starts.
    fn name_writes(&self, py: Python<'_>, writes: Vec<String>) -> PyResult<()> {
        self.check_process(py)?;
        wait(py, async {
            match self.attempt.lock().await.as_ref() {
                Some(attempt) => attempt.name_writes(writes).await,
                None => Err(ended()),
            }
        })?
        .map_err(|e| store_raised(py, &e))
    }

    /// Ends the attempt without ending the job: `failed` or `interrupted`. Does nothing where it has ended.
    fn end(&self, py: Python<'_>, state: &str) -> PyResult<()> {
        self.check_process(py)?;
        let state = if state == "interrupted" { AttemptState::Interrupted } else { AttemptState::Failed };
        wait(py, async {
            match self.attempt.lock().await.take() {
                Some(attempt) => attempt.end(state).await,
                None => Ok(()),
            }
        })?
        .map_err(|e| store_raised(py, &e))
    }

    /// Ends the job, all its rows done and no task in flight: closes this attempt, checks that no ID was committed
    /// twice, and deletes the checkpoint and leaves a mark in the output, or keeps it. Answers the rows.
    fn finish(&self, py: Python<'_>, keep: bool) -> PyResult<u64> {
        self.check_process(py)?;
        let finished = wait(py, async {
            let Some(attempt) = self.attempt.lock().await.take() else { return Err(ended()) };
            attempt.end(AttemptState::Succeeded).await?;
            // The next attempt decides what counts of this one, and keeps whoever is late out of it.
            let Begin::Attempt(closing) = self.places.begin(None).await? else {
                return Err(Error::conflict("another job has ended this checkpoint meanwhile"));
            };
            let rows = closing.rows();
            if let Err(error) = check_unique(&self.places, rows, closing.ids().len()) {
                // What went wrong is what there is to tell; its lease ends by itself.
                let _ = closing.end(AttemptState::Failed).await;
                return Err(error);
            }
            closing.finish(keep).await?;
            Ok(rows)
        })?;
        finished.map_err(|e| store_raised(py, &e))
    }
}

impl ClusterAttempt {
    async fn new(places: Places, attempt: Attempt) -> Result<Self> {
        let (rows, ids) = (attempt.rows(), attempt.ids());
        let buffer = check_unique(&places, rows, ids.len()).and_then(|()| match ids.buffer() {
            Some(buffer) => CompactIdSet::from_bytes(buffer.clone()),
            None => Err(Error::bad_data("the IDs that are done are in no one buffer")),
        });
        let ids = match buffer {
            Ok(ids) => ids,
            Err(error) => {
                // So that the next one need not wait for the lease.
                let _ = attempt.end(AttemptState::Failed).await;
                return Err(error);
            }
        };
        Ok(Self {
            places,
            number: attempt.number(),
            nonce: attempt.nonce(),
            rows,
            ids,
            recovery: attempt.recovery(),
            attempt: Mutex::new(Some(attempt)),
            process: process::id(),
        })
    }

    /// A child after a fork has neither the lease's renewals nor the runtime under them.
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        let error = Error::conflict("an attempt belongs to the process that began it, and this is a fork of it");
        Err(store_raised(py, &error.with_hint("start the job in the process that runs it")))
    }
}

fn ended() -> Error {
    Error::conflict("the attempt has ended").with_hint("begin another")
}

/// More rows than IDs are rows that share one: what was made of one row is in several tasks, and a resume would take
/// them all for done when one is.
fn check_unique(places: &Places, rows: u64, ids: u64) -> Result<()> {
    if rows <= ids {
        return Ok(());
    }
    Err(Error::bad_data(format!(
        "IDs were committed more than once: rows={rows} ids={ids} url={}",
        places.checkpoint.url()
    ))
    .with_hint(
        "one row of the input became several of the output, or the input repeats an ID: give each row an ID of its own \
         after the step that makes several (for example the ID and the position), and begin again with a fresh \
         checkpoint and output; `ckpt verify` names some",
    ))
}
