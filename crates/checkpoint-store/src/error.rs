//! What can go wrong with a checkpoint, and what the caller should do about it.

use std::fmt;

/// What a caller should do; the `ckpt` program maps each to one exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is wrong, the bucket is not there, or the store cannot keep the promise as it is set up.
    InvalidConfig,
    /// There is no checkpoint at this place.
    NoCheckpoint,
    /// Somebody else owns the checkpoint, or the job is not the one that began it.
    Conflict,
    /// The storage failed; trying again later may help.
    Storage,
    /// IDs, records or data are damaged or break the rules.
    BadData,
    /// Whether an effect happened could not be found out. Nothing was deleted.
    OutcomeUnknown,
}

/// A failed checkpoint operation: one line, with a hint as a line of its own.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of a checkpoint operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a message in lower case and no final dot.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), hint: None, source: None }))
    }

    /// Shorthand for [`ErrorKind::BadData`].
    pub fn bad_data(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadData, message)
    }

    /// Shorthand for [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Shorthand for [`ErrorKind::InvalidConfig`].
    pub fn invalid_config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidConfig, message)
    }

    /// Attaches what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Attaches the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What to do next, where there is something to say.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("hint", &self.0.hint)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn std::error::Error + 'static))
    }
}

impl From<checkpoint_fs::Error> for Error {
    fn from(error: checkpoint_fs::Error) -> Self {
        use checkpoint_fs::ErrorKind as Fs;
        let kind = match error.kind() {
            Fs::InvalidConfig | Fs::Unsupported => ErrorKind::InvalidConfig,
            _ if error.is_bucket_missing() => ErrorKind::InvalidConfig,
            Fs::Conflict => ErrorKind::Conflict,
            Fs::Corrupt => ErrorKind::BadData,
            _ => ErrorKind::Storage,
        };
        let wrapped = Self::new(kind, error.to_string());
        let wrapped = match error.hint() {
            Some(hint) => wrapped.with_hint(hint),
            None => wrapped,
        };
        wrapped.with_source(error)
    }
}
