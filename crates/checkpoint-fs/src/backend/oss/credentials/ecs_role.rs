//! The RAM role of an ECS instance, from its metadata service.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use super::issued::{Issued, words};
use crate::credentials::service::{Exchange, JsonDialect, Route, Services, Wanted};
use crate::credentials::{CredentialProvider, Credentials};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::transport::{ClientSettings, Failure, RetryPolicy, SystemClock, TlsRoots};

/// The variable that names the role.
pub(crate) const ROLE_VARIABLE: &str = "ALIBABA_CLOUD_ECS_METADATA";
/// `true` turns this source off.
const DISABLED_VARIABLE: &str = "ALIBABA_CLOUD_ECS_METADATA_DISABLED";
/// `true` refuses the older protocol, which works without a session.
const TOKEN_ONLY_VARIABLE: &str = "ALIBABA_CLOUD_IMDSV1_DISABLED";

const SERVICE: &str = "http://100.100.100.200";
const TOKEN_PATH: &str = "/latest/api/token";
const ROLES_PATH: &str = "/latest/meta-data/ram/security-credentials/";
const TOKEN_TTL_HEADER: &str = "x-aliyun-ecs-metadata-token-ttl-seconds";
const TOKEN_HEADER: &str = "x-aliyun-ecs-metadata-token";
const TOKEN_TTL: &str = "21600";
/// The service is on the same machine, or not there at all.
const PATIENCE: Duration = Duration::from_secs(1);
/// Attempts where the user says that there is a role, or somebody has answered.
const ATTEMPTS: u32 = 3;

/// Asks the metadata service for the role's credentials. Where no variable names a role, a service
/// that is not there means that this is no ECS instance, and no error.
#[derive(Debug, Clone)]
pub(crate) struct EcsRole {
    service: String,
    role: Option<String>,
    token_only: bool,
    retry: RetryPolicy,
    services: Services,
}

impl EcsRole {
    /// `None` where the environment turns it off.
    pub(crate) fn from_environment(environment: &Environment) -> Option<Self> {
        let is_true = |name| environment.get(name).is_some_and(|v: &str| v.eq_ignore_ascii_case("true"));
        let settings = ClientSettings {
            connect_timeout: PATIENCE,
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: environment.clone(),
        };
        (!is_true(DISABLED_VARIABLE)).then(|| Self {
            service: SERVICE.to_owned(),
            role: environment.get(ROLE_VARIABLE).map(str::to_owned),
            token_only: is_true(TOKEN_ONLY_VARIABLE),
            retry: RetryPolicy::default().with_attempts(ATTEMPTS),
            services: Services::new(settings, Arc::new(SystemClock)),
        })
    }

    /// Whether the environment names the role.
    pub(crate) fn is_named(&self) -> bool {
        self.role.is_some()
    }

    /// The token of a session. `None` where the service gives none, and may be asked without.
    async fn session(&self) -> Result<Option<HeaderValue>, Failure> {
        let mut ttl = HeaderMap::new();
        ttl.insert(TOKEN_TTL_HEADER, HeaderValue::from_static(TOKEN_TTL));
        let ask = |retry| self.ask(Method::PUT, TOKEN_PATH, ttl.clone(), Wanted::Text, retry);
        let answered = match ask(if self.is_named() { self.retry } else { self.retry.with_attempts(1) }).await {
            Err(failure) if self.token_only && !self.is_named() && !is_absent(&failure) => ask(self.retry).await,
            answered => answered,
        };
        match answered {
            Ok(text) => Ok(HeaderValue::from_bytes(&text).ok().map(|mut token| {
                token.set_sensitive(true);
                token
            })),
            Err(failure) if is_absent(&failure) || self.token_only => Err(failure),
            Err(_) => Ok(None),
        }
    }

    async fn keys(&self, session: Option<HeaderValue>) -> Result<Option<Credentials>> {
        let headers: HeaderMap =
            session.map(|token| (http::HeaderName::from_static(TOKEN_HEADER), token)).into_iter().collect();
        let get = |path: String, wanted| self.ask(Method::GET, path, headers.clone(), wanted, self.retry);
        let role = match &self.role {
            Some(role) => role.clone(),
            None => match get(ROLES_PATH.to_owned(), Wanted::Text).await {
                Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
                Err(failure) if failure.status == Some(StatusCode::NOT_FOUND) => return Ok(None),
                Err(failure) => return Err(failure.error),
            },
        };
        let answer =
            get(format!("{ROLES_PATH}{role}"), Wanted::Field("Code")).await.map_err(|failure| failure.error)?;
        let said: Value = serde_json::from_slice(&answer).map_err(|_| self.not_understood())?;
        if said.get("Code").and_then(Value::as_str) != Some("Success") {
            return Err(self.not_understood());
        }
        let issued: Issued = serde_json::from_value(said).map_err(|_| self.not_understood())?;
        issued.into_credentials(&format!("ECS RAM role {role}")).map(Some)
    }

    async fn ask(
        &self,
        method: Method,
        path: impl AsRef<str>,
        headers: HeaderMap,
        wanted: Wanted,
        retry: RetryPolicy,
    ) -> Result<Bytes, Failure> {
        let hint = format!("check that the instance has the RAM role that {ROLE_VARIABLE} names");
        let exchange = Exchange {
            operation: "ask the ECS metadata service",
            method,
            url: format!("{}{}", self.service, path.as_ref()),
            shown: self.service.clone(),
            headers,
            body: Bytes::new(),
            secrets: Vec::new(),
            // Whoever stands between could keep the keys.
            route: Route::Direct,
            signed: None,
            dialect: Arc::new(JsonDialect { wanted, said: words, passing: &[], hint }),
            retry,
            timeout: PATIENCE,
        };
        self.services.exchange(exchange).await.map(|answer| answer.body)
    }

