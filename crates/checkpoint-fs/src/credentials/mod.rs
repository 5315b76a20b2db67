//! Credentials: what they are, where they come from, and how they are kept fresh.
//!
//! A backend gets them from one [`CredentialProvider`], usually a [`ProviderChain`], through a cache
//! that refreshes ahead of expiry, once for all concurrent callers.

#[cfg(feature = "s3")]
pub(crate) mod aws;
#[cfg(feature = "az")]
pub(crate) mod azure;
mod cache;
mod chain;
mod environment;
mod expiry;
mod fixed;
#[cfg(feature = "gs")]
pub(crate) mod google;
#[cfg(any(feature = "s3", feature = "oss", feature = "gs", feature = "az"))]
pub(crate) mod service;
#[cfg(any(feature = "s3", feature = "oss", feature = "gs", feature = "az"))]
mod shown_path;

use std::fmt;
use std::time::SystemTime;

use async_trait::async_trait;

pub(crate) use self::cache::{CredentialCache, Issued};
pub use self::chain::ProviderChain;
pub use self::environment::AwsEnvironment;
pub use self::fixed::{AnonymousCredentials, StaticCredentials};
#[cfg(any(feature = "s3", feature = "oss", feature = "gs", feature = "az"))]
pub(crate) use self::shown_path::ShownPath;
use crate::error::Result;

/// A text that no message, log line or `Debug` output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for signing.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What signs a request: a key pair, perhaps with a session token and an end; or nothing at all.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    access_key_id: String,
    secret_access_key: Secret,
    session_token: Option<Secret>,
    expires_at: Option<SystemTime>,
    source: Option<String>,
}

impl Credentials {
    /// A key pair that does not expire.
    pub fn new(access_key_id: impl Into<String>, secret_access_key: impl Into<String>) -> Self {
        Self {
            access_key_id: access_key_id.into(),
            secret_access_key: Secret::new(secret_access_key),
            session_token: None,
            expires_at: None,
            source: None,
        }
    }

    /// No credentials: requests go out unsigned.
    pub fn anonymous() -> Self {
        Self::new("", "")
    }

    /// Sets the session token of temporary credentials.
    #[must_use]
    pub fn with_session_token(mut self, token: Option<String>) -> Self {
        self.session_token = token.map(Secret::new);
        self
    }

    /// Sets the time after which the service refuses them.
    #[must_use]
    pub fn with_expiry(mut self, expires_at: Option<SystemTime>) -> Self {
        self.expires_at = expires_at;
        self
    }

    /// Names where they came from.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Where they came from, as [`CredentialProvider::name`] calls it.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// The public half; empty for anonymous access.
    pub fn access_key_id(&self) -> &str {
        &self.access_key_id
    }

    /// The secret half.
    pub fn secret_access_key(&self) -> &Secret {
        &self.secret_access_key
    }

    /// The session token, for temporary credentials.
    pub fn session_token(&self) -> Option<&Secret> {
        self.session_token.as_ref()
    }

    /// When they end, where the source says so.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expires_at
    }

    /// Whether requests go out unsigned.
    pub fn is_anonymous(&self) -> bool {
        self.access_key_id.is_empty()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &masked(&self.access_key_id))
            .field("secret_access_key", &self.secret_access_key)
            .field("session_token", &self.session_token)
            .field("expires_at", &self.expires_at)
            .field("source", &self.source)
            .finish()
    }
}

/// The first four characters, enough to tell keys apart.
fn masked(key: &str) -> String {
    if key.chars().count() <= 4 {
        return key.to_owned();
    }
    format!("{}***", key.chars().take(4).collect::<String>())
}

/// A source of credentials.
///
/// `Ok(None)` means that this source is not set up, so that a chain goes on to the next one; an error
/// means that it is set up and wrong, and ends the chain. Results are cached by the caller until shortly
/// before they expire: a provider asks its service each time and keeps nothing.
#[async_trait]
pub trait CredentialProvider: fmt::Debug + Send + Sync {
    /// What messages and `resolve` call this source.
    fn name(&self) -> &str;

    /// Gets credentials. May do I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for half a key pair and the like, and
    /// [`Unauthenticated`](crate::ErrorKind::Unauthenticated) when the source refuses.
    async fn load(&self) -> Result<Option<Credentials>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let credentials =
            Credentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI").with_session_token(Some("FQoGZXIvYXdz".to_owned()));
        let text = format!("{credentials:?} {:?}", credentials.secret_access_key());
        assert!(text.contains("AKID***"), "{text}");
        for secret in ["AKIDEXAMPLE", "wJalr", "FQoG"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
