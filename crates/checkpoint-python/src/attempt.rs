//! One run of a job over a checkpoint: it owns it, and its lease is renewed in the background.

use std::mem;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field};
use checkpoint_store::{AttemptState, CompactIdSet, DataFile, Error, Result, TaskPlan, TaskRecord};
use futures::TryFutureExt;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_data::ArrowArray;
use crate::awaitable::start;
use crate::capsule::{Arrays, import, refused};
use crate::error::store_raised;
use crate::ids::IdSet;
use crate::runtime::run;
use crate::task::{Source, Task, parquet_rows};

/// How often the end of an attempt looks whether calls are under way.
const UNDER_WAY: Duration = Duration::from_millis(2);

/// The owner of a checkpoint.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct Attempt {
    process: u32,
    number: u64,
    job: String,
    owner: Mutex<Option<Arc<checkpoint_store::Attempt>>>,
}

impl Attempt {
    pub(crate) fn new(attempt: checkpoint_store::Attempt) -> Self {
        Self {
            process: process::id(),
            number: attempt.number(),
            job: attempt.job().to_string(),
            owner: Mutex::new(Some(Arc::new(attempt))),
        }
    }

    /// The attempt, while it goes on and this process is the one that began it.
    ///
    /// # Errors
    /// `RuntimeError` in a child after a fork, and after its end.
    pub(crate) fn owner(&self) -> PyResult<Arc<checkpoint_store::Attempt>> {
        self.check_process()?;
        self.locked().clone().ok_or_else(|| PyRuntimeError::new_err("the attempt has ended; begin another"))
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "the attempt belongs to process {}, of which this one is a fork\nhint: begin attempts in the process that \
             writes; start workers before, or with the spawn method",
            self.process
        )))
    }

    /// Takes the attempt from everybody else.
    fn take(&self) -> PyResult<checkpoint_store::Attempt> {
        Arc::try_unwrap(self.take_shared()?).map_err(|attempt| {
            *self.locked() = Some(attempt);
            PyRuntimeError::new_err("another thread is at work on a task of the attempt; end it when that is done")
        })
    }

    /// Takes the attempt from those who come later; calls that are under way have it still.
    fn take_shared(&self) -> PyResult<Arc<checkpoint_store::Attempt>> {
        self.check_process()?;
        self.locked().take().ok_or_else(|| PyRuntimeError::new_err("the attempt has ended before"))
    }

    fn locked(&self) -> MutexGuard<'_, Option<Arc<checkpoint_store::Attempt>>> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        files: Vec<(String, Source, Option<u64>)>,
        failed_rows: u64,
    ) -> PyResult<Planned> {
        let owner = self.owner()?;
        let Arrays { field, chunks, .. } = import(ids)?;
        let ids = py.detach(|| {
            let chunks = chunks.collect::<Result<Vec<ArrayRef>, _>>()?;
            match chunks.as_slice() {
                [] => Ok(new_empty_array(field.data_type())),
                [one] => Ok(one.clone()),
                many => concat(&many.iter().map(|chunk| chunk as &dyn Array).collect::<Vec<_>>()),
            }
        });
        let ids = ids.map_err(|e| refused(&e))?;
        if ids.is_empty() {
            return Err(PyValueError::new_err("a task has at least one ID"));
        }
        let name = owner.next_task();
        let several = files.len() > 1;
        let mut sources = Vec::with_capacity(files.len());
        let mut data_files = Vec::with_capacity(files.len());
        for (index, (ending, source, rows)) in files.into_iter().enumerate() {
            let file = if several { format!("{name}-{index}.{ending}") } else { format!("{name}.{ending}") };
            let rows = match (ending.as_str(), rows) {
                ("parquet", _) => py.detach(|| parquet_rows(&source)).map_err(|e| store_raised(py, &e))?,
                (_, Some(rows)) => rows,
                (_, None) if !several => ids.len() as u64,
                (_, None) => {
                    let what = "of several files that are not Parquet each needs its number of rows";
                    return Err(PyValueError::new_err(format!("{what}: file={file}")));
                }
            };
            data_files.push(DataFile { name: file.clone(), bytes: source.size()?, rows });
            sources.push((file, source));
        }
        let plan = TaskPlan::new(data_files).with_failed_rows(failed_rows);
        let record: Result<TaskRecord> = py.detach(|| owner.record(&name, &ids, plan));
        let record = record.map_err(|e| store_raised(py, &e))?;
        Ok(Planned { process: self.process, owner, name: name.to_string(), record, sources })
    }
}

