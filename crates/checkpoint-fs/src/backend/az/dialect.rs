//! How Azure Blob Storage reports failures.

use http::header::SERVER;
use http::{HeaderMap, StatusCode};

use super::batch;
use crate::backend::headers::{STRANGER, describes, is_page, of_a_stranger, text};
use crate::backend::xml;
use crate::error::ErrorKind;
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

/// Reads Azure's XML errors and the headers that carry code and request ID, and knows its codes.
#[derive(Debug, Clone, Copy)]
pub(super) struct AzDialect;

impl Dialect for AzDialect {
    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        service_error(headers, body)
    }

    fn verdict(&self, status: StatusCode, headers: &HeaderMap, error: &ServiceError, temporary: bool) -> Verdict {
        // To a wrong signature Azurite answers with the code of a firewall.
        let is_azurite = text(headers, SERVER.as_str()).is_some_and(|server| server.starts_with("Azurite"));
        if is_azurite && error.code == "AuthorizationFailure" {
            return Verdict::new(ErrorKind::Unauthenticated, Again::Never, false, AUTHENTICATION);
        }
        let verdict = verdict(status, error, temporary);
        if error.code.is_empty() && is_page(headers) && !self.is_own(headers) {
            of_a_stranger(verdict)
        } else {
            verdict
        }
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        headers.keys().any(|name| name.as_str().starts_with("x-ms-")) || describes(headers)
    }

    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        if batch::is_batch(headers) {
            return batch::parts(headers, body).map(drop).map_err(DocumentFault::Damaged);
        }
        if xml::document(headers, body)?.name == "Error" {
            return Err(DocumentFault::Failed(service_error(headers, body)));
        }
        Ok(())
    }
}

/// The service's words. Answers to HEAD have no body, so the headers count first.
pub(super) fn service_error(headers: &HeaderMap, body: &[u8]) -> ServiceError {
    let root = xml::parse(body).ok().filter(|root| root.name == "Error").unwrap_or_default();
    let header = |name| text(headers, name).map(str::trim).filter(|t| !t.is_empty());
    // What follows the first line repeats the request's ID, and the time.
    let mut message = root.child_text("Message").trim().lines().next().unwrap_or_default().trim().to_owned();
    let detail = root.child_text("AuthenticationErrorDetail").trim();
    if is_about_the_clock(detail) {
        message = detail.lines().next().unwrap_or_default().to_owned();
    }
    ServiceError {
        code: header("x-ms-error-code").unwrap_or_else(|| root.child_text("Code").trim()).to_owned(),
        message,
        request_id: header("x-ms-request-id").unwrap_or_default().to_owned(),
    }
}

/// The service says so in words alone.
fn is_about_the_clock(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("request date header too old") || text.contains("date header in the request is incorrect")
}

