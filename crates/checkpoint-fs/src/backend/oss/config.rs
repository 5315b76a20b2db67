//! Resolution: options, environment and defaults, brought together in one place for one bucket.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::credentials::{Source, choose};
use super::endpoint::{OssEndpoint, region_of};
use super::options::OssOptions;
use super::vendor;
use crate::backend::bucket::{Addressing, BucketAddress, BucketConfig};
use crate::credentials::CredentialProvider;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::options::Environment;
use crate::path::ObjectPath;
use crate::registry::OpenContext;
use crate::resolution::{Resolution, Setting};
use crate::transport::{ClientSettings, RetryPolicy, TlsRoots};

/// The variable of the endpoint.
const ENDPOINT_VARIABLES: [(&str, &str); 1] = [("OSS_ENDPOINT", "environment: OSS_ENDPOINT")];
/// Variables of the region, in the order they are looked at; empty ones are not set.
const REGION_VARIABLES: [(&str, &str); 3] = [
    ("OSS_REGION", "environment: OSS_REGION"),
    ("ALIBABA_CLOUD_REGION", "environment: ALIBABA_CLOUD_REGION"),
    ("ALIBABA_CLOUD_REGION_ID", "environment: ALIBABA_CLOUD_REGION_ID"),
];

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_CONCURRENCY: usize = 64;

/// Everything that is needed to reach one bucket of OSS. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct OssConfig {
    bucket: String,
    endpoint: Setting<OssEndpoint>,
    /// Not needed, and perhaps not known, where nothing is signed.
    region: Option<Setting<String>>,
    addressing: Setting<Addressing>,
    address: BucketAddress,
    credentials: Source,
    requester_pays: bool,
    read_timeout: Duration,
    concurrency: usize,
    retry: RetryPolicy,
    client: ClientSettings,
}

impl OssConfig {
    /// Resolves for a bucket: for each setting explicit options come first, then the environment, then
    /// what the endpoint's name tells. Does no I/O.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a wrong option, endpoint or bucket name, for
    /// half a key pair, and where neither endpoint nor region is given.
    pub fn resolve(bucket: &str, context: &OpenContext) -> Result<Self> {
        let Given { options, endpoint, region, credentials } = Given::read(context)?;
        let environment = &context.environment;
        let endpoint =
            match (endpoint, &region) {
                (Some(endpoint), _) => endpoint,
                (None, Some(region)) => Setting::new(OssEndpoint::of_region(&region.value), "default of the region"),
                (None, None) => return Err(Error::invalid_config("neither endpoint nor region is given").with_hint(
                    "set `endpoint` or OSS_ENDPOINT to https://oss-cn-hangzhou.aliyuncs.com, for example, or `region`",
                )),
            };
        if region.is_none() && !options.is_anonymous() {
            return Err(Error::invalid_config("the region is not given, and the endpoint does not tell it")
                .with_hint("set `region` or OSS_REGION to cn-hangzhou, for example: it is part of every signature"));
        }
        let (address, addressing) = endpoint.value.address(bucket, options.is_cname, options.addressing.as_ref())?;
        let concurrency = options.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
        let retry = RetryPolicy::default();
        Ok(Self {
            bucket: bucket.to_owned(),
            address,
            addressing,
            credentials,
            requester_pays: options.requester_pays,
            read_timeout: options.read_timeout.unwrap_or(DEFAULT_READ_TIMEOUT),
            concurrency,
            retry: options.attempts.map_or(retry, |n| retry.with_attempts(n)),
            client: ClientSettings {
                connect_timeout: options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
                idle_connections: concurrency,
                // Where nothing is encrypted, a bundle that is not there is no reason to fail.
                tls: match options.verify.as_deref().filter(|_| endpoint.value.endpoint.is_encrypted()) {
                    Some(verify) => TlsRoots::of_verify(verify),
                    None => TlsRoots::System,
                },
                environment: environment.clone(),
            },
            region,
            endpoint,
        })
    }

