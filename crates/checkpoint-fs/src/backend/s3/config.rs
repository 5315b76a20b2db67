//! Resolution: options, environment, the AWS files and defaults, brought together for one bucket.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::aws::{GLOBAL, GLOBAL_REGION, Variant};
use super::endpoint::{check_host, choose_addressing};
use super::settings::{Settings, switch};
use super::{PROTOCOLS, client, region, vendor};
use crate::backend::bucket::{Addressing, BucketAddress, BucketConfig, Endpoint, Given, S3Options, check_bucket};
use crate::credentials::aws::{AwsChain, AwsContext};
use crate::credentials::{AnonymousCredentials, CredentialProvider, ProviderChain, StaticCredentials};
use crate::error::{Error, Result};
use crate::registry::OpenContext;
use crate::resolution::Setting;
use crate::transport::{ClientSettings, RetryPolicy, SystemClock};

const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT: &str = "default";
/// Words of `us_east_1_regional_endpoint`.
const REGIONAL_WORDS: [&str; 2] = ["legacy", "regional"];
/// Words of `defaults_mode`; all but the first mean the regional endpoint of us-east-1.
const DEFAULTS_MODES: [&str; 6] = ["legacy", "standard", "in-region", "cross-region", "mobile", "auto"];
/// What the names of directory buckets end in.
const DIRECTORY_BUCKET: &str = "--x-s3";

/// Everything that is needed to reach one bucket. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct S3Config {
    bucket: String,
    endpoint: Setting<Endpoint>,
    region: Setting<String>,
    addressing: Setting<Addressing>,
    address: BucketAddress,
    credentials: Credentialing,
    requester_pays: bool,
    headers: HeaderMap,
    write_headers: HeaderMap,
    sign_payload: bool,
    read_timeout: Duration,
    concurrency: usize,
    retry: RetryPolicy,
    client: ClientSettings,
}

/// Where credentials come from.
#[derive(Debug, Clone)]
pub(super) enum Credentialing {
    /// Nowhere: requests go out unsigned. With the option that says so.
    Anonymous(String),
    /// Options, with the name of the one that holds the key.
    Options(Arc<StaticCredentials>, String),
    /// The sources of the AWS tools.
    Chain(Arc<AwsChain>),
    /// A provider that the program brought.
    Program(Arc<dyn CredentialProvider>),
}

impl S3Config {
    /// Resolves for a bucket: for each setting explicit options come first, then fsspec's configuration, the
    /// environment, the profile of the AWS files, and the default. Blocks for reading those files.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a wrong option, file, endpoint, bucket name, or
    /// half a key pair; [`Unsupported`](crate::ErrorKind::Unsupported) for kinds of buckets and credentials
    /// that are not.
    pub fn resolve(bucket: &str, context: &OpenContext) -> Result<Self> {
        let options = S3Options::read(&PROTOCOLS, None, &context.options)?;
        let settings = Settings::read(&context.environment, options.profile.as_ref())?;
        check_bucket(bucket)?;
        if bucket.ends_with(DIRECTORY_BUCKET) {
            return Err(Error::unsupported(format!("directory buckets are not supported: bucket={bucket}"))
                .with_hint("they are signed with sessions of their own; use a general purpose bucket"));
        }
        let variant = variant(&options, &settings)?;
        let found = region::find(options.region.clone(), &settings)?;
        let chosen = found.clone().unwrap_or_else(|| match variant.regional {
            true => Setting::new(GLOBAL.to_owned(), DEFAULT),
            false => Setting::new(GLOBAL_REGION.to_owned(), DEFAULT),
        });
        let (region, asks_for_fips) = region::without_fips(chosen);
        let variant = Variant { fips: variant.fips || asks_for_fips, ..variant };
        let tls = options.uses_tls();
        let configured = configured_endpoint(&options, &settings)?;
        let style = addressing(&options, &settings)?;
        let place = match configured {
            Some(endpoint) => at_configured(endpoint, variant, style, bucket)?,
            None => in_aws(&region, variant, tls, style, bucket)?,
        };
        let retry = client::retry(&options, &settings)?;
        client::check_checksums(&settings)?;
        Ok(Self {
            bucket: bucket.to_owned(),
            client: client::settings(&options, &settings, place.endpoint.value.is_encrypted(), &context.environment),
            address: place.address,
            endpoint: place.endpoint,
            addressing: place.addressing,
            credentials: credentialing(&options, found, retry, context)?,
            region,
            requester_pays: options.requester_pays,
            headers: options.headers,
            write_headers: options.write_headers,
            sign_payload: options.sign_payload.unwrap_or_else(|| {
                switch(settings.of_s3("payload_signing_enabled")).is_some_and(|signed| signed.value)
            }),
            read_timeout: options.read_timeout.unwrap_or(DEFAULT_READ_TIMEOUT),
            concurrency: options.concurrency.unwrap_or(client::DEFAULT_CONCURRENCY),
            retry,
        })
    }