#[pymethods]
impl Attempt {
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    #[getter]
    fn job(&self) -> &str {
        &self.job
    }

    /// Tasks of earlier attempts that were finished and are committed now, and that were thrown away.
    #[getter]
    fn recovery(&self) -> PyResult<(u64, u64)> {
        let recovery = self.owner()?.recovery();
        Ok((recovery.rolled_forward, recovery.voided))
    }

    /// The IDs that are done from earlier attempts.
    fn ids(&self, py: Python<'_>) -> PyResult<IdSet> {
        let ids = self.owner()?.ids();
        let set = py.detach(|| match ids.buffer() {
            Some(buffer) => CompactIdSet::from_bytes(buffer.clone()),
            None => Err(Error::bad_data("the IDs that are done are in no single buffer")),
        });
        Ok(IdSet::new(set.map_err(|e| store_raised(py, &e))?))
    }

    /// The schema that earlier attempts gave the output, as a batch without rows; `None` where none did.
    fn output_schema(&self) -> PyResult<Option<ArrowArray>> {
        let owner = self.owner()?;
        let Some(schema) = owner.output_schema() else { return Ok(None) };
        let rows = Field::new("", DataType::Struct(schema.fields.clone()), false);
        let rows = rows.with_metadata(schema.metadata.clone());
        let none = new_empty_array(rows.data_type());
        Ok(Some(ArrowArray::new(rows.into(), none)))
    }

    /// Refuses once the lease is lost.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.owner()?.check_lease().map_err(|e| store_raised(py, &e))
    }

    /// Writes a task's pending record: its IDs, and its files by ending, data and rows. Of a Parquet file the rows are
    /// those that it says.
    fn prepare(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        files: Vec<(String, Source, Option<u64>)>,
        failed_rows: u64,
    ) -> PyResult<Task> {
        run(py, self.plan(py, ids, files, failed_rows)?.prepare().err_into())
    }

    /// As ``prepare``.
    fn prepare_async<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        files: Vec<(String, Source, Option<u64>)>,
        failed_rows: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.plan(py, ids, files, failed_rows)?.prepare().err_into())
    }

    /// Ends the job, all its rows done.
    fn finish(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        run(py, Box::pin(self.take()?.finish(keep)).err_into())
    }

    /// As ``finish``. Waits for calls that are under way.
    fn finish_async<'py>(&self, py: Python<'py>, keep: bool) -> PyResult<Bound<'py, PyAny>> {
        let attempt = self.take_shared()?;
        start(py, async move { Ok(Box::pin(alone(attempt).await.finish(keep)).await?) })
    }

    /// Ends the attempt and not the job: `failed` or `interrupted`.
    fn end(&self, py: Python<'_>, failed: bool) -> PyResult<()> {
        run(py, self.take()?.end(ended(failed)).err_into())
    }

    /// As ``end``. Waits for calls that are under way.
    fn end_async<'py>(&self, py: Python<'py>, failed: bool) -> PyResult<Bound<'py, PyAny>> {
        let attempt = self.take_shared()?;
        start(py, async move { Ok(alone(attempt).await.end(ended(failed)).await?) })
    }

    /// Whether it has ended.
    #[getter]
    fn ended(&self) -> bool {
        self.process != process::id() || self.locked().is_none()
    }
}

/// The attempt once no call has it any more: what was cancelled is dropped a moment later, by another thread.
async fn alone(mut attempt: Arc<checkpoint_store::Attempt>) -> checkpoint_store::Attempt {
    loop {
        match Arc::try_unwrap(attempt) {
            Ok(alone) => return alone,
            Err(shared) => attempt = shared,
        }
        tokio::time::sleep(UNDER_WAY).await;
    }
}

fn ended(failed: bool) -> AttemptState {
    if failed { AttemptState::Failed } else { AttemptState::Interrupted }
}

/// A task whose record is not written yet.
struct Planned {
    process: u32,
    owner: Arc<checkpoint_store::Attempt>,
    name: String,
    record: TaskRecord,
    sources: Vec<(String, Source)>,
}

impl Planned {
    async fn prepare(self) -> Result<Task> {
        let prepared = self.owner.write_pending(self.record).await?;
        Ok(Task::new(self.process, self.name, prepared, self.sources))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.process != process::id() {
            // What renews the lease is a thread of the parent: nothing here may wait for it.
            mem::forget(self.owner.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
