//! The RAM role of an ECS instance, from its metadata service.

use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use reqwest::Client;
use serde_json::Value;

use super::issued::Issued;
use crate::credentials::{CredentialProvider, Credentials};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::transport::{ClientSettings, TlsRoots};

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
/// Attempts where the user says that there is a role.
const ATTEMPTS: u32 = 3;

/// Asks the metadata service for the role's credentials. Where no variable names a role, a service
/// that is not there means that this is no ECS instance, and no error.
#[derive(Debug, Clone)]
pub(crate) struct EcsRole {
    service: String,
    role: Option<String>,
    token_only: bool,
}

impl EcsRole {
    /// `None` where the environment turns it off.
    pub(crate) fn from_environment(environment: &Environment) -> Option<Self> {
        let is_true = |name| environment.get(name).is_some_and(|v: &str| v.eq_ignore_ascii_case("true"));
        (!is_true(DISABLED_VARIABLE)).then(|| Self {
            service: SERVICE.to_owned(),
            role: environment.get(ROLE_VARIABLE).map(str::to_owned),
            token_only: is_true(TOKEN_ONLY_VARIABLE),
        })
    }

    /// Whether the environment names the role.
    pub(crate) fn is_named(&self) -> bool {
        self.role.is_some()
    }

    async fn ask(&self, client: &Client) -> Result<Option<Credentials>> {
        let request = client.put(format!("{}{TOKEN_PATH}", self.service)).header(TOKEN_TTL_HEADER, TOKEN_TTL);
        let token = match answer(request).await? {
            (status, text) if status.is_success() => Some(text),
            (status, _) if self.token_only => return Err(refused(status)),
            _ => None,
        };
        let get = |path: &str| {
            let request = client.get(format!("{}{ROLES_PATH}{path}", self.service));
            match &token {
                Some(token) => request.header(TOKEN_HEADER, token.as_str()),
                None => request,
            }
        };
        let role = match &self.role {
            Some(role) => role.clone(),
            None => match answer(get("")).await? {
                (StatusCode::NOT_FOUND, _) => return Ok(None),
                (status, text) if status.is_success() => text.trim().to_owned(),
                (status, _) => return Err(refused(status)),
            },
        };
        let (status, text) = answer(get(&role)).await?;
        if !status.is_success() {
            return Err(refused(status));
        }
        let said: Value = serde_json::from_str(&text).map_err(|_| not_understood())?;
        if said.get("Code").and_then(Value::as_str) != Some("Success") {
            return Err(not_understood());
        }
        let issued: Issued = serde_json::from_value(said).map_err(|_| not_understood())?;
        issued.into_credentials(&format!("ECS RAM role {role}")).map(Some)
    }
}

#[async_trait]
impl CredentialProvider for EcsRole {
    fn name(&self) -> &str {
        "ECS RAM role"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        // The service is reached directly: whoever stands between could keep the keys.
        let client = ClientSettings {
            connect_timeout: PATIENCE,
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: Environment::default(),
        }
        .build()?;
        let mut attempt = 1;
        loop {
            match Box::pin(self.ask(&client)).await {
                Err(error) if error.kind() == ErrorKind::Io && !self.is_named() => {
                    tracing::debug!(%error, "no metadata service answers: this is no ECS instance");
                    return Ok(None);
                }
                Err(error) if error.kind() == ErrorKind::Io && attempt < ATTEMPTS => attempt += 1,
                settled => return settled,
            }
        }
    }
}

/// Status and text of an answer; [`Io`](ErrorKind::Io) where there was none.
async fn answer(request: reqwest::RequestBuilder) -> Result<(StatusCode, String)> {
    let lost = |error: reqwest::Error| {
        Error::new(ErrorKind::Io, "the ECS metadata service does not answer")
            .with_hint(format!("unset {ROLE_VARIABLE} where this is no ECS instance"))
            .with_source(error.without_url())
    };
    let response = request.timeout(PATIENCE).send().await.map_err(lost)?;
    let status = response.status();
    Ok((status, response.text().await.map_err(lost)?))
}

fn refused(status: StatusCode) -> Error {
    let message = format!("the ECS metadata service gives no credentials: status={}", status.as_u16());
    Error::new(ErrorKind::Unauthenticated, message)
        .with_hint(format!("check that the instance has the RAM role that {ROLE_VARIABLE} names"))
}

fn not_understood() -> Error {
    Error::new(ErrorKind::Unauthenticated, "the ECS metadata service's answer holds no credentials")
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::fake::{Fake, Seen};
    use super::*;

    const KEYS: &str = r#"{"Code":"Success","AccessKeyId":"STS.AK","AccessKeySecret":"hunter2","SecurityToken":"T",
        "Expiration":"2030-01-31T12:00:00Z","LastUpdated":"2030-01-31T06:00:00Z"}"#;

    fn role(fake: &Fake, name: Option<&str>, token_only: bool) -> EcsRole {
        EcsRole { service: fake.url(), role: name.map(str::to_owned), token_only }
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
        let at =
            |name: Option<&str>| EcsRole { service: nowhere.clone(), role: name.map(str::to_owned), token_only: false };
        assert_eq!(at(None).load().await.expect("no ECS"), None);
        assert_eq!(at(Some("worker")).load().await.expect_err("named").kind(), ErrorKind::Io);
        let bare = Fake::start(|_| (404, String::new())).await;
        assert_eq!(role(&bare, None, false).load().await.expect("no role"), None);
        let odd = Fake::start(|_| (200, r#"{"Code":"Failed","AccessKeySecret":"hunter2"}"#.to_owned())).await;
        let error = role(&odd, Some("worker"), false).load().await.expect_err("no keys");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }

    #[test]
    fn the_environment_turns_it_off() {
        let of = |pairs: &[(&str, &str)]| EcsRole::from_environment(&pairs.iter().copied().collect());
        assert!(of(&[(DISABLED_VARIABLE, "True"), (ROLE_VARIABLE, "worker")]).is_none());
        assert!(!of(&[]).expect("on").is_named());
        assert!(of(&[(ROLE_VARIABLE, "worker")]).expect("on").is_named());
    }
}
