//! The options of a protocol of s3fs, under the names that its users know, typed and read once.

use std::time::Duration;

use super::address::Addressing;
use crate::error::Result;
use crate::options::{KwArgs, StorageOptions};

/// A value with the option that gave it.
pub(crate) type Given<T> = Option<(T, &'static str)>;

/// The options as written, before environment and defaults.
#[derive(Debug, Default)]
pub(crate) struct S3Options {
    pub(crate) key: Option<String>,
    pub(crate) secret: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) anonymous: bool,
    pub(crate) endpoint: Given<String>,
    pub(crate) region: Given<String>,
    pub(crate) addressing: Option<Addressing>,
    pub(crate) tls: Option<bool>,
    pub(crate) verify: Option<String>,
    pub(crate) sign_payload: bool,
    pub(crate) requester_pays: bool,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) attempts: Option<u32>,
    pub(crate) concurrency: Option<usize>,
}

impl S3Options {
    /// Reads the options of the first of these protocols that has any; messages call them by the first name.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that lists every problem.
    pub(crate) fn read(protocols: &[&'static str], options: &StorageOptions) -> Result<Self> {
        let name = protocols.first().copied().unwrap_or_default();
        let mut kw = KwArgs::new(name, options.get(protocols));
        let mut read = Self {
            key: kw.text("key"),
            secret: kw.text("secret"),
            token: kw.text("token"),
            anonymous: kw.flag("anon").unwrap_or(false),
            endpoint: kw.text("endpoint_url").map(|url| (url, "options: endpoint_url")),
            tls: kw.flag("use_ssl"),
            requester_pays: kw.flag("requester_pays").unwrap_or(false),
            ..Self::default()
        };
        read.client_kwargs(&mut kw);
        read.config_kwargs(&mut kw);
        kw.ignored(
            &["use_listings_cache", "listings_expiry_time", "max_paths"],
            "listings are kept by the registry that opens a storage, and by nobody else",
        );
        kw.ignored(
            &[
                "default_block_size",
                "default_fill_cache",
                "default_cache_type",
                "max_concurrency",
                "fixed_upload_size",
                "skip_instance_cache",
                "cache_regions",
                "asynchronous",
            ],
            "it tunes Python's file objects and changes no request here",
        );
        kw.finish()?;
        Ok(read)
    }

    fn client_kwargs(&mut self, kw: &mut KwArgs<'_>) {
        let mut twice: Vec<&'static str> = Vec::new();
        kw.nested("client_kwargs", |client| {
            let mut merge = |slot: &mut Option<String>, key: &'static str| {
                if let Some(text) = client.text(key) {
                    if slot.as_ref().is_some_and(|given| *given != text) {
                        twice.push(key);
                    }
                    *slot = Some(text);
                }
            };
            merge(&mut self.key, "aws_access_key_id");
            merge(&mut self.secret, "aws_secret_access_key");
            merge(&mut self.token, "aws_session_token");
            if let Some(url) = client.text("endpoint_url") {
                if self.endpoint.as_ref().is_some_and(|(given, _)| *given != url) {
                    twice.push("endpoint_url");
                }
                self.endpoint = Some((url, "options: client_kwargs.endpoint_url"));
            }
            self.region = client.text("region_name").map(|r| (r, "options: client_kwargs.region_name"));
            self.verify = client.text("verify");
            if let Some(tls) = client.flag("use_ssl") {
                if self.tls.is_some_and(|given| given != tls) {
                    twice.push("use_ssl");
                }
                self.tls = Some(tls);
            }
        });
        for key in twice {
            kw.problem(format!("client_kwargs.{key} says something else than the option of the same meaning outside"));
        }
    }

