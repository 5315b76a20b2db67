//! The way to the services that give credentials, and what the chain works from.

use std::time::Duration;

use super::setup::AwsContext;
use crate::credentials::service;
pub(super) use crate::credentials::service::{Exchange, Route};
use crate::transport::{Answer, ClientSettings, Failure, TlsRoots};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests for credentials.
#[derive(Debug)]
pub(super) struct Services {
    context: AwsContext,
    sender: service::Services,
}

impl Services {
    /// `ca_bundle` is the file of trusted certificates, where one is set.
    pub(super) fn new(context: AwsContext, ca_bundle: Option<String>) -> Self {
        let tls = ca_bundle.map_or(TlsRoots::System, |path| TlsRoots::Bundle(path.into()));
        let environment = context.environment.clone();
        let settings = ClientSettings { connect_timeout: CONNECT_TIMEOUT, idle_connections: 1, tls, environment };
        let sender = service::Services::new(settings, context.clock.clone());
        Self { context, sender }
    }

    pub(super) fn context(&self) -> &AwsContext {
        &self.context
    }

    /// Sends until an answer counts or the attempts are used up; the whole is bounded in time.
    pub(super) async fn exchange(&self, exchange: Exchange) -> Result<Answer, Failure> {
        self.sender.exchange(exchange).await
    }
}
