//! The options of a protocol of s3fs, under the names that its users know, typed and read once.

mod client;
mod config;
mod extra;

use std::time::Duration;

#[cfg(feature = "s3")]
pub(crate) use self::config::{CHECKSUM_MODES, RETRY_MODES};
use http::HeaderMap;

use super::address::Addressing;
use crate::error::Result;
use crate::options::{Environment, KwArgs, StorageOptions};
use crate::resolution::Setting;

/// A value, where one was given.
pub(crate) type Given<T> = Option<Setting<T>>;

/// The options as written, before environment and defaults. Holds secrets, so there is no `Debug`.
#[derive(Default)]
pub(crate) struct S3Options {
    pub(crate) key: Option<String>,
    pub(crate) secret: Option<String>,
    pub(crate) token: Option<String>,
    /// Where `key` comes from.
    pub(crate) key_source: Option<String>,
    pub(crate) profile: Given<String>,
    pub(crate) anonymous: Given<bool>,
    pub(crate) endpoint: Given<String>,
    pub(crate) region: Given<String>,
    /// `None` inside for `auto`, which other places cannot change.
    pub(crate) addressing: Given<Option<Addressing>>,
    pub(crate) tls: Given<bool>,
    /// `true`, `false`, or a file of certificates.
    pub(crate) verify: Given<String>,
    pub(crate) sign_payload: Option<bool>,
    pub(crate) requester_pays: bool,
    /// Headers of every request.
    pub(crate) headers: HeaderMap,
    /// Headers of requests that make an object.
    pub(crate) write_headers: HeaderMap,
    pub(crate) accelerate: Given<bool>,
    pub(crate) dual_stack: Given<bool>,
    /// Like `dual_stack`, but below what the profile says of S3 alone.
    pub(crate) dual_stack_of_all: Given<bool>,
    pub(crate) fips: Given<bool>,
    pub(crate) us_east_1_regional: Given<String>,
    pub(crate) defaults_mode: Given<String>,
    pub(crate) ignore_configured_endpoints: Option<bool>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) attempts: Option<u32>,
    pub(crate) concurrency: Option<usize>,
    /// Proxies by the scheme of requests, instead of those of the environment.
    pub(crate) proxies: Option<Vec<(String, String)>>,
}

/// Some options in a vendor's own words.
#[derive(Debug)]
pub(crate) struct OwnNames {
    /// The access key ID.
    pub(crate) key: &'static str,
    /// The secret.
    pub(crate) secret: &'static str,
    /// The region.
    pub(crate) region: &'static str,
}

/// The options while they are read: the values, and how sources are called.
struct Reader<'o> {
    protocols: &'o [&'static str],
    options: &'o StorageOptions,
    read: S3Options,
    /// What is said in two places, differently.
    twice: Vec<&'static str>,
}

impl Reader<'_> {
    fn source(&self, option: &str) -> String {
        self.options.source(self.protocols, option)
    }

    fn given<T>(&self, value: Option<T>, option: &str) -> Given<T> {
        value.map(|value| Setting::new(value, self.source(option)))
    }
}

