//! Resolution: URL, options, environment and defaults, brought together in one place for one container.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use url::{Host, Url};

use super::access::{ACCOUNT_NAME, Access};
use super::connection::{self, Connection, PUBLIC_SUFFIX};
use super::options::AzOptions;
use super::place::{Place, is_account};
use super::wire::{AzWire, list_query};
use crate::backend::endpoint::Endpoint;
use crate::credentials::CredentialProvider;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::options::Environment;
use crate::path::ObjectPath;
use crate::registry::OpenContext;
use crate::resolution::{Resolution, Setting};
use crate::transport::{ClientSettings, RetryPolicy, TlsRoots};

/// The variable of the connection string.
const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(30);
const CONCURRENCY: usize = 64;

/// Everything that is needed to reach one container. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct AzConfig {
    container: String,
    root: ObjectPath,
    account: Setting<String>,
    endpoint: Setting<String>,
    access: Access,
    read_timeout: Duration,
    retry: RetryPolicy,
    client: ClientSettings,
}

impl AzConfig {
    /// Resolves for a location: for each setting the URL and explicit options come first, then the
    /// environment, then the default. Does no I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a wrong option, endpoint, container or key, for
    /// settings that contradict each other, and where no account is named.
    pub fn resolve(location: &Location, context: &OpenContext) -> Result<Self> {
        let place = Place::of(location)?;
        let settings = Settings::gather(context, Some(&place))?;
        let account = settings.account.ok_or_else(|| {
            Error::invalid_config("no storage account is named").with_hint(format!(
                "give `account_name` or `connection_string`, set {ACCOUNT_NAME}, or write \
                 abfss://container@account.dfs.core.windows.net/path"
            ))
        })?;
        let endpoint = settings.endpoint.unwrap_or_else(|| {
            Setting::new(format!("https://{}.blob.{PUBLIC_SUFFIX}", account.value), "default of Azure")
        });
        if settings.access.is_token {
            check_encrypted(&endpoint)?;
        }
        Ok(Self {
            container: place.container,
            root: place.root,
            account,
            endpoint,
            access: settings.access,
            read_timeout: settings.read_timeout,
            retry: RetryPolicy::default(),
            client: settings.client,
        })
    }

    /// Checks the options of a context, without a location.
    pub(super) fn check(context: &OpenContext) -> Result<()> {
        Settings::gather(context, None).map(drop)
    }

    /// Takes credentials from this provider instead: an account with its key, or a session token, which is
    /// sent as a bearer token.
    #[must_use]
    pub fn with_credentials(mut self, provider: Arc<dyn CredentialProvider>) -> Self {
        let source = "given by the program".into();
        self.access = Access { provider, source, name: None, is_token: false, is_anonymous: false };
        self
    }

    /// Repeats failed attempts by this policy instead.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The container.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// The storage account.
    pub fn account(&self) -> &Setting<String> {
        &self.account
    }

    /// The URL of the account's blob service.
    pub fn endpoint(&self) -> &Setting<String> {
        &self.endpoint
    }

    /// Where credentials come from.
    pub fn credentials(&self) -> &Arc<dyn CredentialProvider> {
        &self.access.provider
    }

    /// Whether requests go out without authorization.
    pub fn is_anonymous(&self) -> bool {
        self.access.is_anonymous
    }

    /// The URL of requests for an object.
    pub fn object_url(&self, key: &str) -> String {
        self.wire().blob_url(key)
    }

    /// The URL of a request for the first page of a listing. `prefix` ends in `/`, or is empty.
    pub fn list_url(&self, prefix: &str, recursive: bool) -> String {
        self.wire().container_url(&list_query(prefix, recursive))
    }

    /// What `ckpt fs resolve` shows of an object at the location that this was resolved for.
    pub(super) fn resolution(&self, location: &Location) -> Resolution {
        let key = self.root.as_str();
        let directory = self.root.parent().filter(|d| !d.is_root()).map_or_else(String::new, |d| format!("{d}/"));
        let sources = [
            ("account", &self.account.source),
            ("endpoint", &self.endpoint.source),
            ("credentials", &self.access.source),
        ];
        Resolution {
            bucket: Some(self.container.clone()),
            key: key.to_owned(),
            endpoint: Some(self.endpoint.value.clone()),
            addressing: Some("path".to_owned()),
            access_key_id: self.access.name.clone(),
            has_session_token: self.access.is_token,
            anonymous: self.access.is_anonymous,
            object_url: (!key.is_empty()).then(|| self.object_url(key)),
            list_url: Some(self.list_url(&directory, false)),
            sources: BTreeMap::from(sources.map(|(name, source)| (name.to_owned(), source.to_string()))),
            ..Resolution::plain("az", location)
        }
    }

    pub(super) fn root(&self) -> &ObjectPath {
        &self.root
    }

    pub(super) fn wire(&self) -> AzWire {
        AzWire::new(&self.endpoint.value, &self.container)
    }

    pub(super) fn read_timeout(&self) -> Duration {
        self.read_timeout
    }

    pub(super) fn concurrency(&self) -> usize {
        CONCURRENCY
    }

    pub(super) fn retry(&self) -> RetryPolicy {
        self.retry
    }

    pub(super) fn client(&self) -> &ClientSettings {
        &self.client
    }
}

/// What URL, options and environment say together; a URL may be missing.
struct Settings {
    account: Option<Setting<String>>,
    endpoint: Option<Setting<String>>,
    access: Access,
    read_timeout: Duration,
    client: ClientSettings,
}

