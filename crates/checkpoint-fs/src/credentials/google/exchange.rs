//! Asking Google's token servers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::key::{Key, User};
use super::{AccessToken, external, impersonate};
use crate::credentials::Secret;
use crate::credentials::service::{self, JsonDialect, Route, Services, Wanted};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::transport::{ClientSettings, Failure, RetryPolicy, ServiceError, TlsRoots, WallClock};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);
const ATTEMPTS: u32 = 3;
/// What is assumed of a token that does not say how long it lives.
const LIFE: u64 = 3600;
/// A scope for tokens that only ask for other tokens.
pub(super) const CLOUD_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Gets tokens, a few times where that may help.
#[derive(Debug)]
pub(super) struct Exchange {
    services: Services,
    retry: RetryPolicy,
}

/// The answer of a token server.
#[derive(Deserialize)]
struct Issued {
    access_token: String,
    expires_in: Option<u64>,
}

/// What is asked for, in words that hold no secret, and what to do when it is refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) operation: &'static str,
    pub(super) hint: &'static str,
    pub(super) wanted: Wanted,
}

/// A request for a token.
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) url: String,
    /// Those that are marked as sensitive are repeated by no error.
    pub(super) headers: HeaderMap,
    pub(super) body: String,
    /// What of the body no error repeats either.
    pub(super) secrets: Vec<Secret>,
    pub(super) route: Route,
}

impl Exchange {
    pub(super) fn new(environment: &Environment, clock: Arc<dyn WallClock>) -> Self {
        let settings = ClientSettings {
            connect_timeout: CONNECT_TIMEOUT,
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: environment.clone(),
        };
        let retry = RetryPolicy::default().with_attempts(ATTEMPTS);
        Self { services: Services::new(settings, clock), retry }
    }

    /// Repeats failed attempts by this policy instead.
    #[cfg(test)]
    pub(super) fn set_retry(&mut self, retry: RetryPolicy) {
        self.retry = retry;
    }

    pub(super) fn now(&self) -> SystemTime {
        self.services.clock().now()
    }

    /// A token of a scope.
    pub(super) async fn token_of(&self, key: &Key, scope: &str) -> Result<AccessToken> {
        match key {
            Key::ServiceAccount(account) => {
                let statement = account.statement(scope, self.now())?;
                let form = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", &statement)];
                let asked = Asked {
                    operation: "get a service account's token",
                    hint: "check that the key is still active and that this machine's clock is right",
                    wanted: TOKEN,
                };
                self.issue(asked, &account.token_url, &form, &["assertion"], None).await
            }
            Key::User(user) => self.renew(user).await,
            Key::External(external) => Box::pin(external::token(self, external, scope)).await,
            Key::Impersonated(impersonated) => {
                let own = Box::pin(self.token_of(&impersonated.source, CLOUD_SCOPE)).await?;
                impersonate::token(self, &impersonated.impersonation, &own, scope).await
            }
        }
    }

    /// A user's scopes are those of the sign-in.
    async fn renew(&self, user: &User) -> Result<AccessToken> {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", &user.client_id),
            ("client_secret", user.client_secret.expose()),
            ("refresh_token", user.refresh_token.expose()),
        ];
        let asked = Asked {
            operation: "renew a user's token",
            hint: "sign in again: gcloud auth application-default login",
            wanted: TOKEN,
        };
        self.issue(asked, &user.token_url, &form, &["client_secret", "refresh_token"], None).await
    }

    /// Sends a form and reads a token. `secret` names the fields that no error repeats.
    pub(super) async fn issue(
        &self,
        asked: Asked,
        url: &str,
        form: &[(&str, &str)],
        secret: &[&str],
        client: Option<&(String, Secret)>,
    ) -> Result<AccessToken> {
        let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let hidden = form.iter().filter(|(name, _)| secret.contains(name));
        let mut secrets: Vec<Secret> = hidden.map(|(_, value)| Secret::new(*value)).collect();
        if let Some((id, key)) = client {
            secrets.push(key.clone());
            let pair = BASE64_STANDARD.encode(format!("{}:{}", encode(id), encode(key.expose())));
            headers.insert(AUTHORIZATION, sensitive(&format!("Basic {pair}"))?);
        }
        let (url, body) = (url.to_owned(), body.join("&"));
        let question = Question { method: Method::POST, url, headers, body, secrets, route: Route::Proxied };
        let answer = self.ask(asked, question).await.map_err(|failure| failure.error)?;
        self.issued(asked, &answer)
    }

    /// Reads the token of an answer.
    pub(super) fn issued(&self, asked: Asked, answer: &[u8]) -> Result<AccessToken> {
        let issued: Issued = serde_json::from_slice(answer).map_err(|_| damaged(asked))?;
        let life = Duration::from_secs(issued.expires_in.unwrap_or(LIFE));
        Ok(AccessToken { token: Secret::new(issued.access_token), expires_at: self.now().checked_add(life) })
    }

    /// Sends a request until it is answered well, or the attempts are used up.
    pub(super) async fn ask(&self, asked: Asked, question: Question) -> Result<Bytes, Failure> {
        let Question { method, url, headers, body, secrets, route } = question;
        let exchange = service::Exchange {
            operation: asked.operation,
            method,
            shown: url.split('?').next().unwrap_or_default().to_owned(),
            url,
            headers,
            body: Bytes::from(body),
            secrets,
            route,
            signed: None,
            dialect: Arc::new(JsonDialect {
                wanted: asked.wanted,
                said: words,
                passing: &[],
                hint: asked.hint.to_owned(),
            }),
            retry: self.retry,
            timeout: TIMEOUT,
        };
        Box::pin(self.services.exchange(exchange)).await.map(|answer| answer.body)
    }
}

/// What an answer holds that gives a token.
pub(super) const TOKEN: Wanted = Wanted::Field("access_token");

/// The value of a header that no error repeats.
///
/// # Errors
/// [`InvalidConfig`](ErrorKind::InvalidConfig) for what no header can hold.
pub(super) fn sensitive(text: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        Error::invalid_config("a token or a header of the credentials holds control characters")
            .with_hint("take the credential file as Google gave it")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

pub(super) fn damaged(asked: Asked) -> Error {
    Error::new(ErrorKind::Corrupt, "the answer is damaged").with_operation(asked.operation)
}

/// The service's words: OAuth's, or those of Google's own interfaces.
fn words(answer: &Value) -> ServiceError {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let error = answer.get("error");
    let (code, message) = match error {
        Some(Value::Object(error)) => (text(error.get("status")), text(error.get("message"))),
        _ => (text(error), text(answer.get("error_description"))),
    };
    ServiceError { code, message, request_id: String::new() }
}

/// A text as it stands in a form or a query.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
