//! Resolution: options, environment and defaults, brought together in one place for one catalog.

use std::time::Duration;

use url::Url;

use super::options::{PROTOCOLS, TclakeOptions};
use crate::backend::cos::CosEndpoint;
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::registry::OpenContext;
use crate::transport::{ClientSettings, TlsRoots};

/// The variable of the secret ID.
pub(crate) const SECRET_ID: &str = "TENCENTCLOUD_SECRET_ID";
/// The variable of the secret key.
pub(crate) const SECRET_KEY: &str = "TENCENTCLOUD_SECRET_KEY";
/// The variable of the session token of temporary keys.
pub(crate) const TOKEN: &str = "TENCENTCLOUD_TOKEN";
/// The variable of the region.
pub(crate) const REGION: &str = "TENCENTCLOUD_REGION";
/// The variable of the catalog's endpoint.
pub(crate) const ENDPOINT: &str = "TENCENTCLOUD_ENDPOINT";

const DEFAULT_REGION: &str = "ap-guangzhou";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Few requests go to the catalog, seldom two at once.
const IDLE_CONNECTIONS: usize = 2;

/// A value, and where it came from in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sourced<T> {
    pub(super) value: T,
    pub(super) source: String,
}

impl<T> Sourced<T> {
    fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into() }
    }
}

/// How to reach the catalog, and the object store where its answer does not say. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub(super) struct TclakeConfig {
    /// The catalog's URL, which ends in `/`.
    pub(super) endpoint: Sourced<String>,
    /// Of the catalog, and of the object store unless its endpoint names another.
    pub(super) region: Sourced<String>,
    /// The object store's endpoint, where it is not that of the region.
    pub(super) cos_endpoint: Option<Sourced<CosEndpoint>>,
    /// What signs requests to the catalog.
    pub(super) credentials: Option<Sourced<Credentials>>,
    pub(super) client: ClientSettings,
    /// The time for a connection to the object store, where one is given.
    pub(super) connect_timeout: Option<Duration>,
    /// The time for an answer of the object store, where one is given.
    pub(super) read_timeout: Option<Duration>,
}

impl TclakeConfig {
    /// Resolves: for each setting explicit options come first, then the environment, then the default.
    /// Does no I/O. Missing credentials are no error yet.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a wrong option, endpoint or region, or half
    /// a key pair.
    pub(super) fn resolve(context: &OpenContext) -> Result<Self> {
        let options = TclakeOptions::read(&context.options)?;
        let environment = &context.environment;
        let option = |name: &str, value: Option<String>| {
            value.map(|value| Sourced::new(value, context.options.source(&PROTOCOLS, name)))
        };
        let variable =
            |name: &str| Some(Sourced::new(environment.get(name)?.to_owned(), format!("environment: {name}")));
        let region = option("region", options.region)
            .or_else(|| variable(REGION))
            .unwrap_or_else(|| Sourced::new(DEFAULT_REGION.to_owned(), "default"));
        check_region(&region)?;
        let endpoint = option("endpoint", options.endpoint)
            .or_else(|| variable(ENDPOINT))
            .map_or_else(|| Ok(default_endpoint(&region)), |given| catalog_url(&given))?;
        let cos_endpoint = option("cos_endpoint", options.cos_endpoint)
            .map(|Sourced { value, source }| {
                Ok::<_, Error>(Sourced::new(CosEndpoint::parse(&value, true, &source)?, source))
            })
            .transpose()?;
        let keys = Keys { sid: options.sid, sk: options.sk, token: options.token };
        let source = context.options.source(&PROTOCOLS, "sid");
        Ok(Self {
            endpoint,
            region,
            cos_endpoint,
            connect_timeout: options.connect_timeout,
            read_timeout: options.read_timeout,
            credentials: keys.credentials(source, environment)?,
            client: ClientSettings {
                connect_timeout: options.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
                idle_connections: IDLE_CONNECTIONS,
                tls: TlsRoots::System,
                environment: environment.clone(),
            },
        })
    }

    /// The credentials, which opening a volume needs.
    ///
    /// # Errors
    /// [`Unauthenticated`](ErrorKind::Unauthenticated) when there are none: a catalog has no public volumes.
    pub(super) fn require_credentials(&self) -> Result<&Credentials> {
        self.credentials.as_ref().map(|c| &c.value).ok_or_else(|| {
            Error::new(ErrorKind::Unauthenticated, "no credentials for the catalog were found")
                .with_hint(format!("set {SECRET_ID} and {SECRET_KEY}, or give `sid` and `sk`"))
        })
    }

    /// Whether requests to the catalog leave this machine unencrypted.
    pub(super) fn asks_in_the_open(&self) -> bool {
        let url = Url::parse(&self.endpoint.value).ok().filter(|url| url.scheme() == "http");
        url.is_some_and(|url| !matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")))
    }
}

fn check_region(region: &Sourced<String>) -> Result<()> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if region.value.is_empty() || !region.value.bytes().all(plain) {
        return Err(Error::invalid_config(format!("the region is not valid: source={}", region.source))
            .with_hint(format!("a region looks like {DEFAULT_REGION}")));
    }
    Ok(())
}

