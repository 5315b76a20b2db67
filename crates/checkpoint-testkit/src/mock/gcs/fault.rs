//! Refusals in the service's own words.

use serde_json::json;

use crate::mock::answer::Answer;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Downloads are refused in plain text.
    is_plain: bool,
}

impl Fault {
    pub(crate) fn new(status: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into(), is_plain: false }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid", message)
    }

    pub(crate) fn no_bucket() -> Self {
        Self::new(404, "notFound", "The specified bucket does not exist.")
    }

    pub(crate) fn no_object(bucket: &str, key: &str) -> Self {
        Self::new(404, "notFound", format!("No such object: {bucket}/{key}"))
    }

    pub(crate) fn condition() -> Self {
        Self::new(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
    }

    pub(crate) fn plain(self) -> Self {
        Self { is_plain: true, ..self }
    }

    pub(crate) fn answer(&self) -> Answer {
        let answer = if self.is_plain {
            Answer { body: self.message.clone().into(), ..Answer::new(self.status) }
                .with("Content-Type", "text/plain; charset=UTF-8")
        } else {
            let document = json!({"error": {
                "code": self.status,
                "message": self.message,
                "errors": [{"message": self.message, "domain": "global", "reason": self.reason}],
            }});
            Answer { body: document.to_string().into(), ..Answer::new(self.status) }
                .with("Content-Type", "application/json; charset=UTF-8")
        };
        Answer { code: self.reason, ..answer }
    }
}
