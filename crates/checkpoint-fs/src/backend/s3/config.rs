//! Resolution: options, environment and defaults, brought together in one place for one bucket.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::endpoint::{aws_endpoint, choose_addressing};
use super::{PROTOCOLS, vendor};
use crate::backend::bucket::{Addressing, BucketAddress, BucketConfig, Endpoint, S3Options, check_bucket};
use crate::credentials::{AnonymousCredentials, AwsEnvironment, CredentialProvider, ProviderChain, StaticCredentials};
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::registry::OpenContext;
use crate::resolution::Setting;
use crate::transport::{ClientSettings, RetryPolicy, TlsRoots};

/// Variables of the endpoint, in the order they are looked at; empty ones are not set.
pub(crate) const ENDPOINT_VARIABLES: [(&str, &str); 2] = [
    ("AWS_ENDPOINT_URL_S3", "environment: AWS_ENDPOINT_URL_S3"),
    ("AWS_ENDPOINT_URL", "environment: AWS_ENDPOINT_URL"),
];
/// Variables of the region, in the order they are looked at.
pub(crate) const REGION_VARIABLES: [(&str, &str); 2] =
    [("AWS_DEFAULT_REGION", "environment: AWS_DEFAULT_REGION"), ("AWS_REGION", "environment: AWS_REGION")];
/// The variable of the certificate bundle.
pub(crate) const CA_BUNDLE_VARIABLE: &str = "AWS_CA_BUNDLE";

const DEFAULT_REGION: &str = "us-east-1";
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_CONCURRENCY: usize = 64;
const DEFAULT: &str = "default";

/// Everything that is needed to reach one bucket. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct S3Config {
    bucket: String,
    endpoint: Setting<Endpoint>,
    region: Setting<String>,
    addressing: Setting<Addressing>,
    address: BucketAddress,
    credentials: Arc<dyn CredentialProvider>,
    anonymous: bool,
    requester_pays: bool,
    sign_payload: bool,
    read_timeout: Duration,
    concurrency: usize,
    retry: RetryPolicy,
    client: ClientSettings,
}

impl S3Config {
    /// Resolves for a bucket: for each setting explicit options come first, then the environment, then
    /// the default. Does no I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a wrong option, endpoint, bucket name, or
    /// half a key pair.
    pub fn resolve(bucket: &str, context: &OpenContext) -> Result<Self> {
        let options = S3Options::read(&PROTOCOLS, &context.options)?;
        let environment = &context.environment;
        check_bucket(bucket)?;
        let region = match options.region {
            Some((region, source)) => Setting::new(region, source),
            None => first_variable(environment, &REGION_VARIABLES).map_or_else(
                || Setting::new(DEFAULT_REGION.to_owned(), DEFAULT),
                |(r, s)| Setting::new(r.to_owned(), s),
            ),
        };
        check_region(&region)?;
        let configured = match options.endpoint {
            Some((url, source)) => Some(Setting::new(Endpoint::parse(&url, source)?, source)),
            None => first_variable(environment, &ENDPOINT_VARIABLES)
                .map(|(url, source)| Ok::<_, Error>(Setting::new(Endpoint::parse(url, source)?, source)))
                .transpose()?,
        };
        let is_configured = configured.is_some();
        let endpoint = configured.unwrap_or_else(|| {
            Setting::new(aws_endpoint(&region.value, options.tls.unwrap_or(true)), "default of AWS")
        });
        let (style, source) = choose_addressing(options.addressing, &endpoint.value, is_configured, bucket);
        let tls = match options.verify.as_deref() {
            // Nothing is encrypted, so a bundle that is not there is no reason to fail.
            _ if !endpoint.value.is_encrypted() => TlsRoots::System,
            Some("true") => TlsRoots::System,
            Some("false") => TlsRoots::Unverified,
            Some(path) => TlsRoots::Bundle(path.into()),
            None => environment.get(CA_BUNDLE_VARIABLE).map_or(TlsRoots::System, |path| TlsRoots::Bundle(path.into())),
        };
        let concurrency = options.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
        let retry = RetryPolicy::default();
        Ok(Self {
            bucket: bucket.to_owned(),
            address: BucketAddress::new(&endpoint.value, style, bucket),
            endpoint,
            region,
            addressing: Setting::new(style, source),
            credentials: provider(options.anonymous, options.key, options.secret, options.token, environment)?,
            anonymous: options.anonymous,
            requester_pays: options.requester_pays,
            sign_payload: options.sign_payload,
            read_timeout: options.read_timeout.unwrap_or(DEFAULT_READ_TIMEOUT),
            concurrency,
            retry: options.attempts.map_or(retry, |n| retry.with_attempts(n)),
            client: ClientSettings {
                connect_timeout: options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
                idle_connections: concurrency,
                tls,
                environment: environment.clone(),
            },
        })
    }