fn default_endpoint(region: &Sourced<String>) -> Sourced<String> {
    Sourced::new(format!("https://tccatalog.{}.tencentcloudapi.com/", region.value), "default of the region")
}

/// The catalog's endpoint. Requests go to its root, which is what the signature covers.
fn catalog_url(given: &Sourced<String>) -> Result<Sourced<String>> {
    let url = parse_url(given)?;
    if url.path() != "/" {
        return Err(wrong_endpoint(&given.source, "has a path"));
    }
    Ok(Sourced::new(url.to_string(), given.source.as_str()))
}

/// A URL, or a bare host, which is reached by https.
fn parse_url(given: &Sourced<String>) -> Result<Url> {
    let wrong = |why: &str| wrong_endpoint(&given.source, why);
    let text = given.value.trim();
    if text.is_empty() {
        return Err(wrong("is empty"));
    }
    let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&text).map_err(|e| wrong("is not a URL").with_source(e))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds credentials"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("holds a query or fragment"));
    }
    Ok(url)
}

fn wrong_endpoint(source: &str, why: &str) -> Error {
    Error::invalid_config(format!("the endpoint {why}: source={source}"))
        .with_hint("write it as a host, https://host or http://host:port, without path, query or credentials")
}

/// The keys as options give them.
struct Keys {
    sid: Option<String>,
    sk: Option<String>,
    token: Option<String>,
}

