//! Refusals in the service's own words.

use serde_json::json;

use crate::mock::answer::Answer;
use crate::mock::refusal::Refusal;
use crate::mock::xml::Document;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    form: Form,
}

/// The form that a refusal has.
#[derive(Debug, Clone, Copy)]
enum Form {
    Json,
    /// Of downloads.
    Plain,
    /// Of the XML API.
    Xml,
}

impl Fault {
    pub(crate) fn new(status: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into(), form: Form::Json }
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
        Self { form: Form::Plain, ..self }
    }

    /// A refusal of the XML API, which has a code of its own.
    pub(crate) fn xml(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { form: Form::Xml, ..Self::new(status, code, message) }
    }

    /// A refusal that the other stores of this kind have in the same words.
    pub(crate) fn shared(refusal: Refusal) -> Self {
        Self::xml(refusal.status, refusal.code, refusal.message)
    }

    pub(crate) fn answer(&self) -> Answer {
        let answer = match self.form {
            Form::Plain => Answer { body: self.message.clone().into(), ..Answer::new(self.status) }
                .with("Content-Type", "text/plain; charset=UTF-8"),
            Form::Json => {
                let document = json!({"error": {
                    "code": self.status,
                    "message": self.message,
                    "errors": [{"message": self.message, "domain": "global", "reason": self.reason}],
                }});
                Answer { body: document.to_string().into(), ..Answer::new(self.status) }
                    .with("Content-Type", "application/json; charset=UTF-8")
            }
            Form::Xml => {
                let mut document = Document::new("Error");
                document.leaf("Code", self.reason).leaf("Message", &self.message);
                Answer::xml(self.status, document.end())
            }
        };
        Answer { code: self.reason, ..answer }
    }
}
