//! What the chain works from: the environment, the shared files, and the profile chosen in them.

use std::sync::Arc;

use super::endpoint;
use super::files::AwsFiles;
use super::profile::AwsProfile;
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::resolution::Setting;
use crate::transport::{RetryPolicy, WallClock};

/// What a chain of sources is built from.
#[derive(Debug, Clone)]
pub(crate) struct AwsContext {
    /// All variables, and where the home directory is.
    pub(crate) environment: Environment,
    /// The profile that an option names. Keys in the environment then do not count.
    pub(crate) profile: Option<Setting<String>>,
    /// The region of the client that the credentials are for; `None` where none is set.
    pub(crate) region: Option<String>,
    /// How requests for credentials are repeated.
    pub(crate) retry: RetryPolicy,
    /// The time that expiry is measured against.
    pub(crate) clock: Arc<dyn WallClock>,
}

/// The context with its files, read at one moment.
#[derive(Debug)]
pub(super) struct Setup<'c> {
    pub(super) context: &'c AwsContext,
    pub(super) files: AwsFiles,
    pub(super) profile: AwsProfile,
}

impl<'c> Setup<'c> {
    /// Reads the files and chooses the profile.
    pub(super) fn read(context: &'c AwsContext) -> Result<Self> {
        let files = AwsFiles::load(&context.environment)?;
        let profile = files.profile(context.profile.as_ref(), &context.environment)?;
        Ok(Self { context, files, profile })
    }

    /// The name under which credentials are looked up: that of the profile, but for an empty one.
    pub(super) fn profile_name(&self) -> &str {
        if self.profile.name().is_empty() { super::files::DEFAULT_PROFILE } else { self.profile.name() }
    }

    /// A setting by its variable, which may be empty, or else of the profile.
    pub(super) fn setting(&self, variable: &str, key: &str) -> Option<&str> {
        self.context.environment.raw(variable).or_else(|| self.profile.get(key))
    }

    /// A switch: on for the word `true` in any case, and nothing else.
    pub(super) fn is_on(&self, variable: &str, key: &str) -> bool {
        self.setting(variable, key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// A whole number, at least 1.
    pub(super) fn number(&self, variable: &str, key: &str, default: u32) -> Result<u32> {
        let Some(text) = self.setting(variable, key) else { return Ok(default) };
        text.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| {
            Error::invalid_config(format!("the setting is not a number above 0: variable={variable} setting={key}"))
                .with_hint("write a whole number such as 1, or unset it")
        })
    }

    /// The URL of an AWS service, without a slash at its end.
    pub(super) fn service_url(&self, service: &endpoint::Service, region: &str) -> Result<String> {
        match endpoint::configured(self, service)? {
            Some(url) => Ok(url.trim_end_matches('/').to_owned()),
            None => Ok(endpoint::of_region(
                service.host,
                region,
                self.is_on("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"),
                self.is_on("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"),
            )),
        }
    }
}