impl S3Options {
    /// Reads the options of the first of these protocols that has any; messages call them by the first name.
    /// `own` names some of them in the vendor's words, besides those of s3fs.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that lists every problem.
    pub(crate) fn read(protocols: &[&'static str], own: Option<&OwnNames>, options: &StorageOptions) -> Result<Self> {
        let mut kw = options.kwargs(protocols);
        let mut reader = Reader { protocols, options, read: Self::default(), twice: Vec::new() };
        reader.keys(own, &mut kw);
        if let Some(own) = own {
            reader.read.region = reader.given(kw.text(own.region), own.region);
        }
        reader.read.profile = reader.given(kw.text("profile"), "profile");
        reader.read.anonymous = reader.given(kw.flag("anon"), "anon");
        reader.read.endpoint = reader.given(kw.text("endpoint_url"), "endpoint_url");
        reader.read.tls = reader.given(kw.flag("use_ssl"), "use_ssl");
        reader.read.requester_pays = kw.flag("requester_pays").unwrap_or(false);
        reader.client_kwargs(&mut kw);
        reader.config_kwargs(&mut kw);
        reader.additional_kwargs(&mut kw);
        without_effect(&mut kw);
        if kw.flag("delete_content_md5") == Some(false) {
            kw.problem("delete_content_md5 cannot be false: every store takes the digest, and some demand it");
        }
        for key in &reader.twice {
            kw.problem(format!("client_kwargs.{key} says something else than the option of the same meaning outside"));
        }
        kw.finish()?;
        Ok(reader.read)
    }

    /// Whether requests go out unsigned.
    #[cfg(feature = "cos")]
    pub(crate) fn is_anonymous(&self) -> bool {
        self.anonymous.as_ref().is_some_and(|anonymous| anonymous.value)
    }

    /// Whether an endpoint that is not configured is called over TLS.
    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.value)
    }

    /// The environment that the client looks for proxies in. Explicit ones take the place of all others, and
    /// hosts that are reached directly are not asked for.
    pub(crate) fn with_proxies(&self, environment: &Environment) -> Environment {
        let Some(proxies) = &self.proxies else { return environment.clone() };
        let others = environment.iter().filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            !PROXY_VARIABLES.contains(&name.as_str())
        });
        let own = proxies.iter().map(|(scheme, url)| (format!("{scheme}_proxy"), url.clone()));
        others.map(|(name, value)| (name.to_owned(), value.to_owned())).chain(own).collect()
    }
}

/// The variables of proxies, in lower case.
const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

impl Reader<'_> {
    /// `key` and `secret`, for which `username` and `password` are other names, and the vendor's.
    fn keys(&mut self, own: Option<&OwnNames>, kw: &mut KwArgs<'_>) {
        self.read.key = kw.text("key");
        self.read.secret = kw.text("secret");
        self.read.token = kw.text("token");
        self.read.key_source = self.read.key.as_ref().map(|_| self.source("key"));
        let other = |kw: &mut KwArgs<'_>, slot: &mut Option<String>, name: &'static str, other: &'static str| {
            let Some(text) = kw.text(other).filter(|text| !text.is_empty()) else { return false };
            if slot.as_ref().is_some_and(|given| !given.is_empty()) {
                kw.problem(format!("{name} and {other} mean the same: give one of them"));
            }
            *slot = Some(text);
            true
        };
        for (key, secret) in [("username", "password")].into_iter().chain(own.map(|own| (own.key, own.secret))) {
            if other(kw, &mut self.read.key, "key", key) {
                self.read.key_source = Some(self.source(key));
            }
            other(kw, &mut self.read.secret, "secret", secret);
        }
    }
}

/// Options of s3fs and fsspec that change no request here, and those that would and cannot.
fn without_effect(kw: &mut KwArgs<'_>) {
    kw.ignored(
        &["use_listings_cache", "listings_expiry_time", "max_paths"],
        "listings are kept by the registry that opens a storage, and by nobody else",
    );
    kw.ignored(
        &[
            "default_block_size",
            "default_fill_cache",
            "default_cache_type",
            "fixed_upload_size",
            "local_expiry_check",
            "skip_instance_cache",
            "cache_regions",
            "asynchronous",
            "loop",
        ],
        "it tunes Python's file objects and changes no request here",
    );
    kw.count("max_concurrency", 1);
    kw.ignored(&["max_concurrency"], "it is of Python's file objects; config_kwargs.max_pool_connections is the limit");
    kw.ignored(&["version_aware"], "the newest version of an object is read, always");
    kw.refused(
        &["session", "session_vars", "event_hooks", "include_builtin_handlers", "loader"],
        "it is a Python object; give the settings that it holds",
    );
}

#[cfg(test)]
mod tests;
