//! Credentials from the variables that Alibaba's own clients read.

use async_trait::async_trait;

use crate::credentials::{CredentialProvider, Credentials};
use crate::error::{Error, Result};
use crate::options::Environment;

/// A key pair's variables: the key ID, the secret, and the session token.
struct Names {
    key: &'static str,
    secret: &'static str,
    token: &'static str,
}

/// The pairs, in the order they are looked at.
const PAIRS: [Names; 2] = [
    Names { key: "OSS_ACCESS_KEY_ID", secret: "OSS_ACCESS_KEY_SECRET", token: "OSS_SESSION_TOKEN" },
    Names {
        key: "ALIBABA_CLOUD_ACCESS_KEY_ID",
        secret: "ALIBABA_CLOUD_ACCESS_KEY_SECRET",
        token: "ALIBABA_CLOUD_SECURITY_TOKEN",
    },
];

/// `OSS_ACCESS_KEY_ID`, `OSS_ACCESS_KEY_SECRET` and `OSS_SESSION_TOKEN`, or else the same of all of
/// Alibaba Cloud. The first pair of which anything is set decides: nothing of the other pair joins it.
#[derive(Debug, Clone)]
pub(crate) struct OssEnvironment {
    environment: Environment,
}

impl OssEnvironment {
    pub(crate) fn new(environment: Environment) -> Self {
        Self { environment }
    }

    /// The credentials, or `None` where neither pair is set. Does no I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for one half of a pair without the other.
    pub(crate) fn credentials(&self) -> Result<Option<Credentials>> {
        for Names { key, secret, token } in PAIRS {
            let half = |set: &str, missing: &str| {
                Err(Error::invalid_config(format!("{set} is set without {missing}"))
                    .with_hint("set both variables, or unset both"))
            };
            let (id, hidden) = match (self.environment.get(key), self.environment.get(secret)) {
                (Some(id), Some(hidden)) => (id, hidden),
                (None, None) => continue,
                (Some(_), None) => return half(key, secret),
                (None, Some(_)) => return half(secret, key),
            };
            let token = self.environment.get(token).map(str::to_owned);
            let found = Credentials::new(id, hidden).with_session_token(token);
            return Ok(Some(found.with_source(format!("environment: {key}"))));
        }
        Ok(None)
    }
}

#[async_trait]
impl CredentialProvider for OssEnvironment {
    fn name(&self) -> &str {
        "environment"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        self.credentials()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn the_first_pair_decides() {
        let read = |pairs: &[(&str, &str)]| OssEnvironment::new(pairs.iter().copied().collect()).credentials();
        let oss = [("OSS_ACCESS_KEY_ID", "AK1"), ("OSS_ACCESS_KEY_SECRET", "SK1")];
        let cloud = [
            ("ALIBABA_CLOUD_ACCESS_KEY_ID", "AK2"),
            ("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "SK2"),
            ("ALIBABA_CLOUD_SECURITY_TOKEN", "T2"),
        ];
        let both = [&oss[..], &cloud].concat();
        for (pairs, key, token) in [
            (&[][..], None, None),
            (&oss[..1].iter().map(|(k, _)| (*k, "")).collect::<Vec<_>>()[..], None, None),
            (&both[..], Some("AK1"), None),
            (&cloud[..], Some("AK2"), Some("T2")),
            (&[&oss[..], &[("OSS_SESSION_TOKEN", "T1")]].concat()[..], Some("AK1"), Some("T1")),
            (&[("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "SK")][..], None, None),
        ] {
            let found = read(pairs).expect("valid");
            let token_found = found.as_ref().and_then(|c| c.session_token()).map(|t| t.expose().to_owned());
            assert_eq!(found.as_ref().map(Credentials::access_key_id), key);
            assert_eq!(token_found.as_deref(), token);
        }
        let other = [&oss[1..], &cloud[..]].concat();
        for half in [&oss[..1], &oss[1..], &cloud[..1], &cloud[1..2], &other[..]] {
            assert_eq!(read(half).expect_err("half a pair").kind(), ErrorKind::InvalidConfig);
        }
    }
}
