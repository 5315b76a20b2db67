//! How stores report failures in XML: S3, its relatives, and the XML interfaces of others.

use http::{HeaderMap, StatusCode};

use crate::backend::headers::{CHECK_BUCKET, REDIRECTED, STRANGER, describes, is_page, of_a_stranger};
use crate::backend::xml;
use crate::error::ErrorKind;
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

/// Reads XML errors and the headers of request IDs, and knows the codes that S3 and its relatives share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct XmlDialect {
    /// The headers that may carry the request's ID, where the document has none.
    pub(crate) request_ids: &'static [&'static str],
    /// Codes that only this store has, or that it means differently.
    pub(crate) codes: fn(&str) -> Option<Verdict>,
    /// Adds to a verdict what the whole answer tells.
    pub(crate) refine: fn(&mut Verdict, StatusCode, &HeaderMap, &ServiceError),
}

impl XmlDialect {
    fn request_id(&self, headers: &HeaderMap) -> String {
        let found = self.request_ids.iter().find_map(|name| headers.get(*name)?.to_str().ok());
        found.unwrap_or_default().to_owned()
    }
}

impl Dialect for XmlDialect {
    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        let mut said = xml::parse(body)
            .ok()
            .filter(|root| root.name == "Error")
            .map_or_else(ServiceError::default, |root| error_of(&root));
        if said.request_id.is_empty() {
            said.request_id = self.request_id(headers);
        }
        said
    }

    fn verdict(&self, status: StatusCode, headers: &HeaderMap, error: &ServiceError, temporary: bool) -> Verdict {
        let mut verdict = (self.codes)(&error.code)
            .or_else(|| by_code(&error.code))
            .unwrap_or_else(|| by_status(status, &error.code, temporary));
        if error.code.is_empty() && is_page(headers) && !self.is_own(headers) {
            verdict = of_a_stranger(verdict);
        }
        (self.refine)(&mut verdict, status, headers, error);
        verdict
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        let marks = |name: &str| name.starts_with("x-amz-") || self.request_ids.contains(&name);
        headers.keys().any(|name| marks(name.as_str())) || describes(headers)
    }

    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        let root = xml::document(headers, body)?;
        if root.name == "Error" {
            let mut said = error_of(&root);
            if said.request_id.is_empty() {
                said.request_id = self.request_id(headers);
            }
            return Err(DocumentFault::Failed(said));
        }
        Ok(())
    }
}

/// Whether a code says that the object itself is missing. A 404 can mean much else: no such bucket, a proxy that
/// knows no such address.
pub(crate) fn is_missing_object(code: &str) -> bool {
    matches!(code, "NoSuchKey" | "NoSuchVersion")
}

fn error_of(root: &xml::Element) -> ServiceError {
    ServiceError {
        code: root.child_text("Code").trim().to_owned(),
        message: root.child_text("Message").trim().to_owned(),
        request_id: root.child_text("RequestId").trim().to_owned(),
    }
}

