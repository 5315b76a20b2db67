//! Credentials from the `AWS_*` variables.

use std::time::SystemTime;

use async_trait::async_trait;

use super::{CredentialProvider, Credentials, expiry};
use crate::error::{Error, Result};
use crate::options::Environment;

/// The variable of the access key ID.
pub(crate) const ACCESS_KEY_ID: &str = "AWS_ACCESS_KEY_ID";
/// The variable of the secret access key.
pub(crate) const SECRET_ACCESS_KEY: &str = "AWS_SECRET_ACCESS_KEY";
/// The variables of the session token, in the order they are looked at.
pub(crate) const SESSION_TOKENS: [&str; 2] = ["AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"];
/// The variable of the time at which the keys end.
pub(crate) const CREDENTIAL_EXPIRATION: &str = "AWS_CREDENTIAL_EXPIRATION";

/// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, the session token from `AWS_SECURITY_TOKEN` or else
/// `AWS_SESSION_TOKEN`, and `AWS_CREDENTIAL_EXPIRATION`. Empty variables are not set.
///
/// The access key ID decides: without it the others are ignored, and without its secret it is an error.
#[derive(Debug, Clone)]
pub struct AwsEnvironment {
    environment: Environment,
}

impl AwsEnvironment {
    /// Reads from these variables.
    pub fn new(environment: Environment) -> Self {
        Self { environment }
    }

    /// The credentials, or `None` without an access key ID. Does no I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a key without its secret, or for a time of
    /// expiry that is none.
    pub fn credentials(&self) -> Result<Option<Credentials>> {
        let Some(key) = self.environment.get(ACCESS_KEY_ID) else { return Ok(None) };
        let Some(secret) = self.environment.get(SECRET_ACCESS_KEY) else {
            return Err(Error::invalid_config(format!("{ACCESS_KEY_ID} is set without {SECRET_ACCESS_KEY}"))
                .with_hint("set both variables, or unset both"));
        };
        let token = SESSION_TOKENS.iter().find_map(|name| self.environment.get(name)).map(str::to_owned);
        let expires_at = self.environment.get(CREDENTIAL_EXPIRATION).map(parse_time).transpose()?;
        Ok(Some(Credentials::new(key, secret).with_session_token(token).with_expiry(expires_at)))
    }
}

fn parse_time(text: &str) -> Result<SystemTime> {
    expiry::parse(text).ok_or_else(|| {
        Error::invalid_config(format!("{CREDENTIAL_EXPIRATION} is not a time: value={text:?}"))
            .with_hint("write it as 2030-01-31T12:00:00Z")
    })
}

#[async_trait]
impl CredentialProvider for AwsEnvironment {
    fn name(&self) -> &str {
        "environment"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        self.credentials()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::ErrorKind;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<Credentials>> {
        AwsEnvironment::new(pairs.iter().copied().collect()).credentials()
    }

    #[test]
    fn the_access_key_decides() {
        assert_eq!(read(&[]).expect("valid"), None);
        assert_eq!(read(&[(SECRET_ACCESS_KEY, "SK")]).expect("ignored"), None);
        assert_eq!(read(&[(ACCESS_KEY_ID, ""), (SECRET_ACCESS_KEY, "SK")]).expect("empty is unset"), None);
        for pairs in [&[(ACCESS_KEY_ID, "AK")][..], &[(ACCESS_KEY_ID, "AK"), (SECRET_ACCESS_KEY, "")][..]] {
            assert_eq!(read(pairs).expect_err("half a pair").kind(), ErrorKind::InvalidConfig);
        }
    }

    #[test]
    fn the_older_token_variable_wins() {
        let keys = [(ACCESS_KEY_ID, "AK"), (SECRET_ACCESS_KEY, "SK")];
        let token = |extra: &[(&str, &str)]| {
            let found = read(&[&keys[..], extra].concat()).expect("valid").expect("given");
            found.session_token().map(|t| t.expose().to_owned())
        };
        assert_eq!(token(&[]), None);
        assert_eq!(token(&[("AWS_SESSION_TOKEN", "S")]).as_deref(), Some("S"));
        assert_eq!(token(&[("AWS_SESSION_TOKEN", "S"), ("AWS_SECURITY_TOKEN", "L")]).as_deref(), Some("L"));
        assert_eq!(token(&[("AWS_SESSION_TOKEN", "S"), ("AWS_SECURITY_TOKEN", "")]).as_deref(), Some("S"));
    }

    #[test]
    fn expiry_is_read_or_refused() {
        let keys = [(ACCESS_KEY_ID, "AK"), (SECRET_ACCESS_KEY, "SK")];
        let with = |text| read(&[&keys[..], &[(CREDENTIAL_EXPIRATION, text)]].concat());
        let found = with("2020-01-01T00:00:00Z").expect("valid").expect("given");
        assert_eq!(found.expires_at(), Some(UNIX_EPOCH + Duration::from_secs(1_577_836_800)));
        assert_eq!(with("tomorrow").expect_err("no time").kind(), ErrorKind::InvalidConfig);
    }
}
