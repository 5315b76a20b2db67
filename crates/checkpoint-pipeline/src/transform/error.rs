//! Why a batch failed in a transform.

use std::error::Error as StdError;
use std::fmt;

use crate::error::{Error, ErrorKind};

/// A batch that failed. `Display` is one line; it ends with the last line that a child process wrote to its
/// standard error, where there is one.
pub struct TransformError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    message: String,
    hint: Option<String>,
    stderr_tail: Vec<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl TransformError {
    /// An error with a message; line breaks in it become spaces.
    pub fn new(message: impl AsRef<str>) -> Self {
        let message = one_line(message.as_ref());
        Self(Box::new(Inner { message, hint: None, stderr_tail: Vec::new(), source: None }))
    }

    /// From anything that is an error or becomes one, its causes in the message. A `TransformError` stays
    /// itself.
    pub fn from_error(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error = match error.into().downcast::<TransformError>() {
            Ok(own) => return *own,
            Err(error) => error,
        };
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let text = next.to_string();
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = next.source();
        }
        let mut own = Self::new(message);
        own.0.source = Some(error);
        own
    }

    /// Attaches what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Attaches the last lines of a child's standard error, oldest first.
    #[must_use]
    pub fn with_stderr_tail(mut self, lines: Vec<String>) -> Self {
        self.0.stderr_tail = lines;
        self
    }

    /// The message alone.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do next, where there is something to say.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The last lines of the child's standard error, oldest first; empty where there is no child.
    pub fn stderr_tail(&self) -> &[String] {
        &self.0.stderr_tail
    }
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match self.0.stderr_tail.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()) {
            Some(line) => write!(f, " stderr={line:?}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransformError")
            .field("message", &self.0.message)
            .field("hint", &self.0.hint)
            .field("stderr_tail", &self.0.stderr_tail)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for TransformError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}

impl From<TransformError> for Error {
    fn from(error: TransformError) -> Self {
        let wrapped = Error::new(ErrorKind::Transform, error.to_string());
        let wrapped = match error.hint() {
            Some(hint) => wrapped.with_hint(hint),
            None => wrapped,
        };
        wrapped.with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_line_and_ends_with_the_last_words_of_the_child() {
        let error = TransformError::new("first\n  second\r\n").with_hint("try it").with_stderr_tail(vec![
            "Traceback:".into(),
            "ValueError: \"x\"".into(),
            "  ".into(),
        ]);
        assert_eq!(error.to_string(), r#"first second stderr="ValueError: \"x\"""#);
        let wrapped = Error::from(error);
        assert_eq!((wrapped.kind(), wrapped.hint()), (ErrorKind::Transform, Some("try it")));
    }

    #[test]
    fn causes_are_told_once_and_own_errors_stay_themselves() {
        let io = std::io::Error::other("disk on fire");
        let wrapped = Error::bad_data("cannot read").with_source(io);
        assert_eq!(TransformError::from_error(wrapped).message(), "cannot read: disk on fire");
        assert_eq!(TransformError::from_error("just text").message(), "just text");
        let own = TransformError::new("mine").with_hint("h");
        assert_eq!(TransformError::from_error(own).hint(), Some("h"));
    }
}
