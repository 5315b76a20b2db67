//! The chain as one provider.

use std::sync::Arc;

use async_trait::async_trait;

use super::files::CA_BUNDLE_OF_ALL;
use super::service::Services;
use super::setup::{AwsContext, Setup};
use super::source::Source;
use crate::credentials::{CredentialProvider, Credentials};
use crate::error::{Error, ErrorKind, Result};

/// What can be said about credentials without any network call or process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    /// Where they come from, in words; `None` where no source is set up.
    pub(crate) source: Option<String>,
    /// The access key ID; `None` where only asking the source could tell.
    pub(crate) access_key_id: Option<String>,
    /// Whether there is a session token, as all services give one; what a process prints is not known.
    pub(crate) has_session_token: bool,
}

/// All sources that AWS tools look at, in their order.
///
/// Files and variables are read afresh at each load, so that keys which were replaced in a file are found.
#[derive(Debug)]
pub(crate) struct AwsChain {
    services: Arc<Services>,
}

impl AwsChain {
    /// Checks the settings of the source that comes first. Reads the files; asks nobody.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for a file or a setting that is wrong, a profile that
    /// does not exist, half a key pair; [`Unsupported`](ErrorKind::Unsupported) for what a job cannot do.
    pub(crate) fn new(context: AwsContext) -> Result<Self> {
        let setup = Setup::read(&context)?;
        Source::find(&setup)?;
        let ca_bundle = setup.setting("AWS_CA_BUNDLE", "ca_bundle");
        let ca_bundle = ca_bundle.or_else(|| setup.context.environment.raw(CA_BUNDLE_OF_ALL));
        let ca_bundle = ca_bundle.filter(|path| !path.is_empty()).map(str::to_owned);
        drop(setup);
        Ok(Self { services: Arc::new(Services::new(context, ca_bundle)) })
    }

    /// Says which source would be used, without asking it.
    ///
    /// # Errors
    /// As [`AwsChain::new`], and for keys that have expired.
    pub(crate) fn describe(&self) -> Result<Described> {
        let context = self.services.context();
        let setup = Setup::read(context)?;
        let Some(source) = Source::find(&setup)? else {
            return Ok(Described { source: None, access_key_id: None, has_session_token: false });
        };
        let name = Some(source.description());
        let Source::Keys(_, keys) = source else {
            let has_session_token = !matches!(source, Source::Process(_));
            return Ok(Described { source: name, access_key_id: None, has_session_token });
        };
        if keys.expires_at().is_some_and(|end| end <= context.clock.now()) {
            return Err(Error::new(ErrorKind::Unauthenticated, "the credentials have expired")
                .with_hint("renew them where they come from, and check this machine's clock"));
        }
        Ok(Described {
            source: name,
            access_key_id: Some(keys.access_key_id().to_owned()),
            has_session_token: keys.session_token().is_some(),
        })
    }
}

#[async_trait]
impl CredentialProvider for AwsChain {
    fn name(&self) -> &str {
        "AWS chain"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        let services = Arc::clone(&self.services);
        let found = tokio::task::spawn_blocking(move || Source::find(&Setup::read(services.context())?)).await;
        let found = found.map_err(|e| Error::new(ErrorKind::Io, "reading the AWS files broke off").with_source(e))?;
        let Some(source) = found? else { return Ok(None) };
        tracing::debug!(source = source.name(), "credentials are taken from here");
        let credentials = source.load(&self.services).await?;
        Ok(credentials.map(|credentials| credentials.with_source(source.name())))
    }
}

#[cfg(test)]
mod tests;