    /// Takes credentials from this provider instead.
    #[must_use]
    pub fn with_credentials(mut self, provider: Arc<dyn CredentialProvider>) -> Self {
        self.credentials = provider;
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
    pub fn endpoint(&self) -> Setting<String> {
        Setting::new(self.endpoint.value.to_string(), self.endpoint.source)
    }

    /// The region, which signatures are made for.
    pub fn region(&self) -> &Setting<String> {
        &self.region
    }

    /// Where the bucket's name stands.
    pub fn addressing(&self) -> &Setting<Addressing> {
        &self.addressing
    }

    /// Where credentials come from.
    pub fn credentials(&self) -> &Arc<dyn CredentialProvider> {
        &self.credentials
    }

    /// Whether requests go out unsigned.
    pub fn is_anonymous(&self) -> bool {
        self.anonymous
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
        Self {
            vendor: vendor::s3(config.region.value, config.sign_payload),
            bucket: config.bucket,
            address: config.address,
            credentials: config.credentials,
            headers: if config.requester_pays { vendor::requester_pays() } else { HeaderMap::new() },
            read_timeout: config.read_timeout,
            concurrency: config.concurrency,
            retry: config.retry,
            client: config.client,
        }
    }
}

fn first_variable<'e>(
    environment: &'e Environment,
    variables: &[(&str, &'static str)],
) -> Option<(&'e str, &'static str)> {
    variables.iter().find_map(|(name, source)| Some((environment.get(name)?, *source)))
}

fn check_region(region: &Setting<String>) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if region.value.is_empty() || !region.value.bytes().all(plain) {
        return Err(Error::invalid_config(format!("the region is not valid: source={}", region.source))
            .with_hint("a region looks like us-east-1; leave it out where the store has none"));
    }
    Ok(())
}

fn provider(
    anonymous: bool,
    key: Option<String>,
    secret: Option<String>,
    token: Option<String>,
    environment: &Environment,
) -> Result<Arc<dyn CredentialProvider>> {
    if anonymous {
        return Ok(Arc::new(AnonymousCredentials));
    }
    if let Some(fixed) = StaticCredentials::from_parts(key, secret, token)? {
        return Ok(Arc::new(ProviderChain::new().then(Arc::new(fixed))));
    }
    let variables = AwsEnvironment::new(environment.clone());
    // Half a pair is found here, before anything is opened.
    variables.credentials()?;
    Ok(Arc::new(ProviderChain::new().then(Arc::new(variables))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StorageOptions;

    fn resolve(options: serde_json::Value, variables: &[(&str, &str)]) -> Result<S3Config> {
        let context = OpenContext {
            options: StorageOptions::from_value(serde_json::json!({"s3": options})).expect("the right shape"),
            environment: variables.iter().copied().collect(),
        };
        S3Config::resolve("my-bucket", &context)
    }

    #[test]
    fn endpoints_by_precedence() {
        let all = [("AWS_ENDPOINT_URL_S3", "http://s3.local"), ("AWS_ENDPOINT_URL", "http://all.local")];
        let none = serde_json::json!({});
        for (options, variables, expected, source) in [
            (none.clone(), &[][..], "https://s3.amazonaws.com", "default of AWS"),
            (none.clone(), &all[..], "http://s3.local", "environment: AWS_ENDPOINT_URL_S3"),
            (none.clone(), &all[1..], "http://all.local", "environment: AWS_ENDPOINT_URL"),
            (
                none.clone(),
                &[("AWS_ENDPOINT_URL_S3", ""), ("AWS_ENDPOINT_URL", "http://all.local")],
                "http://all.local",
                "environment: AWS_ENDPOINT_URL",
            ),
            (serde_json::json!({"endpoint_url": "http://x:9/"}), &all[..], "http://x:9", "options: endpoint_url"),
            (serde_json::json!({"use_ssl": false}), &[], "http://s3.amazonaws.com", "default of AWS"),
            (
                serde_json::json!({"use_ssl": false, "endpoint_url": "https://minio.local"}),
                &[],
                "https://minio.local",
                "options: endpoint_url",
            ),
            (
                none.clone(),
                &[("AWS_ENDPOINT", "http://other.local"), ("AWS_REGION", "eu-west-1")],
                "https://s3.eu-west-1.amazonaws.com",
                "default of AWS",
            ),
        ] {
            let endpoint = resolve(options, variables).expect("valid").endpoint();
            assert_eq!((endpoint.value.as_str(), endpoint.source), (expected, source));
        }
        assert!(resolve(serde_json::json!({"endpoint_url": ""}), &[]).is_err(), "an explicit empty one is an error");
    }

    #[test]
    fn regions_by_precedence() {
        let both = [("AWS_REGION", "ap-south-1"), ("AWS_DEFAULT_REGION", "eu-west-1")];
        for (options, variables, expected, source) in [
            (serde_json::json!({}), &[][..], "us-east-1", "default"),
            (serde_json::json!({}), &both[..], "eu-west-1", "environment: AWS_DEFAULT_REGION"),
            (serde_json::json!({}), &both[..1], "ap-south-1", "environment: AWS_REGION"),
            (
                serde_json::json!({"client_kwargs": {"region_name": "sa-east-1"}}),
                &both[..],
                "sa-east-1",
                "options: client_kwargs.region_name",
            ),
        ] {
            let config = resolve(options, variables).expect("valid");
            assert_eq!((config.region().value.as_str(), config.region().source), (expected, source));
        }
        assert!(resolve(serde_json::json!({}), &[("AWS_REGION", "eu west\n1")]).is_err());
    }

    #[tokio::test]
    async fn credentials_by_precedence() {
        let keys =
            [("AWS_ACCESS_KEY_ID", "AKENV"), ("AWS_SECRET_ACCESS_KEY", "SKENV"), ("AWS_SESSION_TOKEN", "TOKENV")];
        let explicit = serde_json::json!({"key": "AKOPT", "secret": "SKOPT"});
        for (options, key, token, source) in [
            (explicit, "AKOPT", false, Some("options")),
            (serde_json::json!({"token": "TOKOPT"}), "AKENV", true, Some("environment")),
            (serde_json::json!({"anon": true, "key": "AKOPT", "secret": "SKOPT"}), "", false, None),
            (serde_json::json!({"anon": "False"}), "AKENV", true, Some("environment")),
        ] {
            let config = resolve(options, &keys).expect("valid");
            let found = config.credentials().load().await.expect("valid").expect("found");
            assert_eq!((found.access_key_id(), found.session_token().is_some(), found.source()), (key, token, source));
            assert_eq!(config.is_anonymous(), key.is_empty());
        }
        assert!(resolve(serde_json::json!({}), &keys[..1]).is_err(), "half a pair in the environment");
        assert!(resolve(serde_json::json!({"key": "AKOPT"}), &keys).is_err(), "half a pair in the options");
    }

    #[test]
    fn urls_and_debug() {
        let options = serde_json::json!({"key": "AKIDEXAMPLE", "secret": "hunter2", "token": "s3ss10n"});
        let config = resolve(options, &[("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/pre/fix")]).expect("valid");
        assert_eq!(config.object_url("dir/a b"), "http://127.0.0.1:9000/pre/fix/my-bucket/dir/a%20b");
        assert_eq!(
            config.list_url("dir/", false),
            "http://127.0.0.1:9000/pre/fix/my-bucket?list-type=2&prefix=dir%2F&delimiter=%2F&encoding-type=url"
        );
        assert_eq!(
            config.list_url("", true),
            "http://127.0.0.1:9000/pre/fix/my-bucket?list-type=2&prefix=&encoding-type=url"
        );
        let shown = format!("{config:?}");
        for secret in ["hunter2", "s3ss10n", "AKIDEXAMPLE"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn certificates() {
        let tls = |options, variables: &[_]| resolve(options, variables).expect("valid").client.tls;
        assert_eq!(tls(serde_json::json!({}), &[]), TlsRoots::System);
        assert_eq!(tls(serde_json::json!({}), &[("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::Bundle("/ca.pem".into()));
        let plain = serde_json::json!({"endpoint_url": "http://minio.local"});
        assert_eq!(tls(plain, &[("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::System);
        let verify = |value| serde_json::json!({"client_kwargs": {"verify": value}});
        assert_eq!(tls(verify(serde_json::json!(false)), &[("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::Unverified);
        assert_eq!(tls(verify(serde_json::json!("/x.pem")), &[]), TlsRoots::Bundle("/x.pem".into()));
    }
}
