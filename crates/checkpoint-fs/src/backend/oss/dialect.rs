//! What OSS's errors mean.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, StatusCode};

use super::endpoint::OssEndpoint;
use crate::backend::xml;
use crate::backend::xml_dialect::XmlDialect;
use crate::error::ErrorKind;
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

/// Where the answer to a HEAD, which has no body, carries the error's document, in base64.
const HIDDEN_BODY: &str = "x-oss-err";
/// The exact cause, a number that Alibaba's help pages are found by.
const CAUSE: &str = "x-oss-ec";

/// How the message names the endpoint that the service wants instead of the one that was asked.
const ENDPOINT: &str = "endpoint=";
/// What stands there for one that is not OSS's own. It is not repeated: whoever answered could name any place.
const FOREIGN: &str = "(not OSS's own)";

const XML: XmlDialect = XmlDialect { request_ids: &["x-oss-request-id"], codes: verdict_of, refine: name_endpoint };

/// Reads OSS's errors, those to HEAD requests as well, and knows its codes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OssDialect;

impl Dialect for OssDialect {
    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        let hidden = if body.is_empty() { header(headers, HIDDEN_BODY) } else { None };
        let hidden = hidden.and_then(|text| BASE64_STANDARD.decode(text.trim()).ok());
        let body = hidden.as_deref().unwrap_or(body);
        let mut said = XML.service_error(headers, body);
        if let Some(endpoint) = xml::parse(body).ok().as_ref().and_then(|root| root.child("Endpoint")) {
            let host = endpoint.text.trim();
            add(&mut said, ENDPOINT, if is_own_host(host) { host } else { FOREIGN });
        }
        with_cause(said, headers)
    }

    fn verdict(&self, status: StatusCode, headers: &HeaderMap, error: &ServiceError, temporary: bool) -> Verdict {
        XML.verdict(status, headers, error, temporary)
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        XML.is_own(headers)
    }

    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        XML.check_document(headers, body).map_err(|fault| match fault {
            DocumentFault::Failed(said) => DocumentFault::Failed(with_cause(said, headers)),
            damaged => damaged,
        })
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn with_cause(mut said: ServiceError, headers: &HeaderMap) -> ServiceError {
    if let Some(cause) = header(headers, CAUSE) {
        add(&mut said, "ec=", cause);
    }
    said
}

/// Adds what else the service said, at the end of its message.
fn add(said: &mut ServiceError, name: &str, value: &str) {
    if !said.message.is_empty() {
        said.message.push(' ');
    }
    said.message.push_str(name);
    said.message.push_str(value);
}

/// OSS's own codes, and those that it means differently.
fn verdict_of(code: &str) -> Option<Verdict> {
    use Again::{Later, Never, Renewed};
    use ErrorKind as K;
    let (kind, again, hint) = match code {
        "FileAlreadyExists" => (K::AlreadyExists, Never, ""),
        "FileImmutable" => (K::PermissionDenied, Never, "the bucket's retention policy protects the object"),
        "NoSuchBucket" => {
            (K::NotFound, Never, "check the bucket's name and the region: a bucket is known in its own region alone")
        }
        "SymlinkTargetNotExist" | "NoSuchSymLinkTarget" => (K::NotFound, Never, ""),
        "SecondLevelDomainForbidden" | "NonStandardHostForbidden" => (
            K::InvalidConfig,
            Never,
            "the bucket goes before the host: set endpoint to https://oss-<region>.aliyuncs.com, without is_path_style",
        ),
        "CnameDenied" | "NoSuchCname" => {
            (K::InvalidConfig, Never, "bind the domain to the bucket in the console, or use the region's own endpoint")
        }
        "InvalidAccessKeyId" => (
            K::Unauthenticated,
            Never,
            "OSS does not know the access key ID, or it is disabled; one that begins with STS. needs its token as well",
        ),
        "SecurityTokenExpired" => {
            (K::Unauthenticated, Renewed, "the session token has expired: get new temporary credentials")
        }
        "InvalidSecurityToken" | "AccessKeyIdAndSecurityTokenNotMatch" => {
            (K::Unauthenticated, Renewed, "the session token does not belong to the key, or has expired")
        }
        "UserDisable" | "BucketDisable" | "AbnormalBucketOwnerStatus" | "InDebt" | "InDebtOverdue" => {
            (K::PermissionDenied, Never, "the account or the bucket is suspended: look for unpaid bills in the console")
        }
        "InvalidObjectState" => (K::Unsupported, Never, "the object is archived: restore it first"),
        "InvalidObjectName" => {
            (K::Unsupported, Never, "a key has 1 to 1,023 bytes of UTF-8 and does not begin with / or \\")
        }
        "InvalidDigest" => (K::Corrupt, Later, "the bytes were changed or lost on their way to the service"),
        // QpsLimitExceeded, UploadTrafficRateLimitExceeded, and more of that kind.
        code if code.ends_with("LimitExceeded") || code.ends_with("RateExceeded") => {
            (K::RateLimited, Later, "the service asked to slow down: use fewer workers, or raise its limits")
        }
        _ => return None,
    };
    Some(Verdict::new(kind, again, false, hint))
}

