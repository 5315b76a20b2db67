//! Resolution: options, environment and defaults, brought together for one bucket of COS.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::credentials::CosEnvironment;
use super::endpoint::CosEndpoint;
use super::{PROTOCOLS, parameters, vendor};
use crate::backend::bucket::{Addressing, BucketAddress, BucketConfig, OwnNames, S3Options, check_bucket};
use crate::credentials::{AnonymousCredentials, CredentialProvider, ProviderChain, StaticCredentials};
use crate::error::{Error, Result};
use crate::location::Location;
use crate::options::Environment;
use crate::path::ObjectPath;
use crate::registry::OpenContext;
use crate::resolution::{Resolution, Setting};
use crate::transport::{ClientSettings, RetryPolicy, TlsRoots};

/// The variable of the endpoint.
pub(crate) const ENDPOINT_VARIABLE: &str = "COS_ENDPOINT";
/// The variable of the region.
pub(crate) const REGION_VARIABLE: &str = "COS_REGION";

/// What COS calls a key pair and its place.
const OWN_NAMES: OwnNames = OwnNames { key: "secret_id", secret: "secret_key", region: "region" };

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_CONCURRENCY: usize = 64;
/// The region that signatures name where the server is not COS's own and none is given.
const ANY_REGION: &str = "us-east-1";

/// Everything that is needed to reach one bucket of COS. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct CosConfig {
    bucket: String,
    endpoint: Setting<String>,
    region: Setting<String>,
    addressing: Setting<Addressing>,
    address: BucketAddress,
    credentials: Arc<dyn CredentialProvider>,
    anonymous: bool,
    requester_pays: bool,
    sign_payload: bool,
    headers: HeaderMap,
    write_headers: HeaderMap,
    read_timeout: Duration,
    concurrency: usize,
    retry: RetryPolicy,
    client: ClientSettings,
}

impl CosConfig {
    /// Resolves for a bucket: for each setting explicit options come first, then `COS_*` variables, then the
    /// default. `AWS_*` variables mean nothing here. Does no I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a wrong option, endpoint, bucket name, or half
    /// a key pair, for a missing region, and for a path-style request, which COS refuses.
    pub fn resolve(bucket: &str, context: &OpenContext) -> Result<Self> {
        check_bucket(bucket)?;
        let given = Given::read(context)?;
        let endpoint = given.endpoint_or_default()?;
        let region = given.region_of(&endpoint.value)?;
        let Given { options, environment, credentials, .. } = given;
        let (address, addressing) = endpoint.value.address(bucket, style(&options).as_ref())?;
        let concurrency = options.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
        let retry = RetryPolicy::default();
        Ok(Self {
            bucket: bucket.to_owned(),
            region,
            addressing,
            address,
            credentials,
            anonymous: options.is_anonymous(),
            requester_pays: options.requester_pays,
            sign_payload: options.sign_payload.unwrap_or(false),
            headers: options.headers.clone(),
            write_headers: options.write_headers.clone(),
            read_timeout: options.read_timeout.unwrap_or(DEFAULT_READ_TIMEOUT),
            concurrency,
            retry: options.attempts.map_or(retry, |n| retry.with_attempts(n)),
            client: ClientSettings {
                connect_timeout: options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
                idle_connections: concurrency,
                // Where nothing is encrypted, a bundle that is not there is no reason to fail.
                tls: match options.verify.as_ref().filter(|_| endpoint.value.is_encrypted()) {
                    Some(verify) => TlsRoots::of_verify(&verify.value),
                    None => TlsRoots::System,
                },
                environment: options.with_proxies(environment),
            },
            endpoint: Setting::new(endpoint.value.url(), endpoint.source),
        })
    }

    /// A bucket that another service names, reached with the credentials that it hands out: the region's
    /// endpoint, unless another is given. Of the environment only proxies count. Does no I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a bucket that the endpoint cannot have.
    #[cfg(feature = "tclake")]
    pub(crate) fn handed_out(
        bucket: &str,
        region: &str,
        endpoint: Option<&CosEndpoint>,
        credentials: Arc<dyn CredentialProvider>,
        environment: &Environment,
    ) -> Result<Self> {
        const SOURCE: &str = "handed out";
        let endpoint = endpoint.cloned().unwrap_or_else(|| CosEndpoint::of_region(region, true));
        let region = endpoint.region().unwrap_or(region).to_owned();
        let (address, addressing) = endpoint.address(bucket, None)?;
        Ok(Self {
            bucket: bucket.to_owned(),
            endpoint: Setting::new(endpoint.url(), SOURCE),
            region: Setting::new(region, SOURCE),
            addressing,
            address,
            credentials,
            anonymous: false,
            requester_pays: false,
            sign_payload: false,
            headers: HeaderMap::new(),
            write_headers: HeaderMap::new(),
            read_timeout: DEFAULT_READ_TIMEOUT,
            concurrency: DEFAULT_CONCURRENCY,
            retry: RetryPolicy::default(),
            client: ClientSettings {
                connect_timeout: DEFAULT_CONNECT_TIMEOUT,
                idle_connections: DEFAULT_CONCURRENCY,
                tls: TlsRoots::System,
                environment: environment.clone(),
            },
        })
    }

