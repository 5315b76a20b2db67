//! How Tencent Cloud's API 3.0 reports failures: JSON, with status 200.

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::backend::headers::page_for_document;
use crate::error::ErrorKind;
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

/// Reads `{"Response": {"Error": {"Code", "Message"}, "RequestId"}}`, and knows the codes that all of
/// Tencent Cloud's services share.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApiDialect;

impl Dialect for ApiDialect {
    fn service_error(&self, _headers: &HeaderMap, body: &[u8]) -> ServiceError {
        response(body).ok().and_then(|response| error_of(&response)).unwrap_or_default()
    }

    fn verdict(&self, status: StatusCode, _headers: &HeaderMap, error: &ServiceError, _temporary: bool) -> Verdict {
        let (kind, again, hint) = by_code(&error.code).unwrap_or_else(|| by_status(status, error.code.is_empty()));
        // Every request only asks, so none has an effect that could be in doubt.
        Verdict { kind, again, maybe_applied: false, hint: (!hint.is_empty()).then(|| hint.to_owned()) }
    }

    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        let response = response(body).map_err(|why| match page_for_document(headers, body) {
            Some(page) => DocumentFault::Failed(page),
            None => DocumentFault::Damaged(why.to_owned()),
        })?;
        error_of(&response).map_or(Ok(()), |said| Err(DocumentFault::Failed(said)))
    }
}

/// The object under `Response`, or why there is none.
pub(super) fn response(body: &[u8]) -> Result<Value, &'static str> {
    let mut document: Value = serde_json::from_slice(body).map_err(|_| "it is not JSON, or cut short")?;
    match document.get_mut("Response").map(Value::take) {
        Some(response @ Value::Object(_)) => Ok(response),
        _ => Err("it has no `Response`"),
    }
}

fn error_of(response: &Value) -> Option<ServiceError> {
    let error = response.get("Error").filter(|e| !e.is_null())?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    Some(ServiceError {
        code: text(error, "Code"),
        message: text(error, "Message"),
        request_id: text(response, "RequestId"),
    })
}

