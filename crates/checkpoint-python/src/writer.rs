//! Streamed writes.

use std::process;
use std::sync::{Mutex, PoisonError};

use checkpoint_fs::StorageWriter;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::buffer::bytes_of;
use crate::error::{raised, settled};
use crate::runtime::{handle, run, wait};

/// A streamed write of one object. Nothing is visible before ``finish``; one that is let go of leaves nothing.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct Writer {
    process: u32,
    inner: Mutex<Option<Box<dyn StorageWriter>>>,
}

impl Writer {
    pub(crate) fn new(writer: Box<dyn StorageWriter>) -> Self {
        Self { process: process::id(), inner: Mutex::new(Some(writer)) }
    }

    fn take(&self) -> PyResult<Box<dyn StorageWriter>> {
        if self.process != process::id() {
            return Err(PyRuntimeError::new_err(
                "this write was begun before the fork, and goes on in the parent alone: open the file in the child",
            ));
        }
        let taken = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| PyValueError::new_err("write to a closed file"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let Some(writer) = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // What the writer would remove is still the parent's.
        if self.process != process::id() {
            std::mem::forget(writer);
            return;
        }
        // It frees in the background what it has sent.
        let runtime = Python::try_attach(|py| handle(py).ok()).flatten();
        let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
        drop(writer);
    }
}

#[pymethods]
impl Writer {
    /// Adds bytes. After an error it can only be aborted.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = bytes_of(data)?;
        let mut writer = self.take()?;
        let written = wait(py, async {
            let written = writer.write(bytes).await;
            (writer, written)
        });
        // Ctrl-C drops the writer: nothing will be published.
        let (writer, written) = written?;
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        written.map_err(|e| raised(py, &e))
    }

    /// Publishes the object. False when it was not to replace one that is there.
    fn finish(&self, py: Python<'_>) -> PyResult<bool> {
        let writer = self.take()?;
        run(py, async { settled(writer.finish().await) })
    }

    /// Gives up. Does nothing where it was finished or given up before.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        match self.take() {
            Ok(writer) => run(py, async { Ok(writer.abort().await?) }),
            Err(_) => Ok(()),
        }
    }
}
