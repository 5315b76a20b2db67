//! Credentials from the `COS_*` variables.

use async_trait::async_trait;

use crate::credentials::{CredentialProvider, Credentials};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;

/// The variable of the secret ID, which COS calls the access key ID.
pub(crate) const SECRET_ID: &str = "COS_SECRET_ID";
/// The variable of the secret key.
pub(crate) const SECRET_KEY: &str = "COS_SECRET_KEY";
/// The variable of the session token of temporary keys.
pub(crate) const TOKEN: &str = "COS_TOKEN";

/// `COS_SECRET_ID`, `COS_SECRET_KEY` and, for temporary keys, `COS_TOKEN`. Empty variables are not set. It
/// is the last source, so finding nothing is an error here.
#[derive(Debug, Clone)]
pub(crate) struct CosEnvironment {
    environment: Environment,
}

impl CosEnvironment {
    pub(crate) fn new(environment: Environment) -> Self {
        Self { environment }
    }

    /// The credentials, or `None` where neither half is set. Does no I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for one half without the other.
    pub(crate) fn credentials(&self) -> Result<Option<Credentials>> {
        let half = |set: &str, missing: &str| {
            Err(Error::invalid_config(format!("{set} is set without {missing}"))
                .with_hint("set both variables, or unset both"))
        };
        match (self.environment.get(SECRET_ID), self.environment.get(SECRET_KEY)) {
            (Some(id), Some(key)) => {
                let token = self.environment.get(TOKEN).map(str::to_owned);
                Ok(Some(Credentials::new(id, key).with_session_token(token)))
            }
            (None, None) => Ok(None),
            (Some(_), None) => half(SECRET_ID, SECRET_KEY),
            (None, Some(_)) => half(SECRET_KEY, SECRET_ID),
        }
    }
}

#[async_trait]
impl CredentialProvider for CosEnvironment {
    fn name(&self) -> &str {
        "environment"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        match self.credentials()? {
            None => Err(Error::new(ErrorKind::Unauthenticated, "no credentials were found").with_hint(
                "set COS_SECRET_ID and COS_SECRET_KEY, give `key` and `secret`, or `anon: true` for a public bucket",
            )),
            found => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<Credentials>> {
        CosEnvironment::new(pairs.iter().copied().collect()).credentials()
    }

    #[test]
    fn both_halves_or_neither() {
        let both = [(SECRET_ID, "AK"), (SECRET_KEY, "SK")];
        let token = |extra: &[(&str, &str)]| {
            let found = read(&[&both[..], extra].concat()).expect("valid").expect("given");
            found.session_token().map(|t| t.expose().to_owned())
        };
        assert_eq!((token(&[]), token(&[(TOKEN, "")])), (None, None));
        assert_eq!(token(&[(TOKEN, "T")]).as_deref(), Some("T"));
        assert_eq!(read(&[(TOKEN, "T"), ("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "S")]).ok(), Some(None));
        for half in [&both[..1], &both[1..], &[(SECRET_ID, "AK"), (SECRET_KEY, "")][..]] {
            assert_eq!(read(half).expect_err("half a pair").kind(), ErrorKind::InvalidConfig);
        }
    }

    #[tokio::test]
    async fn nothing_found_says_what_to_set() {
        let error = CosEnvironment::new(Environment::default()).load().await.expect_err("nothing");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert!(error.hint().is_some_and(|h| h.contains(SECRET_ID)), "{error:?}");
    }
}