type Judgement = (ErrorKind, Again, &'static str);

/// Classifies by the code, or by the part of it before the first dot. The catalog's own names after the
/// dot are not published, but for what ends like something that is not there.
fn by_code(code: &str) -> Option<Judgement> {
    use Again::Never;
    use ErrorKind as K;
    let exact = match code {
        "AuthFailure.SignatureExpire" => (
            K::Unauthenticated,
            Never,
            "this machine's clock is off by more than five minutes: set it, for example with NTP",
        ),
        "AuthFailure.SignatureFailure" => (
            K::Unauthenticated,
            Never,
            "the secret key does not belong to the secret ID: check TENCENTCLOUD_SECRET_KEY, or the option `sk`",
        ),
        "AuthFailure.TokenFailure" => (
            K::Unauthenticated,
            Never,
            "the session token has expired, or does not belong to the secret ID: get new temporary credentials",
        ),
        "AuthFailure.SecretIdNotFound" | "AuthFailure.InvalidSecretId" => (
            K::Unauthenticated,
            Never,
            "no such secret ID, or it is disabled: check TENCENTCLOUD_SECRET_ID, or the option `sid`",
        ),
        "AuthFailure.UnauthorizedOperation" => (K::PermissionDenied, Never, DENIED),
        "UnsupportedRegion" => {
            (K::InvalidConfig, Never, "the service does not serve that region: set `region` or TENCENTCLOUD_REGION")
        }
        _ => return by_family(code),
    };
    Some(exact)
}

fn by_family(code: &str) -> Option<Judgement> {
    use Again::{Later, Never};
    use ErrorKind as K;
    let (family, detail) = code.split_once('.').unwrap_or((code, ""));
    Some(match family {
        "AuthFailure" => (K::Unauthenticated, Never, "the catalog does not accept the credentials"),
        "UnauthorizedOperation" => (K::PermissionDenied, Never, DENIED),
        "IpInBlacklist" | "IpNotInWhitelist" => {
            (K::PermissionDenied, Never, "the account does not allow requests from this machine's address")
        }
        "ResourceNotFound" => (K::NotFound, Never, ""),
        _ if ["NotFound", "NotExist", "NotExists"].iter().any(|end| detail.ends_with(end)) => (K::NotFound, Never, ""),
        "RequestLimitExceeded" => (K::RateLimited, Later, SLOWER),
        "InternalError" | "InternalServerError" | "ResourceUnavailable" | "ServiceUnavailable" | "GatewayTimeout" => {
            (K::Io, Later, "the catalog is not available just now")
        }
        "InvalidParameter" | "InvalidParameterValue" | "MissingParameter" | "UnknownParameter" => {
            (K::InvalidConfig, Never, "check the names of catalog, schema and volume in the URL")
        }
        "InvalidAction"
        | "NoSuchVersion"
        | "NoSuchProduct"
        | "ActionOffline"
        | "UnsupportedOperation"
        | "UnsupportedProtocol" => (K::Unsupported, Never, ENDPOINT),
        _ => return None,
    })
}

/// Classifies an answer without a known code. With status 200 one with another is a failure that says no more, and
/// one with none is not the service's.
fn by_status(status: StatusCode, silent: bool) -> Judgement {
    use Again::{Later, Never};
    use ErrorKind as K;
    match status.as_u16() {
        200..=299 if silent => (K::Corrupt, Later, ENDPOINT),
        300..=399 | 404 | 405 => (K::InvalidConfig, Never, ENDPOINT),
        401 | 403 => (K::PermissionDenied, Never, ENDPOINT),
        408 => (K::Timeout, Later, ""),
        429 => (K::RateLimited, Later, SLOWER),
        500..=599 => (K::Io, Later, "the catalog is not available just now"),
        _ => (K::Io, Never, ""),
    }
}

const DENIED: &str =
    "the credentials are valid and their policy does not allow this: ask for the right to use the volume";
const SLOWER: &str = "the catalog asked to slow down: open fewer volumes at once, or raise the account's limits";
const ENDPOINT: &str = "check that `endpoint` or TENCENTCLOUD_ENDPOINT is the catalog's, and the proxy variables";

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, code: &str) -> Verdict {
        let said = ServiceError { code: code.to_owned(), ..ServiceError::default() };
        ApiDialect.verdict(StatusCode::from_u16(status).expect("valid"), &HeaderMap::new(), &said, false)
    }

    #[test]
    fn codes_and_statuses_are_classified() {
        use Again::{Later, Never};
        use ErrorKind as K;
        for (status, code, kind, again, hint) in [
            (200, "AuthFailure.SignatureExpire", K::Unauthenticated, Never, "clock"),
            (200, "AuthFailure.SignatureFailure", K::Unauthenticated, Never, "secret key"),
            (200, "AuthFailure.TokenFailure", K::Unauthenticated, Never, "expired"),
            (200, "AuthFailure.SecretIdNotFound", K::Unauthenticated, Never, "secret ID"),
            (200, "AuthFailure.MFAFailure", K::Unauthenticated, Never, "credentials"),
            (200, "AuthFailure.UnauthorizedOperation", K::PermissionDenied, Never, "policy"),
            (200, "UnauthorizedOperation", K::PermissionDenied, Never, "policy"),
            (200, "UnauthorizedOperation.UserNotAllowOperation", K::PermissionDenied, Never, "policy"),
            (200, "ResourceNotFound", K::NotFound, Never, ""),
            (200, "ResourceNotFound.VolumeNotFound", K::NotFound, Never, ""),
            (200, "FailedOperation.SchemaNotExist", K::NotFound, Never, ""),
            (200, "FailedOperation", K::Io, Never, ""),
            (200, "RequestLimitExceeded", K::RateLimited, Later, "slow down"),
            (200, "RequestLimitExceeded.UinLimitExceeded", K::RateLimited, Later, "slow down"),
            (200, "InternalError", K::Io, Later, "not available"),
            (200, "ResourceUnavailable.ClusterUnavailable", K::Io, Later, "not available"),
            (200, "InvalidParameter", K::InvalidConfig, Never, "names"),
            (200, "InvalidParameterValue.CatalogName", K::InvalidConfig, Never, "names"),
            (200, "UnsupportedRegion", K::InvalidConfig, Never, "region"),
            (200, "NoSuchVersion", K::Unsupported, Never, "endpoint"),
            (200, "", K::Corrupt, Later, "endpoint"),
            (200, "Weird.Code", K::Io, Never, ""),
            (404, "", K::InvalidConfig, Never, "endpoint"),
            (302, "", K::InvalidConfig, Never, "endpoint"),
            (403, "", K::PermissionDenied, Never, "endpoint"),
            (429, "", K::RateLimited, Later, "slow down"),
            (502, "", K::Io, Later, "not available"),
            (500, "AuthFailure.TokenFailure", K::Unauthenticated, Never, "expired"),
        ] {
            let got = verdict(status, code);
            assert_eq!((got.kind, got.again, got.maybe_applied), (kind, again, false), "{status} {code}");
            let shown = got.hint.unwrap_or_default();
            assert!(shown.contains(hint) && shown.is_empty() == hint.is_empty(), "{status} {code}: {shown}");
        }
    }

    #[test]
    fn an_error_in_a_success_is_seen_with_its_request_id() {
        let check = |body: &str| ApiDialect.check_document(&HeaderMap::new(), body.as_bytes());
        let body = r#"{"Response": {"Error": {"Code": "AuthFailure.TokenFailure", "Message": "token error"}, "RequestId": "r-1"}}"#;
        let said = ServiceError {
            code: "AuthFailure.TokenFailure".to_owned(),
            message: "token error".to_owned(),
            request_id: "r-1".to_owned(),
        };
        assert_eq!(check(body), Err(DocumentFault::Failed(said.clone())));
        assert_eq!(ApiDialect.service_error(&HeaderMap::new(), body.as_bytes()), said);
        assert_eq!(check(r#"{"Response": {"Error": null, "RequestId": "r-1"}}"#), Ok(()));
        assert_eq!(check(r#"{"Response": {"Volume": {}, "RequestId": "r-1"}}"#), Ok(()));
        // An error without words is one all the same.
        assert_eq!(check(r#"{"Response": {"Error": {}}}"#), Err(DocumentFault::Failed(ServiceError::default())));
    }

    #[test]
    fn what_is_no_answer_of_the_api_is_damaged() {
        let whole = r#"{"Response": {"Volume": {"StorageLocation": "cosn://b/p"}, "RequestId": "r-1"}}"#;
        for end in 0..whole.len() {
            let cut = ApiDialect.check_document(&HeaderMap::new(), &whole.as_bytes()[..end]);
            assert!(matches!(cut, Err(DocumentFault::Damaged(_))), "{}", &whole[..end]);
        }
        for body in ["", "[]", "{}", r#"{"Response": []}"#, r#"{"Response": null}"#, "1"] {
            let checked = ApiDialect.check_document(&HeaderMap::new(), body.as_bytes());
            assert!(matches!(checked, Err(DocumentFault::Damaged(_))), "{body}");
        }
        let page = ApiDialect.check_document(&HeaderMap::new(), b"<!DOCTYPE html><html>welcome");
        assert!(matches!(page, Err(DocumentFault::Failed(_))), "{page:?}");
        assert_eq!(ApiDialect.service_error(&HeaderMap::new(), b"<html>bad gateway"), ServiceError::default());
    }
}
