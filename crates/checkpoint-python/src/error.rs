//! Errors as Python's exceptions.

use checkpoint_fs::{Error, ErrorKind, Retry};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The class of `checkpoint_store.errors` for a kind.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::AlreadyExists => "AlreadyExistsError",
        ErrorKind::PermissionDenied => "PermissionDeniedError",
        ErrorKind::Unauthenticated => "UnauthenticatedError",
        ErrorKind::InvalidConfig => "InvalidConfigError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::RateLimited => "RateLimitedError",
        ErrorKind::Timeout => "StorageTimeoutError",
        ErrorKind::Corrupt => "CorruptError",
        _ => "StorageError",
    }
}

/// The exception for an error, with what the error knows as its attributes.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error, class(error.kind())).unwrap_or_else(|failure| failure)
}

/// The exception for a write of which nobody knows whether it was done.
pub(crate) fn unknown(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error, "OutcomeUnknownError").unwrap_or_else(|failure| failure)
}

fn exception(py: Python<'_>, error: &Error, class: &str) -> PyResult<PyErr> {
    let class = py.import("checkpoint_store.errors")?.getattr(class)?.cast_into::<PyType>()?;
    let message = match error.hint() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    };
    let raised = class.call1((message,))?;
    raised.setattr("hint", error.hint())?;
    raised.setattr("operation", Some(error.operation()).filter(|text| !text.is_empty()))?;
    raised.setattr("url", Some(error.url()).filter(|text| !text.is_empty()))?;
    raised.setattr("service_code", error.service_code())?;
    raised.setattr("request_id", error.request_id())?;
    raised.setattr("is_retryable", error.retry() != Retry::Never)?;
    Ok(PyErr::from_value(raised))
}
