//! What is COS's own among the stores of its family.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::backend::bucket::{IfAbsent, Vendor};
use crate::backend::multi_delete::Report;
use crate::backend::xml_dialect::XmlDialect;
use crate::error::ErrorKind;
use crate::transport::{Again, ServiceError, SigV4, Verdict};

const FORBID_OVERWRITE: HeaderName = HeaderName::from_static("x-cos-forbid-overwrite");
const REQUEST_PAYER: HeaderName = HeaderName::from_static("x-cos-request-payer");

const DIALECT: XmlDialect =
    XmlDialect { request_ids: &["x-cos-request-id", "x-amz-request-id"], codes: verdict_of, refine: explain };

/// COS in a region.
pub(crate) fn cos(region: String, sign_payload: bool) -> Vendor {
    Vendor {
        header_prefix: "x-amz-",
        // The same metadata goes by COS's own name when it was written, or is read, in COS's own way.
        metadata_prefixes: &["x-amz-meta-", "x-cos-meta-"],
        if_absent: IfAbsent::ForbidOverwrite(FORBID_OVERWRITE),
        copy_source_root: "",
        range_header: None,
        encodes_page_tokens: false,
        // The vendor speaks of eventual consistency, and promises nothing for listings.
        consistent_list: false,
        delete_report: Report::Failures,
        max_key: 850,
        signer: Arc::new(SigV4 { region, service: "s3", always_sign_payload: sign_payload }),
        dialect: Arc::new(DIALECT),
    }
}

/// The header of one who agrees to pay for requests to another's bucket.
pub(crate) fn requester_pays() -> HeaderMap {
    HeaderMap::from_iter([(REQUEST_PAYER, HeaderValue::from_static("requester"))])
}

/// What COS's codes mean where S3 does not have them, or means something else.
fn verdict_of(code: &str) -> Option<Verdict> {
    use Again::{Later, Never};
    use ErrorKind as K;
    let (kind, again, maybe_applied, hint) = match code {
        "FileAlreadyExists" => (K::AlreadyExists, Never, false, ""),
        "PathStyleDomainForbidden" => (K::InvalidConfig, Never, false, PATH_STYLE),
        "NoSuchBucket" => (
            K::NotFound,
            Never,
            false,
            "check the bucket's name, which ends in the account's APPID as in name-1250000000, and the region",
        ),
        "InvalidBucketName" => {
            (K::InvalidConfig, Never, false, "a bucket is called name-APPID, for example data-1250000000")
        }
        "InvalidURI" => (K::InvalidConfig, Never, false, "check the endpoint: it takes no path"),
        "PaymentRequired" | "ArrearsOverdue" => {
            (K::PermissionDenied, Never, false, "the account is in arrears: pay its bill")
        }
        "AccessForbidden" | "DownloadForbidden" | "UnavailableForLegalReasons" => {
            (K::PermissionDenied, Never, false, "the service does not give this object out on this domain")
        }
        "InvalidDigest" => (K::Corrupt, Later, false, "the bytes were changed or lost on their way to the service"),
        "UserNetworkTooSlow" => (K::Timeout, Later, true, "the upload was too slow: use fewer connections at once"),
        "PathConflict" | "UploadConflict" => {
            (K::Conflict, Later, false, "another request on the same object was in progress")
        }
        "MissingContentLength" | "MalformedXML" | "EntityTooSmall" => (K::Io, Never, false, REPORT),
        "InvalidObjectState" => {
            (K::Unsupported, Never, false, "the object is archived: restore it before it can be read")
        }
        _ => return None,
    };
    Some(Verdict::new(kind, again, maybe_applied, hint))
}

const PATH_STYLE: &str = "the service wants the bucket's name in the host: set config_kwargs.s3.addressing_style to \
                          virtual, or leave it out";
const REDIRECTED: &str = "the endpoint answers with a redirect, which is not followed: check the region \
                          (client_kwargs.region_name, COS_REGION) and the endpoint (endpoint_url, COS_ENDPOINT)";
const REPORT: &str = "this is a defect of this crate, or a proxy changes requests: please report it";

