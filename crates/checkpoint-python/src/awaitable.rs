//! Operations as futures of `asyncio`: the work runs here, and the event loop is told when it is done.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::error::Outcome;
use crate::runtime::runtime;

/// Starts an operation and gives the `asyncio.Future` of its answer, in the running event loop. Cancelling that drops
/// the work.
///
/// # Errors
/// Where no event loop runs.
pub(crate) fn start<'py, T>(
    py: Python<'py>,
    work: impl Future<Output = Outcome<T>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>>
where
    T: for<'a> IntoPyObject<'a> + Send + 'static,
{
    let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
    let promise = event_loop.call_method0("create_future")?;
    let (tell, promised) = (event_loop.unbind(), promise.clone().unbind());
    let task = runtime(py)?.spawn(async move {
        let answer = AssertUnwindSafe(work).catch_unwind().await;
        // On a thread of its own: the interpreter's lock may be held for long, and requests go on meanwhile.
        let told = tokio::task::spawn_blocking(move || {
            Python::try_attach(|py| {
                let answer = match answer {
                    Ok(Ok(value)) => value.into_py_any(py),
                    Ok(Err(failure)) => Err(failure.raised(py)),
                    Err(_) => {
                        Err(PyRuntimeError::new_err("the operation panicked; this is a defect of checkpoint_store"))
                    }
                };
                let settle = Settle { promise: promised, answer: Some(answer) };
                // A loop that is closed wants no answer.
                let _ = tell.call_method1(py, "call_soon_threadsafe", (settle,));
            })
        });
        // An error means that the interpreter is ending.
        let _ = told.await;
    });
    promise.call_method1("add_done_callback", (Cancel(task.abort_handle()),))?;
    Ok(promise)
}

/// Gives a future its answer, on the loop's own thread.
#[pyclass(module = "checkpoint_store._native")]
struct Settle {
    promise: Py<PyAny>,
    answer: Option<PyResult<Py<PyAny>>>,
}

#[pymethods]
impl Settle {
    fn __call__(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.promise.call_method0(py, "done")?.is_truthy(py)? {
            return Ok(());
        }
        match self.answer.take() {
            Some(Ok(value)) => self.promise.call_method1(py, "set_result", (value,))?,
            Some(Err(error)) => self.promise.call_method1(py, "set_exception", (error.into_value(py),))?,
            None => return Ok(()),
        };
        Ok(())
    }
}

/// Drops the work of a future that was cancelled.
#[pyclass(module = "checkpoint_store._native", frozen)]
struct Cancel(AbortHandle);

#[pymethods]
impl Cancel {
    fn __call__(&self, promise: &Bound<'_, PyAny>) -> PyResult<()> {
        if promise.call_method0("cancelled")?.is_truthy()? {
            self.0.abort();
        }
        Ok(())
    }
}
