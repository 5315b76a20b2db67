//! The way to the services that give credentials: one request through the common transport.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use reqwest::Client;

use super::setup::AwsContext;
use crate::credentials::{AnonymousCredentials, CredentialCache, CredentialProvider, Credentials, StaticCredentials};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::transport::{
    Answer, AnswerForm, Call, ClientSettings, Dialect, Failure, Request, RetryPolicy, SigV4, TlsRoots, Transport,
    TransportParts,
};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest pause that is reckoned with between two attempts.
const PAUSE: Duration = Duration::from_secs(10);

/// Whether proxies are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// Through the proxies of the environment.
    Proxied,
    /// Never through a proxy: to what belongs to this machine.
    Direct,
}

/// One request, with all that its sending depends on. Not `Debug`: its body may hold a token.
pub(super) struct Exchange {
    /// What errors call it.
    pub(super) operation: &'static str,
    pub(super) method: Method,
    pub(super) url: String,
    /// The URL that errors and logs show.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) route: Route,
    /// Who signs, and how; `None` for what is not signed.
    pub(super) signed: Option<(Credentials, SigV4)>,
    pub(super) dialect: Arc<dyn Dialect>,
    pub(super) retry: RetryPolicy,
    /// The time of one attempt.
    pub(super) timeout: Duration,
}

/// Sends requests for credentials. Clients are built at the first use and kept.
pub(super) struct Services {
    context: AwsContext,
    ca_bundle: Option<String>,
    proxied: OnceLock<Client>,
    direct: OnceLock<Client>,
}

impl Services {
    /// `ca_bundle` is the file of trusted certificates, where one is set.
    pub(super) fn new(context: AwsContext, ca_bundle: Option<String>) -> Self {
        Self { context, ca_bundle, proxied: OnceLock::new(), direct: OnceLock::new() }
    }

    pub(super) fn context(&self) -> &AwsContext {
        &self.context
    }

    /// Sends until an answer counts or the attempts are used up; the whole is bounded in time.
    pub(super) async fn exchange(&self, exchange: Exchange) -> Result<Answer, Failure> {
        let client = self.client(exchange.route).map_err(Failure::unsent)?;
        let (provider, signer): (Arc<dyn CredentialProvider>, SigV4) = match exchange.signed {
            Some((credentials, signer)) => (Arc::new(StaticCredentials::new(credentials)), signer),
            None => {
                let unused = SigV4 { region: String::new(), service: "", always_sign_payload: false };
                (Arc::new(AnonymousCredentials), unused)
            }
        };
        let clock = Arc::clone(&self.context.clock);
        let transport = Transport::new(TransportParts {
            client,
            credentials: CredentialCache::new(provider, Arc::clone(&clock)),
            signer: Arc::new(signer),
            dialect: exchange.dialect,
            clock,
            retry: exchange.retry,
            attempt_timeout: exchange.timeout,
            concurrency: 1,
        });
        let call = Call::new(exchange.operation, exchange.shown, None);
        let request = Request {
            method: exchange.method,
            url: exchange.url,
            headers: exchange.headers,
            body: exchange.body,
            answer: AnswerForm::Bytes,
        };
        // The transport allows a body without a length minutes to arrive: these are small.
        let limit = (exchange.timeout * 2 + PAUSE) * exchange.retry.attempts();
        match tokio::time::timeout(limit, Box::pin(transport.send(&call, &request))).await {
            Ok(sent) => sent,
            Err(_) => {
                let error = Error::new(ErrorKind::Timeout, format!("no answer: seconds={}", limit.as_secs()));
                Err(Failure::unsent(call.named(error)))
            }
        }
    }

    fn client(&self, route: Route) -> Result<Client> {
        let (kept, environment) = match route {
            Route::Proxied => (&self.proxied, self.context.environment.clone()),
            Route::Direct => (&self.direct, Environment::default()),
        };
        if let Some(client) = kept.get() {
            return Ok(client.clone());
        }
        let tls = self.ca_bundle.as_ref().map_or(TlsRoots::System, |path| TlsRoots::Bundle(path.into()));
        let settings = ClientSettings { connect_timeout: CONNECT_TIMEOUT, idle_connections: 1, tls, environment };
        let client = settings.build()?;
        Ok(kept.get_or_init(|| client).clone())
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("context", &self.context).finish_non_exhaustive()
    }
}
