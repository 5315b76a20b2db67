//! The options of `oss`, under the names that ossfs users know, typed and read once.

use std::time::Duration;

use super::PROTOCOLS;
use crate::backend::bucket::Addressing;
use crate::error::Result;
use crate::options::{KwArgs, StorageOptions};
use crate::resolution::Setting;

/// A value, where one was given.
pub(crate) type Given<T> = Option<Setting<T>>;

/// The options as written, before environment and defaults. Holds secrets, so there is no `Debug`.
#[derive(Default)]
pub(crate) struct OssOptions {
    pub(crate) key: Option<String>,
    pub(crate) secret: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) anonymous: Given<bool>,
    /// Where `key` comes from.
    pub(crate) key_source: String,
    pub(crate) endpoint: Given<String>,
    pub(crate) region: Given<String>,
    /// Whether the endpoint is a domain of the user's own that stands for the bucket.
    pub(crate) is_cname: bool,
    pub(crate) addressing: Given<Addressing>,
    pub(crate) requester_pays: bool,
    pub(crate) verify: Option<String>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) attempts: Option<u32>,
    pub(crate) concurrency: Option<usize>,
}

impl OssOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that lists every problem.
    pub(crate) fn read(options: &StorageOptions) -> Result<Self> {
        let mut kw = options.kwargs(&PROTOCOLS);
        let source = |option: &str| options.source(&PROTOCOLS, option);
        let mut read = Self {
            key: kw.text("key"),
            secret: kw.text("secret"),
            token: kw.text("token"),
            anonymous: kw.flag("anon").map(|anonymous| Setting::new(anonymous, source("anon"))),
            key_source: source("key"),
            is_cname: kw.flag("is_cname").unwrap_or(false),
            addressing: kw.flag("is_path_style").map(|in_path| {
                let style = if in_path { Addressing::Path } else { Addressing::Virtual };
                Setting::new(style, source("is_path_style"))
            }),
            requester_pays: kw.flag("requester_pays").unwrap_or(false),
            verify: kw.text("verify"),
            concurrency: kw.count("psize", 1).and_then(|n| usize::try_from(n).ok()),
            ..Self::default()
        };
        let mut endpoint = vec![(kw.text("endpoint"), "endpoint"), (kw.text("endpoint_url"), "endpoint_url")];
        let mut region = vec![(kw.text("region"), "region")];
        kw.nested("client_kwargs", |client| {
            endpoint.push((client.text("endpoint_url"), "client_kwargs.endpoint_url"));
            region.push((client.text("region_name"), "client_kwargs.region_name"));
        });
        read.endpoint = one_of(&mut kw, endpoint).map(|(text, option)| Setting::new(text, source(option)));
        read.region = one_of(&mut kw, region).map(|(text, option)| Setting::new(text, source(option)));
        read.config_kwargs(&mut kw, &source);
        kw.ignored(
            &["use_listings_cache", "listings_expiry_time", "max_paths"],
            "listings are kept by the registry that opens a storage, and by nobody else",
        );
        kw.ignored(
            &["default_block_size", "default_cache_type", "skip_instance_cache", "asynchronous", "loop", "batch_size"],
            "it tunes Python's file objects and changes no request here",
        );
        kw.finish()?;
        Ok(read)
    }

    /// Whether requests are to go out unsigned.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.anonymous.as_ref().is_some_and(|given| given.value)
    }

    fn config_kwargs(&mut self, kw: &mut KwArgs<'_>, source: &dyn Fn(&str) -> String) {
        kw.nested("config_kwargs", |config| {
            let style = config.nested("s3", |s3| match s3.text("addressing_style").as_deref() {
                None | Some("auto") => None,
                Some("path") => Some(Addressing::Path),
                Some("virtual") => Some(Addressing::Virtual),
                Some(_) => {
                    s3.problem("config_kwargs.s3.addressing_style must be path, virtual or auto");
                    None
                }
            });
            match (style, &self.addressing) {
                (Some(style), Some(given)) if style != given.value => {
                    config.problem("config_kwargs.s3.addressing_style says something else than is_path_style");
                }
                (Some(style), None) => {
                    self.addressing = Some(Setting::new(style, source("config_kwargs.s3.addressing_style")));
                }
                _ => {}
            }
            self.connect_timeout = config.seconds("connect_timeout");
            self.read_timeout = config.seconds("read_timeout");
            let connections = config.count("max_pool_connections", 1).and_then(|n| usize::try_from(n).ok());
            self.concurrency = self.concurrency.or(connections);
            self.attempts = config.nested("retries", |retries| {
                retries.ignored(&["mode"], "there is one way of retrying");
                let total = retries.count("total_max_attempts", 1);
                // `max_attempts` counts what comes after the first attempt.
                let more = retries.count("max_attempts", 0).map(|n| n.saturating_add(1));
                total.or(more).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
            });
        });
    }
}

