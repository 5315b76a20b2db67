//! Google's access tokens: where they come from, in the words of gcsfs and by the rules of Google's own libraries.

mod discover;
mod exchange;
mod external;
mod impersonate;
mod key;
mod metadata;
mod service_account;
mod token;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use self::discover::Found;
use self::exchange::Exchange;
use self::key::Key;
pub(crate) use self::token::{Scope, Token};
use super::{CredentialProvider, Credentials, Secret};
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::transport::{SystemClock, WallClock};

/// What messages call whoever a token is for when nobody says it.
const SOMEBODY: &str = "oauth2";

/// What access tokens are made of.
#[derive(Debug)]
pub(crate) struct GoogleParts {
    /// The option, where it is given, and where it came from.
    pub(crate) token: Option<(Token, String)>,
    pub(crate) scope: Scope,
    /// Whether requests go to the service itself. A test server is not asked about this machine's identity.
    pub(crate) on_google: bool,
    pub(crate) environment: Environment,
}

/// A source of access tokens: the option `token`, or what the machine is set up with.
///
/// Credentials from here have the token as their secret; their public half is the name of the principal, or
/// `oauth2` where that is unknown.
pub(crate) struct GoogleCredentials {
    parts: GoogleParts,
    exchange: Exchange,
    metadata_host: String,
    /// Whether the machine has given a token: from then on its silence is trouble, and no sign that it has none.
    has_machine: AtomicBool,
}

/// What is known of credentials before anything is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownOffline {
    pub(crate) principal: Option<String>,
    pub(crate) is_anonymous: bool,
    pub(crate) source: String,
}

impl GoogleCredentials {
    /// Sends nothing.
    pub(crate) fn new(parts: GoogleParts) -> Result<Self> {
        Self::with_clock(parts, Arc::new(SystemClock))
    }

    fn with_clock(parts: GoogleParts, clock: Arc<dyn WallClock>) -> Result<Self> {
        let exchange = Exchange::new(&parts.environment, clock);
        let metadata_host = metadata::HOST.to_owned();
        Ok(Self { parts, exchange, metadata_host, has_machine: AtomicBool::new(false) })
    }

    /// What can be said without asking anybody.
    pub(crate) fn known_offline(&self) -> Result<KnownOffline> {
        let known = |principal: Option<String>, source: String| KnownOffline { principal, is_anonymous: false, source };
        let anonymous = |source| KnownOffline { principal: None, is_anonymous: true, source };
        Ok(match self.found()? {
            Found::Anonymous { source } => anonymous(source),
            Found::Raw { source, .. } => known(Some(SOMEBODY.to_owned()), source),
            Found::Key { key, source } => known(key.principal(), source),
            Found::Metadata { .. } => known(None, "the machine's metadata server, when it is first needed".to_owned()),
        })
    }

    fn found(&self) -> Result<Found> {
        discover::find(&self.parts)
    }

    async fn credentials_of(&self, key: &Key) -> Result<Credentials> {
        let token = self.exchange.token_of(key, self.parts.scope.url()).await?;
        let name = key.principal().unwrap_or_else(|| SOMEBODY.to_owned());
        Ok(token.into_credentials(&name))
    }
}

#[async_trait]
impl CredentialProvider for GoogleCredentials {
    fn name(&self) -> &str {
        "google"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        match self.found()? {
            Found::Anonymous { source } => Ok(Some(Credentials::anonymous().with_source(source))),
            Found::Raw { token, source } => Ok(Some(Credentials::new(SOMEBODY, token.expose()).with_source(source))),
            Found::Key { key, source } => Ok(Some(Box::pin(self.credentials_of(&key)).await?.with_source(source))),
            Found::Metadata { is_required } => {
                let is_required = is_required || self.has_machine.load(Ordering::SeqCst);
                let asked = metadata::token(&self.exchange, &self.parts, &self.metadata_host, is_required);
                match Box::pin(asked).await? {
                    Some(token) => {
                        self.has_machine.store(true, Ordering::SeqCst);
                        Ok(Some(token.into_credentials(SOMEBODY).with_source("metadata server")))
                    }
                    None => {
                        tracing::warn!(
                            "no credentials were found: requests go out without any, as public buckets take them"
                        );
                        Ok(Some(Credentials::anonymous().with_source("none found")))
                    }
                }
            }
        }
    }
}

impl fmt::Debug for GoogleCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoogleCredentials").field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// An access token with its end.
#[derive(Debug, Clone)]
struct AccessToken {
    token: Secret,
    expires_at: Option<std::time::SystemTime>,
}

impl AccessToken {
    fn into_credentials(self, name: &str) -> Credentials {
        Credentials::new(name, self.token.expose()).with_expiry(self.expires_at)
    }
}

/// Where a URL that gets secrets may be: behind TLS, or on this machine.
fn check_url(text: &str, what: &str) -> Result<()> {
    let wrong = |why: &str| {
        Error::invalid_config(format!("the {what} of the credentials {why}"))
            .with_hint("take the credential file as Google gave it")
    };
    let url = url::Url::parse(text).map_err(|_| wrong("is not a URL"))?;
    let is_local = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_local => Ok(()),
        _ => Err(wrong("is not https")),
    }
}
