//! Resolution: options, environment and defaults, brought together in one place for one bucket.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::options::{GsOptions, Payer};
use crate::backend::encode::encode_query;
use crate::backend::endpoint::Endpoint;
use crate::credentials::google::{GoogleCredentials, GoogleParts};
use crate::error::{Error, Result};
use crate::location::Location;
use crate::options::Environment;
use crate::registry::OpenContext;
use crate::resolution::Resolution;
use crate::transport::{ClientSettings, RetryPolicy, TlsRoots};

/// The variable of a test server's address, with or without a scheme.
pub(crate) const EMULATOR_VARIABLE: &str = "STORAGE_EMULATOR_HOST";
/// The variable of the domain that all services are under, for clouds of their own.
pub(crate) const UNIVERSE_VARIABLE: &str = "GOOGLE_CLOUD_UNIVERSE_DOMAIN";
/// Variables of the project, in the order they are looked at.
pub(crate) const PROJECT_VARIABLES: [&str; 3] = ["GCSFS_DEFAULT_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"];

const USER_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_CONCURRENCY: usize = 64;

/// Everything that is needed to reach one bucket. `Debug` shows no secret.
#[derive(Clone)]
pub struct GsConfig {
    bucket: String,
    endpoint: Endpoint,
    endpoint_source: String,
    is_google: bool,
    payer: Option<String>,
    payer_source: &'static str,
    credentials: Arc<GoogleCredentials>,
    timeout: Duration,
    retry: RetryPolicy,
    client: ClientSettings,
}

impl GsConfig {
    /// Resolves for a bucket: for each setting explicit options come first, then the environment, then
    /// the default. Sends nothing; a token that is a path is looked for.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a wrong option, endpoint or bucket name.
    pub fn resolve(bucket: &str, context: &OpenContext) -> Result<Self> {
        let options = GsOptions::read(&context.options)?;
        let environment = &context.environment;
        check_bucket(bucket)?;
        let (endpoint, endpoint_source) = endpoint(options.endpoint, environment)?;
        let is_google =
            endpoint.plain_host().ends_with(".googleapis.com") || endpoint_source.ends_with(UNIVERSE_VARIABLE);
        let (payer, payer_source) = payer(options.payer, options.project, environment)?;
        let client = ClientSettings {
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            idle_connections: DEFAULT_CONCURRENCY,
            tls: TlsRoots::System,
            environment: environment.clone(),
        };
        let credentials = GoogleCredentials::new(GoogleParts {
            token: options.token,
            scope: options.scope,
            on_google: is_google,
            environment: environment.clone(),
        })?;
        Ok(Self {
            bucket: bucket.to_owned(),
            endpoint,
            endpoint_source,
            is_google,
            payer,
            payer_source,
            credentials: Arc::new(credentials),
            timeout: options.timeout.unwrap_or(DEFAULT_TIMEOUT),
            retry: RetryPolicy::default(),
            client,
        })
    }