/// Classifies by the service's own code, whatever the status: a code can also come with status 200.
fn by_code(code: &str) -> Option<Verdict> {
    use Again::{Later, Never, Renewed};
    use ErrorKind as K;
    let (kind, again, maybe_applied, hint) = match code {
        "NoSuchBucket" => (K::NotFound, Never, false, CHECK_BUCKET),
        "NoSuchKey" | "NoSuchVersion" | "NoSuchUpload" => (K::NotFound, Never, false, ""),
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" | "InvalidPayer" => {
            (K::PermissionDenied, Never, false, "the credentials are valid and their policy does not allow this")
        }
        "InvalidAccessKeyId" => {
            (K::Unauthenticated, Never, false, "this endpoint does not know the access key ID: check key and endpoint")
        }
        "SignatureDoesNotMatch" => (
            K::Unauthenticated,
            Never,
            false,
            "the secret does not belong to the access key ID, or a proxy changes requests",
        ),
        "ExpiredToken" | "TokenRefreshRequired" | "ExpiredTokenException" => {
            (K::Unauthenticated, Renewed, false, "the session token has expired: get new temporary credentials")
        }
        "InvalidToken" => {
            (K::Unauthenticated, Renewed, false, "the session token does not belong to the key, or has expired")
        }
        "RequestTimeTooSkewed" | "RequestExpired" => {
            (K::Unauthenticated, Never, false, "this machine's clock is wrong: set it, for example with NTP")
        }
        "PermanentRedirect" | "TemporaryRedirect" => (K::InvalidConfig, Never, false, REDIRECTED),
        "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
            (K::InvalidConfig, Never, false, "the bucket is in another region: check the region and the endpoint")
        }
        "InvalidBucketName" => (K::InvalidConfig, Never, false, "check the bucket's name"),
        "PreconditionFailed" => (K::AlreadyExists, Never, false, ""),
        "ConditionalRequestConflict" | "OperationAborted" => {
            (K::Conflict, Later, false, "another request on the same object was in progress")
        }
        "SlowDown"
        | "TooManyRequests"
        | "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "BandwidthLimitExceeded" => {
            (K::RateLimited, Later, false, "the service asked to slow down: use fewer workers, or raise its limits")
        }
        "RequestTimeout" => (K::Timeout, Later, true, ""),
        "InternalError" | "ServiceUnavailable" | "Busy" => (K::Io, Later, true, ""),
        "BadDigest" | "XAmzContentSHA256Mismatch" | "IncompleteBody" | "XAmzContentChecksumMismatch" => {
            (K::Corrupt, Later, false, "the bytes were changed or lost on their way to the service")
        }
        "NotImplemented" | "MethodNotAllowed" => (K::Unsupported, Never, false, "this service cannot do that"),
        "EntityTooLarge" | "KeyTooLongError" | "KeyTooLong" => {
            (K::Unsupported, Never, false, "the object or its name is larger than the service allows")
        }
        _ => return None,
    };
    Some(Verdict::new(kind, again, maybe_applied, hint))
}

/// Classifies an answer whose code is unknown or missing (answers to HEAD have no body).
fn by_status(status: StatusCode, code: &str, temporary: bool) -> Verdict {
    use Again::{Later, Never, Renewed};
    use ErrorKind as K;
    let silent = code.is_empty();
    let (kind, again, maybe_applied, hint) = match status.as_u16() {
        // No store's document: neither what was asked for nor one of its errors, which have codes.
        200..=299 if silent => (K::Corrupt, Later, true, STRANGER),
        // A success status with an unknown error inside says nothing about what happened.
        200..=299 => (K::Io, Never, true, ""),
        300..=399 => (K::InvalidConfig, Never, false, REDIRECTED),
        // Without a body an expired token looks like any bad request; keys that can expire get one more try.
        400 if silent && temporary => {
            (K::Unauthenticated, Renewed, false, "the session token may have expired: get new temporary credentials")
        }
        401 => (K::Unauthenticated, Renewed, false, "the service does not accept the credentials"),
        403 if silent && temporary => (K::PermissionDenied, Renewed, false, DENIED),
        403 => (K::PermissionDenied, Never, false, DENIED),
        404 => (K::NotFound, Never, false, ""),
        405 | 501 => (K::Unsupported, Never, false, "this service cannot do that"),
        408 => (K::Timeout, Later, true, ""),
        409 => (K::Conflict, if silent { Later } else { Never }, false, ""),
        412 => (K::AlreadyExists, Never, false, ""),
        429 => (K::RateLimited, Later, false, "the service asked to slow down: use fewer workers, or raise its limits"),
        499..=599 => (K::Io, Later, true, ""),
        _ => (K::Io, Never, false, ""),
    };
    Verdict::new(kind, again, maybe_applied, hint)
}