/// Names the endpoint of a bucket that was asked for at another one, where it is one of OSS's own.
fn name_endpoint(verdict: &mut Verdict, status: StatusCode, _: &HeaderMap, error: &ServiceError) {
    let hint = match error.message.split(' ').find_map(|word| word.strip_prefix(ENDPOINT)) {
        Some(host) if is_own_host(host) => {
            format!("the bucket is in another region: set endpoint to https://{host}")
        }
        Some(_) => format!("the service wants another endpoint for the bucket, which is not followed: {CHECK}"),
        None if status.is_redirection() => {
            format!("the endpoint answers with a redirect, which is not followed: {CHECK}")
        }
        None => return,
    };
    // The code may be AccessDenied, but no policy will change it.
    *verdict = Verdict::new(ErrorKind::InvalidConfig, Again::Never, false, &hint);
}

const CHECK: &str = "check the region (`region`, OSS_REGION) and the endpoint (`endpoint`, OSS_ENDPOINT)";

/// Whether a text is the host of a service of OSS itself, without a bucket before it or a port.
fn is_own_host(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    text.bytes().all(plain)
        && OssEndpoint::parse(text, "").is_ok_and(|endpoint| endpoint.is_own && endpoint.bucket.is_none())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn verdict(status: u16, code: &str) -> Verdict {
        let said = ServiceError { code: code.to_owned(), ..ServiceError::default() };
        OssDialect.verdict(StatusCode::from_u16(status).expect("valid"), &HeaderMap::new(), &said, true)
    }

    #[test]
    fn codes_are_classified() {
        use Again::{Later, Never, Renewed};
        use ErrorKind as K;
        for (status, code, kind, again, maybe_applied) in [
            (409, "FileAlreadyExists", K::AlreadyExists, Never, false),
            (409, "FileImmutable", K::PermissionDenied, Never, false),
            (404, "NoSuchKey", K::NotFound, Never, false),
            (404, "NoSuchBucket", K::NotFound, Never, false),
            (404, "NoSuchUpload", K::NotFound, Never, false),
            (403, "AccessDenied", K::PermissionDenied, Never, false),
            (403, "SecondLevelDomainForbidden", K::InvalidConfig, Never, false),
            (403, "InvalidAccessKeyId", K::Unauthenticated, Never, false),
            (403, "SignatureDoesNotMatch", K::Unauthenticated, Never, false),
            (403, "RequestTimeTooSkewed", K::Unauthenticated, Never, false),
            (403, "SecurityTokenExpired", K::Unauthenticated, Renewed, false),
            (403, "InvalidSecurityToken", K::Unauthenticated, Renewed, false),
            (403, "UserDisable", K::PermissionDenied, Never, false),
            (403, "InvalidObjectState", K::Unsupported, Never, false),
            (400, "InvalidObjectName", K::Unsupported, Never, false),
            (400, "InvalidBucketName", K::InvalidConfig, Never, false),
            (400, "InvalidDigest", K::Corrupt, Later, false),
            (400, "RequestTimeout", K::Timeout, Later, true),
            (400, "InvalidArgument", K::Io, Never, false),
            (412, "PreconditionFailed", K::AlreadyExists, Never, false),
            (500, "InternalError", K::Io, Later, true),
            (501, "NotImplemented", K::Unsupported, Never, false),
            (503, "ServiceUnavailable", K::Io, Later, true),
            (503, "QpsLimitExceeded", K::RateLimited, Later, false),
            (503, "DownloadTrafficRateLimitExceeded", K::RateLimited, Later, false),
            (503, "", K::Io, Later, true),
        ] {
            let got = verdict(status, code);
            assert_eq!((got.kind, got.again, got.maybe_applied), (kind, again, maybe_applied), "{status} {code}");
        }
    }

    #[test]
    fn another_regions_bucket_names_its_endpoint() {
        let body = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code>\
            <Message>The bucket you are attempting to access must be addressed using the specified endpoint.</Message>\
            <RequestId>5F</RequestId><HostId>b.oss-cn-hangzhou.aliyuncs.com</HostId><Bucket>b</Bucket>\
            <Endpoint>oss-cn-beijing.aliyuncs.com</Endpoint><EC>0003-00001403</EC></Error>";
        let said = OssDialect.service_error(&HeaderMap::new(), body);
        let verdict = OssDialect.verdict(StatusCode::FORBIDDEN, &HeaderMap::new(), &said, true);
        assert_eq!((verdict.kind, verdict.again), (ErrorKind::InvalidConfig, Again::Never));
        assert!(verdict.hint.expect("has one").contains("https://oss-cn-beijing.aliyuncs.com"));
    }

    #[test]
    fn an_endpoint_that_is_not_its_own_is_never_advised() {
        let (none, status) = (HeaderMap::new(), StatusCode::FORBIDDEN);
        for foreign in [
            "evil.example",
            "evil.example/.aliyuncs.com",
            "oss-cn-x.aliyuncs.com.evil.example",
            "evil.example?oss-cn-x.aliyuncs.com",
            "evil.example#oss-cn-x.aliyuncs.com",
            "someones-bucket.oss-cn-x.aliyuncs.com",
            "oss-cn-x.aliyuncs.com:8080",
            "user@oss-cn-x.aliyuncs.com",
            "http://oss-cn-x.aliyuncs.com",
            "other.aliyuncs.com",
        ] {
            let body = format!(
                "<Error><Code>AccessDenied</Code><Message>No.</Message><Endpoint> {foreign} </Endpoint></Error>"
            );
            let said = OssDialect.service_error(&none, body.as_bytes());
            let verdict = OssDialect.verdict(status, &none, &said, true);
            let hint = verdict.hint.expect("has one");
            assert_eq!(verdict.kind, ErrorKind::InvalidConfig, "{foreign}");
            assert!(!hint.contains(foreign) && hint.contains("OSS_ENDPOINT"), "{hint}");
            assert!(!said.message.contains(foreign), "{}", said.message);
            // Nor where the words themselves say so.
            let said = ServiceError { message: format!("use endpoint={foreign}"), ..said };
            let hint = OssDialect.verdict(status, &none, &said, true).hint.expect("has one");
            assert!(!hint.contains(foreign), "{hint}");
        }
    }

    #[test]
    fn an_answer_without_a_body_tells_its_error_too() {
        let document = "<Error><Code>NoSuchKey</Code><Message>no such key</Message><RequestId>5F</RequestId></Error>";
        let mut headers = HeaderMap::new();
        headers.insert("x-oss-err", HeaderValue::try_from(BASE64_STANDARD.encode(document)).expect("plain"));
        headers.insert("x-oss-ec", HeaderValue::from_static("0026-00000001"));
        headers.insert("x-oss-request-id", HeaderValue::from_static("60"));
        let said = OssDialect.service_error(&headers, b"");
        assert_eq!((said.code.as_str(), said.request_id.as_str()), ("NoSuchKey", "5F"));
        assert_eq!(said.message, "no such key ec=0026-00000001");
        headers.insert("x-oss-err", HeaderValue::from_static("not base64!"));
        let said = OssDialect.service_error(&headers, b"");
        assert_eq!((said.code.as_str(), said.request_id.as_str()), ("", "60"));
    }
}