impl Settings {
    fn gather(context: &OpenContext, place: Option<&Place>) -> Result<Self> {
        let options = AzOptions::read(&context.options)?;
        let environment = &context.environment;
        let named = named_account(&options, place)?;
        let connection = connection(&options, named.as_ref(), environment)?;
        let host = place.and_then(|p| p.host.as_deref());
        let endpoint = match (&connection, &options.account_host, host) {
            (Some((c, source)), ..) => Some(Setting::new(parse_endpoint(&c.endpoint, source)?, source.clone())),
            (None, Some(host), _) => {
                let source = options.source("account_host");
                let text = if host.contains("://") { host.clone() } else { format!("https://{host}") };
                Some(Setting::new(parse_endpoint(&text, &source)?, source))
            }
            (None, None, Some(host)) => Some(Setting::new(format!("https://{host}"), "URL")),
            (None, None, None) => None,
        };
        let variable = environment.get(ACCOUNT_NAME);
        if variable.is_some_and(|name| !is_account(name)) {
            // Not repeated: a connection string may have come there.
            return Err(Error::invalid_config(format!("{ACCOUNT_NAME} is not the name of an account")).with_hint(NAMES));
        }
        let account = connection
            .as_ref()
            .and_then(|(c, source)| Some(Setting::new(c.account.clone()?, source.clone())))
            .or(named)
            .or_else(|| variable.map(|name| Setting::new(name.to_owned(), "environment: AZURE_STORAGE_ACCOUNT_NAME")))
            .or_else(|| endpoint.as_ref().and_then(|e| Some(Setting::new(account_of(&e.value)?, e.source.clone()))));
        // A key in the environment belongs to the account that is named beside it.
        let of_account = match (&account, variable) {
            (Some(account), Some(variable)) => account.value == variable,
            _ => true,
        };
        let client = ClientSettings {
            connect_timeout: options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            idle_connections: CONCURRENCY,
            tls: TlsRoots::System,
            environment: environment.clone(),
        };
        let name = (account.as_ref().map(|a| a.value.as_str()), of_account);
        let source = connection.as_ref().map(|(c, source)| (c, source));
        let access = Access::choose(&options, source, name, environment, &client)?;
        let read_timeout = options.read_timeout.unwrap_or(DEFAULT_READ_TIMEOUT);
        Ok(Self { account, endpoint, access, read_timeout, client })
    }
}

const NAMES: &str = "a name has 3 to 24 lower-case letters and digits, and no host";

/// The account that the URL or an option names.
fn named_account(options: &AzOptions, place: Option<&Place>) -> Result<Option<Setting<String>>> {
    let option = options.account_name.as_deref();
    if option.is_some_and(|name| !is_account(name)) {
        return Err(Error::invalid_config("account_name is not the name of an account").with_hint(NAMES));
    }
    Ok(match (place.and_then(|p| p.account.as_deref()), option) {
        (Some(url), Some(option)) if url != option => {
            return Err(Error::invalid_config(format!("the URL and account_name differ: url={url} option={option}"))
                .with_hint("name the account once"));
        }
        (Some(url), _) => Some(Setting::new(url.to_owned(), "URL")),
        (None, Some(option)) => Some(Setting::new(option.to_owned(), options.source("account_name"))),
        (None, None) => None,
    })
}

/// The connection string that counts. An explicit one goes before everything else, as in adlfs; one from the
/// environment is for its own account, and steps back where credentials are given explicitly.
fn connection(
    options: &AzOptions,
    named: Option<&Setting<String>>,
    environment: &Environment,
) -> Result<Option<(Connection, Cow<'static, str>)>> {
    if let Some(text) = &options.connection_string {
        let source = options.source("connection_string");
        let parsed = connection::parse(text, &source)?;
        if let (Some(named), Some(own)) = (named, &parsed.account)
            && named.value != *own
        {
            let message = format!("the connection string is for another account: named={} own={own}", named.value);
            return Err(Error::invalid_config(message).with_hint("name the account once"));
        }
        return Ok(Some((parsed, source.into())));
    }
    let explicit = options.account_key.is_some()
        || options.sas_token.is_some()
        || options.client_id.is_some()
        || options.account_host.is_some()
        || options.anonymous == Some(true);
    let Some(text) = environment.get(CONNECTION_STRING).filter(|_| !explicit) else { return Ok(None) };
    let source = "environment: AZURE_STORAGE_CONNECTION_STRING";
    let parsed = connection::parse(text, source)?;
    let is_for_another = named.is_some_and(|named| parsed.account.as_ref().is_some_and(|own| *own != named.value));
    if is_for_another {
        tracing::debug!("AZURE_STORAGE_CONNECTION_STRING is for another account, and not used");
        return Ok(None);
    }
    Ok(Some((parsed, source.into())))
}

/// Checks an endpoint, and takes the slash at its end off.
fn parse_endpoint(text: &str, source: &str) -> Result<String> {
    Ok(Endpoint::parse(text, source)?.to_string().trim_end_matches('/').to_owned())
}

/// The account in an endpoint: the first label of a host name, or the first part of the path.
fn account_of(endpoint: &str) -> Option<String> {
    let url = Url::parse(endpoint).ok()?;
    let account = match url.host()? {
        Host::Domain(name) if name.contains('.') => name.split('.').next()?.to_owned(),
        _ => url.path_segments()?.next()?.to_owned(),
    };
    is_account(&account).then_some(account)
}

/// Whoever reads a token along the way can use it.
fn check_encrypted(endpoint: &Setting<String>) -> Result<()> {
    let url =
        Url::parse(&endpoint.value).map_err(|e| Error::invalid_config("the endpoint is not a URL").with_source(e))?;
    let is_loopback = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if url.scheme() == "https" || is_loopback {
        return Ok(());
    }
    Err(Error::invalid_config(format!("a token is not sent over http: source={}", endpoint.source))
        .with_hint("use an https:// endpoint, or an account key"))
}

#[cfg(test)]
mod tests;
