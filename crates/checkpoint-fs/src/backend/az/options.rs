//! The options of `az`, under the names that adlfs users know, typed and read once.

use std::time::Duration;

use crate::error::Result;
use crate::options::{KwArgs, StorageOptions};

/// The names that options for this backend may stand under.
pub(crate) const PROTOCOLS: [&str; 3] = ["az", "abfs", "abfss"];

/// The options as written, before environment and defaults.
pub(crate) struct AzOptions {
    pub(crate) account_name: Option<String>,
    pub(crate) account_key: Option<String>,
    pub(crate) account_host: Option<String>,
    pub(crate) connection_string: Option<String>,
    pub(crate) sas_token: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    pub(crate) anonymous: Option<bool>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) read_timeout: Option<Duration>,
    /// Whether `credential` gave the account's key or the signature.
    credential: bool,
    /// Where they come from.
    given: StorageOptions,
}

impl AzOptions {
    /// Reads the options of `az` (or one of its other names).
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that lists every problem.
    pub(crate) fn read(options: &StorageOptions) -> Result<Self> {
        let mut kw = options.kwargs(&PROTOCOLS);
        let filled = |text: Option<String>| text.filter(|t| !t.is_empty());
        let mut read = Self {
            account_name: filled(kw.text("account_name")),
            account_key: filled(kw.text("account_key")),
            account_host: filled(kw.text("account_host")),
            connection_string: filled(kw.text("connection_string")),
            sas_token: filled(kw.text("sas_token")),
            tenant_id: filled(kw.text("tenant_id")),
            client_id: filled(kw.text("client_id")),
            client_secret: filled(kw.text("client_secret")),
            anonymous: kw.flag("anon"),
            connect_timeout: kw.seconds("connection_timeout"),
            read_timeout: kw.seconds("read_timeout"),
            credential: false,
            given: options.clone(),
        };
        // The server's own limit; nothing is waited for longer.
        if let Some(server) = kw.seconds("timeout") {
            read.read_timeout = Some(read.read_timeout.map_or(server, |client| client.min(server)));
        }
        read.credential(&mut kw);
        refused(&mut kw);
        ignored(&mut kw);
        kw.finish()?;
        Ok(read)
    }

    /// Where an option comes from, in words.
    pub(super) fn source(&self, option: &str) -> String {
        self.given.source(&PROTOCOLS, option)
    }

    /// Where the account's key or the signature comes from, in words: `option`, or `credential`.
    pub(super) fn source_of_secret(&self, option: &str) -> String {
        self.source(if self.credential { "credential" } else { option })
    }

    /// adlfs takes objects here, which cannot be written as text; a text means what it means there.
    fn credential(&mut self, kw: &mut KwArgs<'_>) {
        let Some(text) = filled_text(kw, "credential") else { return };
        let is_sas = text.contains("sig=");
        let slot = if is_sas { &mut self.sas_token } else { &mut self.account_key };
        if slot.as_ref().is_some_and(|given| *given != text) {
            let twin = if is_sas { "sas_token" } else { "account_key" };
            kw.problem(format!("credential says something else than {twin}"));
        }
        *slot = Some(text);
        self.credential = true;
    }
}

fn filled_text(kw: &mut KwArgs<'_>, key: &'static str) -> Option<String> {
    kw.text(key).filter(|t| !t.is_empty())
}

fn refused(kw: &mut KwArgs<'_>) {
    match kw.text("location_mode").as_deref() {
        None | Some("primary") => {}
        Some(_) => kw.problem(
            "location_mode must be primary: the secondary location lags behind, and a resumed job would miss commits",
        ),
    }
    kw.refused(&["version_aware"], "only current versions are read here");
}

fn ignored(kw: &mut KwArgs<'_>) {
    kw.ignored(
        &["use_listings_cache", "listings_expiry_time", "max_paths"],
        "listings are kept by the registry that opens a storage, and by nobody else",
    );
    kw.ignored(&["assume_container_exists"], "containers are neither made nor looked for here");
    kw.ignored(
        &[
            "request_session",
            "socket_timeout",
            "blocksize",
            "loop",
            "asynchronous",
            "default_fill_cache",
            "default_cache_type",
            "max_concurrency",
            "skip_instance_cache",
        ],
        "it tunes Python's client and changes no request here",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn read(options: serde_json::Value) -> Result<AzOptions> {
        AzOptions::read(&StorageOptions::from_value(serde_json::json!({"abfs": options})).expect("the right shape"))
    }

    /// The signature of `AzureBlobFileSystem` in adlfs 2026.8, with its defaults where it has any.
    #[test]
    fn the_whole_signature_is_understood() {
        let options = read(serde_json::json!({
            "account_name": "acct", "account_key": 12345, "connection_string": "", "credential": null,
            "sas_token": null, "request_session": null, "socket_timeout": 5, "blocksize": 52428800,
            "client_id": null, "client_secret": null, "tenant_id": null, "anon": null, "location_mode": "primary",
            "loop": null, "asynchronous": false, "default_fill_cache": true, "default_cache_type": "bytes",
            "version_aware": false, "assume_container_exists": null, "max_concurrency": 4, "timeout": 20,
            "connection_timeout": 3, "read_timeout": 60, "account_host": "acct.blob.core.chinacloudapi.cn",
            "use_listings_cache": true, "listings_expiry_time": 1, "max_paths": 5, "skip_instance_cache": true,
        }))
        .expect("valid");
        assert_eq!(options.account_key.as_deref(), Some("12345"));
        assert_eq!((options.connection_string, options.anonymous), (None, None));
        assert_eq!(options.read_timeout, Some(Duration::from_secs(20)));
        assert_eq!(options.connect_timeout, Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_credential_that_is_text_is_a_key_or_a_signature() {
        let key = read(serde_json::json!({"credential": "a2V5"})).expect("valid");
        assert_eq!(key.source_of_secret("account_key"), "options: credential");
        assert_eq!((key.account_key.as_deref(), key.sas_token), (Some("a2V5"), None));
        let sas = read(serde_json::json!({"credential": "?sv=1&sig=x"})).expect("valid");
        assert_eq!((sas.account_key, sas.sas_token.as_deref()), (None, Some("?sv=1&sig=x")));
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_a_reason() {
        for (options, expected) in [
            (serde_json::json!({"location_mode": "secondary"}), "location_mode must be primary"),
            (serde_json::json!({"version_aware": true}), "version_aware is not supported"),
            (serde_json::json!({"credential": {"account_key": "hunter2"}}), "credential must be text"),
            (serde_json::json!({"credential": "hunter2", "account_key": "other"}), "credential says something else"),
            (serde_json::json!({"acount_name": "hunter2"}), "did you mean `account_name`"),
        ] {
            let error = read(options).err().expect(expected);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
