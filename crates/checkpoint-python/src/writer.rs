//! Streamed writes.

use bytes::Bytes;
use checkpoint_fs::{StorageWriter, WriteOutcome};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::error::{raised, unknown};
use crate::runtime::wait;

/// A streamed write of one object. Nothing is visible before `finish`; one that is let go of leaves nothing.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct Writer(std::sync::Mutex<Option<Box<dyn StorageWriter>>>);

impl Writer {
    pub(crate) fn new(writer: Box<dyn StorageWriter>) -> Self {
        Self(std::sync::Mutex::new(Some(writer)))
    }

    fn take(&self) -> PyResult<Box<dyn StorageWriter>> {
        let taken = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        taken.ok_or_else(|| PyValueError::new_err("write to a closed file"))
    }
}

#[pymethods]
impl Writer {
    /// Adds bytes. After an error it can only be aborted.
    fn write(&self, py: Python<'_>, data: PyBackedBytes) -> PyResult<()> {
        let mut writer = self.take()?;
        let bytes = Bytes::from_owner(data);
        let written = wait(py, async {
            let written = writer.write(bytes).await;
            (writer, written)
        });
        // Ctrl-C drops the writer: nothing will be published.
        let (writer, written) = written?;
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(writer);
        written.map_err(|e| raised(py, &e))
    }

    /// Publishes the object. False when it was not to replace one that is there.
    fn finish(&self, py: Python<'_>) -> PyResult<bool> {
        let writer = self.take()?;
        outcome(py, wait(py, writer.finish())?)
    }

    /// Gives up. Does nothing where it was finished or given up before.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        match self.take() {
            Ok(writer) => wait(py, writer.abort())?.map_err(|e| raised(py, &e)),
            Err(_) => Ok(()),
        }
    }
}

/// Whether a write was done, or another object was there first.
pub(crate) fn outcome(py: Python<'_>, outcome: checkpoint_fs::Result<WriteOutcome>) -> PyResult<bool> {
    match outcome.map_err(|e| raised(py, &e))? {
        WriteOutcome::Done(_) => Ok(true),
        WriteOutcome::AlreadyExists => Ok(false),
        WriteOutcome::Unknown(error) => Err(unknown(py, &error)),
    }
}
