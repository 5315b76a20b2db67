//! Tokens for the managed identity of the machine or the app that this runs on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;

use super::authorization::bearer;
use super::token::{Question, TokenClient};
use crate::backend::encode::encode_query;
use crate::credentials::service::{Route, Services};
use crate::credentials::{CredentialProvider, Credentials, Secret};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::transport::{ClientSettings, Failure, RetryPolicy, SystemClock, TlsRoots};

/// The variables of an app's own endpoint, and of the secret that it wants to see.
pub(crate) const APP_ENDPOINT: [&str; 2] = ["IDENTITY_ENDPOINT", "IDENTITY_HEADER"];
/// The variable of another address than the usual one.
pub(crate) const MACHINE_ENDPOINT: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
const MACHINE: &str = "http://169.254.169.254";
const RESOURCE: &str = "https://storage.azure.com/";
/// The name of a token that belongs to the only identity there is.
const ONLY_IDENTITY: &str = "managed-identity";
/// What the service answers for a while when it restarts, and a machine without one for ever.
const MISSING: [u16; 2] = [404, 410];
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Gets tokens from the instance metadata service, or from an app's own endpoint.
#[derive(Clone)]
pub(crate) struct ManagedIdentity {
    url: String,
    header: (&'static str, Secret),
    client: Option<String>,
    service: TokenClient,
}

impl ManagedIdentity {
    /// The identity that the environment describes; `client` names one of several.
    pub(crate) fn new(environment: &Environment, client: Option<&str>) -> Self {
        let [endpoint, secret] = APP_ENDPOINT.map(|name| environment.get(name));
        let (url, header) = match (endpoint, secret) {
            (Some(endpoint), Some(secret)) => (
                format!("{}?api-version=2019-08-01", endpoint.trim_end_matches('/')),
                ("x-identity-header", Secret::new(secret)),
            ),
            _ => {
                let host = environment.get(MACHINE_ENDPOINT).unwrap_or(MACHINE).trim_end_matches('/');
                (
                    format!("{host}/metadata/identity/oauth2/token?api-version=2018-02-01"),
                    ("metadata", Secret::new("true")),
                )
            }
        };
        let mut url = format!("{url}&resource={}", encode_query(RESOURCE));
        if let Some(client) = client {
            url.push_str(&format!("&client_id={}", encode_query(client)));
        }
        let settings = ClientSettings {
            connect_timeout: CONNECT_TIMEOUT,
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: environment.clone(),
        };
        let retry = RetryPolicy::new(3, Duration::from_millis(800), Duration::from_secs(5));
        let services = Services::new(settings, Arc::new(SystemClock));
        let service = TokenClient { services, retry, timeout: TIMEOUT };
        Self { url, header, client: client.map(str::to_owned), service }
    }
}

impl fmt::Debug for ManagedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedIdentity").field("client", &self.client).finish_non_exhaustive()
    }
}

#[async_trait]
impl CredentialProvider for ManagedIdentity {
    fn name(&self) -> &str {
        "managed identity"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        let question = Question {
            operation: "get a token of a managed identity",
            method: Method::GET,
            url: self.url.clone(),
            header: Some(self.header.clone()),
            form: Vec::new(),
            secret_fields: &[],
            // These addresses are never reached through a proxy.
            route: Route::Direct,
            passing: &MISSING,
            hint: "the machine's identity may be switched off, or AZURE_CLIENT_ID wrong",
        };
        let token = Box::pin(self.service.ask(question)).await.map_err(|Failure { error, status, .. }| {
            let is_absent = match status {
                Some(status) => MISSING.contains(&status.as_u16()),
                None => matches!(error.kind(), ErrorKind::Io | ErrorKind::Timeout),
            };
            if !is_absent {
                return error;
            }
            Error::new(ErrorKind::Unauthenticated, "no credentials were found, and this machine has no identity")
                .with_hint(
                    "give `account_key`, `sas_token`, `connection_string` or a service principal, set \
                     AZURE_STORAGE_ACCOUNT_KEY or AZURE_CLIENT_ID and its companions, or `anon: true` for a public \
                     container",
                )
                .with_source(error)
        })?;
        let name = self.client.as_deref().unwrap_or(ONLY_IDENTITY);
        Ok(Some(bearer(name, token.secret.expose(), token.expires_at).with_source("managed identity")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::service::trials::{Fake, Trial, quick};

    fn at(url: &str) -> ManagedIdentity {
        // Proxies are for other servers.
        let variables =
            [(APP_ENDPOINT[0], url), (APP_ENDPOINT[1], "hunter2-header"), ("http_proxy", "http://127.0.0.1:1")];
        let mut provider = ManagedIdentity::new(&variables.into_iter().collect(), None);
        provider.service.retry = quick();
        provider
    }

    #[tokio::test]
    async fn what_a_service_may_do() {
        Trial {
            good: |seen| match seen.header("x-identity-header") {
                Some("hunter2-header") => (200, r#"{"access_token": "eyJ0", "expires_on": "1800000000"}"#.to_owned()),
                _ => (200, "{}".to_owned()),
            },
            refusal: r#"{"error": "denied", "error_description": "this app has none; it sent hunter2-header"}"#,
            words: "this app has none",
            secret: "hunter2",
        }
        .run(|url| async move { at(&url).load().await })
        .await;
    }

    #[tokio::test]
    async fn where_there_is_no_identity_the_hint_says_what_to_give() {
        let missing = Fake::start(|_| (404, String::new())).await;
        for url in [missing.url(), Fake::unreachable().await] {
            let error = at(&url).load().await.expect_err("none");
            assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error:?}");
            assert!(error.hint().is_some_and(|hint| hint.contains("account_key")), "{error:?}");
        }
    }
}
