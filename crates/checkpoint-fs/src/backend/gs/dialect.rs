//! How Google Cloud Storage reports failures, in the words of its JSON API and of its XML API.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use crate::backend::headers::{STRANGER, is_page, of_a_stranger, page_for_document, text};
use crate::backend::xml_dialect::{XmlDialect, is_missing_object};
use crate::backend::{mixed, xml};
use crate::error::ErrorKind;
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

/// Reads the errors of the service: JSON, plain texts of downloads, and the XML of multi-deletes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GsDialect;

/// The longest plain text that is taken for a message.
const LONGEST_TEXT: usize = 300;
/// What the service says of a bucket that is not there; its reason is the same as for an object.
const NO_BUCKET: &str = "bucket does not exist";
/// What it says of an object.
const NO_OBJECT: &str = "No such object";
/// The root of the only XML document that is asked for.
const DELETED: &str = "DeleteResult";
const REQUEST_ID: &str = "x-guploader-uploadid";

const XML: XmlDialect = XmlDialect { request_ids: &[REQUEST_ID], codes: xml_verdict, refine: |_, _, _, _| {} };
/// What it says of bytes that do not have the checksum that came with them.
const CHECKSUM: &str = "doesn't match calculated";

#[derive(Deserialize)]
struct Document {
    error: Fault,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(default)]
    reason: String,
}

/// What a failure says to be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Object,
    Bucket,
    /// One of them, or the whole service: emulators have the same words for all, and a proxy has its own.
    Unclear,
}

/// What a failure with the status 404 says to be missing.
pub(crate) fn missing(code: &str, message: &str) -> Missing {
    if code == "NoSuchBucket" || message.contains(NO_BUCKET) {
        Missing::Bucket
    } else if is_missing_object(code) || (code == "notFound" && message.contains(NO_OBJECT)) {
        Missing::Object
    } else {
        Missing::Unclear
    }
}

/// Whether an answer has a header that is the service's own.
fn has_mark(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("x-goog-") || name == REQUEST_ID)
}

fn is_xml(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

impl Dialect for GsDialect {
    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        if is_xml(body) {
            return XML.service_error(headers, body);
        }
        let request_id = text(headers, REQUEST_ID).unwrap_or_default().to_owned();
        match serde_json::from_slice::<Document>(body) {
            Ok(Document { error }) => {
                let code = error.errors.into_iter().next().map(|first| first.reason).unwrap_or_default();
                ServiceError { code, message: error.message, request_id }
            }
            Err(_) => ServiceError {
                message: plain_text(headers, body).unwrap_or_default(),
                request_id,
                ..ServiceError::default()
            },
        }
    }

    fn verdict(&self, status: StatusCode, headers: &HeaderMap, error: &ServiceError, _temporary: bool) -> Verdict {
        // Reasons begin with a small letter, and the codes of the XML API do not.
        if error.code.starts_with(|c: char| c.is_ascii_uppercase()) {
            return XML.verdict(status, headers, error, false);
        }
        let verdict = judge(status, error);
        if error.code.is_empty() && is_page(headers) && !has_mark(headers) { of_a_stranger(verdict) } else { verdict }
    }

    /// Emulators have no request IDs; of an upload that began they say where it goes on.
    fn is_own(&self, headers: &HeaderMap) -> bool {
        has_mark(headers) || headers.contains_key(LOCATION)
    }

    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        if mixed::boundary(headers).is_some() {
            return mixed::parts(headers, body).map(drop).map_err(DocumentFault::Damaged);
        }
        if is_xml(body) {
            XML.check_document(headers, body)?;
            let root = xml::parse(body).map_err(DocumentFault::Damaged)?;
            return match root.name.as_str() {
                DELETED => Ok(()),
                other => Err(DocumentFault::Damaged(format!("a document of another kind: root={other:?}"))),
            };
        }
        // An answer without a body is none that was waited for.
        let value: serde_json::Value = serde_json::from_slice(body).map_err(|e| {
            let damaged = || DocumentFault::Damaged(format!("not JSON: {e}"));
            page_for_document(headers, body).map_or_else(damaged, DocumentFault::Failed)
        })?;
        if value.get("error").is_some() {
            return Err(DocumentFault::Failed(self.service_error(headers, body)));
        }
        Ok(())
    }
}

