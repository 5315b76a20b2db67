//! What goes into the transport and what comes out.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use crate::backend::headers::CHECK_BUCKET;
use crate::error::Error;
use crate::guard::Guard;

/// The longest answer that is read where no object was asked for; what services send is a tenth of it at most.
const MAX_ANSWER: u64 = 64 << 20;
/// The longest answer of a service that gives credentials.
#[cfg(any(feature = "s3", feature = "oss", feature = "gs", feature = "az"))]
const MAX_SMALL: u64 = 1 << 20;

/// What requests are made for: one call of a storage method. Names errors and bounds attempts.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) operation: &'static str,
    pub(crate) url: String,
    pub(crate) guard: Option<Guard>,
}

impl Call {
    pub(crate) fn new(operation: &'static str, url: String, guard: Option<Guard>) -> Self {
        Self { operation, url, guard }
    }

    /// Names the call in an error, unless it already has a name. Of a bucket that is missing it says what to do.
    pub(crate) fn named(&self, error: Error) -> Error {
        let error = if error.operation().is_empty() { error.with_operation(self.operation) } else { error };
        let error = if error.url().is_empty() { error.with_url(self.url.as_str()) } else { error };
        // What is needed for these is the bucket, and at most an upload.
        let is_of_bucket = matches!(error.operation(), "open" | "list" | "write" | "delete");
        let is_unclear = error.is_not_found() && is_of_bucket && error.hint().is_none();
        if is_unclear { error.with_hint(CHECK_BUCKET) } else { error }
    }
}

/// What is wanted of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it. One that is longer than the limit is refused.
    Whole { limit: u64 },
    /// A range. A server that answers with the whole object is read no further than its end.
    Part { start: u64, end: u64 },
}

/// What a successful answer must look like to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    /// Any bytes.
    Bytes,
    /// The bytes of an object. They say where they end, so that what is cut short is not taken for whole.
    Object(Wanted),
    /// A whole document of the service's kind (XML for S3), which may say that it failed after all. The
    /// service may work long before it answers, so more time is given.
    Document,
    /// A small document of a service that gives credentials. Far less is read than of others, and it is checked.
    #[cfg(any(feature = "s3", feature = "oss", feature = "gs", feature = "az"))]
    Small,
    /// Any bytes, or status 308: a part of an upload has arrived and the service waits for more.
    #[cfg(feature = "gs")]
    Progress,
}

impl AnswerForm {
    /// Whether an answer with this status counts.
    pub(crate) fn accepts(self, status: StatusCode) -> bool {
        match self {
            #[cfg(feature = "gs")]
            Self::Progress => status.is_success() || status == StatusCode::PERMANENT_REDIRECT,
            _ => status.is_success(),
        }
    }

    /// The longest answer that is read where it is no object.
    pub(crate) fn longest(self) -> u64 {
        match self {
            #[cfg(any(feature = "s3", feature = "oss", feature = "gs", feature = "az"))]
            Self::Small => MAX_SMALL,
            _ => MAX_ANSWER,
        }
    }

    /// Whether only a mark of the service tells its answer from a stranger's. Others are read by who asked.
    pub(crate) fn needs_mark(self) -> bool {
        match self {
            Self::Document => false,
            #[cfg(feature = "gs")]
            Self::Progress => false,
            _ => true,
        }
    }

    /// Whether the service's dialect says if the answer is whole.
    pub(crate) fn is_checked(self) -> bool {
        match self {
            Self::Document => true,
            #[cfg(any(feature = "s3", feature = "oss", feature = "gs", feature = "az"))]
            Self::Small => true,
            _ => false,
        }
    }
}

/// A request, complete but for what each attempt adds: user agent and signature.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) answer: AnswerForm,
}

/// A successful answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A request that failed for good.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The status of the last attempt that was answered at all.
    pub(crate) status: Option<StatusCode>,
    /// Whether any attempt may have taken effect: its answer was lost, or did not say.
    pub(crate) maybe_applied: bool,
}

impl Failure {
    /// A failure before anything was sent.
    pub(crate) fn unsent(error: Error) -> Self {
        Self { error, status: None, maybe_applied: false }
    }
}