const DENIED: &str = "check the key, its policy, the bucket's policy, and this machine's clock";

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: XmlDialect = XmlDialect { request_ids: &["x-request-id"], codes: |_| None, refine: |_, _, _, _| {} };

    fn verdict(status: u16, code: &str, temporary: bool) -> Verdict {
        let said = ServiceError { code: code.to_owned(), ..ServiceError::default() };
        PLAIN.verdict(StatusCode::from_u16(status).expect("valid"), &HeaderMap::new(), &said, temporary)
    }

    #[test]
    fn codes_and_statuses_are_classified() {
        use Again::{Later, Never, Renewed};
        use ErrorKind as K;
        for (status, code, kind, again, maybe_applied) in [
            (404, "NoSuchKey", K::NotFound, Never, false),
            (404, "NoSuchBucket", K::NotFound, Never, false),
            (404, "", K::NotFound, Never, false),
            (403, "AccessDenied", K::PermissionDenied, Never, false),
            (403, "SignatureDoesNotMatch", K::Unauthenticated, Never, false),
            (403, "InvalidAccessKeyId", K::Unauthenticated, Never, false),
            (403, "RequestTimeTooSkewed", K::Unauthenticated, Never, false),
            (400, "ExpiredToken", K::Unauthenticated, Renewed, false),
            (401, "", K::Unauthenticated, Renewed, false),
            (412, "PreconditionFailed", K::AlreadyExists, Never, false),
            (412, "", K::AlreadyExists, Never, false),
            (409, "ConditionalRequestConflict", K::Conflict, Later, false),
            (409, "OperationAborted", K::Conflict, Later, false),
            (409, "BucketNotEmpty", K::Conflict, Never, false),
            (503, "SlowDown", K::RateLimited, Later, false),
            (429, "", K::RateLimited, Later, false),
            (400, "RequestTimeout", K::Timeout, Later, true),
            (500, "InternalError", K::Io, Later, true),
            (200, "InternalError", K::Io, Later, true),
            (200, "Weird", K::Io, Never, true),
            (200, "", K::Corrupt, Later, true),
            (502, "", K::Io, Later, true),
            (504, "", K::Io, Later, true),
            (501, "NotImplemented", K::Unsupported, Never, false),
            (301, "PermanentRedirect", K::InvalidConfig, Never, false),
            (307, "", K::InvalidConfig, Never, false),
            (400, "InvalidArgument", K::Io, Never, false),
        ] {
            let got = verdict(status, code, false);
            assert_eq!((got.kind, got.again, got.maybe_applied), (kind, again, maybe_applied), "{status} {code}");
        }
    }

    #[test]
    fn a_silent_refusal_is_tried_once_more_when_the_keys_can_expire() {
        assert_eq!(verdict(403, "", true).again, Again::Renewed);
        assert_eq!(verdict(400, "", true).again, Again::Renewed);
        assert_eq!(verdict(403, "", false).again, Again::Never);
        assert_eq!(verdict(400, "InvalidArgument", true).again, Again::Never);
    }

    #[test]
    fn a_vendor_has_the_first_and_the_last_word() {
        let dialect = XmlDialect {
            codes: |code| (code == "AccessDenied").then(|| Verdict::new(ErrorKind::Conflict, Again::Later, true, "")),
            refine: |verdict, _, _, said| verdict.hint = Some(said.code.clone()),
            ..PLAIN
        };
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", http::HeaderValue::from_static("R1"));
        let said = dialect.service_error(&headers, b"<Error><Code>AccessDenied</Code></Error>");
        assert_eq!(said.request_id, "R1");
        let verdict = dialect.verdict(StatusCode::FORBIDDEN, &headers, &said, false);
        assert_eq!(verdict, Verdict::new(ErrorKind::Conflict, Again::Later, true, "AccessDenied"));
    }

    #[test]
    fn an_error_in_a_success_is_seen() {
        let body = b"<?xml version=\"1.0\"?><Error><Code>InternalError</Code><Message>again</Message></Error>";
        let Err(DocumentFault::Failed(said)) = PLAIN.check_document(&HeaderMap::new(), body) else {
            panic!("it failed")
        };
        assert_eq!(said.code, "InternalError");
        assert!(PLAIN.check_document(&HeaderMap::new(), b"<CopyObjectResult></CopyObjectResult>").is_ok());
        let cut = PLAIN.check_document(&HeaderMap::new(), b"<CopyObjectResult><ETag>");
        assert!(matches!(cut, Err(DocumentFault::Damaged(_))), "{cut:?}");
    }
}
