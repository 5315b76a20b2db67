//! One profile: settings that were chosen by its name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::files::DEFAULT_PROFILE;
use super::ini::{self, Section, Value};
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::resolution::Setting;

/// Variables that name the profile, in the order they are looked at.
pub(crate) const PROFILE_VARIABLES: [(&str, &str); 2] =
    [("AWS_DEFAULT_PROFILE", "environment: AWS_DEFAULT_PROFILE"), ("AWS_PROFILE", "environment: AWS_PROFILE")];

/// Which profile was asked for, and where; the default one for no source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProfileChoice {
    pub(super) name: String,
    pub(super) source: Option<Cow<'static, str>>,
    pub(super) explicit: bool,
}

impl ProfileChoice {
    pub(super) fn find(explicit: Option<&Setting<String>>, environment: &Environment) -> Self {
        if let Some(Setting { value, source }) = explicit {
            return Self { name: value.clone(), source: Some(source.clone()), explicit: true };
        }
        // Here an empty variable is set: the AWS tools take it for the name of a profile.
        let named = PROFILE_VARIABLES.iter().find_map(|(variable, s)| Some((environment.raw(variable)?, *s)));
        match named {
            Some((name, source)) => Self { name: name.to_owned(), source: Some(source.into()), explicit: false },
            None => Self { name: DEFAULT_PROFILE.to_owned(), source: None, explicit: false },
        }
    }
}

/// The settings of the chosen profile. `Debug` shows its name alone.
#[derive(Clone)]
pub(crate) struct AwsProfile {
    choice: ProfileChoice,
    settings: Section,
    services: Option<Section>,
}

impl AwsProfile {
    pub(super) fn new(choice: ProfileChoice, settings: Section, services: &BTreeMap<String, Section>) -> Self {
        let mut profile = Self { choice, settings, services: None };
        if let Some(name) = profile.get("services") {
            profile.services = services.get(name).cloned();
        }
        profile
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.choice.name
    }

    /// Where its name came from; `None` for the default one that nobody asked for.
    #[cfg(test)]
    pub(crate) fn source(&self) -> Option<&str> {
        self.choice.source.as_deref()
    }

    /// Whether an option named it, so that keys in the environment do not count.
    pub(crate) fn is_explicit(&self) -> bool {
        self.choice.explicit
    }

    /// A setting by its name in lower case: its text as it stands, which may be empty. `None` when it is
    /// not there or is an indented block.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        ini::text(&self.settings, name)
    }

    /// A setting of an indented block, such as `addressing_style` of `s3`. Names in blocks keep their case.
    pub(crate) fn nested(&self, block: &str, name: &str) -> Option<&str> {
        nested(&self.settings, block, name)
    }

    /// The endpoint that the profile sets for a service: that of its `services` section, else its own.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) when the profile names a `services` section that
    /// is not there, or is empty.
    pub(crate) fn endpoint_url(&self, service: &str) -> Result<Option<(&str, &'static str)>> {
        if self.settings.contains_key("services") {
            let section = self.services.as_ref().filter(|section| !section.is_empty()).ok_or_else(|| {
                Error::invalid_config(format!(
                    "the profile names a services section that does not exist: profile={:?} services={:?}",
                    self.name(),
                    self.get("services").unwrap_or_default()
                ))
                .with_hint("add [services NAME] to the AWS config file, or take `services` out of the profile")
            })?;
            if let Some(url) = nested(section, service, "endpoint_url").filter(|url| !url.is_empty()) {
                return Ok(Some((url, "profile: services")));
            }
        }
        Ok(self.get("endpoint_url").filter(|url| !url.is_empty()).map(|url| (url, "profile: endpoint_url")))
    }
}

fn nested<'s>(section: &'s Section, block: &str, name: &str) -> Option<&'s str> {
    match section.get(block)? {
        Value::Nested(settings) => settings.get(name).map(String::as_str),
        Value::Text(_) => None,
    }
}

impl fmt::Debug for AwsProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AwsProfile").field(&self.choice.name).finish()
    }
}
