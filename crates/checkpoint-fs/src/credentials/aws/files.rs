//! The files that AWS tools share: `~/.aws/config` and `~/.aws/credentials`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::ini::{self, Section};
use super::profile::{AwsProfile, ProfileChoice};
use super::{path, words};
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::resolution::Setting;

/// The variable of the config file's path.
pub(crate) const CONFIG_FILE: &str = "AWS_CONFIG_FILE";
/// The variable of the credentials file's path.
pub(crate) const CREDENTIALS_FILE: &str = "AWS_SHARED_CREDENTIALS_FILE";

/// The variable of a bundle of certificates for all tools, read after those of AWS.
pub(crate) const CA_BUNDLE_OF_ALL: &str = "REQUESTS_CA_BUNDLE";

/// The profile that is used when none is chosen.
pub(super) const DEFAULT_PROFILE: &str = "default";

/// Both files, parsed, with profiles merged as the AWS tools merge them. `Debug` shows no values.
pub(crate) struct AwsFiles {
    pub(super) config_path: PathBuf,
    pub(super) credentials_path: PathBuf,
    /// The profiles of the config file alone.
    pub(super) config_profiles: BTreeMap<String, Section>,
    /// The sections of the credentials file, by their whole names.
    pub(super) credentials_sections: BTreeMap<String, Section>,
    /// The profiles of both; what the credentials file says counts.
    pub(super) profiles: BTreeMap<String, Section>,
    pub(super) sso_sessions: BTreeMap<String, Section>,
    pub(super) services: BTreeMap<String, Section>,
}

impl AwsFiles {
    /// Reads both files, where the variables say or in `.aws` in the home directory. A file that is not
    /// there is empty; one that this user may not read is too, with a warning. Blocks for two small reads.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a file that is not of the dialect.
    pub(crate) fn load(environment: &Environment) -> Result<Self> {
        let at = |variable, default| path::expand(environment.raw(variable).unwrap_or(default), environment);
        let config_path = at(CONFIG_FILE, "~/.aws/config");
        let credentials_path = at(CREDENTIALS_FILE, "~/.aws/credentials");
        let mut files = Self {
            config_profiles: BTreeMap::new(),
            credentials_sections: read_sections(&credentials_path)?.unwrap_or_default().into_iter().collect(),
            profiles: BTreeMap::new(),
            sso_sessions: BTreeMap::new(),
            services: BTreeMap::new(),
            config_path,
            credentials_path,
        };
        for (header, section) in read_sections(&files.config_path)?.unwrap_or_default() {
            files.take_config_section(&header, section);
        }
        files.profiles = files.config_profiles.clone();
        for (name, section) in &files.credentials_sections {
            files.profiles.entry(name.clone()).or_default().extend(section.clone());
        }
        Ok(files)
    }

    /// Sorts a section of the config file by the first word of its header. Those of two words name what
    /// they hold; others are of no interest. A later section of the same name replaces an earlier one.
    fn take_config_section(&mut self, header: &str, section: Section) {
        let kinds = [
            ("profile", &mut self.config_profiles),
            ("sso-session", &mut self.sso_sessions),
            ("services", &mut self.services),
        ];
        for (kind, sections) in kinds {
            if header.starts_with(kind) {
                if let Ok([_, name]) = words::split(header).as_deref() {
                    sections.insert(name.clone(), section);
                }
                return;
            }
        }
        if header == DEFAULT_PROFILE {
            self.config_profiles.insert(header.to_owned(), section);
        }
    }

    /// The profile to use: `explicit`, else that of `AWS_DEFAULT_PROFILE` or `AWS_PROFILE`, else `default`.
    /// An empty name is a name like others.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for one that was asked for and is in neither
    /// file. Only where nothing was asked for may `default` be missing.
    pub(crate) fn profile(&self, explicit: Option<&Setting<String>>, environment: &Environment) -> Result<AwsProfile> {
        let choice = ProfileChoice::find(explicit, environment);
        let settings = match self.profiles.get(&choice.name) {
            Some(section) => section.clone(),
            None if choice.source.is_none() => Section::new(),
            None => return Err(self.profile_not_found(&choice)),
        };
        Ok(AwsProfile::new(choice, settings, &self.services))
    }

    fn profile_not_found(&self, choice: &ProfileChoice) -> Error {
        let names: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Error::invalid_config(format!(
            "the AWS profile does not exist: profile={:?} source={:?}",
            choice.name,
            choice.source.as_deref().unwrap_or_default()
        ))
        .with_hint(format!(
            "profiles are read from {} and {}; there are: {known}",
            self.config_path.display(),
            self.credentials_path.display()
        ))
    }
}

impl fmt::Debug for AwsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsFiles")
            .field("config", &self.config_path)
            .field("credentials", &self.credentials_path)
            .field("profiles", &self.profiles.keys())
            .finish_non_exhaustive()
    }
}

/// The sections of a file, or `None` where there is no such file.
pub(super) fn read_sections(path: &Path) -> Result<Option<Vec<(String, Section)>>> {
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the file cannot be read, and counts as empty");
            return Ok(Some(Vec::new()));
        }
    };
    let wrong = |why: &str, line: usize| {
        Error::invalid_config(format!("the file cannot be parsed: {why}: path={} line={line}", path.display()))
            .with_hint("correct the line; comments stand on lines of their own, and start with # or ;")
    };
    let text = std::str::from_utf8(&bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        wrong("it is not UTF-8", line)
    })?;
    ini::parse(text).map(Some).map_err(|fault| wrong(&fault.why, fault.line))
}

#[cfg(test)]
mod tests;