    fn not_understood(&self) -> Error {
        Error::new(ErrorKind::Unauthenticated, "the ECS metadata service's answer holds no credentials")
            .with_url(self.service.as_str())
    }
}

#[async_trait]
impl CredentialProvider for EcsRole {
    fn name(&self) -> &str {
        "ECS RAM role"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        match Box::pin(self.session()).await {
            Ok(session) => Box::pin(self.keys(session)).await,
            Err(failure) if is_absent(&failure) && !self.is_named() => {
                tracing::debug!(error = %failure.error, "no metadata service answers: this is no ECS instance");
                Ok(None)
            }
            Err(failure) if is_absent(&failure) => {
                Err(failure.error.with_hint(format!("unset {ROLE_VARIABLE} where this is no ECS instance")))
            }
            Err(failure) => Err(failure.error),
        }
    }
}

/// Whether nobody answered at all.
fn is_absent(failure: &Failure) -> bool {
    failure.status.is_none() && matches!(failure.error.kind(), ErrorKind::Io | ErrorKind::Timeout)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::credentials::service::trials::{Fake, Seen, Trial, quick};

    const KEYS: &str = r#"{"Code":"Success","AccessKeyId":"STS.AK","AccessKeySecret":"hunter2","SecurityToken":"T",
        "Expiration":"2030-01-31T12:00:00Z","LastUpdated":"2030-01-31T06:00:00Z"}"#;

    fn role(fake: &Fake, name: Option<&str>, token_only: bool) -> EcsRole {
        at(&fake.url(), name, token_only)
    }

    fn at(url: &str, name: Option<&str>, token_only: bool) -> EcsRole {
        let found = EcsRole::from_environment(&Environment::default()).expect("on");
        EcsRole { service: url.to_owned(), role: name.map(str::to_owned), token_only, retry: quick(), ..found }
    }

    fn metadata(seen: &Seen) -> (u16, String) {
        match (seen.method.as_str(), seen.path.as_str(), seen.header(TOKEN_HEADER)) {
            ("PUT", TOKEN_PATH, _) if seen.header(TOKEN_TTL_HEADER) == Some(TOKEN_TTL) => (200, "session".to_owned()),
            ("GET", ROLES_PATH, Some("session")) => (200, "worker\n".to_owned()),
            ("GET", path, Some("session")) if path == format!("{ROLES_PATH}worker") => (200, KEYS.to_owned()),
            _ => (404, String::new()),
        }
    }

    #[tokio::test]
    async fn a_role_is_named_or_found() {
        let fake = Fake::start(metadata).await;
        for name in [None, Some("worker")] {
            let found = role(&fake, name, true).load().await.expect("valid").expect("found");
            assert_eq!((found.access_key_id(), found.source()), ("STS.AK", Some("ECS RAM role worker")));
            assert_eq!(found.session_token().map(|t| t.expose()), Some("T"));
            assert_eq!(found.expires_at(), Some(UNIX_EPOCH + Duration::from_secs(1_896_091_200)));
        }
        let error = role(&fake, Some("other"), true).load().await.expect_err("no such role");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    }

    #[tokio::test]
    async fn the_older_protocol_is_used_unless_it_is_refused() {
        let fake = Fake::start(|seen| match seen.method.as_str() {
            "PUT" => (403, String::new()),
            _ if seen.header(TOKEN_HEADER).is_some() => (400, String::new()),
            _ => (200, KEYS.to_owned()),
        })
        .await;
        assert!(role(&fake, Some("worker"), false).load().await.expect("valid").is_some());
        let error = role(&fake, Some("worker"), true).load().await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    }

    #[tokio::test]
    async fn no_service_or_no_role_is_an_error_only_where_one_is_named() {
        let nowhere = Fake::unreachable().await;
        let at = |name| at(&nowhere, name, false);
        assert_eq!(at(None).load().await.expect("no ECS"), None);
        assert_eq!(at(Some("worker")).load().await.expect_err("named").kind(), ErrorKind::Io);
        let bare = Fake::start(|_| (404, String::new())).await;
        assert_eq!(role(&bare, None, false).load().await.expect("no role"), None);
        let odd = Fake::start(|_| (200, r#"{"Code":"Failed","AccessKeySecret":"hunter2"}"#.to_owned())).await;
        let error = role(&odd, Some("worker"), false).load().await.expect_err("no keys");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }

    #[tokio::test]
    async fn what_a_service_may_do() {
        let refusal = r#"{"Code":"Forbidden","Message":"the instance says no","RequestId":"R7"}"#;
        for name in [None, Some("worker")] {
            Trial { good: metadata, refusal, words: "the instance says no", secret: "session" }
                .run(|url| async move { at(&url, name, true).load().await })
                .await;
        }
    }

    #[test]
    fn the_environment_turns_it_off() {
        let of = |pairs: &[(&str, &str)]| EcsRole::from_environment(&pairs.iter().copied().collect());
        assert!(of(&[(DISABLED_VARIABLE, "True"), (ROLE_VARIABLE, "worker")]).is_none());
        assert!(!of(&[]).expect("on").is_named());
        assert!(of(&[(ROLE_VARIABLE, "worker")]).expect("on").is_named());
    }
}
