//! Tokens for a service principal of Entra ID, which proves itself by a secret or by a federated token.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use url::{Host, Url};

use super::authorization::bearer;
use super::token::{Question, TokenClient};
use crate::credentials::service::{Route, Services};
use crate::credentials::{CredentialProvider, Credentials, Secret, ShownPath};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::transport::{ClientSettings, Failure, RetryPolicy, SystemClock};

/// The variable of the authority.
pub(crate) const AUTHORITY_HOST: &str = "AZURE_AUTHORITY_HOST";
const PUBLIC_AUTHORITY: &str = "https://login.microsoftonline.com";
const SCOPE: &str = "https://storage.azure.com/.default";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const TIMEOUT: Duration = Duration::from_secs(20);

/// Where tokens are asked for; `https://` but on this machine itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority(String);

impl Authority {
    /// The authority that the environment names, or that of the public cloud.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) when it is no URL over TLS.
    pub(crate) fn of(environment: &Environment) -> Result<Self> {
        let Some(text) = environment.get(AUTHORITY_HOST) else { return Ok(Self(PUBLIC_AUTHORITY.to_owned())) };
        let text = text.trim().trim_end_matches('/');
        let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let wrong = || {
            Error::invalid_config(format!("{AUTHORITY_HOST} is not an https:// address"))
                .with_hint("write it as login.microsoftonline.us, or unset it for the public cloud")
        };
        let url = Url::parse(&text).map_err(|_| wrong())?;
        let loopback = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => return Err(wrong()),
        };
        let plain = url.scheme() == "http" && loopback;
        if !(url.scheme() == "https" || plain) || url.query().is_some() || !url.username().is_empty() {
            return Err(wrong());
        }
        Ok(Self(text))
    }
}

/// How a principal proves itself.
#[derive(Debug, Clone)]
pub(crate) enum Proof {
    /// By its secret.
    Secret(Secret),
    /// By a token that somebody else renews in a file (workload identity).
    FederatedFile(PathBuf),
}

/// Gets tokens for a principal.
#[derive(Clone)]
pub(crate) struct EntraProvider {
    name: Cow<'static, str>,
    authority: Authority,
    tenant: String,
    client: String,
    proof: Proof,
    service: TokenClient,
}

impl EntraProvider {
    /// A provider that asks nothing yet; `name` says where the principal came from.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for a tenant that cannot be part of a URL.
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        authority: Authority,
        (tenant, client): (&str, &str),
        proof: Proof,
        settings: ClientSettings,
    ) -> Result<Self> {
        let name = name.into();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
        if tenant.is_empty() || !tenant.bytes().all(plain) {
            return Err(Error::invalid_config(format!("the tenant is no ID or domain name: source={name}"))
                .with_hint("a tenant looks like 00000000-0000-0000-0000-000000000000, or contoso.onmicrosoft.com"));
        }
        let services = Services::new(settings, Arc::new(SystemClock));
        let service = TokenClient { services, retry: RetryPolicy::default(), timeout: TIMEOUT };
        Ok(Self { name, authority, tenant: tenant.to_owned(), client: client.to_owned(), proof, service })
    }

    async fn question(&self) -> Result<Question> {
        let mut form = vec![
            ("grant_type", Secret::new("client_credentials")),
            ("client_id", Secret::new(self.client.as_str())),
            ("scope", Secret::new(SCOPE)),
        ];
        match &self.proof {
            Proof::Secret(secret) => form.push(("client_secret", secret.clone())),
            Proof::FederatedFile(path) => {
                let assertion = tokio::fs::read_to_string(path).await.map_err(|e| {
                    Error::new(ErrorKind::Unauthenticated, "the federated token cannot be read")
                        .with_hint(format!("AZURE_FEDERATED_TOKEN_FILE names it: path={}", ShownPath(path)))
                        .with_source(e)
                })?;
                form.push(("client_assertion_type", Secret::new(ASSERTION_TYPE)));
                form.push(("client_assertion", Secret::new(assertion.trim())));
            }
        }
        let url = format!("{}/{}/oauth2/v2.0/token", self.authority.0, self.tenant);
        Ok(Question {
            operation: "get a token of Entra ID",
            method: Method::POST,
            url,
            header: None,
            form,
            secret_fields: &["client_secret", "client_assertion"],
            route: Route::Proxied,
            passing: &[],
            hint: "check the tenant, the client ID, and its secret or federation",
        })
    }
}

impl fmt::Debug for EntraProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntraProvider")
            .field("name", &self.name)
            .field("authority", &self.authority)
            .field("tenant", &self.tenant)
            .field("client", &self.client)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl CredentialProvider for EntraProvider {
    fn name(&self) -> &str {
        &self.name
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        let question = self.question().await?;
        let token = Box::pin(self.service.ask(question)).await.map_err(|Failure { error, .. }| match error.kind() {
            ErrorKind::Unauthenticated => error,
            _ => error.with_hint("check the network, proxy variables, and AZURE_AUTHORITY_HOST"),
        })?;
        Ok(Some(bearer(&self.client, token.secret.expose(), token.expires_at).with_source(self.name.as_ref())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::service::trials::{Trial, quick};
    use crate::transport::TlsRoots;

    #[tokio::test]
    async fn what_a_service_may_do() {
        let settings = ClientSettings {
            connect_timeout: Duration::from_secs(5),
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: Environment::default(),
        };
        let file = tempfile::NamedTempFile::new().expect("made");
        std::fs::write(file.path(), "ey.hunter2.assertion\n").expect("written");
        let secret = (Proof::Secret(Secret::new("hunter2-secret")), "hunter2-secret");
        let file = (Proof::FederatedFile(file.path().into()), "ey.hunter2.assertion");
        for (proof, sent) in [secret, file] {
            let refusal = format!(
                r#"{{"error": "invalid_client", "error_description": "AADSTS7000215: no good: {sent}\r\nTrace ID: 1"}}"#
            );
            Trial {
                good: |_| (200, r#"{"access_token": "eyJ0", "expires_in": 3599}"#.to_owned()),
                refusal: &refusal,
                words: "AADSTS7000215",
                secret: "hunter2",
            }
            .run(|url| {
                let (authority, principal) = (Authority(url), ("contoso.com", "the-app"));
                let made = EntraProvider::new("test", authority, principal, proof.clone(), settings.clone());
                let mut provider = made.expect("valid");
                provider.service.retry = quick();
                async move { provider.load().await }
            })
            .await;
        }
    }
}
