//! The runtime under every call: one in a process, and a new one in a child after a fork.

use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::Outcome;

/// How often a wait looks for Ctrl-C.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// The process that started it, and it. Locked only by who holds the interpreter's lock, as who forks does: no child
/// finds it locked.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// That of this process.
///
/// # Errors
/// Where no threads are to be had.
pub(crate) fn runtime(_py: Python<'_>) -> PyResult<Arc<Runtime>> {
    let mut current = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = process::id();
    if let Some((owner, runtime)) = current.as_ref() {
        if *owner == process {
            return Ok(Arc::clone(runtime));
        }
        // Its threads are the parent's. Ending it would wait for them.
        std::mem::forget(current.take());
    }
    let started = Builder::new_multi_thread().thread_name("checkpoint-store").enable_all().build();
    let runtime = Arc::new(started.map_err(|e| PyRuntimeError::new_err(format!("threads cannot be started: {e}")))?);
    *current = Some((process, Arc::clone(&runtime)));
    Ok(runtime)
}

/// Waits for an operation, as [`wait`], and raises what it failed with.
///
/// # Errors
/// As [`wait`], and the failure as its exception.
pub(crate) fn run<T: Send>(py: Python<'_>, work: impl Future<Output = Outcome<T>> + Send) -> PyResult<T> {
    wait(py, work)?.map_err(|failure| failure.raised(py))
}

/// Waits without the interpreter's lock, and gives up at Ctrl-C.
///
/// # Errors
/// What a signal handler raises, such as `KeyboardInterrupt`.
pub(crate) fn wait<T: Send>(py: Python<'_>, future: impl Future<Output = T> + Send) -> PyResult<T> {
    let handle = handle(py)?;
    py.detach(|| block(&handle, future))
}

/// The runtime of this process.
///
/// # Errors
/// `RuntimeError` when its threads cannot be started.
pub(crate) fn handle(py: Python<'_>) -> PyResult<Handle> {
    Ok(runtime(py)?.handle().clone())
}

/// As [`wait`], for who may hold the interpreter's lock or not: a library that reads a stream.
///
/// # Errors
/// As there.
pub(crate) fn block<T>(handle: &Handle, future: impl Future<Output = T>) -> PyResult<T> {
    handle.block_on(async {
        let mut future = Box::pin(future);
        loop {
            tokio::select! {
                biased;
                answer = &mut future => return Ok(answer),
                () = tokio::time::sleep(TICK) => Python::attach(|py| py.check_signals())?,
            }
        }
    })
}
