//! Errors as Python's exceptions.

use std::convert::Infallible;
use std::error::Error as _;

use checkpoint_fs::{Error, ErrorKind, Retry, WriteOutcome};
use checkpoint_pipeline::ErrorKind as PipelineKind;
use checkpoint_store::ErrorKind as StoreKind;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The kinds of each layer, and their classes in `checkpoint_store.errors`.
const FS: [(ErrorKind, &str); 11] = [
    (ErrorKind::NotFound, "NotFoundError"),
    (ErrorKind::AlreadyExists, "AlreadyExistsError"),
    (ErrorKind::PermissionDenied, "PermissionDeniedError"),
    (ErrorKind::Unauthenticated, "UnauthenticatedError"),
    (ErrorKind::InvalidConfig, "InvalidConfigError"),
    (ErrorKind::Unsupported, "UnsupportedError"),
    (ErrorKind::Conflict, "ConflictError"),
    (ErrorKind::RateLimited, "RateLimitedError"),
    (ErrorKind::Timeout, "StorageTimeoutError"),
    (ErrorKind::Io, "StorageError"),
    (ErrorKind::Corrupt, "CorruptError"),
];
const STORE: [(StoreKind, &str); 6] = [
    (StoreKind::InvalidConfig, "InvalidConfigError"),
    (StoreKind::NoCheckpoint, "NoCheckpointError"),
    (StoreKind::Conflict, "ConflictError"),
    (StoreKind::Storage, STORAGE),
    (StoreKind::BadData, "BadDataError"),
    (StoreKind::OutcomeUnknown, "OutcomeUnknownError"),
];

const PIPELINE: [(PipelineKind, &str); 7] = [
    (PipelineKind::InvalidConfig, "InvalidConfigError"),
    (PipelineKind::Conflict, "ConflictError"),
    (PipelineKind::Storage, STORAGE),
    (PipelineKind::BadData, "BadDataError"),
    (PipelineKind::OutcomeUnknown, "OutcomeUnknownError"),
    (PipelineKind::Transform, "TransformError"),
    (PipelineKind::Interrupted, "RunInterruptedError"),
];

const STORAGE: &str = "StorageError";

/// The class of every kind of error of every layer: `(layer, kind, class)`.
#[pyfunction]
pub(crate) fn error_classes() -> Vec<(&'static str, String, &'static str)> {
    let fs = FS.iter().map(|(kind, class)| ("fs", format!("{kind:?}"), *class));
    let store = STORE.iter().map(|(kind, class)| ("store", format!("{kind:?}"), *class));
    let pipeline = PIPELINE.iter().map(|(kind, class)| ("pipeline", format!("{kind:?}"), *class));
    fs.chain(store).chain(pipeline).collect()
}

fn class_of<K: PartialEq>(kinds: &[(K, &'static str)], kind: K) -> &'static str {
    kinds.iter().find(|(known, _)| *known == kind).map_or(STORAGE, |(_, class)| class)
}

/// The exception for an error, with what the error knows as its attributes.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    about_storage(py, error, class_of(&FS, error.kind()))
}

/// Why an operation failed, away from the interpreter.
#[derive(Debug)]
pub(crate) enum Failure {
    /// For a reason that is known.
    Known(Error),
    /// Nobody knows whether the effect happened.
    OutcomeUnknown(Error),
    /// What a checkpoint says.
    Store(checkpoint_store::Error),
    /// What a job says.
    Pipeline(checkpoint_pipeline::Error),
}

/// How an operation went.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Known(error)
    }
}

impl From<checkpoint_store::Error> for Failure {
    fn from(error: checkpoint_store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<checkpoint_pipeline::Error> for Failure {
    fn from(error: checkpoint_pipeline::Error) -> Self {
        Self::Pipeline(error)
    }
}

impl Failure {
    /// The exception for it.
    pub(crate) fn raised(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Known(error) => raised(py, error),
            Self::OutcomeUnknown(error) => about_storage(py, error, "OutcomeUnknownError"),
            Self::Store(error) => store_raised(py, error),
            Self::Pipeline(error) => pipeline_raised(py, error),
        }
    }
}

impl<'py> IntoPyObject<'py> for Failure {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(self.raised(py).into_value(py).into_bound(py).into_any())
    }
}