    /// Says whether the endpoint is taken for the service itself (by default: when it is on
    /// `googleapis.com`), and not for one of the test servers, which ignore the condition of a copy and know
    /// no multi-delete. Set it for a private address of the service.
    #[must_use]
    pub fn with_google(mut self, is_google: bool) -> Self {
        self.is_google = is_google;
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

    /// The endpoint's URL, without the bucket, and where it came from.
    pub fn endpoint(&self) -> (String, &str) {
        (self.endpoint.to_string(), &self.endpoint_source)
    }

    /// The URL of requests for an object.
    pub fn object_url(&self, key: &str) -> String {
        self.in_bucket(&format!("/o/{}", encode_query(key)), &[])
    }

    /// The URL of a request for the first page of a listing. `prefix` ends in `/`, or is empty.
    pub fn list_url(&self, prefix: &str, recursive: bool) -> String {
        self.in_bucket("/o", &list_query(prefix, recursive))
    }

    /// How an object at a location would be reached.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for credentials in a file that cannot be read.
    pub fn resolution(&self, location: &Location) -> Result<Resolution> {
        let known = self.credentials.known_offline()?;
        let key = location.path().as_str();
        let prefix = location.path().parent().filter(|parent| !parent.is_root());
        let prefix = prefix.map(|parent| format!("{parent}/")).unwrap_or_default();
        let mut sources = BTreeMap::from([
            ("endpoint".to_owned(), self.endpoint_source.clone()),
            ("credentials".to_owned(), known.source),
        ]);
        if self.payer.is_some() {
            sources.insert("requester_pays".to_owned(), self.payer_source.to_owned());
        }
        Ok(Resolution {
            bucket: Some(self.bucket.clone()),
            endpoint: Some(self.endpoint.to_string()),
            addressing: Some("path".to_owned()),
            access_key_id: known.principal,
            anonymous: known.is_anonymous,
            object_url: (!key.is_empty()).then(|| self.object_url(key)),
            list_url: Some(self.list_url(&prefix, false)),
            sources,
            ..Resolution::plain("gs", location)
        })
    }

    /// The URL of something in the bucket: `/o`, or `/o/` and an encoded key with what follows.
    pub(crate) fn in_bucket(&self, path: &str, query: &[(&str, &str)]) -> String {
        self.url(&format!("/storage/v1/b/{}{path}", self.bucket), query)
    }

    /// The URL of an upload into the bucket.
    pub(crate) fn upload_url(&self, query: &[(&str, &str)]) -> String {
        self.url(&format!("/upload/storage/v1/b/{}/o", self.bucket), query)
    }

    /// The URL of a multi-delete, of the XML API.
    pub(crate) fn multi_delete_url(&self) -> String {
        format!("{}/{}?delete", self.endpoint, self.bucket)
    }

    /// The project that pays, where the XML API wants it.
    pub(crate) fn payer_header(&self) -> Result<Option<(HeaderName, HeaderValue)>> {
        let Some(project) = &self.payer else { return Ok(None) };
        let value = HeaderValue::from_str(project)
            .map_err(|e| Error::invalid_config("the project's name is no header").with_source(e))?;
        Ok(Some((USER_PROJECT, value)))
    }

    /// The URL of a batch of requests.
    pub(crate) fn batch_url(&self) -> String {
        format!("{}/batch/storage/v1", self.endpoint)
    }

    /// The path and query of a request within a batch.
    pub(crate) fn target_in_batch(&self, key: &str) -> String {
        let query = self.query(&[]);
        format!("/storage/v1/b/{}/o/{}{query}", self.bucket, encode_query(key))
    }

    /// The URL of an upload under way, from what the service named it: at this endpoint whatever its own
    /// address, since the credentials go along.
    pub(crate) fn session_url(&self, location: &str) -> Option<String> {
        let url = url::Url::parse(location).ok()?;
        let query = url.query().filter(|query| query.contains("upload_id="))?;
        Some(format!("{}{}?{query}", self.endpoint, url.path()))
    }

    fn url(&self, path: &str, query: &[(&str, &str)]) -> String {
        format!("{}{path}{}", self.endpoint, self.query(query))
    }

    fn query(&self, pairs: &[(&str, &str)]) -> String {
        let payer = self.payer.as_deref().map(|project| ("userProject", project));
        let pairs: Vec<String> =
            pairs.iter().copied().chain(payer).map(|(k, v)| format!("{k}={}", encode_query(v))).collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    pub(crate) fn is_google(&self) -> bool {
        self.is_google
    }

    pub(crate) fn credentials(&self) -> &Arc<GoogleCredentials> {
        &self.credentials
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn concurrency(&self) -> usize {
        DEFAULT_CONCURRENCY
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        self.retry
    }

    pub(crate) fn client(&self) -> &ClientSettings {
        &self.client
    }
}

impl fmt::Debug for GsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GsConfig")
            .field("bucket", &self.bucket)
            .field("endpoint", &self.endpoint.to_string())
            .field("credentials", &self.credentials)
            .field("payer", &self.payer)
            .finish_non_exhaustive()
    }
}

/// The query of a listing's first page.
pub(crate) fn list_query(prefix: &str, recursive: bool) -> Vec<(&str, &str)> {
    let mut query = vec![("prefix", prefix)];
    if !recursive {
        query.push(("delimiter", "/"));
    }
    query.push(("fields", "kind,items(name,size,generation,updated),prefixes,nextPageToken"));
    query
}

/// The endpoint, and where it came from. A test server's address may lack its scheme; the word `default` means the
/// service itself.
fn endpoint(asked: Option<(String, String)>, environment: &Environment) -> Result<(Endpoint, String)> {
    if let Some((text, source)) = asked {
        return Ok((Endpoint::parse(&text, &source)?, source));
    }
    if let Some(text) = environment.get(EMULATOR_VARIABLE).filter(|text| *text != "default") {
        let has_scheme = text.starts_with("http://") || text.starts_with("https://");
        let text = if has_scheme { text.to_owned() } else { format!("http://{text}") };
        let source = format!("environment: {EMULATOR_VARIABLE}");
        return Ok((Endpoint::parse(&text, &source)?, source));
    }
    if let Some(domain) = environment.get(UNIVERSE_VARIABLE).filter(|domain| *domain != "googleapis.com") {
        let source = format!("environment: {UNIVERSE_VARIABLE}");
        if domain.starts_with('.') || domain.contains(['/', ':', '?', '#']) {
            return Err(Error::invalid_config(format!("the domain of a cloud is a plain name: source={source}"))
                .with_hint("write it as example.com, or give a whole URL as endpoint_url"));
        }
        return Ok((Endpoint::parse(&format!("https://storage.{domain}"), &source)?, source));
    }
    Ok((Endpoint::parse("https://storage.googleapis.com", "default")?, "default".to_owned()))
}

fn payer(asked: Payer, project: Option<String>, environment: &Environment) -> Result<(Option<String>, &'static str)> {
    match asked {
        Payer::Owner => Ok((None, "")),
        Payer::Project(project) => Ok((Some(project), "options: requester_pays")),
        Payer::OwnProject => {
            if let Some(project) = project {
                return Ok((Some(project), "options: project"));
            }
            let set = PROJECT_VARIABLES.iter().find_map(|name| environment.get(name));
            let missing = || {
                Error::invalid_config("`requester_pays` is set and no project is known")
                    .with_hint("give `project`, or the project's name in `requester_pays`")
            };
            Ok((Some(set.ok_or_else(missing)?.to_owned()), "environment"))
        }
    }
}

fn check_bucket(bucket: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    if !(3..=222).contains(&bucket.len()) || !bucket.bytes().all(plain) {
        return Err(Error::invalid_config(format!("the bucket's name is not valid: bucket={bucket:?}"))
            .with_hint("a bucket's name has 3 to 222 lower-case letters, digits, `-`, `.` and `_`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StorageOptions;

    fn resolve(options: serde_json::Value, variables: &[(&str, &str)]) -> Result<GsConfig> {
        let context = OpenContext {
            options: StorageOptions::from_value(serde_json::json!({"gs": options})).expect("the right shape"),
            environment: variables.iter().copied().collect(),
        };
        GsConfig::resolve("my-bucket", &context)
    }

    #[test]
    fn the_endpoint_is_the_option_or_the_test_server_or_the_service() {
        let emulator = ("STORAGE_EMULATOR_HOST", "127.0.0.1:4443");
        for (options, variables, expected, is_google) in [
            (serde_json::json!({}), &[][..], "https://storage.googleapis.com", true),
            (serde_json::json!({}), &[emulator], "http://127.0.0.1:4443", false),
            (serde_json::json!({}), &[("STORAGE_EMULATOR_HOST", "https://gcs.local/")], "https://gcs.local", false),
            (serde_json::json!({}), &[("STORAGE_EMULATOR_HOST", "default")], "https://storage.googleapis.com", true),
            (serde_json::json!({"endpoint_url": "http://x:1"}), &[emulator], "http://x:1", false),
            (
                serde_json::json!({}),
                &[("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "cloud.example")],
                "https://storage.cloud.example",
                true,
            ),
        ] {
            let config = resolve(options, variables).expect("valid");
            assert_eq!((config.endpoint().0.as_str(), config.is_google()), (expected, is_google));
        }
        assert!(resolve(serde_json::json!({"endpoint_url": "127.0.0.1:4443"}), &[]).is_err(), "no scheme");
        for bad in ["http://me:hunter2@x/", "/x", ".x", "x/#", "AccountKey=hunter2"] {
            let error = resolve(serde_json::json!({}), &[("GOOGLE_CLOUD_UNIVERSE_DOMAIN", bad)]).expect_err(bad);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn urls() {
        let config = resolve(serde_json::json!({"requester_pays": true, "project": "p 1"}), &[]).expect("valid");
        assert_eq!(
            config.object_url("d/a b%é?"),
            "https://storage.googleapis.com/storage/v1/b/my-bucket/o/d%2Fa%20b%25%C3%A9%3F?userProject=p%201"
        );
        let list = config.list_url("d/", false);
        assert!(list.starts_with(
            "https://storage.googleapis.com/storage/v1/b/my-bucket/o?prefix=d%2F&delimiter=%2F&fields=kind"
        ));
        assert!(list.ends_with("&userProject=p%201"), "{list}");
        assert_eq!(
            config.session_url("https://elsewhere/upload/storage/v1/b/my-bucket/o?upload_id=X&name=k").as_deref(),
            Some("https://storage.googleapis.com/upload/storage/v1/b/my-bucket/o?upload_id=X&name=k")
        );
        assert_eq!(config.session_url("https://elsewhere/"), None);
        assert_eq!(config.multi_delete_url(), "https://storage.googleapis.com/my-bucket?delete");
        let payer = config.payer_header().expect("a header").expect("there is one");
        assert_eq!((payer.0.as_str(), payer.1.to_str().ok()), ("x-goog-user-project", Some("p 1")));
    }

    #[test]
    fn the_payer_is_a_project() {
        let payer = |options, variables: &[_]| resolve(options, variables).map(|config| config.payer);
        let variables = [("GOOGLE_CLOUD_PROJECT", "from-env")];
        assert_eq!(payer(serde_json::json!({}), &variables).expect("valid"), None);
        let asked = |value| serde_json::json!({"requester_pays": value});
        assert_eq!(payer(asked(true), &variables).expect("valid").as_deref(), Some("from-env"));
        assert_eq!(payer(asked(true), &[]).expect_err("none known").kind(), crate::ErrorKind::InvalidConfig);
    }

    #[test]
    fn a_location_resolves_without_the_network() {
        let location = Location::parse("gcs://my-bucket/d/a b").expect("valid");
        let config = resolve(serde_json::json!({"token": "ya29.hunter2"}), &[]).expect("valid");
        let resolution = config.resolution(&location).expect("offline");
        assert_eq!((resolution.scheme.as_str(), resolution.backend.as_str()), ("gcs", "gs"));
        assert_eq!((resolution.bucket.as_deref(), resolution.key.as_str()), (Some("my-bucket"), "d/a b"));
        assert_eq!((resolution.access_key_id.as_deref(), resolution.anonymous), (Some("oauth2"), false));
        assert_eq!(resolution.sources["credentials"], "options: token");
        let shown = format!("{resolution:?} {config:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        let emulated = resolve(serde_json::json!({}), &[("STORAGE_EMULATOR_HOST", "localhost:1")]).expect("valid");
        assert!(emulated.resolution(&location).expect("offline").anonymous);
    }

    #[test]
    fn bucket_names() {
        for bad in ["", "ab", "My-Bucket", "a b c", "a/b"] {
            assert!(GsConfig::resolve(bad, &OpenContext::default()).is_err(), "{bad}");
        }
    }
}