    fn config_kwargs(&mut self, kw: &mut KwArgs<'_>) {
        kw.nested("config_kwargs", |config| {
            config.nested("s3", |s3| {
                self.addressing = match s3.text("addressing_style").as_deref() {
                    None | Some("auto") => None,
                    Some("path") => Some(Addressing::Path),
                    Some("virtual") => Some(Addressing::Virtual),
                    Some(_) => {
                        s3.problem("config_kwargs.s3.addressing_style must be path, virtual or auto");
                        None
                    }
                };
                self.sign_payload = s3.flag("payload_signing_enabled").unwrap_or(false);
            });
            if self.region.is_none() {
                self.region = config.text("region_name").map(|r| (r, "options: config_kwargs.region_name"));
            } else {
                config.text("region_name");
            }
            self.connect_timeout = config.seconds("connect_timeout");
            self.read_timeout = config.seconds("read_timeout");
            self.concurrency = config.count("max_pool_connections", 1).and_then(|n| usize::try_from(n).ok());
            self.attempts = config.nested("retries", |retries| {
                retries.ignored(&["mode"], "there is one way of retrying");
                let total = retries.count("total_max_attempts", 1);
                // `max_attempts` counts what comes after the first attempt.
                let more = retries.count("max_attempts", 0).map(|n| n.saturating_add(1));
                total.or(more).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
            });
            match config.text("signature_version").as_deref() {
                None | Some("s3v4" | "v4") => {}
                Some(_) => {
                    config.problem("config_kwargs.signature_version must be s3v4; older ones are not signed here")
                }
            }
            config.ignored(
                &["request_checksum_calculation", "response_checksum_validation"],
                "no checksum header that a compatible store could refuse is ever sent",
            );
            config.ignored(&["tcp_keepalive", "user_agent_extra"], "it changes nothing here");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn read(options: serde_json::Value) -> Result<S3Options> {
        let options = StorageOptions::from_value(serde_json::json!({"s3a": options})).expect("the right shape");
        S3Options::read(&["s3", "s3a"], &options)
    }

    #[test]
    fn s3fs_names_are_understood() {
        let options = read(serde_json::json!({
            "key": "AK", "secret": 12345, "token": "T", "anon": false, "use_listings_cache": true,
            "client_kwargs": {"endpoint_url": "http://minio:9000", "region_name": "eu-west-1", "verify": false},
            "config_kwargs": {
                "s3": {"addressing_style": "virtual"}, "connect_timeout": 2, "read_timeout": 7.5,
                "max_pool_connections": 10, "retries": {"max_attempts": 2, "mode": "adaptive"},
                "signature_version": "s3v4", "request_checksum_calculation": "when_required",
            },
        }))
        .expect("valid");
        assert_eq!(options.secret.as_deref(), Some("12345"));
        assert_eq!(options.endpoint, Some(("http://minio:9000".to_owned(), "options: client_kwargs.endpoint_url")));
        assert_eq!(options.region, Some(("eu-west-1".to_owned(), "options: client_kwargs.region_name")));
        assert_eq!(options.addressing, Some(Addressing::Virtual));
        assert_eq!(options.verify.as_deref(), Some("false"));
        assert_eq!(options.read_timeout, Some(Duration::from_millis(7_500)));
        assert_eq!((options.concurrency, options.attempts), (Some(10), Some(3)));
    }

    #[test]
    fn contradictions_and_unknown_words_are_refused() {
        for (options, expected) in [
            (serde_json::json!({"endpoint": "http://x"}), "endpoint_url"),
            (serde_json::json!({"config_kwargs": {"s3": {"addressing_style": "bogus"}}}), "addressing_style must be"),
            (serde_json::json!({"config_kwargs": {"signature_version": "s3"}}), "signature_version must be"),
            (
                serde_json::json!({"endpoint_url": "http://a", "client_kwargs": {"endpoint_url": "http://b"}}),
                "client_kwargs.endpoint_url says something else",
            ),
            (serde_json::json!({"key": "A", "client_kwargs": {"aws_access_key_id": "B"}}), "aws_access_key_id says"),
            (serde_json::json!({"use_ssl": true, "client_kwargs": {"use_ssl": false}}), "use_ssl says"),
        ] {
            let error = read(options).expect_err(expected);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected), "{error}");
        }
        read(serde_json::json!({"key": "A", "secret": "S", "client_kwargs": {"aws_access_key_id": "A"}}))
            .expect("the same twice is no contradiction");
    }
}
