//! The Security Token Service: temporary credentials for a role.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use url::form_urlencoded::Serializer;

use super::endpoint::StsEndpoint;
use super::service::{Exchange, Route, Services};
use crate::backend::xml::{self, Element};
use crate::credentials::{Credentials, Secret, expiry};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, SigV4, Signer, Verdict};

/// The time of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);
const VERSION: &str = "2011-06-15";

/// A role, and how to take it on.
#[derive(Debug, Clone)]
pub(super) struct AssumeRole {
    pub(super) role_arn: String,
    pub(super) session_name: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) duration_seconds: Option<i64>,
}

/// Takes on a role with other credentials.
pub(super) async fn assume_role(
    services: &Services,
    endpoint: &StsEndpoint,
    role: &AssumeRole,
    source: Credentials,
) -> Result<Credentials> {
    let form = form(services, "AssumeRole", role, None);
    let signer = SigV4 { region: endpoint.region.clone(), service: "sts", always_sign_payload: true };
    call(services, endpoint, "assume role", (form, Vec::new()), Some((source, Arc::new(signer)))).await
}

/// Takes on a role with a token that somebody else vouches for. Not signed.
pub(super) async fn assume_role_with_web_identity(
    services: &Services,
    endpoint: &StsEndpoint,
    role: &AssumeRole,
    token: &str,
) -> Result<Credentials> {
    let form = form(services, "AssumeRoleWithWebIdentity", role, Some(token));
    call(services, endpoint, "assume role with web identity", (form, vec![Secret::new(token)]), None).await
}

/// The body of a request.
fn form(services: &Services, action: &str, role: &AssumeRole, token: Option<&str>) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("Action", action).append_pair("Version", VERSION).append_pair("RoleArn", &role.role_arn);
    match &role.session_name {
        Some(name) => form.append_pair("RoleSessionName", name),
        None => {
            let seconds = services.context().clock.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            form.append_pair("RoleSessionName", &format!("checkpoint-session-{seconds}"))
        }
    };
    if let Some(seconds) = role.duration_seconds {
        form.append_pair("DurationSeconds", &seconds.to_string());
    }
    if let Some(id) = &role.external_id {
        form.append_pair("ExternalId", id);
    }
    if let Some(token) = token {
        form.append_pair("WebIdentityToken", token);
    }
    form.finish()
}

async fn call(
    services: &Services,
    endpoint: &StsEndpoint,
    operation: &'static str,
    (form, secrets): (String, Vec<Secret>),
    signed: Option<(Credentials, Arc<dyn Signer>)>,
) -> Result<Credentials> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8"));
    let exchange = Exchange {
        operation,
        method: Method::POST,
        url: endpoint.url.clone(),
        shown: endpoint.url.clone(),
        headers,
        body: Bytes::from(form),
        secrets,
        route: Route::Proxied,
        signed,
        dialect: Arc::new(StsDialect),
        retry: services.context().retry,
        timeout: TIMEOUT,
    };
    let answer = services.exchange(exchange).await.map_err(|failure| failure.error)?;
    read(&answer.body).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, "the answer holds no credentials")
            .with_operation(operation)
            .with_url(endpoint.url.as_str())
            .with_hint("check that the endpoint is that of STS: AWS_ENDPOINT_URL redirects it too")
    })
}

/// The credentials in an answer.
fn read(body: &[u8]) -> Option<Credentials> {
    let root = xml::parse(body).ok()?;
    let found = root.children.iter().find_map(|result| result.child("Credentials"))?;
    let text = |name: &str| Some(found.child_text(name).trim()).filter(|text| !text.is_empty());
    Some(
        Credentials::new(text("AccessKeyId")?, text("SecretAccessKey")?)
            .with_session_token(Some(text("SessionToken")?.to_owned()))
            .with_expiry(Some(expiry::parse(text("Expiration")?)?)),
    )
}

/// How STS reports failures.
#[derive(Debug)]
struct StsDialect;

impl Dialect for StsDialect {
    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        let root = xml::parse(body).unwrap_or_default();
        let empty = Element::default();
        let error = root.child("Error").unwrap_or(&empty);
        let mut request_id = root.child_text("RequestId").trim().to_owned();
        if request_id.is_empty() {
            request_id = headers.get("x-amzn-requestid").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        }
        ServiceError {
            code: error.child_text("Code").trim().to_owned(),
            message: error.child_text("Message").trim().to_owned(),
            request_id,
        }
    }

    fn verdict(&self, status: StatusCode, _: &HeaderMap, error: &ServiceError, _: bool) -> Verdict {
        const ROLE: &str = "check role_arn, and that the role trusts who takes it on";
        const KEYS: &str = "check the keys that the role is taken on with, and this machine's clock";
        let code = error.code.as_str();
        let (kind, again, hint) = match code {
            "Throttling" | "ThrottlingException" | "RequestLimitExceeded" | "TooManyRequestsException" => {
                (ErrorKind::RateLimited, Again::Later, None)
            }
            "IDPCommunicationError" => (ErrorKind::Io, Again::Later, None),
            "AccessDenied" => (ErrorKind::PermissionDenied, Again::Never, Some(ROLE)),
            "ExpiredTokenException" | "ExpiredToken" | "InvalidIdentityToken" | "IDPRejectedClaim" => {
                (ErrorKind::Unauthenticated, Again::Never, Some("renew the token that the role is taken on with"))
            }
            "ValidationError" | "MalformedPolicyDocument" | "RegionDisabledException" => {
                (ErrorKind::InvalidConfig, Again::Never, Some(ROLE))
            }
            _ if status.is_server_error() => (ErrorKind::Io, Again::Later, None),
            _ if status == StatusCode::TOO_MANY_REQUESTS => (ErrorKind::RateLimited, Again::Later, None),
            _ => (ErrorKind::Unauthenticated, Again::Never, Some(KEYS)),
        };
        Verdict { kind, again, maybe_applied: false, hint: hint.map(str::to_owned) }
    }

    fn check_document(&self, _: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        xml::parse(body).map(|_| ()).map_err(DocumentFault::Damaged)
    }
}
