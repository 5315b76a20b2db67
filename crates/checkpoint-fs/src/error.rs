//! The one error type of this crate: what happened, on what, and whether trying again can help.

use std::error::Error as StdError;
use std::fmt;

/// What a caller should do about an [`Error`]; coarse on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The object, directory, bucket or volume does not exist.
    NotFound,
    /// Something is already there and the call was not to replace it.
    AlreadyExists,
    /// The credentials are valid and do not allow this.
    PermissionDenied,
    /// The credentials are missing, wrong or expired.
    Unauthenticated,
    /// An option, URL, variable or file of the configuration is wrong.
    InvalidConfig,
    /// The backend, or this bucket as it is set up, cannot do this.
    Unsupported,
    /// Somebody else holds or changed what the call needed (a lease, a condition).
    Conflict,
    /// The service asked to slow down, and went on asking.
    RateLimited,
    /// No answer within the time allowed.
    Timeout,
    /// Any other failure of the network, the service or the disk.
    Io,
    /// An answer or an object is damaged: truncated, wrong length, not parseable.
    Corrupt,
}

impl ErrorKind {
    /// The kind in lower-case words, as messages show it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not found",
            ErrorKind::AlreadyExists => "already exists",
            ErrorKind::PermissionDenied => "permission denied",
            ErrorKind::Unauthenticated => "unauthenticated",
            ErrorKind::InvalidConfig => "invalid configuration",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Conflict => "conflict",
            ErrorKind::RateLimited => "rate limited",
            ErrorKind::Timeout => "timed out",
            ErrorKind::Io => "i/o error",
            ErrorKind::Corrupt => "corrupt",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a retry of the failed call stands. Set by the code that saw the failure, read by everyone else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retry {
    /// Trying again gives the same answer.
    Never,
    /// Trying again may help, and nobody has yet.
    Maybe,
    /// Trying again may help; the attempts allowed here are used up.
    Exhausted,
}

/// A failed storage call.
///
/// `Display` is one line, without secrets; [`Error::hint`] is a separate line on what to do next.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    retry: Retry,
    operation: &'static str,
    url: String,
    message: String,
    service_code: Option<String>,
    request_id: Option<String>,
    hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The result of a storage call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` with a message in lower case and no final dot.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            retry: Retry::Never,
            operation: "",
            url: String::new(),
            message: message.into(),
            service_code: None,
            request_id: None,
            hint: None,
            source: None,
        }))
    }

    /// Shorthand for [`ErrorKind::InvalidConfig`].
    pub fn invalid_config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidConfig, message)
    }

    /// Shorthand for [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// For a whole object that is longer than the caller of the read allows.
    pub(crate) fn too_long(limit: u64) -> Self {
        let message = format!("the object is longer than any that belongs there: limit={limit}");
        Self::new(ErrorKind::Corrupt, message)
            .with_hint("something else wrote it, or a server on the way makes it up: look at what is there")
    }

    /// Names the operation that failed (`read`, `write`, `list`, ...).
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        self.0.operation = operation;
        self
    }

    /// Names the object or directory by its URL. Never pass a URL that carries credentials.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.0.url = url.into();
        self
    }

    /// Says how a retry stands.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Attaches the service's own error code.
    #[must_use]
    pub fn with_service_code(mut self, code: impl Into<String>) -> Self {
        self.0.service_code = Some(code.into());
        self
    }

    /// Attaches the service's request ID, for its support desk.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.0.request_id = Some(id.into());
        self
    }

    /// Attaches what to do next, a sentence of its own.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Attaches the cause. Its text must hold no secret.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// How a retry stands.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// The operation that failed; empty where none was running.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The URL that the operation was about; empty where there was none.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// The message without operation, URL and codes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The service's own error code, where it answered with one.
    pub fn service_code(&self) -> Option<&str> {
        self.0.service_code.as_deref()
    }

    /// The service's request ID, where it answered with one.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// What to do next.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The same failure for another caller who waited for the same thing, without its cause.
    #[cfg(feature = "_http")]
    pub(crate) fn repeated(&self) -> Self {
        let Inner { kind, retry, operation, .. } = *self.0;
        let Inner { url, message, service_code, request_id, hint, .. } = &*self.0;
        Self(Box::new(Inner {
            kind,
            retry,
            operation,
            url: url.clone(),
            message: message.clone(),
            service_code: service_code.clone(),
            request_id: request_id.clone(),
            hint: hint.clone(),
            source: None,
        }))
    }

    /// Whether the bucket, container or volume itself does not exist: what opens or lists it needs nothing in it to be
    /// there. A write may miss other things, such as an upload that somebody aborted.
    pub fn is_bucket_missing(&self) -> bool {
        self.is_not_found() && matches!(self.operation(), "open" | "list")
    }

    /// Whether this is [`ErrorKind::NotFound`].
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        if !e.operation.is_empty() {
            write!(f, "{} failed: ", e.operation)?;
        }
        write!(f, "{}", e.message)?;
        if !e.url.is_empty() {
            write!(f, " url={}", e.url)?;
        }
        if let Some(code) = &e.service_code {
            write!(f, " code={code}")?;
        }
        if let Some(id) = &e.request_id {
            write!(f, " request_id={id}")?;
        }
        if e.retry == Retry::Exhausted {
            write!(f, " retries=exhausted")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        f.debug_struct("Error")
            .field("kind", &e.kind)
            .field("retry", &e.retry)
            .field("operation", &e.operation)
            .field("url", &e.url)
            .field("message", &e.message)
            .field("service_code", &e.service_code)
            .field("request_id", &e.request_id)
            .field("hint", &e.hint)
            .field("source", &e.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}