/// Whether a write was done; false where another object was there first.
///
/// # Errors
/// What the store said, or that nobody knows.
pub(crate) fn settled(outcome: checkpoint_fs::Result<WriteOutcome>) -> Outcome<bool> {
    match outcome? {
        WriteOutcome::Done(_) => Ok(true),
        WriteOutcome::AlreadyExists => Ok(false),
        WriteOutcome::Unknown(error) => Err(Failure::OutcomeUnknown(error)),
    }
}

/// The exception for an error of a checkpoint. One of the storage has the class that it would have without.
pub(crate) fn store_raised(py: Python<'_>, error: &checkpoint_store::Error) -> PyErr {
    let cause = error.source().and_then(|source| source.downcast_ref::<Error>());
    let class = match (error.kind(), cause) {
        (StoreKind::Storage, Some(cause)) => class_of(&FS, cause.kind()),
        (kind, _) => class_of(&STORE, kind),
    };
    let retry = error.kind() == StoreKind::Storage && cause.is_none_or(|cause| cause.retry() != Retry::Never);
    let hint = error.hint().map(for_python);
    exception(py, class, &error.to_string(), hint.as_deref(), retry, cause)
}

/// The exception for an error of a run. One that came from below has the class that it would have there.
pub(crate) fn pipeline_raised(py: Python<'_>, error: &checkpoint_pipeline::Error) -> PyErr {
    let store = error.source().and_then(|source| source.downcast_ref::<checkpoint_store::Error>());
    match (error.kind(), store) {
        (PipelineKind::Transform | PipelineKind::Interrupted, _) | (_, None) => {
            let retry = matches!(error.kind(), PipelineKind::Storage | PipelineKind::Interrupted);
            let hint = error.hint().map(for_python);
            exception(py, class_of(&PIPELINE, error.kind()), &error.to_string(), hint.as_deref(), retry, None)
        }
        (_, Some(store)) => store_raised(py, store),
    }
}

/// A hint with the options of `ckpt` under the names of their twins here: `append` for `--append`. Commands, between
/// backticks, stay.
fn for_python(hint: &str) -> String {
    let renamed = |(at, text): (usize, &str)| match at % 2 {
        0 => text.split_inclusive([' ', ',', ';']).map(option_here).collect(),
        _ => text.to_owned(),
    };
    hint.split('`').enumerate().map(renamed).collect::<Vec<String>>().join("`")
}

fn option_here(word: &str) -> String {
    word.strip_prefix("--").map_or_else(|| word.to_owned(), |option| option.replace('-', "_"))
}

fn about_storage(py: Python<'_>, error: &Error, class: &str) -> PyErr {
    exception(py, class, &error.to_string(), error.hint(), error.retry() != Retry::Never, Some(error))
}

fn exception(
    py: Python<'_>,
    class: &str,
    message: &str,
    hint: Option<&str>,
    is_retryable: bool,
    storage: Option<&Error>,
) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let class = py.import("checkpoint_store.errors")?.getattr(class)?.cast_into::<PyType>()?;
        let raised = match hint {
            Some(hint) => class.call1((format!("{message}\nhint: {hint}"),))?,
            None => class.call1((message,))?,
        };
        raised.setattr("hint", hint)?;
        raised.setattr("is_retryable", is_retryable)?;
        if let Some(storage) = storage {
            raised.setattr("operation", Some(storage.operation()).filter(|text| !text.is_empty()))?;
            raised.setattr("url", Some(storage.url()).filter(|text| !text.is_empty()))?;
            raised.setattr("service_code", storage.service_code())?;
            raised.setattr("request_id", storage.request_id())?;
        }
        Ok(PyErr::from_value(raised))
    };
    build().unwrap_or_else(|failure| failure)
}
