//! Services that answer in JSON, and whose statuses say what a failure is.

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::error::ErrorKind;
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

/// What a good answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any text at all.
    #[cfg_attr(
        not(any(feature = "oss", feature = "gs", test)),
        expect(dead_code, reason = "Azure's services answer in JSON alone")
    )]
    Text,
    /// A JSON object that has this field. Anything else is taken for a damaged answer, and asked for again.
    Field(&'static str),
}

/// Reads failures by their status: what passes is asked again, everything else is a refusal of the credentials.
#[derive(Debug, Clone)]
pub(crate) struct JsonDialect {
    pub(crate) wanted: Wanted,
    /// Finds the service's words in what it answered.
    pub(crate) said: fn(&Value) -> ServiceError,
    /// Statuses that pass on this service, besides those that pass everywhere.
    pub(crate) passing: &'static [u16],
    /// What to do about a refusal.
    pub(crate) hint: String,
}

impl Dialect for JsonDialect {
    fn service_error(&self, _: &HeaderMap, body: &[u8]) -> ServiceError {
        serde_json::from_slice(body).map_or_else(|_| ServiceError::default(), |answer| (self.said)(&answer))
    }

    fn verdict(&self, status: StatusCode, _: &HeaderMap, _: &ServiceError, _: bool) -> Verdict {
        let (kind, again) = match status.as_u16() {
            429 => (ErrorKind::RateLimited, Again::Later),
            408 => (ErrorKind::Timeout, Again::Later),
            500..=599 => (ErrorKind::Io, Again::Later),
            other if self.passing.contains(&other) => (ErrorKind::Io, Again::Later),
            _ => (ErrorKind::Unauthenticated, Again::Never),
        };
        let hint = if again == Again::Never { self.hint.as_str() } else { "" };
        Verdict::new(kind, again, false, hint)
    }

    fn check_document(&self, _: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        let Wanted::Field(name) = self.wanted else { return Ok(()) };
        match serde_json::from_slice::<Value>(body) {
            Ok(answer) if answer.get(name).is_some() => Ok(()),
            Ok(_) => Err(DocumentFault::Damaged(format!("it has no {name}"))),
            // What a parser says could repeat a part of the answer.
            Err(_) => Err(DocumentFault::Damaged("it is not JSON".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(wanted: Wanted, passing: &'static [u16]) -> JsonDialect {
        let said = |answer: &Value| ServiceError {
            code: answer["error"].as_str().unwrap_or_default().to_owned(),
            ..ServiceError::default()
        };
        JsonDialect { wanted, said, passing, hint: "check it".to_owned() }
    }

    #[test]
    fn statuses_are_classified() {
        let verdict = |status: u16, passing| {
            let status = StatusCode::from_u16(status).expect("valid");
            let verdict =
                dialect(Wanted::Text, passing).verdict(status, &HeaderMap::new(), &ServiceError::default(), false);
            (verdict.kind, verdict.again, verdict.hint.is_some())
        };
        for (status, expected) in [
            (302, (ErrorKind::Unauthenticated, Again::Never, true)),
            (400, (ErrorKind::Unauthenticated, Again::Never, true)),
            (401, (ErrorKind::Unauthenticated, Again::Never, true)),
            (404, (ErrorKind::Unauthenticated, Again::Never, true)),
            (408, (ErrorKind::Timeout, Again::Later, false)),
            (429, (ErrorKind::RateLimited, Again::Later, false)),
            (500, (ErrorKind::Io, Again::Later, false)),
            (503, (ErrorKind::Io, Again::Later, false)),
        ] {
            assert_eq!(verdict(status, &[]), expected, "{status}");
        }
        assert_eq!(verdict(404, &[404]), (ErrorKind::Io, Again::Later, false));
    }

    #[test]
    fn answers_are_checked() {
        let check = |wanted, body: &str| dialect(wanted, &[]).check_document(&HeaderMap::new(), body.as_bytes());
        assert_eq!(check(Wanted::Text, "{"), Ok(()));
        assert_eq!(check(Wanted::Field("token"), r#"{"token": "t"}"#), Ok(()));
        for body in ["", "{", r#"{"token": "t""#, "[]", "null", r#"{"other": "token"}"#] {
            assert!(matches!(check(Wanted::Field("token"), body), Err(DocumentFault::Damaged(_))), "{body}");
        }
        let said = |body: &str| dialect(Wanted::Text, &[]).service_error(&HeaderMap::new(), body.as_bytes()).code;
        assert_eq!((said(r#"{"error": "denied"}"#).as_str(), said("<html>").as_str()), ("denied", ""));
    }
}
