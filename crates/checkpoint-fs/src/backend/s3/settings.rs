//! Settings that AWS tools read from variables and from the profile in use.

use crate::backend::bucket::Given;
use crate::credentials::aws::{AwsFiles, AwsProfile};
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::resolution::Setting;

/// The variables, and the profile that they or the options name.
#[derive(Debug)]
pub(super) struct Settings<'e> {
    environment: &'e Environment,
    profile: AwsProfile,
}

impl<'e> Settings<'e> {
    /// Reads the shared files. Blocks for two small reads.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a file that cannot be parsed and a profile that
    /// is not there.
    pub(super) fn read(environment: &'e Environment, profile: Option<&Setting<String>>) -> Result<Self> {
        let profile = AwsFiles::load(environment)?.profile(profile, environment)?;
        if profile.get("s3").is_some_and(|text| !text.is_empty()) {
            return Err(Error::invalid_config(format!(
                "`s3` is no block in the AWS profile: profile={:?}",
                profile.name()
            ))
            .with_hint("write `s3 =` on a line of its own, and its settings below it, indented"));
        }
        Ok(Self { environment, profile })
    }

    /// A variable, where it is set; to nothing, perhaps.
    pub(super) fn variable(&self, name: &str) -> Given<String> {
        let value = self.environment.raw(name)?;
        Some(Setting::new(value.to_owned(), format!("environment: {name}")))
    }

    /// A setting of the profile.
    pub(super) fn of_profile(&self, key: &str) -> Given<String> {
        let value = self.profile.get(key)?;
        Some(Setting::new(value.to_owned(), format!("profile {}: {key}", self.profile.name())))
    }

    /// A setting of the profile's `s3` block.
    pub(super) fn of_s3(&self, key: &str) -> Given<String> {
        let value = self.profile.nested("s3", key)?;
        Some(Setting::new(value.to_owned(), format!("profile {}: s3.{key}", self.profile.name())))
    }

    /// A setting by its variable, or else of the profile.
    pub(super) fn find(&self, variable: &str, key: &str) -> Given<String> {
        self.variable(variable).or_else(|| self.of_profile(key))
    }

    /// The endpoint that is configured outside of options: the variables before the profile.
    ///
    /// # Errors
    /// As [`AwsProfile::endpoint_url`].
    pub(super) fn endpoint(&self) -> Result<Given<String>> {
        let variables = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
        if let Some(found) = variables.iter().find_map(|name| self.variable(name).filter(|url| !url.value.is_empty())) {
            return Ok(Some(found));
        }
        let found = self.profile.endpoint_url("s3")?;
        Ok(found.map(|(url, what)| {
            let what = what.trim_start_matches("profile: ");
            Setting::new(url.to_owned(), format!("profile {}: {what}", self.profile.name()))
        }))
    }

    /// A setting that must be one of some words, written as they stand here.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that names where it comes from, and the words.
    pub(super) fn check_word(given: &Given<String>, words: &[&str]) -> Result<()> {
        match given {
            Some(given) if !words.contains(&given.value.as_str()) => {
                Err(Error::invalid_config(format!("the setting is not a known word: source={}", given.source))
                    .with_hint(format!("write one of: {}", words.join(", "))))
            }
            _ => Ok(()),
        }
    }

    /// As [`check_word`](Self::check_word), for words in any case.
    ///
    /// # Errors
    /// As [`check_word`](Self::check_word).
    pub(super) fn check_word_of_any_case(given: &Given<String>, words: &[&str]) -> Result<()> {
        let lower = given.clone().map(|given| Setting { value: given.value.to_lowercase(), ..given });
        Self::check_word(&lower, words)
    }
}

/// A switch: on for the word `true` in any case, and for nothing else.
pub(super) fn switch(given: Given<String>) -> Given<bool> {
    given.map(|given| Setting::new(given.value.eq_ignore_ascii_case("true"), given.source))
}
