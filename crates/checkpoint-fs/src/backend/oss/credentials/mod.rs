//! Where the credentials of `oss` come from: options, environment, an OIDC token, an ECS instance's role.

mod ecs_role;
mod environment;
mod issued;
mod oidc;

use std::sync::Arc;

use async_trait::async_trait;

use self::ecs_role::EcsRole;
use self::environment::OssEnvironment;
use self::oidc::OidcRole;
use super::options::OssOptions;
use crate::credentials::{AnonymousCredentials, CredentialProvider, Credentials, ProviderChain, StaticCredentials};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;

/// The source that was chosen, and what is known of it without asking anybody.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) provider: Arc<dyn CredentialProvider>,
    /// The credentials, where no call is needed to get them.
    pub(crate) known: Option<Credentials>,
    /// In words.
    pub(crate) name: String,
}

/// Chooses: `anon`, then `key` and `secret`, then the environment, then the role of an OIDC token, then
/// that of the ECS instance, which is asked for only where nothing else is set up. Does no I/O.
///
/// # Errors
/// [`InvalidConfig`](ErrorKind::InvalidConfig) for half a key pair.
pub(crate) fn choose(options: &OssOptions, environment: &Environment) -> Result<Source> {
    let fixed = |provider: Arc<dyn CredentialProvider>, known: Credentials, name: &str| Source {
        provider,
        name: known.source().unwrap_or(name).to_owned(),
        known: Some(known),
    };
    if let Some(anonymous) = options.anonymous.as_ref().filter(|given| given.value) {
        return Ok(fixed(Arc::new(AnonymousCredentials), Credentials::anonymous(), &anonymous.source));
    }
    let (key, secret, token) = (options.key.clone(), options.secret.clone(), options.token.clone());
    if let Some(given) = StaticCredentials::from_parts(key, secret, token)? {
        let known = given.credentials().clone();
        return Ok(fixed(Arc::new(ProviderChain::new().then(Arc::new(given))), known, &options.key_source));
    }
    let variables = OssEnvironment::new(environment.clone());
    if let Some(known) = variables.credentials()? {
        return Ok(fixed(Arc::new(ProviderChain::new().then(Arc::new(variables))), known, "environment"));
    }
    let (first, name): (Option<Arc<dyn CredentialProvider>>, &str) =
        match (OidcRole::from_environment(environment), EcsRole::from_environment(environment)) {
            (Some(role), _) => (Some(Arc::new(role)), "OIDC role"),
            (None, Some(role)) if role.is_named() => (Some(Arc::new(role)), "ECS RAM role"),
            (None, Some(role)) => (Some(Arc::new(role)), "none set; an ECS RAM role, where this machine has one"),
            (None, None) => (None, "none found"),
        };
    let chain = first.into_iter().fold(ProviderChain::new(), ProviderChain::then).then(Arc::new(Nowhere));
    Ok(Source { provider: Arc::new(chain), known: None, name: name.to_owned() })
}

/// The end of the chain: says what could be set.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl CredentialProvider for Nowhere {
    fn name(&self) -> &str {
        "none"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        Err(Error::new(ErrorKind::Unauthenticated, "no credentials were found").with_hint(
            "set OSS_ACCESS_KEY_ID and OSS_ACCESS_KEY_SECRET, give `key` and `secret`, or `anon: true` for a public \
             bucket",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StorageOptions;

    fn source(options: serde_json::Value, variables: &[(&str, &str)]) -> Result<Source> {
        let options = StorageOptions::from_value(serde_json::json!({"oss": options})).expect("the right shape");
        choose(&OssOptions::read(&options)?, &variables.iter().copied().collect())
    }

    #[tokio::test]
    async fn the_first_that_is_set_up_wins() {
        const OFF: (&str, &str) = ("ALIBABA_CLOUD_ECS_METADATA_DISABLED", "true");
        let keys = [("OSS_ACCESS_KEY_ID", "AKENV"), ("OSS_ACCESS_KEY_SECRET", "SKENV"), ("OSS_SESSION_TOKEN", "T")];
        for (options, variables, key, token, name) in [
            (serde_json::json!({"anon": true, "key": "A", "secret": "S"}), &keys[..], "", false, "options: anon"),
            (serde_json::json!({"key": "AKOPT", "secret": "S"}), &keys[..], "AKOPT", false, "options: key"),
            (serde_json::json!({"token": "IGNORED"}), &keys[..], "AKENV", true, "environment: OSS_ACCESS_KEY_ID"),
        ] {
            let found = source(options, variables).expect("valid");
            assert_eq!(found.name, name);
            let loaded = found.provider.load().await.expect("valid").expect("found");
            assert_eq!((loaded.access_key_id(), loaded.session_token().is_some()), (key, token));
            assert_eq!(found.known.expect("known").access_key_id(), key);
        }
        let none = source(serde_json::json!({}), &[OFF]).expect("valid");
        assert!(none.known.is_none());
        let error = none.provider.load().await.expect_err("nothing is set");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert!(error.hint().expect("has one").contains("OSS_ACCESS_KEY_ID"));

        let oidc = [
            ("ALIBABA_CLOUD_ROLE_ARN", "r"),
            ("ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "p"),
            ("ALIBABA_CLOUD_OIDC_TOKEN_FILE", "/nowhere/token"),
            ("ALIBABA_CLOUD_ECS_METADATA", "worker"),
        ];
        assert_eq!(source(serde_json::json!({}), &oidc).expect("valid").name, "OIDC role");
        assert_eq!(source(serde_json::json!({}), &oidc[3..]).expect("valid").name, "ECS RAM role");
        assert!(source(serde_json::json!({}), &keys[..1]).is_err(), "half a pair in the environment");
        assert!(source(serde_json::json!({"key": "AK"}), &keys).is_err(), "half a pair in the options");
    }

    #[test]
    fn debug_shows_no_secret() {
        let source = source(serde_json::json!({"key": "LTAIEXAMPLE", "secret": "hunter2", "token": "s3ss10n"}), &[]);
        let shown = format!("{:?}", source.expect("valid"));
        for secret in ["hunter2", "s3ss10n", "LTAIEXAMPLE"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
