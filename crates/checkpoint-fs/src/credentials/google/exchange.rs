//! Asking Google's token servers.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Client;
use serde::Deserialize;
use serde_json::Value;

use super::key::{Key, User};
use super::{AccessToken, external, impersonate};
use crate::credentials::Secret;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::options::Environment;
use crate::transport::{ClientSettings, RetryPolicy, TlsRoots, WallClock};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);
const ATTEMPTS: u32 = 3;
/// What is assumed of a token that does not say how long it lives.
const LIFE: u64 = 3600;
/// The longest answer that is read.
const MAX_ANSWER: usize = 1 << 20;
/// A scope for tokens that only ask for other tokens.
pub(super) const CLOUD_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Gets tokens, a few times where that may help.
pub(super) struct Exchange {
    client: Client,
    /// For servers of this machine's own network, which no proxy reaches.
    direct: Client,
    clock: Arc<dyn WallClock>,
    retry: RetryPolicy,
}

/// The answer of a token server.
#[derive(Deserialize)]
struct Issued {
    access_token: String,
    expires_in: Option<u64>,
}

/// What was asked, for messages; none of it is a secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) what: &'static str,
    pub(super) hint: &'static str,
}

impl Exchange {
    pub(super) fn new(environment: &Environment, clock: Arc<dyn WallClock>) -> Result<Self> {
        let settings = ClientSettings {
            connect_timeout: CONNECT_TIMEOUT,
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: environment.clone(),
        };
        let direct = ClientSettings { environment: Environment::default(), ..settings.clone() };
        let retry = RetryPolicy::default().with_attempts(ATTEMPTS);
        Ok(Self { client: settings.build()?, direct: direct.build()?, clock, retry })
    }

    pub(super) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn direct(&self) -> &Client {
        &self.direct
    }

    /// A token of a scope.
    pub(super) async fn token_of(&self, key: &Key, scope: &str) -> Result<AccessToken> {
        match key {
            Key::ServiceAccount(account) => {
                let statement = account.statement(scope, self.now())?;
                let form = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", &statement)];
                let asked = Asked {
                    what: "the token of a service account",
                    hint: "check that the key is still active and that this machine's clock is right",
                };
                self.issue(asked, &account.token_url, &form, None).await
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
        let asked = Asked { what: "a user's token", hint: "sign in again: gcloud auth application-default login" };
        self.issue(asked, &user.token_url, &form, None).await
    }

    /// Sends a form and reads a token.
    pub(super) async fn issue(
        &self,
        asked: Asked,
        url: &str,
        form: &[(&str, &str)],
        client: Option<&(String, Secret)>,
    ) -> Result<AccessToken> {
        let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let body = body.join("&");
        let answer = self
            .ask(asked, || {
                let request = self.client.post(url).header("content-type", "application/x-www-form-urlencoded");
                let request = match client {
                    Some((id, secret)) => request.basic_auth(encode(id), Some(encode(secret.expose()))),
                    None => request,
                };
                request.body(body.clone())
            })
            .await?;
        self.issued(asked, answer)
    }

    /// Reads the token of an answer.
    pub(super) fn issued(&self, asked: Asked, answer: Value) -> Result<AccessToken> {
        let issued = Issued::deserialize(answer).map_err(|_| damaged(asked))?;
        let life = Duration::from_secs(issued.expires_in.unwrap_or(LIFE));
        Ok(AccessToken { token: Secret::new(issued.access_token), expires_at: self.now().checked_add(life) })
    }

    /// Sends a request until it is answered with JSON, or the attempts are used up.
    pub(super) async fn ask(&self, asked: Asked, request: impl Fn() -> reqwest::RequestBuilder) -> Result<Value> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match Box::pin(self.attempt(asked, request())).await {
                Ok(bytes) => return serde_json::from_slice(&bytes).map_err(|_| damaged(asked)),
                Err(error) => error,
            };
            if error.retry() != Retry::Maybe {
                return Err(error);
            }
            if attempt >= self.retry.attempts() {
                return Err(error.with_retry(Retry::Exhausted));
            }
            tokio::time::sleep(self.retry.pause(attempt, None)).await;
        }
    }

    /// Sends a request once and gives the bytes of a good answer.
    pub(super) async fn attempt(&self, asked: Asked, request: reqwest::RequestBuilder) -> Result<Vec<u8>> {
        let answered = tokio::time::timeout(TIMEOUT, async {
            let mut answer = request.send().await?;
            let status = answer.status();
            let mut body = Vec::new();
            while let Some(piece) = answer.chunk().await? {
                body.extend_from_slice(&piece);
                if body.len() > MAX_ANSWER {
                    break;
                }
            }
            Ok::<_, reqwest::Error>((status, body))
        });
        let (status, body) = match answered.await {
            Err(_) => return Err(passing(asked, ErrorKind::Timeout, "no answer within the time allowed")),
            // The cause names the address and no secret; its URL could hold one.
            Ok(Err(e)) => {
                return Err(passing(asked, ErrorKind::Io, "the server was not reached").with_source(e.without_url()));
            }
            Ok(Ok(answer)) => answer,
        };
        if body.len() > MAX_ANSWER {
            return Err(damaged(asked));
        }
        if status.is_success() { Ok(body) } else { Err(refused(asked, status, &body)) }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

fn passing(asked: Asked, kind: ErrorKind, why: &str) -> Error {
    Error::new(kind, format!("{} was not given: {why}", asked.what)).with_retry(Retry::Maybe)
}

fn damaged(asked: Asked) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{} was not given: the answer is damaged", asked.what))
}

/// Of the answer only its code is repeated: its text could hold what was sent.
fn refused(asked: Asked, status: StatusCode, body: &[u8]) -> Error {
    let code = serde_json::from_slice::<Value>(body).ok().and_then(|answer| {
        let error = answer.get("error")?;
        let text = error.as_str().or_else(|| error.get("status")?.as_str())?;
        let is_plain = text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        is_plain.then(|| text.to_owned())
    });
    let (kind, retry) = match status.as_u16() {
        429 => (ErrorKind::RateLimited, Retry::Maybe),
        408 | 500..=599 => (ErrorKind::Io, Retry::Maybe),
        _ => (ErrorKind::Unauthenticated, Retry::Never),
    };
    let message = format!("{} was not given: status={}", asked.what, status.as_u16());
    let error = Error::new(kind, message).with_retry(retry).with_hint(asked.hint);
    match code {
        Some(code) => error.with_service_code(code),
        None => error,
    }
}

/// A text as it stands in a form or a query.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
