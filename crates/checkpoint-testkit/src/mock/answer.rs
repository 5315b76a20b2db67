//! Answers of the mock services.

use bytes::Bytes;

/// An answer before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// The service's code, where this is a refusal; for the log.
    pub(crate) code: &'static str,
    /// The connection breaks before all of it is sent.
    pub(crate) is_lost: bool,
}

impl Answer {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new(), code: "", is_lost: false }
    }

    pub(crate) fn xml(status: u16, document: String) -> Self {
        Self { body: document.into(), ..Self::new(status) }.with("Content-Type", "application/xml")
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}
