//! The one way to the services that give credentials: a small request through the common transport.
//!
//! What all of them share is in here: attempts with pauses between them, limits of time and of size, proxies and
//! certificates, no redirects (a token never reaches another host), and errors that name the service and repeat
//! its words without the secrets that were sent to it.

#[cfg(any(feature = "oss", feature = "gs", feature = "az"))]
mod json;
mod masked;
#[cfg(test)]
pub(crate) mod trials;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use reqwest::Client;

#[cfg(any(feature = "oss", feature = "gs", feature = "az"))]
pub(crate) use self::json::{JsonDialect, Wanted};
use self::masked::Masked;
use super::{AnonymousCredentials, CredentialCache, CredentialProvider, Credentials, Secret, StaticCredentials};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::options::Environment;
use crate::transport::{
    Answer, AnswerForm, Call, ClientSettings, Dialect, Failure, Request, RetryPolicy, Signer, Transport,
    TransportParts, WallClock,
};

/// The longest pause that is reckoned with between two attempts.
const PAUSE: Duration = Duration::from_secs(10);

/// Whether proxies are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Through the proxies of the environment.
    Proxied,
    /// Never through a proxy: to what belongs to this machine.
    Direct,
}

/// One request, with all that its sending depends on. Not `Debug`: its body may hold a token.
pub(crate) struct Exchange {
    /// What errors call it.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) url: String,
    /// The URL that errors and logs show.
    pub(crate) shown: String,
    /// Headers; those that are marked as sensitive are masked wherever the service repeats them.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What of the URL and the body is masked likewise.
    pub(crate) secrets: Vec<Secret>,
    pub(crate) route: Route,
    /// Who signs, and how; `None` for what is not signed.
    pub(crate) signed: Option<(Credentials, Arc<dyn Signer>)>,
    pub(crate) dialect: Arc<dyn Dialect>,
    pub(crate) retry: RetryPolicy,
    /// The time of one attempt.
    pub(crate) timeout: Duration,
}

/// Sends requests for credentials. Clients are built at the first use and kept.
#[derive(Clone)]
pub(crate) struct Services {
    settings: ClientSettings,
    clock: Arc<dyn WallClock>,
    proxied: OnceLock<Client>,
    direct: OnceLock<Client>,
}

impl Services {
    /// `settings` say how long a connection may take, whom to trust, and which proxies there are.
    pub(crate) fn new(settings: ClientSettings, clock: Arc<dyn WallClock>) -> Self {
        Self { settings, clock, proxied: OnceLock::new(), direct: OnceLock::new() }
    }

    /// The time that expiry is measured against.
    #[cfg(any(feature = "gs", feature = "az"))]
    pub(crate) fn clock(&self) -> &Arc<dyn WallClock> {
        &self.clock
    }

    /// Sends until an answer counts or the attempts are used up; the whole is bounded in time.
    pub(crate) async fn exchange(&self, exchange: Exchange) -> Result<Answer, Failure> {
        let Exchange {
            operation,
            method,
            url,
            shown,
            headers,
            body,
            mut secrets,
            route,
            signed,
            dialect,
            retry,
            timeout,
        } = exchange;
        let call = Call::new(operation, shown, None);
        let client = self.client(route).map_err(|error| Failure::unsent(call.named(error)))?;
        let (provider, signer): (Arc<dyn CredentialProvider>, Arc<dyn Signer>) = match signed {
            Some((credentials, signer)) => {
                secrets.push(credentials.secret_access_key().clone());
                secrets.extend(credentials.session_token().cloned());
                (Arc::new(StaticCredentials::new(credentials)), signer)
            }
            None => (Arc::new(AnonymousCredentials), Arc::new(Unsigned)),
        };
        let hidden = headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
        secrets.extend(hidden.map(Secret::new));
        let clock = Arc::clone(&self.clock);
        let transport = Transport::new(TransportParts {
            client,
            credentials: CredentialCache::new(provider, Arc::clone(&clock)),
            signer,
            dialect: Arc::new(Masked { inner: dialect, secrets }),
            clock,
            retry,
            attempt_timeout: timeout,
            concurrency: 1,
        });
        let request = Request { method, url, headers, body, answer: AnswerForm::Small };
        let limit = (timeout * 2 + PAUSE) * retry.attempts();
        match tokio::time::timeout(limit, Box::pin(transport.send(&call, &request))).await {
            Ok(sent) => sent,
            Err(_) => {
                let error = Error::new(ErrorKind::Timeout, format!("no answer: seconds={}", limit.as_secs()));
                Err(Failure::unsent(call.named(error.with_retry(Retry::Exhausted))))
            }
        }
    }

    fn client(&self, route: Route) -> Result<Client> {
        let (kept, environment) = match route {
            Route::Proxied => (&self.proxied, self.settings.environment.clone()),
            Route::Direct => (&self.direct, Environment::default()),
        };
        if let Some(client) = kept.get() {
            return Ok(client.clone());
        }
        let client = ClientSettings { environment, ..self.settings.clone() }.build()?;
        Ok(kept.get_or_init(|| client).clone())
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("tls", &self.settings.tls).finish_non_exhaustive()
    }
}

/// The signer of what is not signed: it is never asked.
#[derive(Debug)]
struct Unsigned;

impl Signer for Unsigned {
    fn sign(&self, _: &mut http::Request<Bytes>, _: &Credentials, _: std::time::SystemTime) -> Result<()> {
        Ok(())
    }
}
