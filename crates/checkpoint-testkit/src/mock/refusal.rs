//! Why a service refuses a request, in its own words.

/// An error as a service answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// OSS numbers its causes; empty where the number is not known, and with the others.
    pub(crate) cause: &'static str,
    /// Further elements that come with some codes.
    pub(crate) details: Vec<(&'static str, String)>,
}

impl Refusal {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), cause: "", details: Vec::new() }
    }

    pub(crate) fn with_cause(self, cause: &'static str) -> Self {
        Self { cause, ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    pub(crate) fn access_denied(message: &str) -> Self {
        Self::new(403, "AccessDenied", message)
    }

    pub(crate) fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(400, "InvalidArgument", message)
    }

    pub(crate) fn malformed_xml() -> Self {
        Self::new(
            400,
            "MalformedXML",
            "The XML you provided was not well-formed or did not validate against our published schema.",
        )
    }

    pub(crate) fn not_implemented(what: &str) -> Self {
        Self::new(501, "NotImplemented", format!("A header or parameter implies functionality that is missing: {what}"))
    }
}