    /// Takes credentials from this provider instead.
    #[must_use]
    pub fn with_credentials(mut self, provider: Arc<dyn CredentialProvider>) -> Self {
        self.credentials = Credentialing::Program(provider);
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

    /// The endpoint's URL, without the bucket, as it was written.
    pub fn endpoint(&self) -> Setting<String> {
        Setting { value: self.endpoint.value.written().to_owned(), source: self.endpoint.source.clone() }
    }

    /// The region.
    pub fn region(&self) -> &Setting<String> {
        &self.region
    }

    /// The region that signatures are made for.
    pub fn signing_region(&self) -> &str {
        region::of_signatures(&self.region.value)
    }

    /// Where the bucket's name stands.
    pub fn addressing(&self) -> &Setting<Addressing> {
        &self.addressing
    }

    /// Where credentials come from.
    pub fn credentials(&self) -> Arc<dyn CredentialProvider> {
        match &self.credentials {
            Credentialing::Anonymous(_) => Arc::new(AnonymousCredentials),
            Credentialing::Options(fixed, _) => Arc::new(ProviderChain::new().then(Arc::clone(fixed) as _)),
            Credentialing::Chain(chain) => Arc::clone(chain) as _,
            Credentialing::Program(provider) => Arc::clone(provider),
        }
    }

    pub(super) fn credentialing(&self) -> &Credentialing {
        &self.credentials
    }

    /// Whether requests go out unsigned.
    pub fn is_anonymous(&self) -> bool {
        matches!(self.credentials, Credentialing::Anonymous(_))
    }

    /// The URL of requests for an object.
    pub fn object_url(&self, key: &str) -> String {
        self.address.object_url(key)
    }

    /// The URL of a request for the first page of a listing. `prefix` ends in `/`, or is empty.
    pub fn list_url(&self, prefix: &str, recursive: bool) -> String {
        self.address.list_url(prefix, recursive)
    }
}

impl From<S3Config> for BucketConfig {
    fn from(config: S3Config) -> Self {
        let credentials = config.credentials();
        let mut headers = config.headers;
        if config.requester_pays {
            headers.extend(vendor::requester_pays());
        }
        Self {
            vendor: vendor::s3(
                region::of_signatures(&config.region.value).to_owned(),
                config.sign_payload,
                &config.endpoint.value.plain_host(),
            ),
            bucket: config.bucket,
            address: config.address,
            credentials,
            headers,
            write_headers: config.write_headers,
            read_timeout: config.read_timeout,
            concurrency: config.concurrency,
            retry: config.retry,
            client: config.client,
        }
    }
}

/// Where requests for the bucket go.
struct Place {
    endpoint: Setting<Endpoint>,
    addressing: Setting<Addressing>,
    address: BucketAddress,
}

fn at_configured(
    endpoint: Setting<Endpoint>,
    variant: Variant,
    style: Given<Option<Addressing>>,
    bucket: &str,
) -> Result<Place> {
    check_host(&endpoint)?;
    if variant.accelerate {
        return Err(Error::invalid_config(format!(
            "acceleration has an endpoint of its own: source={}",
            endpoint.source
        ))
        .with_hint("take out either the endpoint or use_accelerate_endpoint"));
    }
    if variant.fips || variant.dual_stack {
        tracing::warn!(endpoint = %endpoint.value, "an endpoint is configured, so FIPS and dual-stack settings do nothing");
    }
    let addressing = choose_addressing(style, &endpoint.value, true, bucket);
    Ok(Place { address: BucketAddress::new(&endpoint.value, addressing.value, bucket), endpoint, addressing })
}

fn in_aws(
    region: &Setting<String>,
    variant: Variant,
    tls: bool,
    style: Given<Option<Addressing>>,
    bucket: &str,
) -> Result<Place> {
    if region.value.is_empty() {
        return Err(Error::invalid_config(format!("the region is empty: source={}", region.source))
            .with_hint("AWS's endpoints have one; set it, or unset the variable"));
    }
    let endpoint = Setting::new(variant.endpoint(&region.value, tls)?, "default of AWS");
    if !variant.accelerate {
        let addressing = choose_addressing(style, &endpoint.value, false, bucket);
        return Ok(Place {
            address: BucketAddress::new(&endpoint.value, addressing.value, bucket),
            endpoint,
            addressing,
        });
    }
    let nearest = variant.accelerated(&region.value, tls)?;
    let addressing = choose_addressing(None, &nearest, false, bucket);
    if addressing.value == Addressing::Path {
        return Err(Error::invalid_config(format!(
            "acceleration needs a bucket whose name can be part of a host: bucket={bucket}"
        ))
        .with_hint("take out use_accelerate_endpoint"));
    }
    Ok(Place { address: BucketAddress::new(&nearest, addressing.value, bucket), endpoint, addressing })
}

/// Which of AWS's endpoints is asked for.
fn variant(options: &S3Options, settings: &Settings<'_>) -> Result<Variant> {
    let on = |given: Given<bool>| given.is_some_and(|given| given.value);
    let dual_stack = options
        .dual_stack
        .clone()
        .or_else(|| switch(settings.of_s3("use_dualstack_endpoint")))
        .or_else(|| options.dual_stack_of_all.clone())
        .or_else(|| switch(settings.find("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")));
    let fips = options.fips.clone().or_else(|| switch(settings.find("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")));
    let accelerate = options.accelerate.clone().or_else(|| switch(settings.of_s3("use_accelerate_endpoint")));
    let mode = options.defaults_mode.clone().or_else(|| settings.find("AWS_DEFAULTS_MODE", "defaults_mode"));
    Settings::check_word_of_any_case(&mode, &DEFAULTS_MODES)?;
    let regional = options
        .us_east_1_regional
        .clone()
        .or_else(|| settings.find("AWS_S3_US_EAST_1_REGIONAL_ENDPOINT", "s3_us_east_1_regional_endpoint"))
        .or_else(|| settings.of_s3("us_east_1_regional_endpoint"));
    Settings::check_word(&regional, &REGIONAL_WORDS)?;
    let modern = mode.is_some_and(|mode| !mode.value.eq_ignore_ascii_case("legacy"));
    Ok(Variant {
        fips: on(fips),
        dual_stack: on(dual_stack),
        accelerate: on(accelerate),
        regional: regional.map_or(modern, |word| word.value == "regional"),
    })
}

/// The endpoint that somebody configured: an explicit one before all, then those of variables and the profile,
/// unless these are to be ignored.
fn configured_endpoint(options: &S3Options, settings: &Settings<'_>) -> Result<Given<Endpoint>> {
    let ignored = options.ignore_configured_endpoints.unwrap_or_else(|| {
        let variable = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS";
        switch(settings.find(variable, "ignore_configured_endpoint_urls")).is_some_and(|ignored| ignored.value)
    });
    let given = match &options.endpoint {
        Some(endpoint) => Some(endpoint.clone()),
        None if ignored => None,
        None => settings.endpoint()?,
    };
    given.map(|url| Ok(Setting { value: Endpoint::parse(&url.value, &url.source)?, source: url.source })).transpose()
}

/// The addressing style that somebody asked for.
fn addressing(options: &S3Options, settings: &Settings<'_>) -> Result<Given<Option<Addressing>>> {
    let Some(of_profile) = settings.of_s3("addressing_style") else { return Ok(options.addressing.clone()) };
    if options.addressing.is_some() {
        return Ok(options.addressing.clone());
    }
    let style = match of_profile.value.as_str() {
        "auto" => None,
        "path" => Some(Addressing::Path),
        "virtual" => Some(Addressing::Virtual),
        _ => {
            return Err(Error::invalid_config(format!(
                "the addressing style is not known: source={}",
                of_profile.source
            ))
            .with_hint("write path, virtual or auto"));
        }
    };
    Ok(Some(Setting { value: style, source: of_profile.source }))
}

fn credentialing(
    options: &S3Options,
    region: Given<String>,
    retry: RetryPolicy,
    context: &OpenContext,
) -> Result<Credentialing> {
    if let Some(anonymous) = options.anonymous.as_ref().filter(|anonymous| anonymous.value) {
        return Ok(Credentialing::Anonymous(anonymous.source.to_string()));
    }
    let fixed = StaticCredentials::from_parts(options.key.clone(), options.secret.clone(), options.token.clone())?;
    if let Some(fixed) = fixed {
        let source = options.key_source.clone().unwrap_or_else(|| "options".to_owned());
        return Ok(Credentialing::Options(Arc::new(fixed), source));
    }
    if options.token.is_some() {
        tracing::warn!("a token without a key signs nothing, and is ignored");
    }
    let chain = AwsChain::new(AwsContext {
        environment: context.environment.clone(),
        profile: options.profile.clone(),
        region: region.map(|region| region.value),
        retry,
        clock: Arc::new(SystemClock),
    })?;
    Ok(Credentialing::Chain(Arc::new(chain)))
}

#[cfg(test)]
mod tests;
