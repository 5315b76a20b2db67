//! What differs between services: how they sign, and how they say that something failed.

use std::fmt::Debug;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::credentials::Credentials;
#[cfg(any(feature = "_bucket", feature = "az"))]
use crate::error::Error;
use crate::error::{ErrorKind, Result};

/// Signs requests for one service.
pub(crate) trait Signer: Debug + Send + Sync {
    /// Adds the signature of the request exactly as it will be sent. Never called for anonymous access.
    fn sign(&self, request: &mut http::Request<Bytes>, credentials: &Credentials, now: SystemTime) -> Result<()>;
}

/// Why a request could not be signed.
#[cfg(any(feature = "_bucket", feature = "az"))]
pub(crate) fn unsigned(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, "the request could not be signed")
        .with_hint("check that key, token and region hold no line breaks or other control characters")
        .with_source(cause)
}

/// A service's own words about a failure. Empty texts where it had none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServiceError {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) request_id: String,
}

/// Whether another attempt makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// The answer would be the same.
    Never,
    /// After a pause.
    Later,
    /// Once, with credentials that are loaded again.
    Renewed,
}

/// What to make of a failed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) kind: ErrorKind,
    pub(crate) again: Again,
    /// Whether the request may have taken effect although it is reported as failed.
    pub(crate) maybe_applied: bool,
    /// What the user can do.
    pub(crate) hint: Option<String>,
}

impl Verdict {
    /// A verdict with a hint, or with none where the text is empty.
    pub(crate) fn new(kind: ErrorKind, again: Again, maybe_applied: bool, hint: &str) -> Self {
        Self { kind, again, maybe_applied, hint: (!hint.is_empty()).then(|| hint.to_owned()) }
    }
}

/// Why a document that came with a success status does not count as one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DocumentFault {
    /// It is cut short or not of the service's kind.
    Damaged(String),
    /// It says that the request failed.
    Failed(ServiceError),
}

/// How a service reports failures.
pub(crate) trait Dialect: Debug + Send + Sync {
    /// Sees the headers of every answer that arrived, good or bad, before anything else is made of it.
    fn answered(&self, _: &HeaderMap) {}

    /// The service's words in an answer that failed.
    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError;

    /// Classifies a failure. `temporary` says whether the credentials carry a session token.
    fn verdict(&self, status: StatusCode, headers: &HeaderMap, error: &ServiceError, temporary: bool) -> Verdict;

    /// Whether an answer that is no document bears a mark of the service. What a login page, a gateway or
    /// another program at that address answers with success means nothing.
    fn is_own(&self, _headers: &HeaderMap) -> bool {
        true
    }

    /// Checks a document that came with a success status.
    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> std::result::Result<(), DocumentFault>;
}
