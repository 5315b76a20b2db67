//! What requests are authorized with: the first that is set of keys, signatures and identities.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::connection::Connection;
use super::options::AzOptions;
use crate::credentials::azure::{Authority, EntraProvider, Proof, default_source, sas, shared_key};
use crate::credentials::{
    AnonymousCredentials, CredentialProvider, Credentials, ProviderChain, Secret, StaticCredentials,
};
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::transport::ClientSettings;

/// The variables that adlfs reads.
pub(super) const ACCOUNT_NAME: &str = "AZURE_STORAGE_ACCOUNT_NAME";
const ACCOUNT_KEY: &str = "AZURE_STORAGE_ACCOUNT_KEY";
const SAS_TOKEN: &str = "AZURE_STORAGE_SAS_TOKEN";
const CLIENT_ID: &str = "AZURE_STORAGE_CLIENT_ID";
const CLIENT_SECRET: &str = "AZURE_STORAGE_CLIENT_SECRET";
const TENANT_ID: &str = "AZURE_STORAGE_TENANT_ID";
const ANON: &str = "AZURE_STORAGE_ANON";

/// The chosen way.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) provider: Arc<dyn CredentialProvider>,
    /// Where it came from, in words.
    pub(super) source: Cow<'static, str>,
    /// The account or identity that signs, where it is known before a request.
    pub(super) name: Option<String>,
    /// Whether requests carry a token.
    pub(super) is_token: bool,
    pub(super) is_anonymous: bool,
}

impl Access {
    fn fixed(credentials: Credentials, source: Cow<'static, str>) -> Self {
        let name = Some(credentials.access_key_id().to_owned());
        let fixed = StaticCredentials::new(credentials.with_source(source.as_ref()));
        let provider = Arc::new(ProviderChain::new().then(Arc::new(fixed)));
        Self { provider, source, name, is_token: false, is_anonymous: false }
    }

    fn key(account: Option<&str>, key: &str, source: Cow<'static, str>) -> Result<Self> {
        let key = key.trim();
        if key.is_empty() || BASE64_STANDARD.decode(key).is_err() {
            return Err(Error::invalid_config(format!("the account's key is not base64: source={source}"))
                .with_hint("copy the whole key of the account, with its `=` at the end"));
        }
        // Without an account nothing is opened; the caller says so.
        Ok(Self::fixed(shared_key(account.unwrap_or_default(), key), source))
    }

    fn sas(token: &str, source: Cow<'static, str>) -> Result<Self> {
        let token = token.trim().trim_start_matches('?');
        let plain = |b: u8| b.is_ascii_graphic() && b != b'#';
        if !token.split('&').any(|pair| pair.starts_with("sig=")) || !token.bytes().all(plain) {
            return Err(Error::invalid_config(format!("the shared access signature has no `sig=`: source={source}"))
                .with_hint("it looks like sv=...&sr=c&sp=racwdl&se=...&sig=..."));
        }
        Ok(Self::fixed(sas(token), source))
    }

    fn anonymous(source: Cow<'static, str>) -> Self {
        let provider = Arc::new(AnonymousCredentials);
        Self { provider, source, name: None, is_token: false, is_anonymous: true }
    }

    /// Chooses: a connection string first, then explicit options, then the environment; at last the identity
    /// of this machine. `account` is the account as it was resolved, `of_account` whether the variables'
    /// keys are for it.
    pub(super) fn choose(
        options: &AzOptions,
        connection: Option<(&Connection, &Cow<'static, str>)>,
        (account, of_account): (Option<&str>, bool),
        environment: &Environment,
        client: &ClientSettings,
    ) -> Result<Self> {
        if let Some((Connection { key: Some(key), account, .. }, source)) = connection {
            return Self::key(account.as_deref(), key, source.clone());
        }
        if let Some((Connection { sas: Some(token), .. }, source)) = connection {
            return Self::sas(token, source.clone());
        }
        let principal = |id: Option<&str>, source| Self::principal(id, options, environment, client, source);
        let said = |option| Cow::Owned(options.source(option));
        if let Some(key) = &options.account_key {
            return Self::key(account, key, options.source_of_secret("account_key").into());
        }
        if let Some(token) = &options.sas_token {
            return Self::sas(token, options.source_of_secret("sas_token").into());
        }
        if let Some(access) = principal(options.client_id.as_deref(), said("client_id"))? {
            return Ok(access);
        }
        if options.anonymous == Some(true) {
            return Ok(Self::anonymous(said("anon")));
        }
        let variable = |name| environment.get(name).filter(|_| of_account);
        if let Some(key) = variable(ACCOUNT_KEY) {
            return Self::key(account, key, "environment: AZURE_STORAGE_ACCOUNT_KEY".into());
        }
        if let Some(token) = variable(SAS_TOKEN) {
            return Self::sas(token, "environment: AZURE_STORAGE_SAS_TOKEN".into());
        }
        if let Some(access) = principal(environment.get(CLIENT_ID), "environment: AZURE_STORAGE_CLIENT_ID".into())? {
            return Ok(access);
        }
        let off = |text: &str| ["false", "0", "f"].iter().any(|word| text.eq_ignore_ascii_case(word));
        if options.anonymous.is_none() && environment.get(ANON).is_some_and(|text| !off(text)) {
            return Ok(Self::anonymous("environment: AZURE_STORAGE_ANON".into()));
        }
        let found = default_source(environment, client)?;
        let provider = Arc::new(ProviderChain::new().then(found.provider));
        Ok(Self { provider, source: found.source.into(), name: found.identity, is_token: true, is_anonymous: false })
    }

    /// A service principal, where one is named. Its secret and tenant may come from the environment.
    fn principal(
        id: Option<&str>,
        options: &AzOptions,
        environment: &Environment,
        client: &ClientSettings,
        source: Cow<'static, str>,
    ) -> Result<Option<Self>> {
        let Some(id) = id else { return Ok(None) };
        let secret = options.client_secret.as_deref().or_else(|| environment.get(CLIENT_SECRET));
        let tenant = options.tenant_id.as_deref().or_else(|| environment.get(TENANT_ID));
        let (Some(secret), Some(tenant)) = (secret, tenant) else {
            let missing = if secret.is_none() { "client_secret" } else { "tenant_id" };
            return Err(Error::invalid_config(format!("a client ID is given without `{missing}`: source={source}"))
                .with_hint("give `client_id`, `client_secret` and `tenant_id`, or none of them"));
        };
        let proof = Proof::Secret(Secret::new(secret));
        let provider =
            EntraProvider::new(source.clone(), Authority::of(environment)?, (tenant, id), proof, client.clone())?;
        let provider = Arc::new(ProviderChain::new().then(Arc::new(provider)));
        Ok(Some(Self { provider, source, name: Some(id.to_owned()), is_token: true, is_anonymous: false }))
    }
}