/// Classifies a failure: by its code, and by its status where the code is unknown or missing.
pub(super) fn verdict(status: StatusCode, error: &ServiceError, temporary: bool) -> Verdict {
    use Again::{Later, Never, Renewed};
    use ErrorKind as K;
    let renewed = if temporary { Renewed } else { Never };
    let (kind, again, maybe_applied, hint) = match error.code.as_str() {
        "AuthenticationFailed" if is_about_the_clock(&error.message) => (K::Unauthenticated, Never, false, CLOCK),
        "AuthenticationFailed" => (K::Unauthenticated, renewed, false, AUTHENTICATION),
        "InvalidAuthenticationInfo" | "NoAuthenticationInformation" | "PublicAccessNotPermitted" => {
            (K::Unauthenticated, renewed, false, "give an account key, a shared access signature or an identity")
        }
        "AuthorizationFailure" | "AuthorizationSourceIPMismatch" => (
            K::PermissionDenied,
            Never,
            false,
            "check the account's firewall and private endpoints, and what the shared access signature allows",
        ),
        "AuthorizationPermissionMismatch" | "InsufficientAccountPermissions" => (
            K::PermissionDenied,
            Never,
            false,
            "the identity needs the role Storage Blob Data Contributor, or the signature the rights racwdl",
        ),
        "AuthorizationProtocolMismatch" | "AuthorizationResourceTypeMismatch" | "AuthorizationServiceMismatch" => {
            (K::PermissionDenied, Never, false, "the shared access signature was made for another use")
        }
        "KeyBasedAuthenticationNotPermitted" => {
            (K::PermissionDenied, Never, false, "the account takes no keys: use an identity of Entra ID")
        }
        "UnauthorizedBlobOverwrite" => {
            (K::PermissionDenied, Never, false, "the shared access signature may create and not replace: give it `w`")
        }
        "AccountIsDisabled" | "ContainerDisabled" => {
            (K::PermissionDenied, Never, false, "it was switched off in Azure")
        }
        "BlobImmutableDueToPolicy" => (K::PermissionDenied, Never, false, "a retention policy keeps the blob as it is"),
        "ContainerNotFound" => {
            (K::NotFound, Never, false, "check the container's name and the account; containers are not made here")
        }
        "BlobNotFound" | "ResourceNotFound" => (K::NotFound, Never, false, ""),
        "BlobAlreadyExists" | "ConditionNotMet" => (K::AlreadyExists, Never, false, ""),
        "TargetConditionNotMet" | "SourceConditionNotMet" => (K::Conflict, Never, false, "the blob has just changed"),
        "ContainerBeingDeleted" | "ContainerBeingDisabled" | "AccountBeingCreated" => {
            (K::Conflict, Never, false, "wait until the service has done that, or use another container")
        }
        "PendingCopyOperation" => (K::Conflict, Later, false, "a copy to this blob goes on"),
        "InvalidBlockList" => (K::Conflict, Never, false, "another write to the same name ended first"),
        "InvalidBlobOrBlock" => (
            K::Conflict,
            Never,
            false,
            "another program has begun to write this name: finish that, or wait a week until it is forgotten",
        ),
        "SnapshotsPresent" => (K::Conflict, Never, false, "the blob has snapshots"),
        "InvalidBlobType" => (K::Unsupported, Never, false, "an append or page blob has this name: delete it first"),
        "BlobArchived" | "BlobBeingRehydrated" => {
            (K::Unsupported, Never, false, "the blob is in the archive: move it to another tier first")
        }
        "PathConflict" | "ResourceTypeMismatch" | "PathAlreadyExists" | "DirectoryNotEmpty" => {
            (K::Conflict, Never, false, "with a hierarchical namespace a name is a file or a directory, never both")
        }
        "ServerBusy" => (K::RateLimited, Later, false, SLOWER),
        "OperationTimedOut" => (K::Timeout, Later, true, ""),
        "InternalError" => (K::Io, Later, true, ""),
        "Md5Mismatch" | "Crc64Mismatch" => {
            (K::Corrupt, Later, false, "the bytes were changed on their way to the service")
        }
        "RequestBodyTooLarge" => (K::Unsupported, Never, false, "the object is larger than the service allows"),
        "InvalidResourceName" | "InvalidUri" | "OutOfRangeInput" => {
            (K::InvalidConfig, Never, false, "check the names of account and container")
        }
        "AccountRequiresHttps" => (K::InvalidConfig, Never, false, "use an https:// endpoint"),
        "FeatureNotSupported" | "UnsupportedHttpVerb" | "UnsupportedQueryParameter" | "UnsupportedHeader" => {
            (K::Unsupported, Never, false, "this service, or this version of it, cannot do that")
        }
        code if code.starts_with("Lease") => {
            (K::Conflict, Never, false, "somebody holds a lease on the blob or the container: break it, or wait")
        }
        _ => by_status(status, error.code.is_empty(), renewed),
    };
    Verdict::new(kind, again, maybe_applied, hint)
}

fn by_status(status: StatusCode, silent: bool, renewed: Again) -> (ErrorKind, Again, bool, &'static str) {
    use Again::{Later, Never};
    use ErrorKind as K;
    match status.as_u16() {
        // No document of the service: neither what was asked for nor one of its errors, which have codes.
        200..=299 if silent => (K::Corrupt, Later, true, STRANGER),
        // A success status with an unknown error inside says nothing about what happened.
        200..=299 => (K::Io, Never, true, ""),
        300..=399 => (K::InvalidConfig, Never, false, REDIRECTED),
        401 => (K::Unauthenticated, renewed, false, AUTHENTICATION),
        403 => (
            K::PermissionDenied,
            if silent { renewed } else { Never },
            false,
            "check the role, or the signature's rights",
        ),
        404 => (K::NotFound, Never, false, ""),
        405 | 501 => (K::Unsupported, Never, false, "this service cannot do that"),
        408 => (K::Timeout, Later, true, ""),
        409 => (K::Conflict, if silent { Later } else { Never }, false, ""),
        412 => (K::AlreadyExists, Never, false, ""),
        429 => (K::RateLimited, Later, false, SLOWER),
        500..=599 => (K::Io, Later, true, ""),
        _ => (K::Io, Never, false, ""),
    }
}

const AUTHENTICATION: &str =
    "check the account's name and key (or the signature and its end), and this machine's clock";
const CLOCK: &str = "this machine's clock is wrong: set it, for example with NTP";
const REDIRECTED: &str = "the endpoint answers with a redirect, which is not followed: check the account's name and the \
                          endpoint (account_host, connection_string)";
