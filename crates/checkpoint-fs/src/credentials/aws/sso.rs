//! Single sign-on: credentials of a role in an account, for a token that `aws sso login` left.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value as Json;
use url::form_urlencoded::Serializer;

use super::answer;
use super::endpoint;
use super::ini;
use super::service::{Exchange, Route, Services};
use super::setup::Setup;
use super::sso_token::SsoToken;
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

/// The time of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A role in an account, and the token that lets this user have it.
#[derive(Debug)]
pub(super) struct Sso {
    url: String,
    role: String,
    account: String,
    token: SsoToken,
}

impl Sso {
    /// From a profile that has `sso_role_name` or `sso_account_id`, with the `sso-session` that it names.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for what is missing, or differs between the two.
    pub(super) fn find(setup: &Setup<'_>, profile: &str) -> Result<Option<Self>> {
        let Some(section) = setup.files.profiles.get(profile) else { return Ok(None) };
        if !section.contains_key("sso_role_name") && !section.contains_key("sso_account_id") {
            return Ok(None);
        }
        let wrong = |what: String| {
            Error::invalid_config(format!("{what}: profile={profile:?}"))
                .with_hint("write the profile anew by `aws configure sso`")
        };
        let mut settings = section.clone();
        let session = ini::text(section, "sso_session").map(str::to_owned);
        if let Some(name) = &session {
            let shared = setup.files.sso_sessions.get(name).ok_or_else(|| {
                wrong(format!("the sso-session that the profile names does not exist: sso_session={name:?}"))
            })?;
            for (key, value) in shared {
                if settings.insert(key.clone(), value.clone()).is_some_and(|own| own != *value) {
                    return Err(wrong(format!("the profile and its sso-session differ: setting={key}")));
                }
            }
            for key in ["sso_start_url", "sso_region"] {
                if ini::text(shared, key).is_none() {
                    return Err(wrong(format!("the sso-session lacks a setting: setting={key}")));
                }
            }
        }
        let required = |key: &str| {
            ini::text(&settings, key)
                .map(str::to_owned)
                .ok_or_else(|| wrong(format!("the profile uses single sign-on and lacks a setting: setting={key}")))
        };
        let (role, account) = (required("sso_role_name")?, required("sso_account_id")?);
        let (start_url, region) = (required("sso_start_url")?, required("sso_region")?);
        endpoint::check_region(&region)?;
        let token = SsoToken::new(setup, profile, session, start_url, region.clone())?;
        Ok(Some(Self { url: setup.service_url(&endpoint::SSO, &region)?, role, account, token }))
    }

    /// What is missing, in words, where nobody has signed in.
    pub(super) fn missing(&self) -> Option<String> {
        (!self.token.is_kept()).then(|| format!("no token is there yet: {}", self.token.sign_in_hint()))
    }

    /// Reads the token, renews it where it can be and is due, and asks the portal.
    pub(super) async fn load(&self, services: &Services) -> Result<Credentials> {
        let token = self.token.load(services).await?;
        let mut value = HeaderValue::from_str(token.expose())
            .map_err(|_| Error::new(ErrorKind::Corrupt, "the kept token of single sign-on cannot be sent"))?;
        value.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-sso_bearer_token", value);
        let query = Serializer::new(String::new())
            .append_pair("role_name", &self.role)
            .append_pair("account_id", &self.account)
            .finish();
        let url = format!("{}/federation/credentials?{query}", self.url);
        let exchange = Exchange {
            operation: "get role credentials",
            method: Method::GET,
            url,
            shown: self.url.clone(),
            headers,
            body: Bytes::new(),
            secrets: Vec::new(),
            route: Route::Proxied,
            signed: None,
            dialect: Arc::new(SsoDialect { hint: self.token.sign_in_hint() }),
            retry: services.context().retry,
            timeout: TIMEOUT,
        };
        let answer = services.exchange(exchange).await.map_err(|failure| failure.error)?;
        read(&answer.body).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the answer of single sign-on holds no credentials")
                .with_url(self.url.as_str())
        })
    }
}

fn read(body: &[u8]) -> Option<Credentials> {
    let json: Json = serde_json::from_slice(body).ok()?;
    let found = json.get("roleCredentials")?;
    let text = |name: &str| found.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
    let end = UNIX_EPOCH.checked_add(Duration::from_millis(found.get("expiration")?.as_u64()?))?;
    Some(
        Credentials::new(text("accessKeyId")?, text("secretAccessKey")?)
            .with_session_token(Some(text("sessionToken")?.to_owned()))
            .with_expiry(Some(end)),
    )
}

/// How the portal, and the service that renews its tokens, report failures.
#[derive(Debug)]
pub(super) struct SsoDialect {
    pub(super) hint: String,
}

impl Dialect for SsoDialect {
    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let json: Json = serde_json::from_slice(body).unwrap_or_default();
        let text = |names: &[&str]| {
            let found = names.iter().find_map(|name| json.get(*name)).and_then(Json::as_str);
            found.unwrap_or_default().to_owned()
        };
        let named = header("x-amzn-errortype");
        let named = if named.is_empty() { text(&["__type", "code", "error"]) } else { named.to_owned() };
        // `com.amazonaws.sso#UnauthorizedException:http://...`
        let code = named.rsplit('#').next().unwrap_or_default().split(':').next().unwrap_or_default();
        ServiceError {
            code: code.to_owned(),
            message: text(&["message", "Message", "error_description"]),
            request_id: header("x-amzn-requestid").to_owned(),
        }
    }

    fn verdict(&self, status: StatusCode, _: &HeaderMap, error: &ServiceError, _: bool) -> Verdict {
        let (kind, again, hint) = match error.code.as_str() {
            "TooManyRequestsException" | "SlowDownException" | "slow_down" => {
                (ErrorKind::RateLimited, Again::Later, None)
            }
            "ForbiddenException" | "ResourceNotFoundException" => (
                ErrorKind::PermissionDenied,
                Again::Never,
                Some("check sso_account_id and sso_role_name, and that this user has the role".to_owned()),
            ),
            _ if status.is_server_error() => (ErrorKind::Io, Again::Later, None),
            _ if status == StatusCode::TOO_MANY_REQUESTS => (ErrorKind::RateLimited, Again::Later, None),
            _ => (ErrorKind::Unauthenticated, Again::Never, Some(self.hint.clone())),
        };
        Verdict { kind, again, maybe_applied: false, hint }
    }

    fn check_document(&self, _: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        answer::check_json(body)
    }
}