    /// Checks options and environment as far as that goes without a bucket.
    ///
    /// # Errors
    /// As [`CosConfig::resolve`].
    pub(crate) fn check(context: &OpenContext) -> Result<()> {
        let given = Given::read(context)?;
        let asked = style(&given.options);
        match given.endpoint {
            Some(endpoint) if asked.as_ref().is_some_and(|style| style.value == Addressing::Path) => {
                let bucket = endpoint.value.held_bucket().unwrap_or("bucket-1");
                endpoint.value.address(bucket, asked.as_ref()).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Takes credentials from this provider instead.
    #[must_use]
    pub fn with_credentials(mut self, provider: Arc<dyn CredentialProvider>) -> Self {
        self.credentials = provider;
        self.anonymous = false;
        self
    }

    /// Repeats failed attempts by this policy instead.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The endpoint's URL, without the bucket.
    pub fn endpoint(&self) -> &Setting<String> {
        &self.endpoint
    }

    /// The region, which signatures are made for.
    pub fn region(&self) -> &Setting<String> {
        &self.region
    }

    /// Where the bucket's name stands.
    pub fn addressing(&self) -> &Setting<Addressing> {
        &self.addressing
    }

    /// The URL of requests for an object.
    pub fn object_url(&self, key: &str) -> String {
        self.address.object_url(key)
    }

    /// How an object would be reached, and where each setting came from. Does no I/O, unless the
    /// credentials come from a provider that was handed in.
    ///
    /// # Errors
    /// What the credentials' source says.
    pub(crate) async fn resolution(&self, location: &Location) -> Result<Resolution> {
        let known = if self.anonymous { None } else { self.credentials.load().await? };
        let directory = location.split_last().map_or_else(ObjectPath::root, |(parent, _)| parent.path().clone());
        let prefix = if directory.is_root() { String::new() } else { format!("{directory}/") };
        let sources = [
            ("endpoint", &*self.endpoint.source),
            ("region", &*self.region.source),
            ("addressing", &*self.addressing.source),
            ("credentials", known.as_ref().and_then(|c| c.source()).unwrap_or(self.credentials.name())),
        ];
        Ok(Resolution {
            bucket: Some(self.bucket.clone()),
            endpoint: Some(self.endpoint.value.clone()),
            region: Some(self.region.value.clone()),
            signing_region: Some(self.region.value.clone()),
            addressing: Some(self.addressing.value.to_string()),
            access_key_id: known.as_ref().map(|c| c.access_key_id().to_owned()),
            has_session_token: known.as_ref().is_some_and(|c| c.session_token().is_some()),
            anonymous: self.anonymous,
            object_url: Some(self.object_url(location.path().as_str())),
            list_url: Some(self.address.list_url(&prefix, false)),
            sources: sources.into_iter().map(|(name, source)| (name.to_owned(), source.to_owned())).collect(),
            ..Resolution::plain(PROTOCOLS[0], location)
        })
    }
}

impl From<CosConfig> for BucketConfig {
    fn from(config: CosConfig) -> Self {
        let mut headers = config.headers;
        if config.requester_pays {
            headers.extend(vendor::requester_pays());
        }
        Self {
            vendor: vendor::cos(config.region.value, config.sign_payload),
            bucket: config.bucket,
            address: config.address,
            credentials: config.credentials,
            headers,
            write_headers: config.write_headers,
            read_timeout: config.read_timeout,
            concurrency: config.concurrency,
            retry: config.retry,
            client: config.client,
        }
    }
}

/// What is configured, before a bucket asks for it.
struct Given<'c> {
    options: S3Options,
    environment: &'c Environment,
    endpoint: Option<Setting<CosEndpoint>>,
    region: Option<Setting<String>>,
    credentials: Arc<dyn CredentialProvider>,
}

impl<'c> Given<'c> {
    fn read(context: &'c OpenContext) -> Result<Self> {
        let mut options = S3Options::read(&PROTOCOLS, Some(&OWN_NAMES), &context.options)?;
        let environment = &context.environment;
        refuse_aws(&options)?;
        options.headers = parameters::translated(options.headers)?;
        options.write_headers = parameters::translated(options.write_headers)?;
        let tls = options.uses_tls();
        let variable =
            |name, source: &'static str| environment.get(name).map(|text| Setting::new(text.to_owned(), source));
        let endpoint = options
            .endpoint
            .take()
            .or_else(|| variable(ENDPOINT_VARIABLE, "environment: COS_ENDPOINT"))
            .map(|url| {
                let value = CosEndpoint::parse(&url.value, tls, &url.source)?;
                Ok::<_, Error>(Setting { value, source: url.source })
            })
            .transpose()?;
        let region = options.region.take().or_else(|| variable(REGION_VARIABLE, "environment: COS_REGION"));
        if let Some(region) = &region {
            check_region(region)?;
        }
        let credentials = provider(&mut options, environment)?;
        Ok(Self { options, environment, endpoint, region, credentials })
    }

    fn endpoint_or_default(&self) -> Result<Setting<CosEndpoint>> {
        match (&self.endpoint, &self.region) {
            (Some(endpoint), _) => Ok(endpoint.clone()),
            (None, Some(region)) => {
                let endpoint = CosEndpoint::of_region(&region.value, self.options.uses_tls());
                Ok(Setting::new(endpoint, "default of the region"))
            }
            (None, None) => Err(no_region("neither region nor endpoint is given")),
        }
    }

    /// The region of signatures: what is given, else what the endpoint names.
    fn region_of(&self, endpoint: &CosEndpoint) -> Result<Setting<String>> {
        match (&self.region, endpoint.region()) {
            (Some(region), _) => Ok(region.clone()),
            (None, Some(named)) => Ok(Setting::new(named.to_owned(), "the endpoint")),
            (None, None) if !endpoint.is_own() => Ok(Setting::new(ANY_REGION.to_owned(), "default")),
            (None, None) => Err(no_region("the region is not given, and the endpoint does not name it")),
        }
    }
}

/// The addressing style that is asked for.
fn style(options: &S3Options) -> Option<Setting<Addressing>> {
    let asked = options.addressing.as_ref()?;
    Some(Setting { value: asked.value?, source: asked.source.clone() })
}

/// Refuses what only AWS has.
fn refuse_aws(options: &S3Options) -> Result<()> {
    let on = |given: &Option<Setting<bool>>| given.as_ref().is_some_and(|given| given.value);
    let given = [
        ("profile", options.profile.is_some()),
        ("config_kwargs.s3.use_accelerate_endpoint", on(&options.accelerate)),
        ("config_kwargs.s3.use_dualstack_endpoint", on(&options.dual_stack)),
        ("config_kwargs.use_dualstack_endpoint", on(&options.dual_stack_of_all)),
        ("config_kwargs.use_fips_endpoint", on(&options.fips)),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => {
            Err(Error::invalid_config(format!("the option is of AWS alone, and COS has none: option={name}"))
                .with_hint("give key and secret, and choose COS's endpoint by endpoint_url"))
        }
    }
}

fn no_region(message: &str) -> Error {
    Error::invalid_config(message).with_hint(
        "set client_kwargs.region_name or COS_REGION to ap-guangzhou, for example, or endpoint_url or COS_ENDPOINT to \
         https://cos.ap-guangzhou.myqcloud.com",
    )
}

fn check_region(region: &Setting<String>) -> Result<()> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if region.value.is_empty() || !region.value.bytes().all(plain) {
        return Err(Error::invalid_config(format!("the region is not valid: source={}", region.source))
            .with_hint("a region of COS looks like ap-guangzhou"));
    }
    Ok(())
}

fn provider(options: &mut S3Options, environment: &Environment) -> Result<Arc<dyn CredentialProvider>> {
    if options.is_anonymous() {
        return Ok(Arc::new(AnonymousCredentials));
    }
    let fixed = StaticCredentials::from_parts(options.key.take(), options.secret.take(), options.token.take())?;
    if let Some(fixed) = fixed {
        return Ok(Arc::new(ProviderChain::new().then(Arc::new(fixed))));
    }
    let variables = CosEnvironment::new(environment.clone());
    // Half a pair is found here, before anything is opened.
    variables.credentials()?;
    Ok(Arc::new(ProviderChain::new().then(Arc::new(variables))))
}

#[cfg(test)]
mod tests;
