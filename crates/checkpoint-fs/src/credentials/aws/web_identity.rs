//! Roles for a token in a file, as Kubernetes and CI services put one there.

use std::path::PathBuf;

use super::endpoint::StsEndpoint;
use super::ini;
use super::service::Services;
use super::setup::Setup;
use super::sts::{self, AssumeRole};
use crate::credentials::{Credentials, ShownPath};
use crate::error::{Error, Result};

/// A role, and the file that holds the token for it.
#[derive(Debug)]
pub(super) struct WebIdentity {
    token_file: PathBuf,
    request: AssumeRole,
    endpoint: StsEndpoint,
}

impl WebIdentity {
    /// From variables, where these count, and the profile; each value by itself.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a token without a role.
    pub(super) fn find(setup: &Setup<'_>, profile: &str, with_variables: bool) -> Result<Option<Self>> {
        let section = setup.files.profiles.get(profile);
        let value = |variable: &str, key: &str| {
            let variable = setup.context.environment.raw(variable).filter(|_| with_variables);
            variable.or_else(|| ini::text(section?, key))
        };
        let filled = |text: &&str| !text.is_empty();
        let Some(token_file) = value("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file").filter(filled) else {
            return Ok(None);
        };
        let role_arn = value("AWS_ROLE_ARN", "role_arn").filter(filled).ok_or_else(|| {
            Error::invalid_config(format!("a web identity token is set without a role: profile={profile:?}"))
                .with_hint("set AWS_ROLE_ARN, or role_arn in the profile")
        })?;
        let session_name = value("AWS_ROLE_SESSION_NAME", "role_session_name").filter(filled).map(str::to_owned);
        Ok(Some(Self {
            token_file: token_file.into(),
            request: AssumeRole {
                role_arn: role_arn.to_owned(),
                session_name,
                external_id: None,
                duration_seconds: None,
            },
            endpoint: StsEndpoint::find(setup)?,
        }))
    }

    /// Reads the token afresh, as it is replaced from time to time, and asks STS.
    pub(super) async fn load(&self, services: &Services) -> Result<Credentials> {
        let token = tokio::fs::read_to_string(&self.token_file).await.map_err(|e| {
            Error::invalid_config(format!(
                "the web identity token cannot be read: path={}",
                ShownPath(&self.token_file)
            ))
            .with_hint("check AWS_WEB_IDENTITY_TOKEN_FILE, or web_identity_token_file in the profile")
            .with_source(e)
        })?;
        sts::assume_role_with_web_identity(services, &self.endpoint, &self.request, token.trim()).await
    }
}