const SLOWER: &str = "the service asked to slow down: use fewer workers, or spread over more accounts";

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str) -> ServiceError {
        ServiceError { code: code.to_owned(), ..ServiceError::default() }
    }

    #[test]
    fn codes_and_statuses_are_classified() {
        use Again::{Later, Never, Renewed};
        use ErrorKind as K;
        for (status, code, kind, again, maybe_applied) in [
            (403, "AuthenticationFailed", K::Unauthenticated, Never, false),
            (401, "InvalidAuthenticationInfo", K::Unauthenticated, Never, false),
            (401, "NoAuthenticationInformation", K::Unauthenticated, Never, false),
            (409, "PublicAccessNotPermitted", K::Unauthenticated, Never, false),
            (403, "AuthorizationFailure", K::PermissionDenied, Never, false),
            (403, "AuthorizationPermissionMismatch", K::PermissionDenied, Never, false),
            (403, "KeyBasedAuthenticationNotPermitted", K::PermissionDenied, Never, false),
            (403, "AccountIsDisabled", K::PermissionDenied, Never, false),
            (404, "ContainerNotFound", K::NotFound, Never, false),
            (404, "BlobNotFound", K::NotFound, Never, false),
            (404, "", K::NotFound, Never, false),
            (409, "BlobAlreadyExists", K::AlreadyExists, Never, false),
            (412, "ConditionNotMet", K::AlreadyExists, Never, false),
            (412, "LeaseIdMissing", K::Conflict, Never, false),
            (409, "LeaseAlreadyPresent", K::Conflict, Never, false),
            (409, "ContainerBeingDeleted", K::Conflict, Never, false),
            (400, "InvalidBlockList", K::Conflict, Never, false),
            (503, "ServerBusy", K::RateLimited, Later, false),
            (500, "OperationTimedOut", K::Timeout, Later, true),
            (500, "InternalError", K::Io, Later, true),
            (502, "", K::Io, Later, true),
            (429, "", K::RateLimited, Later, false),
            (400, "Md5Mismatch", K::Corrupt, Later, false),
            (400, "InvalidHeaderValue", K::Io, Never, false),
            (405, "UnsupportedHttpVerb", K::Unsupported, Never, false),
            (307, "", K::InvalidConfig, Never, false),
        ] {
            let got = verdict(StatusCode::from_u16(status).expect("valid"), &said(code), false);
            assert_eq!((got.kind, got.again, got.maybe_applied), (kind, again, maybe_applied), "{status} {code}");
        }
        for (status, code) in [(401, "InvalidAuthenticationInfo"), (403, "AuthenticationFailed"), (403, ""), (401, "")]
        {
            let got = verdict(StatusCode::from_u16(status).expect("valid"), &said(code), true);
            assert_eq!(got.again, Renewed, "{status} {code}: a token may have ended");
        }
    }

    const SKEWED: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AuthenticationFailed</Code><Message>\
        Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly \
        including the signature.\nRequestId:7fc8-1\nTime:2023-11-14T23:13:20.0000000Z</Message><AuthenticationErrorDetail>\
        Request date header too old: 'Tue, 14 Nov 2023 22:13:20 GMT'</AuthenticationErrorDetail></Error>";

    #[test]
    fn a_wrong_clock_is_named() {
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("x-ms-request-id"),
            http::HeaderValue::from_static("7fc8-1"),
        )]);
        let said = service_error(&headers, SKEWED.as_bytes());
        assert_eq!((said.code.as_str(), said.request_id.as_str()), ("AuthenticationFailed", "7fc8-1"));
        assert_eq!(said.message, "Request date header too old: 'Tue, 14 Nov 2023 22:13:20 GMT'");
        let got = verdict(StatusCode::FORBIDDEN, &said, true);
        assert_eq!((got.kind, got.again, got.hint.as_deref()), (ErrorKind::Unauthenticated, Again::Never, Some(CLOCK)));
        let other = service_error(&headers, SKEWED.replace("Request date", "x").as_bytes());
        assert!(other.message.ends_with("including the signature."), "{}", other.message);
    }

    #[test]
    fn an_error_in_a_success_is_seen() {
        let none = HeaderMap::new();
        let Err(DocumentFault::Failed(said)) = AzDialect.check_document(&none, SKEWED.as_bytes()) else {
            panic!("it failed")
        };
        assert_eq!(said.code, "AuthenticationFailed");
        assert!(AzDialect.check_document(&none, b"<EnumerationResults/>").is_ok());
        assert!(matches!(AzDialect.check_document(&none, b"<EnumerationResults>"), Err(DocumentFault::Damaged(_))));
    }
}