impl Keys {
    /// These, or else those of the environment, whose token belongs to its own keys.
    fn credentials(self, source: String, environment: &Environment) -> Result<Option<Sourced<Credentials>>> {
        const PAIR: &str = "give both `sid` and `sk`, or neither to use the environment";
        let refused = |why: &str, hint: &str| Err(Error::invalid_config(why.to_owned()).with_hint(hint));
        match (self.sid, self.sk, self.token) {
            (Some(sid), Some(sk), _) if sid.is_empty() || sk.is_empty() => refused("`sid` or `sk` is empty", PAIR),
            (Some(sid), Some(sk), token) => {
                let value = Credentials::new(sid, sk).with_session_token(token.filter(|t| !t.is_empty()));
                Ok(Some(Sourced::new(value, source)))
            }
            (Some(_), None, _) => refused("`sid` is given without `sk`", PAIR),
            (None, Some(_), _) => refused("`sk` is given without `sid`", PAIR),
            (None, None, Some(_)) => refused("`token` is given without `sid` and `sk`", PAIR),
            (None, None, None) => match (environment.get(SECRET_ID), environment.get(SECRET_KEY)) {
                (Some(id), Some(key)) => {
                    let token = environment.get(TOKEN).map(str::to_owned);
                    Ok(Some(Sourced::new(Credentials::new(id, key).with_session_token(token), "environment")))
                }
                (None, None) => Ok(None),
                _ => refused(
                    &format!("of {SECRET_ID} and {SECRET_KEY} only one is set"),
                    "set both variables, or unset both",
                ),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StorageOptions;

    const ALL: [(&str, &str); 5] = [
        (SECRET_ID, "AKIDENV"),
        (SECRET_KEY, "SKENV"),
        (TOKEN, "TOKENENV"),
        (REGION, "ap-shanghai"),
        (ENDPOINT, "tccatalog.internal.tencentcloudapi.com"),
    ];

    fn resolve(options: serde_json::Value, variables: &[(&str, &str)]) -> Result<TclakeConfig> {
        TclakeConfig::resolve(&OpenContext {
            options: StorageOptions::from_value(serde_json::json!({"tclake": options})).expect("the right shape"),
            environment: variables.iter().copied().collect(),
        })
    }

    #[test]
    fn options_come_before_the_environment_and_that_before_the_defaults() {
        let explicit = serde_json::json!({
            "sid": "AKIDOPT", "sk": 12345, "region": "ap-beijing", "endpoint": "http://127.0.0.1:4711",
            "cos_endpoint": "cos.ap-beijing.myqcloud.com", "use_listings_cache": false,
        });
        let plain = serde_json::json!({});
        let table = [
            (
                plain.clone(),
                &[][..],
                ("ap-guangzhou", "default"),
                ("https://tccatalog.ap-guangzhou.tencentcloudapi.com/", "default of the region"),
                None,
            ),
            (
                plain.clone(),
                &ALL[..4],
                ("ap-shanghai", "environment: TENCENTCLOUD_REGION"),
                ("https://tccatalog.ap-shanghai.tencentcloudapi.com/", "default of the region"),
                Some(("AKIDENV", "SKENV", Some("TOKENENV"), "environment")),
            ),
            (
                plain,
                &ALL[..],
                ("ap-shanghai", "environment: TENCENTCLOUD_REGION"),
                ("https://tccatalog.internal.tencentcloudapi.com/", "environment: TENCENTCLOUD_ENDPOINT"),
                Some(("AKIDENV", "SKENV", Some("TOKENENV"), "environment")),
            ),
            (
                explicit,
                &ALL[..],
                ("ap-beijing", "options: region"),
                ("http://127.0.0.1:4711/", "options: endpoint"),
                // The environment's token belongs to the environment's keys.
                Some(("AKIDOPT", "12345", None, "options: sid")),
            ),
        ];
        for (options, variables, region, endpoint, keys) in table {
            let config = resolve(options, variables).expect("valid");
            assert_eq!((config.region.value.as_str(), config.region.source.as_str()), region);
            assert_eq!((config.endpoint.value.as_str(), config.endpoint.source.as_str()), endpoint);
            let found = config.credentials.as_ref().map(|c| {
                let token = c.value.session_token().map(|t| t.expose());
                (c.value.access_key_id(), c.value.secret_access_key().expose(), token, c.source.as_str())
            });
            assert_eq!(found, keys);
            assert_eq!(config.require_credentials().is_ok(), keys.is_some());
        }
    }

    #[test]
    fn endpoints_as_people_write_them() {
        let url = |text: &str| resolve(serde_json::json!({"endpoint": text}), &[]).map(|c| c.endpoint.value);
        for (text, expected) in [
            ("tccatalog.ap-x.tencentcloudapi.com", "https://tccatalog.ap-x.tencentcloudapi.com/"),
            ("catalog.local:8443", "https://catalog.local:8443/"),
            ("https://Catalog.local:443/", "https://catalog.local/"),
            (" http://[::1]:99 ", "http://[::1]:99/"),
        ] {
            assert_eq!(url(text).expect(text), expected);
        }
        for bad in
            ["", " ", "ftp://x", "https://user:hunter2@x", "https://x/path", "x/path", "https://x?a=b", "http://"]
        {
            let error = url(bad).expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{bad}");
            assert!(error.to_string().contains("options: endpoint"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        let cos = |text: &str| resolve(serde_json::json!({"cos_endpoint": text}), &[]).map(|c| c.cos_endpoint);
        let found = cos("cos.ap-x.myqcloud.com").expect("valid").expect("given");
        assert_eq!(
            (found.value.url().as_str(), found.value.region(), found.source.as_str()),
            ("https://cos.ap-x.myqcloud.com", Some("ap-x"), "options: cos_endpoint")
        );
        assert!(cos("").is_err() && cos("ftp://x").is_err());
    }

    #[test]
    fn plain_http_is_noticed_off_this_machine() {
        let open = |text: &str| resolve(serde_json::json!({"endpoint": text}), &[]).expect("valid").asks_in_the_open();
        for (text, expected) in [
            ("http://catalog.local", true),
            ("http://10.0.0.1:80", true),
            ("https://catalog.local", false),
            ("catalog.local", false),
            ("http://127.0.0.1:99", false),
            ("http://[::1]:99", false),
            ("http://localhost", false),
        ] {
            assert_eq!(open(text), expected, "{text}");
        }
    }

    #[test]
    fn halves_of_a_pair_and_unknown_words_are_refused_without_a_value() {
        for (options, variables, expected) in [
            (serde_json::json!({"sid": "hunter2"}), &ALL[..], "`sid` is given without `sk`"),
            (serde_json::json!({"sk": "hunter2"}), &ALL[..], "`sk` is given without `sid`"),
            (serde_json::json!({"token": "hunter2"}), &ALL[..], "`token` is given without"),
            (serde_json::json!({"sid": "", "sk": "hunter2"}), &ALL[..], "is empty"),
            (serde_json::json!({"sid": "hunter2", "sk": ""}), &[], "is empty"),
            (serde_json::json!({}), &[(SECRET_ID, "hunter2")], "only one is set"),
            (serde_json::json!({}), &[(SECRET_KEY, "hunter2"), (SECRET_ID, "")], "only one is set"),
            (serde_json::json!({"region": ""}), &[], "the region is not valid"),
            (serde_json::json!({"region": "evil.host/"}), &[], "the region is not valid"),
            (serde_json::json!({"anon": true}), &[], "anon is not an option of `tclake`"),
            (serde_json::json!({"endpoint_url": "x"}), &[], "did you mean `endpoint`?"),
        ] {
            let error = resolve(options, variables).expect_err(expected);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected), "{error}");
            assert!(error.hint().is_some(), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let config = resolve(serde_json::json!({}), &ALL).expect("valid");
        let shown = format!("{config:?}");
        for secret in ["AKIDENV", "SKENV", "TOKENENV"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let missing = resolve(serde_json::json!({}), &[]).expect("valid");
        let error = missing.require_credentials().expect_err("none");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert!(error.hint().is_some_and(|h| h.contains(SECRET_ID) && h.contains("`sid`")), "{error:?}");
    }
}