/// Classifies by the status, and by the reason where a status has several meanings.
pub(crate) fn judge(status: StatusCode, error: &ServiceError) -> Verdict {
    use Again::{Later, Never, Renewed};
    use ErrorKind as K;
    let (kind, again, maybe_applied, hint) = match (status.as_u16(), error.code.as_str()) {
        // No document of the service: neither what was asked for nor one of its errors, which have reasons.
        (200..=299, "") => (K::Corrupt, Later, true, STRANGER),
        // A success status with an error inside says nothing about what happened.
        (200..=299, _) => (K::Io, Never, true, ""),
        (300..=399, _) => (K::InvalidConfig, Never, false, REDIRECTED),
        (400, _) if error.message.contains(CHECKSUM) => {
            (K::Corrupt, Later, false, "the bytes were changed or lost on their way to the service")
        }
        (400, "required") | (400, "userProjectMissing") => (K::InvalidConfig, Never, false, PAYER),
        (401, _) => (K::Unauthenticated, Renewed, false, SIGN_IN),
        (403, "rateLimitExceeded" | "userRateLimitExceeded" | "quotaExceeded") | (429, _) => {
            (K::RateLimited, Later, false, SLOW_DOWN)
        }
        (403, "dailyLimitExceeded") => (K::RateLimited, Never, false, "the project's quota of the day is used up"),
        (403, "retentionPolicyNotMet" | "objectUnderActiveHold") => (K::PermissionDenied, Never, false, PROTECTED),
        (403, _) => (K::PermissionDenied, Never, false, DENIED),
        (404, _) if error.message.contains(NO_BUCKET) => (K::NotFound, Never, false, CHECK_BUCKET),
        (404, _) => (K::NotFound, Never, false, ""),
        (405 | 501, _) => (K::Unsupported, Never, false, "this service cannot do that"),
        (408, _) => (K::Timeout, Later, true, ""),
        (409, _) => (K::Conflict, Later, false, "another request on the same object was in progress"),
        (412, _) => (K::AlreadyExists, Never, false, ""),
        (413, _) => (K::Unsupported, Never, false, "the object or its name is larger than the service allows"),
        (500..=599, _) => (K::Io, Later, true, ""),
        _ => (K::Io, Never, false, ""),
    };
    Verdict::new(kind, again, maybe_applied, hint)
}

/// What the codes of the XML API mean where S3's mean something else, or want other words.
fn xml_verdict(code: &str) -> Option<Verdict> {
    use Again::{Later, Never, Renewed};
    use ErrorKind as K;
    let (kind, again, hint) = match code {
        "NoSuchBucket" => (K::NotFound, Never, CHECK_BUCKET),
        "AuthenticationRequired" => (K::Unauthenticated, Renewed, SIGN_IN),
        "AccessDenied" => (K::PermissionDenied, Never, DENIED),
        "ObjectUnderActiveHold" | "RetentionPolicyNotMet" => (K::PermissionDenied, Never, PROTECTED),
        "UserProjectMissing" | "UserProjectInvalid" => (K::InvalidConfig, Never, PAYER),
        "SlowDown" | "RateLimitExceeded" => (K::RateLimited, Later, SLOW_DOWN),
        _ => return None,
    };
    Some(Verdict::new(kind, again, false, hint))
}

/// What to do about a bucket that is not there.
pub(crate) const CHECK_BUCKET: &str = "check the bucket's name and the endpoint; no bucket is ever made here";
const REDIRECTED: &str = "the endpoint answers with a redirect, which is not followed: check endpoint_url, \
                          STORAGE_EMULATOR_HOST and the bucket's name";
