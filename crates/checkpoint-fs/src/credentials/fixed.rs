//! Credentials that never change: given by the caller, or none at all.

use async_trait::async_trait;

use super::{CredentialProvider, Credentials};
use crate::error::{Error, Result};

/// Credentials given by the caller.
#[derive(Debug, Clone)]
pub struct StaticCredentials(Credentials);

impl StaticCredentials {
    /// Wraps credentials.
    pub fn new(credentials: Credentials) -> Self {
        Self(credentials)
    }

    /// From options: `None` when neither half is given; a token alone gives nothing to sign with and
    /// counts as not given.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for one half without the other, or an empty one:
    /// it is taken for a mistake, not for a wish to use other keys.
    pub fn from_parts(key: Option<String>, secret: Option<String>, token: Option<String>) -> Result<Option<Self>> {
        match (key, secret) {
            (Some(key), Some(secret)) if key.is_empty() || secret.is_empty() => {
                Err(Error::invalid_config("`key` or `secret` is empty").with_hint(PAIR))
            }
            (Some(key), Some(secret)) => {
                let token = token.filter(|t| !t.is_empty());
                Ok(Some(Self(Credentials::new(key, secret).with_session_token(token))))
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err(half("key", "secret")),
            (None, Some(_)) => Err(half("secret", "key")),
        }
    }

    /// The credentials.
    pub fn credentials(&self) -> &Credentials {
        &self.0
    }
}

const PAIR: &str = "give both `key` and `secret`, or neither to use the environment";

fn half(given: &str, missing: &str) -> Error {
    Error::invalid_config(format!("`{given}` is given without `{missing}`")).with_hint(PAIR)
}

#[async_trait]
impl CredentialProvider for StaticCredentials {
    fn name(&self) -> &str {
        "options"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        Ok(Some(self.0.clone()))
    }
}

/// No credentials: requests go out unsigned, as public buckets accept them.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnonymousCredentials;

#[async_trait]
impl CredentialProvider for AnonymousCredentials {
    fn name(&self) -> &str {
        "anonymous"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        Ok(Some(Credentials::anonymous()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn parts(key: &str, secret: &str, token: &str) -> Result<Option<StaticCredentials>> {
        let text = |t: &str| (t != "-").then(|| t.to_owned());
        StaticCredentials::from_parts(text(key), text(secret), text(token))
    }

    #[test]
    fn both_halves_or_neither() {
        let full = parts("AK", "SK", "T").expect("valid").expect("given");
        assert_eq!(full.credentials().session_token().map(super::super::Secret::expose), Some("T"));
        assert!(parts("-", "-", "T").expect("a token alone is not credentials").is_none());
        for (key, secret) in [("AK", "-"), ("AK", ""), ("-", "SK"), ("", ""), ("", "SK")] {
            let error = parts(key, secret, "-").expect_err("half a pair");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(!format!("{error:?}").contains("SK"), "{error:?}");
        }
    }
}