    /// Checks options and environment, without a bucket, and without asking for what only a bucket needs.
    ///
    /// # Errors
    /// As [`OssConfig::resolve`].
    pub(crate) fn check(context: &OpenContext) -> Result<()> {
        let given = Given::read(context)?;
        match given.endpoint {
            Some(endpoint) => {
                let bucket = endpoint.value.bucket.clone().unwrap_or_else(|| "bucket".to_owned());
                endpoint.value.address(&bucket, given.options.is_cname, given.options.addressing.as_ref()).map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Takes credentials from this provider instead.
    #[must_use]
    pub fn with_credentials(mut self, provider: Arc<dyn CredentialProvider>) -> Self {
        self.credentials = Source { name: provider.name().to_owned(), provider, known: None };
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
        Setting::new(self.endpoint.value.endpoint.to_string(), self.endpoint.source.clone())
    }

    /// The region, which signatures are made for.
    pub fn region(&self) -> Option<&Setting<String>> {
        self.region.as_ref()
    }

    /// Where the bucket's name stands.
    pub fn addressing(&self) -> &Setting<Addressing> {
        &self.addressing
    }

    /// Where credentials come from.
    pub fn credentials(&self) -> &Arc<dyn CredentialProvider> {
        &self.credentials.provider
    }

    /// Whether requests go out unsigned.
    pub fn is_anonymous(&self) -> bool {
        self.credentials.known.as_ref().is_some_and(crate::Credentials::is_anonymous)
    }

    /// The URL of requests for an object.
    pub fn object_url(&self, key: &str) -> String {
        self.address.object_url(key)
    }

    /// How an object would be reached, and where each setting came from. Does no I/O.
    pub(crate) fn resolution(&self, location: &Location) -> Resolution {
        let known = self.credentials.known.as_ref().filter(|c| !c.is_anonymous());
        let mut resolution = Resolution {
            bucket: Some(self.bucket.clone()),
            endpoint: Some(self.endpoint().value),
            region: self.region.as_ref().map(|r| r.value.clone()),
            signing_region: self.region.as_ref().map(|r| r.value.clone()),
            addressing: Some(self.addressing.value.to_string()),
            access_key_id: known.map(|c| c.access_key_id().to_owned()),
            has_session_token: known.is_some_and(|c| c.session_token().is_some()),
            anonymous: self.is_anonymous(),
            ..Resolution::plain(super::PROTOCOLS[0], location)
        };
        let directory = location.split_last().map_or_else(ObjectPath::root, |(parent, _)| parent.path().clone());
        let prefix = if directory.is_root() { String::new() } else { format!("{directory}/") };
        resolution.object_url = Some(self.object_url(location.path().as_str()));
        resolution.list_url = Some(self.address.list_url(&prefix, false));
        let mut source = |name: &str, text: &str| resolution.sources.insert(name.to_owned(), text.to_owned());
        source("endpoint", &self.endpoint.source);
        source("addressing", &self.addressing.source);
        source("credentials", &self.credentials.name);
        if let Some(region) = &self.region {
            source("region", &region.source);
        }
        resolution
    }
}

impl From<OssConfig> for BucketConfig {
    fn from(config: OssConfig) -> Self {
        let region = config.region.map_or_else(String::new, |r| r.value);
        let in_path = config.addressing.value == Addressing::Path;
        Self {
            vendor: vendor::oss(region, config.bucket.clone(), in_path),
            bucket: config.bucket,
            address: config.address,
            credentials: config.credentials.provider,
            headers: vendor::headers(config.requester_pays),
            write_headers: HeaderMap::new(),
            read_timeout: config.read_timeout,
            concurrency: config.concurrency,
            retry: config.retry,
            client: config.client,
        }
    }
}

/// What is configured, before a bucket asks for it.
struct Given {
    options: OssOptions,
    endpoint: Option<Setting<OssEndpoint>>,
    region: Option<Setting<String>>,
    credentials: Source,
}

impl Given {
    fn read(context: &OpenContext) -> Result<Self> {
        let options = OssOptions::read(&context.options)?;
        let environment = &context.environment;
        let endpoint = options.endpoint.clone().or_else(|| first_variable(environment, &ENDPOINT_VARIABLES));
        let endpoint = endpoint
            .map(|given| Ok::<_, Error>(Setting::new(OssEndpoint::parse(&given.value, &given.source)?, given.source)))
            .transpose()?;
        // A host that names its region takes signatures for no other, whatever the environment says.
        let told = endpoint.as_ref().and_then(|e| e.value.region.clone());
        let region = match (&options.region, told) {
            (Some(given), _) => Some(region_of(given.clone())?),
            (None, Some(region)) => Some(Setting::new(region, "the endpoint's host")),
            (None, None) => first_variable(environment, &REGION_VARIABLES).map(region_of).transpose()?,
        };
        let credentials = choose(&options, environment)?;
        Ok(Self { options, endpoint, region, credentials })
    }
}

fn first_variable(environment: &Environment, variables: &[(&str, &'static str)]) -> Option<Setting<String>> {
    variables.iter().find_map(|(name, source)| Some(Setting::new(environment.get(name)?.to_owned(), *source)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ErrorKind;
    use crate::options::StorageOptions;

    fn context(options: serde_json::Value, variables: &[(&str, &str)]) -> OpenContext {
        OpenContext {
            options: StorageOptions::from_value(json!({"oss": options})).expect("the right shape"),
            environment: variables.iter().copied().collect(),
        }
    }

    fn resolve(options: serde_json::Value, variables: &[(&str, &str)]) -> Result<OssConfig> {
        OssConfig::resolve("my-bucket", &context(options, variables))
    }

    #[test]
    fn endpoints_and_regions_by_precedence() {
        let region = [("ALIBABA_CLOUD_REGION", "cn-beijing")];
        let both = [("OSS_REGION", "cn-shanghai"), region[0]];
        let endpoint = [("OSS_ENDPOINT", "oss-cn-shenzhen-internal.aliyuncs.com"), both[0]];
        for (options, variables, url, source, region, region_source) in [
            (
                json!({"endpoint": "http://oss-cn-hangzhou.aliyuncs.com"}),
                &endpoint[..],
                "http://oss-cn-hangzhou.aliyuncs.com",
                "options: endpoint",
                "cn-hangzhou",
                "the endpoint's host",
            ),
            (
                json!({}),
                &endpoint[..],
                "https://oss-cn-shenzhen-internal.aliyuncs.com",
                "environment: OSS_ENDPOINT",
                "cn-shenzhen",
                "the endpoint's host",
            ),
            (
                json!({}),
                &both[..],
                "https://oss-cn-shanghai.aliyuncs.com",
                "default of the region",
                "cn-shanghai",
                "environment: OSS_REGION",
            ),
            (
                json!({}),
                &region[..],
                "https://oss-cn-beijing.aliyuncs.com",
                "default of the region",
                "cn-beijing",
                "environment: ALIBABA_CLOUD_REGION",
            ),
            (
                json!({"region": "oss-us-west-1"}),
                &both[..],
                "https://oss-us-west-1.aliyuncs.com",
                "default of the region",
                "us-west-1",
                "options: region",
            ),
            (
                json!({"endpoint": "oss-accelerate.aliyuncs.com", "region": "cn-hangzhou"}),
                &[],
                "https://oss-accelerate.aliyuncs.com",
                "options: endpoint",
                "cn-hangzhou",
                "options: region",
            ),
        ] {
            let config = resolve(options, variables).expect("valid");
            let endpoint = config.endpoint();
            assert_eq!((endpoint.value.as_str(), &*endpoint.source), (url, source));
            let found = config.region().expect("known");
            assert_eq!((found.value.as_str(), &*found.source), (region, region_source));
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_said_before_the_first_request() {
        for (options, expected) in [
            (json!({}), "neither endpoint nor region"),
            (json!({"endpoint": ""}), "endpoint is empty"),
            (json!({"endpoint": "http://127.0.0.1:9000"}), "region is not given"),
            (json!({"endpoint": "oss-accelerate.aliyuncs.com"}), "region is not given"),
            (json!({"region": "cn hangzhou"}), "region is not valid"),
            (json!({"region": "cn-hangzhou", "is_path_style": true}), "refuses path style"),
            (json!({"endpoint": "other.oss-cn-hangzhou.aliyuncs.com"}), "another bucket"),
        ] {
            let error = resolve(options, &[]).expect_err(expected);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected) && error.hint().is_some(), "{error}");
        }
        let anonymous = json!({"endpoint": "http://127.0.0.1:9000", "anon": true});
        assert!(resolve(anonymous, &[]).expect("nothing is signed").region().is_none());
    }

    #[test]
    fn options_are_checked_without_a_bucket() {
        let check = |options| OssConfig::check(&context(options, &[]));
        check(json!({})).expect("nothing is asked for yet");
        check(json!({"endpoint": "other.oss-cn-hangzhou.aliyuncs.com"})).expect("any bucket will do");
        for bad in [
            json!({"endpoint": "ftp://x"}),
            json!({"key": "AK"}),
            json!({"region": "X"}),
            json!({"endpoint": "oss-cn-hangzhou.aliyuncs.com", "is_path_style": true}),
        ] {
            assert!(check(bad).is_err());
        }
    }

    #[test]
    fn a_resolution_tells_everything_but_secrets() {
        let options = json!({"key": "LTAIEXAMPLE", "secret": "hunter2", "token": "s3ss10n"});
        let variables = [("OSS_ENDPOINT", "http://my-bucket.oss-cn-hangzhou.aliyuncs.com")];
        let config = resolve(options, &variables).expect("valid");
        let location = Location::parse("oss://my-bucket/dir/a b").expect("valid");
        let resolution = config.resolution(&location);
        assert_eq!(
            serde_json::to_value(&resolution).expect("JSON"),
            json!({
                "scheme": "oss", "backend": "oss", "bucket": "my-bucket", "key": "dir/a b",
                "endpoint": "http://oss-cn-hangzhou.aliyuncs.com",
                "region": "cn-hangzhou", "signing_region": "cn-hangzhou", "addressing": "virtual",
                "access_key_id": "LTAIEXAMPLE", "has_session_token": true, "anonymous": false,
                "object_url": "http://my-bucket.oss-cn-hangzhou.aliyuncs.com/dir/a%20b",
                "list_url": "http://my-bucket.oss-cn-hangzhou.aliyuncs.com/?list-type=2&prefix=dir%2F&delimiter=%2F\
                    &encoding-type=url&max-keys=1000",
                "sources": {
                    "endpoint": "environment: OSS_ENDPOINT", "region": "the endpoint's host",
                    "addressing": "default", "credentials": "options: key",
                },
            })
        );
        let shown = format!("{config:?}");
        for secret in ["hunter2", "s3ss10n", "LTAIEXAMPLE"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn certificates() {
        let tls = |options| resolve(options, &[("OSS_REGION", "cn-x")]).expect("valid").client.tls;
        assert_eq!(tls(json!({})), TlsRoots::System);
        assert_eq!(tls(json!({"verify": false})), TlsRoots::Unverified);
        assert_eq!(tls(json!({"verify": "/ca.pem"})), TlsRoots::Bundle("/ca.pem".into()));
        assert_eq!(tls(json!({"verify": "/ca.pem", "endpoint": "http://oss-cn-x.aliyuncs.com"})), TlsRoots::System);
    }
}
