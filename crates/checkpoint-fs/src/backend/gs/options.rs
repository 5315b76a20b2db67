//! The options of `gs`, under the names that gcsfs users know, typed and read once.

use std::time::Duration;

use crate::credentials::google::{Scope, Token};
use crate::error::Result;
use crate::options::StorageOptions;

/// The names that options for this backend may stand under.
pub(crate) const PROTOCOLS: [&str; 2] = ["gs", "gcs"];

/// Who pays for requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Payer {
    /// The bucket's owner.
    #[default]
    Owner,
    /// The project of the option `project`, or of the environment.
    OwnProject,
    /// This project.
    Project(String),
}

/// The options as written, before environment and defaults.
#[derive(Debug, Default)]
pub(crate) struct GsOptions {
    /// The token, and where it came from.
    pub(crate) token: Option<(Token, String)>,
    pub(crate) scope: Scope,
    pub(crate) project: Option<String>,
    pub(crate) payer: Payer,
    /// The endpoint, and where it came from.
    pub(crate) endpoint: Option<(String, String)>,
    pub(crate) timeout: Option<Duration>,
}

impl GsOptions {
    /// Reads the options of `gs` (or `gcs`).
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that lists every problem.
    pub(crate) fn read(options: &StorageOptions) -> Result<Self> {
        let mut kw = options.kwargs(&PROTOCOLS);
        let mut read = Self {
            project: kw.text("project").filter(|project| !project.is_empty()),
            endpoint: kw.text("endpoint_url").map(|url| (url, options.source(&PROTOCOLS, "endpoint_url"))),
            timeout: kw.seconds("requests_timeout").or(kw.seconds("timeout")),
            ..Self::default()
        };
        if let Some(value) = kw.value("token") {
            match Token::read(value) {
                Ok(token) => read.token = token.map(|token| (token, options.source(&PROTOCOLS, "token"))),
                Err(problem) => kw.problem(format!("token {problem}")),
            }
        }
        match kw.text("access").as_deref().map(Scope::of) {
            None => {}
            Some(Some(scope)) => read.scope = scope,
            Some(None) => kw.problem("access must be read_only, read_write or full_control"),
        }
        read.payer = match kw.text("requester_pays").as_deref() {
            None | Some("" | "false" | "False") => Payer::Owner,
            Some("true" | "True") => Payer::OwnProject,
            Some(project) => Payer::Project(project.to_owned()),
        };
        kw.refused(&["version_aware"], "older versions of objects are not read here");
        kw.nested("session_kwargs", |session| {
            session.ignored(&["trust_env"], "the proxy variables are always read");
        });
        kw.ignored(
            &["use_listings_cache", "listings_expiry_time", "max_paths"],
            "listings are kept by the registry that opens a storage, and by nobody else",
        );
        kw.ignored(&["cache_timeout"], "the time that listings are kept is listings_expiry_time");
        kw.ignored(&["consistency"], "the checksum of what is written and read is always compared");
        kw.ignored(&["default_location"], "no bucket is ever made here");
        kw.ignored(
            &[
                "block_size",
                "default_block_size",
                "secure_serialize",
                "check_connection",
                "asynchronous",
                "loop",
                "skip_instance_cache",
                "batch_size",
                "finalize_on_close",
                "mrd_pool_cache_size",
                "max_mrd_pool_cache_queue_size",
            ],
            "it tunes Python's file objects and changes no request here",
        );
        kw.finish()?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn read(options: serde_json::Value) -> Result<GsOptions> {
        GsOptions::read(&StorageOptions::from_value(serde_json::json!({"gs": options})).expect("the right shape"))
    }

    #[test]
    fn gcsfs_names_are_understood() {
        let options = read(serde_json::json!({
            "project": "p", "access": "read_only", "token": "anon", "block_size": 5, "consistency": "md5",
            "cache_timeout": 3, "secure_serialize": true, "check_connection": true, "requests_timeout": 7.5,
            "requester_pays": "payer", "asynchronous": false, "session_kwargs": {"trust_env": true}, "loop": null,
            "timeout": null, "endpoint_url": "http://127.0.0.1:4443", "default_location": "EU",
            "version_aware": false, "finalize_on_close": true, "mrd_pool_cache_size": 16,
            "max_mrd_pool_cache_queue_size": 8, "use_listings_cache": false, "batch_size": 20,
        }))
        .expect("valid");
        assert_eq!(options.token, Some((Token::Anonymous, "options: token".to_owned())));
        assert_eq!(options.scope, Scope::ReadOnly);
        assert_eq!(options.payer, Payer::Project("payer".to_owned()));
        assert_eq!((options.project.as_deref(), options.timeout), (Some("p"), Some(Duration::from_millis(7_500))));
        assert_eq!(read(serde_json::json!({"requester_pays": true})).expect("valid").payer, Payer::OwnProject);
        assert_eq!(read(serde_json::json!({"requester_pays": false})).expect("valid").payer, Payer::Owner);
    }

    #[test]
    fn what_would_be_something_else_is_refused() {
        for (options, expected) in [
            (serde_json::json!({"access": "all"}), "access must be"),
            (serde_json::json!({"version_aware": true}), "version_aware is not supported"),
            (serde_json::json!({"token": "cache"}), "token"),
            (serde_json::json!({"token": "browser"}), "token"),
            (serde_json::json!({"token": 5.5}), "token"),
            (serde_json::json!({"session_kwargs": {"connector": 1}}), "session_kwargs.connector is not"),
            (serde_json::json!({"endpoint": "http://x"}), "endpoint_url"),
        ] {
            let error = read(options).expect_err(expected);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
