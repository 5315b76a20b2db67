//! The chain: which source the settings ask for, found without any network.

use super::container::Container;
use super::keys;
use super::metadata::InstanceMetadata;
use super::process::CredentialProcess;
use super::role::Role;
use super::service::Services;
use super::setup::Setup;
use super::sso::Sso;
use super::web_identity::WebIdentity;
use crate::credentials::{AwsEnvironment, Credentials};
use crate::error::{Error, Result};

/// Where credentials come from.
#[derive(Debug)]
pub(super) enum Source {
    /// Keys that are at hand, with the name of what holds them.
    Keys(&'static str, Credentials),
    /// A role that another source's credentials may take on.
    Role(Box<Role>),
    /// A role for a token that somebody else vouches for.
    WebIdentity(WebIdentity),
    /// Single sign-on.
    Sso(Sso),
    /// A process that prints them.
    Process(CredentialProcess),
    /// The agent of a container.
    Container(Container),
    /// The metadata service of an EC2 instance.
    InstanceMetadata(InstanceMetadata),
}

impl Source {
    /// The first source that is set up, in the order of the AWS tools; the metadata service, which is set
    /// up everywhere, for none; `None` where that is turned off.
    ///
    /// # Errors
    /// For the first source that is set up and wrong.
    pub(super) fn find(setup: &Setup<'_>) -> Result<Option<Self>> {
        let environment = &setup.context.environment;
        // What is wrong here is wrong even where it is not needed, as for the AWS tools.
        let metadata = InstanceMetadata::find(setup)?;
        let explicit = setup.profile.is_explicit();
        if !explicit && let Some(found) = Self::of_environment(setup)? {
            return Ok(Some(found));
        }
        if let Some(role) = Role::find(setup)? {
            return Ok(Some(Self::Role(Box::new(role))));
        }
        if let Some(found) = Self::of_profile(setup, setup.profile_name(), !explicit)? {
            return Ok(Some(found));
        }
        if let Some(found) = keys::of_ec2_file(environment)? {
            return Ok(Some(Self::Keys(keys::EC2_FILE, found)));
        }
        if let Some(found) = keys::of_boto_file(environment)? {
            return Ok(Some(Self::Keys(keys::BOTO_FILE, found)));
        }
        if let Some(found) = Container::find(environment)? {
            return Ok(Some(Self::Container(found)));
        }
        Ok(metadata.map(Self::InstanceMetadata))
    }

    pub(super) fn of_environment(setup: &Setup<'_>) -> Result<Option<Self>> {
        let found = AwsEnvironment::new(setup.context.environment.clone()).credentials()?;
        Ok(found.map(|credentials| Self::Keys("environment", credentials)))
    }

    /// The sources that a profile alone sets up.
    pub(super) fn of_profile(setup: &Setup<'_>, profile: &str, with_variables: bool) -> Result<Option<Self>> {
        if let Some(found) = WebIdentity::find(setup, profile, with_variables)? {
            return Ok(Some(Self::WebIdentity(found)));
        }
        if let Some(found) = Sso::find(setup, profile)? {
            return Ok(Some(Self::Sso(found)));
        }
        if let Some(found) = keys::of_credentials_file(&setup.files, profile)? {
            return Ok(Some(Self::Keys(keys::CREDENTIALS_FILE, found)));
        }
        refuse_login(setup, profile)?;
        if let Some(found) = CredentialProcess::find(setup, profile)? {
            return Ok(Some(Self::Process(found)));
        }
        let found = keys::of_config_file(&setup.files, profile)?;
        Ok(found.map(|credentials| Self::Keys(keys::CONFIG_FILE, credentials)))
    }

    /// What messages call it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Keys(name, _) => name,
            Self::Role(_) => "assume role",
            Self::WebIdentity(_) => "web identity",
            Self::Sso(_) => "sso",
            Self::Process(_) => "credential process",
            Self::Container(_) => "container",
            Self::InstanceMetadata(_) => "instance metadata",
        }
    }

    /// The name, and what keeps it from giving credentials where that can be seen without asking it.
    pub(super) fn description(&self) -> String {
        let missing = match self {
            Self::Sso(sso) => sso.missing(),
            _ => None,
        };
        missing.map_or_else(|| self.name().to_owned(), |missing| format!("{}; {missing}", self.name()))
    }

    /// Gets the credentials. Only the metadata service may have none.
    pub(super) async fn load(&self, services: &Services) -> Result<Option<Credentials>> {
        match self {
            Self::Keys(_, credentials) => Ok(Some(credentials.clone())),
            Self::Role(role) => Box::pin(role.load(services)).await.map(Some),
            Self::WebIdentity(identity) => identity.load(services).await.map(Some),
            Self::Sso(sso) => Box::pin(sso.load(services)).await.map(Some),
            Self::Process(process) => process.load(&services.context().environment).await.map(Some),
            Self::Container(container) => container.load(services).await.map(Some),
            Self::InstanceMetadata(metadata) => metadata.load(services).await,
        }
    }
}

fn refuse_login(setup: &Setup<'_>, profile: &str) -> Result<()> {
    if setup.files.profiles.get(profile).is_some_and(|section| section.contains_key("login_session")) {
        return Err(Error::unsupported(format!("the profile signs in by `aws login`: profile={profile:?}")).with_hint(
            format!("add credential_process = aws configure export-credentials --profile {profile:?} to another profile and use that"),
        ));
    }
    Ok(())
}