/// Tells apart what COS reports under one code.
fn explain(verdict: &mut Verdict, status: StatusCode, _headers: &HeaderMap, error: &ServiceError) {
    match error.code.as_str() {
        "AccessDenied" | "RequestTimeTooSkewed" if error.message.to_ascii_lowercase().contains("has expired") => {
            *verdict = Verdict::new(
                ErrorKind::Unauthenticated,
                Again::Never,
                false,
                "the signature was too old when it arrived: set this machine's clock, for example with NTP",
            );
        }
        "InvalidRequest" if error.message.contains("Content-MD5") => verdict.hint = Some(REPORT.to_owned()),
        _ if status.is_redirection() => verdict.hint = Some(REDIRECTED.to_owned()),
        "" if status == StatusCode::PAYMENT_REQUIRED => {
            *verdict = Verdict::new(ErrorKind::PermissionDenied, Again::Never, false, "the account is in arrears");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Dialect;

    fn verdict(status: u16, code: &str, message: &str) -> Verdict {
        let said = ServiceError { code: code.to_owned(), message: message.to_owned(), ..ServiceError::default() };
        DIALECT.verdict(StatusCode::from_u16(status).expect("valid"), &HeaderMap::new(), &said, false)
    }

    #[test]
    fn documented_codes_are_classified() {
        use Again::{Later, Never, Renewed};
        use ErrorKind as K;
        for (status, code, kind, again, maybe_applied, hint) in [
            (400, "BadDigest", K::Corrupt, Later, false, "on their way"),
            (400, "InvalidDigest", K::Corrupt, Later, false, "on their way"),
            (400, "IncompleteBody", K::Corrupt, Later, false, "on their way"),
            (400, "EntityTooSmall", K::Io, Never, false, "defect"),
            (400, "EntityTooLarge", K::Unsupported, Never, false, "larger than"),
            (400, "ExpiredToken", K::Unauthenticated, Renewed, false, "expired"),
            (400, "InvalidArgument", K::Io, Never, false, ""),
            (400, "InvalidBucketName", K::InvalidConfig, Never, false, "name-APPID"),
            (400, "InvalidRequest", K::Io, Never, false, ""),
            (400, "InvalidURI", K::InvalidConfig, Never, false, "endpoint"),
            (400, "KeyTooLong", K::Unsupported, Never, false, "larger than"),
            (400, "MalformedXML", K::Io, Never, false, "defect"),
            (400, "RequestTimeout", K::Timeout, Later, true, ""),
            (400, "UserNetworkTooSlow", K::Timeout, Later, true, "slow"),
            (402, "PaymentRequired", K::PermissionDenied, Never, false, "arrears"),
            (402, "", K::PermissionDenied, Never, false, "arrears"),
            (403, "AccessDenied", K::PermissionDenied, Never, false, "policy"),
            (403, "AccessForbidden", K::PermissionDenied, Never, false, "domain"),
            (403, "InvalidAccessKeyId", K::Unauthenticated, Never, false, "access key ID"),
            (403, "RequestTimeTooSkewed", K::Unauthenticated, Never, false, "clock"),
            (403, "SignatureDoesNotMatch", K::Unauthenticated, Never, false, "secret"),
            (403, "PathStyleDomainForbidden", K::InvalidConfig, Never, false, "addressing_style"),
            (404, "NoSuchBucket", K::NotFound, Never, false, "APPID"),
            (404, "NoSuchKey", K::NotFound, Never, false, ""),
            (404, "NoSuchUpload", K::NotFound, Never, false, ""),
            (405, "MethodNotAllowed", K::Unsupported, Never, false, ""),
            (409, "FileAlreadyExists", K::AlreadyExists, Never, false, ""),
            (409, "AppendPositionErr", K::Conflict, Never, false, ""),
            (409, "PathConflict", K::Conflict, Later, false, "in progress"),
            (409, "UploadConflict", K::Conflict, Later, false, "in progress"),
            (403, "InvalidObjectState", K::Unsupported, Never, false, "archived"),
            (411, "MissingContentLength", K::Io, Never, false, "defect"),
            (412, "PreconditionFailed", K::AlreadyExists, Never, false, ""),
            (451, "UnavailableForLegalReasons", K::PermissionDenied, Never, false, ""),
            (500, "InternalError", K::Io, Later, true, ""),
            (501, "NotImplemented", K::Unsupported, Never, false, ""),
            (503, "SlowDown", K::RateLimited, Later, false, "slow down"),
            (503, "ServiceUnavailable", K::Io, Later, true, ""),
        ] {
            let got = verdict(status, code, "");
            assert_eq!((got.kind, got.again, got.maybe_applied), (kind, again, maybe_applied), "{status} {code}");
            assert!(got.hint.unwrap_or_default().contains(hint), "{status} {code}");
        }
    }

    #[test]
    fn the_message_tells_some_apart() {
        let expired = verdict(403, "AccessDenied", "Request has expired");
        assert_eq!((expired.kind, expired.again), (ErrorKind::Unauthenticated, Again::Never));
        assert!(expired.hint.expect("has one").contains("clock"));
        let digest = verdict(400, "InvalidRequest", "Missing required header for this request: Content-MD5");
        assert!(digest.hint.expect("has one").contains("proxy"));
    }
}