const PAYER: &str = "where the bucket is one that the requester pays for, set `requester_pays` and `project`";
const PROTECTED: &str = "a retention policy or a hold protects the object";
const SIGN_IN: &str = "the service does not accept the credentials, or there are none: give `token`, set \
                       GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`";
const SLOW_DOWN: &str = "the service asked to slow down: one object takes about one write a second, and a bucket \
                         grows into a higher load";
const DENIED: &str = "the credentials are valid and may not do this: check the bucket's IAM policy and `access`";

fn plain_text(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let kind = text(headers, CONTENT_TYPE.as_str())?;
    let said = std::str::from_utf8(body).ok()?.trim();
    (kind.starts_with("text/plain") && said.len() <= LONGEST_TEXT).then(|| said.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn said(code: &str, message: &str) -> ServiceError {
        ServiceError { code: code.to_owned(), message: message.to_owned(), request_id: String::new() }
    }

    #[test]
    fn statuses_and_reasons_are_classified() {
        use Again::{Later, Never, Renewed};
        use ErrorKind as K;
        for (status, reason, message, kind, again, maybe_applied) in [
            (400, "invalid", "no", K::Io, Never, false),
            (400, "invalid", "Provided CRC32C \"a\" doesn't match calculated CRC32C \"b\".", K::Corrupt, Later, false),
            (400, "required", "requester pays", K::InvalidConfig, Never, false),
            (401, "authError", "", K::Unauthenticated, Renewed, false),
            (403, "rateLimitExceeded", "", K::RateLimited, Later, false),
            (403, "userRateLimitExceeded", "", K::RateLimited, Later, false),
            (403, "dailyLimitExceeded", "", K::RateLimited, Never, false),
            (403, "forbidden", "", K::PermissionDenied, Never, false),
            (403, "retentionPolicyNotMet", "", K::PermissionDenied, Never, false),
            (404, "notFound", "No such object: b/k", K::NotFound, Never, false),
            (404, "notFound", "The specified bucket does not exist.", K::NotFound, Never, false),
            (408, "", "", K::Timeout, Later, true),
            (409, "conflict", "", K::Conflict, Later, false),
            (410, "gone", "", K::Io, Never, false),
            (412, "conditionNotMet", "", K::AlreadyExists, Never, false),
            (429, "rateLimitExceeded", "", K::RateLimited, Later, false),
            (500, "backendError", "", K::Io, Later, true),
            (502, "", "", K::Io, Later, true),
            (503, "", "", K::Io, Later, true),
            (504, "", "", K::Io, Later, true),
            (307, "", "", K::InvalidConfig, Never, false),
            (501, "", "", K::Unsupported, Never, false),
            (200, "odd", "", K::Io, Never, true),
        ] {
            let got = judge(StatusCode::from_u16(status).expect("valid"), &said(reason, message));
            assert_eq!((got.kind, got.again, got.maybe_applied), (kind, again, maybe_applied), "{status} {reason}");
        }
    }

    #[test]
    fn errors_are_read_in_both_forms() {
        let mut headers = HeaderMap::new();
        headers.insert("x-guploader-uploadid", HeaderValue::from_static("REQ1"));
        let json = br#"{"error":{"code":412,"message":"At least one","errors":[{"domain":"global","reason":"conditionNotMet"}]}}"#;
        let read = GsDialect.service_error(&headers, json);
        assert_eq!(
            (read.code.as_str(), read.message.as_str(), read.request_id.as_str()),
            ("conditionNotMet", "At least one", "REQ1")
        );
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        assert_eq!(GsDialect.service_error(&headers, b"No such object: b/k\n").message, "No such object: b/k");
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
        assert_eq!(GsDialect.service_error(&headers, b"<html>").message, "");
    }

    #[test]
    fn the_xml_api_is_understood() {
        use Again::{Later, Never, Renewed};
        use ErrorKind as K;
        let headers =
            HeaderMap::from_iter([(http::HeaderName::from_static(REQUEST_ID), HeaderValue::from_static("REQ1"))]);
        for (status, code, kind, again) in [
            (401, "AuthenticationRequired", K::Unauthenticated, Renewed),
            (401, "Unheard", K::Unauthenticated, Renewed),
            (403, "AccessDenied", K::PermissionDenied, Never),
            (403, "ObjectUnderActiveHold", K::PermissionDenied, Never),
            (404, "NoSuchBucket", K::NotFound, Never),
            (400, "UserProjectMissing", K::InvalidConfig, Never),
            (400, "BadDigest", K::Corrupt, Later),
            (429, "SlowDown", K::RateLimited, Later),
            (200, "SlowDown", K::RateLimited, Later),
            (200, "InternalError", K::Io, Later),
            (503, "ServiceUnavailable", K::Io, Later),
        ] {
            let body = format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message></Error>");
            let read = GsDialect.service_error(&headers, body.as_bytes());
            assert_eq!((read.code.as_str(), read.message.as_str(), read.request_id.as_str()), (code, "No.", "REQ1"));
            let got = GsDialect.verdict(StatusCode::from_u16(status).expect("valid"), &headers, &read, false);
            assert_eq!((got.kind, got.again), (kind, again), "{status} {code}");
        }
        let check = |body: &str| GsDialect.check_document(&HeaderMap::new(), body.as_bytes());
        assert_eq!(check("<?xml version='1.0'?>\n<DeleteResult/>"), Ok(()));
        assert!(matches!(check("<DeleteResult><Deleted>"), Err(DocumentFault::Damaged(_))));
        assert!(matches!(check("<Error><Code>InternalError</Code></Error>"), Err(DocumentFault::Failed(_))));
    }

    #[test]
    fn a_page_of_a_stranger_says_nothing_of_the_bucket() {
        let page = |status: u16, mark: &'static str| {
            let headers = HeaderMap::from_iter([
                (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=UTF-8")),
                (LOCATION, HeaderValue::from_static("https://evil.example/")),
                (http::HeaderName::from_static(mark), HeaderValue::from_static("1")),
            ]);
            let said = GsDialect.service_error(&headers, b"<!DOCTYPE html><title>Error</title>");
            GsDialect.verdict(StatusCode::from_u16(status).expect("valid"), &headers, &said, false)
        };
        let lost = page(404, "x-other");
        assert_eq!((lost.kind, lost.again, lost.hint.as_deref()), (ErrorKind::Io, Again::Later, Some(STRANGER)));
        assert_eq!(page(404, REQUEST_ID).kind, ErrorKind::NotFound);
        assert_eq!(page(403, "x-other").hint.as_deref(), Some(STRANGER));
        let moved = page(301, "x-other");
        assert_eq!((moved.kind, moved.hint.as_deref()), (ErrorKind::InvalidConfig, Some(REDIRECTED)));
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        for (code, message, expected) in [
            ("notFound", "No such object: b/k", Missing::Object),
            ("NoSuchKey", "", Missing::Object),
            ("notFound", "The specified bucket does not exist.", Missing::Bucket),
            ("NoSuchBucket", "", Missing::Bucket),
            ("Not Found", "Not Found", Missing::Unclear),
            ("notFound", "Not Found", Missing::Unclear),
            ("", "", Missing::Unclear),
        ] {
            assert_eq!(missing(code, message), expected, "{code} {message}");
        }
    }

    #[test]
    fn a_document_is_whole_json_without_an_error() {
        let check = |body: &[u8]| GsDialect.check_document(&HeaderMap::new(), body);
        assert_eq!(check(b"{\"name\":\"k\"}"), Ok(()));
        for cut in [&b""[..], b"{\"name\":", b"<DeleteResult>"] {
            assert!(matches!(check(cut), Err(DocumentFault::Damaged(_))));
        }
        assert!(matches!(check(b"<html></html>"), Err(DocumentFault::Failed(_))));
        let Err(DocumentFault::Failed(said)) = check(b"{\"error\":{\"errors\":[{\"reason\":\"backendError\"}]}}")
        else {
            panic!("it failed")
        };
        assert_eq!(said.code, "backendError");
    }
}
