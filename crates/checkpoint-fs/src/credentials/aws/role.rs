//! Roles: credentials of another source, given to STS for those of a role.

use super::container::Container;
use super::endpoint::StsEndpoint;
use super::ini::{self, Section};
use super::keys;
use super::metadata::InstanceMetadata;
use super::service::Services;
use super::setup::Setup;
use super::source::Source;
use super::sts::{self, AssumeRole};
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind, Result};

/// A role that a profile takes on, and the source that may.
#[derive(Debug)]
pub(super) struct Role {
    profile: String,
    request: AssumeRole,
    endpoint: StsEndpoint,
    from: Source,
}

impl Role {
    /// The role of the chosen profile, where it has one: `role_arn` with `source_profile` or
    /// `credential_source`.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for a role without exactly one source, for a source
    /// that is not there or has nothing, and for profiles that refer to each other in a circle;
    /// [`Unsupported`](ErrorKind::Unsupported) for one that asks for a code of a device.
    pub(super) fn find(setup: &Setup<'_>) -> Result<Option<Self>> {
        let name = setup.profile_name();
        match setup.files.profiles.get(name) {
            Some(section) if is_role(section) => Self::of_profile(setup, name, &mut vec![name.to_owned()]).map(Some),
            _ => Ok(None),
        }
    }

    fn of_profile(setup: &Setup<'_>, name: &str, visited: &mut Vec<String>) -> Result<Self> {
        let section = setup.files.profiles.get(name).ok_or_else(|| missing(name, name))?;
        let text = |key: &str| ini::text(section, key);
        let from = match (text("source_profile"), text("credential_source")) {
            (Some(_), Some(_)) => {
                return Err(wrong("the profile has both source_profile and credential_source", name));
            }
            (None, None) => {
                return Err(wrong("the profile has role_arn without source_profile or credential_source", name));
            }
            (None, Some(source)) => Self::named_source(setup, name, source)?,
            (Some(source), None) => Self::source_profile(setup, name, source, visited)?,
        };
        if text("mfa_serial").is_some() {
            return Err(Error::unsupported(format!("the profile asks for a code of a device: profile={name:?}"))
                .with_hint("a job cannot ask: use a role without mfa_serial, or credentials made beforehand"));
        }
        let request = AssumeRole {
            role_arn: text("role_arn").unwrap_or_default().to_owned(),
            session_name: text("role_session_name").filter(|s| !s.is_empty()).map(str::to_owned),
            external_id: text("external_id").map(str::to_owned),
            // A value that is no number does not count, as for the AWS tools.
            duration_seconds: text("duration_seconds").and_then(|s| s.trim().parse().ok()),
        };
        Ok(Self { profile: name.to_owned(), request, endpoint: StsEndpoint::find(setup)?, from })
    }

    fn named_source(setup: &Setup<'_>, profile: &str, source: &str) -> Result<Source> {
        let nothing = || wrong(&format!("credential_source has no credentials: source={source}"), profile);
        match source {
            "Environment" => Source::of_environment(setup)?.ok_or_else(nothing),
            "EcsContainer" => Container::find(&setup.context.environment)?.map(Source::Container).ok_or_else(nothing),
            "Ec2InstanceMetadata" => InstanceMetadata::find(setup)?.map(Source::InstanceMetadata).ok_or_else(nothing),
            _ => Err(wrong("credential_source is not known", profile)
                .with_hint("write Environment, Ec2InstanceMetadata or EcsContainer")),
        }
    }

    fn source_profile(setup: &Setup<'_>, name: &str, source: &str, visited: &mut Vec<String>) -> Result<Source> {
        let section = setup.files.profiles.get(source).ok_or_else(|| missing(source, name))?;
        // A profile may name itself, to take on a role with the keys that it holds.
        if visited.iter().any(|v| v == source) && (source != name || !keys::has_any(section)) {
            visited.push(source.to_owned());
            return Err(wrong(&format!("profiles refer to each other in a circle: {}", visited.join(" -> ")), name));
        }
        visited.push(source.to_owned());
        if is_role(section) && !keys::has_any(section) {
            return Ok(Source::Role(Box::new(Self::of_profile(setup, source, visited)?)));
        }
        Source::of_profile(setup, source, false)?
            .ok_or_else(|| wrong(&format!("the source profile has no credentials: source_profile={source:?}"), name))
    }

    /// Gets the source's credentials, and with them the role's.
    pub(super) async fn load(&self, services: &Services) -> Result<Credentials> {
        let source = self.from.load(services).await?.ok_or_else(|| {
            Error::new(
                ErrorKind::Unauthenticated,
                format!("there are no credentials to take on the role with: source={}", self.from.name()),
            )
            .with_hint(format!("see the profile {:?} in the AWS config file", self.profile))
        })?;
        if source.expires_at().is_some_and(|end| end <= services.context().clock.now()) {
            return Err(Error::new(
                ErrorKind::Unauthenticated,
                format!("the credentials to take on the role with have expired: source={}", self.from.name()),
            )
            .with_hint("renew them where they come from, and check this machine's clock"));
        }
        sts::assume_role(services, &self.endpoint, &self.request, source).await
    }
}

/// A role whose token comes from a file is that of another source.
fn is_role(section: &Section) -> bool {
    section.contains_key("role_arn") && !section.contains_key("web_identity_token_file")
}

fn missing(source: &str, profile: &str) -> Error {
    wrong(&format!("the source profile does not exist: source_profile={source:?}"), profile)
}

fn wrong(what: &str, profile: &str) -> Error {
    Error::invalid_config(format!("{what}: profile={profile:?}"))
        .with_hint("see [profile ...] in the AWS config file and [...] in the credentials file")
}