/// The first that is given; a second that says something else is a problem.
fn one_of(kw: &mut KwArgs<'_>, given: Vec<(Option<String>, &'static str)>) -> Option<(String, &'static str)> {
    let mut given = given.into_iter().filter_map(|(text, option)| Some((text?, option)));
    let first = given.next()?;
    for (text, option) in given {
        if text != first.0 {
            kw.problem(format!("{option} says something else than {}", first.1));
        }
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn read(options: serde_json::Value) -> Result<OssOptions> {
        OssOptions::read(&StorageOptions::from_value(serde_json::json!({"oss": options})).expect("the right shape"))
    }

    /// Every name in the signatures of ossfs's file systems.
    #[test]
    fn ossfs_names_are_understood() {
        let options = read(serde_json::json!({
            "endpoint": "http://oss-cn-hangzhou.aliyuncs.com", "key": "AK", "secret": 12345, "token": "T",
            "default_cache_type": "readahead", "default_block_size": 5_242_880, "psize": 10,
            "use_listings_cache": true, "listings_expiry_time": 5, "max_paths": 9, "skip_instance_cache": true,
            "asynchronous": false, "loop": null, "batch_size": 4,
        }))
        .expect("valid");
        assert_eq!(
            options.endpoint,
            Some(Setting::new("http://oss-cn-hangzhou.aliyuncs.com".to_owned(), "options: endpoint"))
        );
        assert_eq!((options.key.as_deref(), options.secret.as_deref()), (Some("AK"), Some("12345")));
        assert_eq!((options.token.as_deref(), options.concurrency), (Some("T"), Some(10)));
    }

    #[test]
    fn names_of_the_other_stores_mean_the_same_here() {
        let options = read(serde_json::json!({
            "client_kwargs": {"endpoint_url": "http://x", "region_name": "cn-beijing"}, "anon": "True",
            "config_kwargs": {
                "s3": {"addressing_style": "virtual"}, "connect_timeout": 2, "read_timeout": 7.5,
                "max_pool_connections": 10, "retries": {"max_attempts": 2, "mode": "adaptive"},
            },
        }))
        .expect("valid");
        assert_eq!(options.endpoint, Some(Setting::new("http://x".to_owned(), "options: client_kwargs.endpoint_url")));
        assert_eq!(options.region, Some(Setting::new("cn-beijing".to_owned(), "options: client_kwargs.region_name")));
        assert_eq!(
            options.addressing,
            Some(Setting::new(Addressing::Virtual, "options: config_kwargs.s3.addressing_style"))
        );
        assert!(options.is_anonymous());
        assert_eq!(options.read_timeout, Some(Duration::from_millis(7_500)));
        assert_eq!((options.concurrency, options.attempts), (Some(10), Some(3)));
    }

    #[test]
    fn contradictions_and_unknown_words_are_refused() {
        for (options, expected) in [
            (serde_json::json!({"endpoit": "http://x"}), "did you mean `endpoint`"),
            (
                serde_json::json!({"endpoint": "http://a", "endpoint_url": "http://b"}),
                "endpoint_url says something else",
            ),
            (
                serde_json::json!({"region": "cn-a", "client_kwargs": {"region_name": "cn-b"}}),
                "client_kwargs.region_name says something else than region",
            ),
            (
                serde_json::json!({"is_path_style": true, "config_kwargs": {"s3": {"addressing_style": "virtual"}}}),
                "something else than is_path_style",
            ),
            (serde_json::json!({"config_kwargs": {"s3": {"addressing_style": "bogus"}}}), "addressing_style must be"),
            (serde_json::json!({"psize": 0}), "psize must be"),
        ] {
            let error = read(options).err().expect(expected);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected), "{error}");
        }
        read(serde_json::json!({"endpoint": "http://a", "endpoint_url": "http://a"})).expect("the same twice");
    }
}
