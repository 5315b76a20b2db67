//! Which identity of Entra ID requests are made with when none is named: the first that the environment
//! describes, in the order of Azure's own libraries. What they find in developers' tools is not used.

use std::sync::Arc;

use super::entra::{Authority, EntraProvider, Proof};
use super::managed::ManagedIdentity;
use crate::credentials::{CredentialProvider, Secret};
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::transport::ClientSettings;

/// The variables of a service principal.
pub(crate) const TENANT_ID: &str = "AZURE_TENANT_ID";
/// See [`TENANT_ID`]; also the identity that is meant, where a machine has several.
pub(crate) const CLIENT_ID: &str = "AZURE_CLIENT_ID";
/// See [`TENANT_ID`].
pub(crate) const CLIENT_SECRET: &str = "AZURE_CLIENT_SECRET";
/// A certificate in the place of the secret; not supported.
pub(crate) const CLIENT_CERTIFICATE: &str = "AZURE_CLIENT_CERTIFICATE_PATH";
/// The file of a federated token.
pub(crate) const FEDERATED_TOKEN_FILE: &str = "AZURE_FEDERATED_TOKEN_FILE";

/// A provider, what it is called, and the public name of the identity where that is known.
#[derive(Debug, Clone)]
pub(crate) struct DefaultSource {
    pub(crate) provider: Arc<dyn CredentialProvider>,
    pub(crate) source: &'static str,
    pub(crate) identity: Option<String>,
}

/// Chooses; does no I/O.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a tenant or an authority that is none, and
/// [`Unsupported`](crate::ErrorKind::Unsupported) for a principal that proves itself by a certificate.
pub(crate) fn default_source(environment: &Environment, settings: &ClientSettings) -> Result<DefaultSource> {
    let [tenant, client, secret, certificate, file] =
        [TENANT_ID, CLIENT_ID, CLIENT_SECRET, CLIENT_CERTIFICATE, FEDERATED_TOKEN_FILE].map(|n| environment.get(n));
    let (source, principal, proof) = match (tenant, client, secret, certificate, file) {
        (Some(tenant), Some(client), Some(secret), ..) => {
            ("environment: AZURE_CLIENT_SECRET", (tenant, client), Proof::Secret(Secret::new(secret)))
        }
        (Some(_), Some(_), None, Some(_), _) => {
            return Err(Error::unsupported(format!(
                "a certificate proves no identity here: variable={CLIENT_CERTIFICATE}"
            ))
            .with_hint("use AZURE_CLIENT_SECRET, AZURE_FEDERATED_TOKEN_FILE or a managed identity"));
        }
        (Some(tenant), Some(client), None, None, Some(file)) => {
            ("environment: AZURE_FEDERATED_TOKEN_FILE", (tenant, client), Proof::FederatedFile(file.into()))
        }
        _ => {
            return Ok(DefaultSource {
                provider: Arc::new(ManagedIdentity::new(environment, client)),
                source: "managed identity",
                identity: client.map(str::to_owned),
            });
        }
    };
    let provider = EntraProvider::new(source, Authority::of(environment)?, principal, proof, settings.clone())?;
    Ok(DefaultSource { provider: Arc::new(provider), source, identity: Some(principal.1.to_owned()) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ErrorKind;
    use crate::transport::TlsRoots;

    fn choose(pairs: &[(&str, &str)]) -> Result<DefaultSource> {
        let environment: Environment = pairs.iter().copied().collect();
        let settings = ClientSettings {
            connect_timeout: Duration::from_secs(1),
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: environment.clone(),
        };
        default_source(&environment, &settings)
    }

    #[test]
    fn the_first_identity_that_is_described_whole_wins() {
        let principal = [(TENANT_ID, "contoso.com"), (CLIENT_ID, "app")];
        let secret = (CLIENT_SECRET, "hunter2");
        let file = (FEDERATED_TOKEN_FILE, "/var/token");
        for (pairs, source, identity) in [
            (vec![], "managed identity", None),
            (vec![(CLIENT_ID, "mine")], "managed identity", Some("mine")),
            (vec![principal[0], secret], "managed identity", None),
            (vec![principal[0], principal[1]], "managed identity", Some("app")),
            (vec![principal[0], principal[1], file], "environment: AZURE_FEDERATED_TOKEN_FILE", Some("app")),
            (vec![principal[0], principal[1], file, secret], "environment: AZURE_CLIENT_SECRET", Some("app")),
        ] {
            let chosen = choose(&pairs).expect("valid");
            assert_eq!((chosen.source, chosen.identity.as_deref()), (source, identity));
            assert!(!format!("{chosen:?}").contains("hunter2"));
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let certificate = [(TENANT_ID, "t"), (CLIENT_ID, "c"), (CLIENT_CERTIFICATE, "/c.pem")];
        assert_eq!(choose(&certificate).expect_err("no certificates").kind(), ErrorKind::Unsupported);
        let tenant = [(TENANT_ID, "a/b"), (CLIENT_ID, "c"), (CLIENT_SECRET, "s")];
        assert_eq!(choose(&tenant).expect_err("no tenant").kind(), ErrorKind::InvalidConfig);
        for host in ["http://login.example.com", "https://user:pw@login.example.com", "https://x/?a=b", ":"] {
            let pairs = [(TENANT_ID, "t"), (CLIENT_ID, "c"), (CLIENT_SECRET, "s"), ("AZURE_AUTHORITY_HOST", host)];
            let error = choose(&pairs).expect_err(host);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(!format!("{error:?}").contains("pw"), "{error:?}");
        }
        for host in ["login.microsoftonline.us", "https://login.chinacloudapi.cn/", "http://127.0.0.1:8080"] {
            let pairs = [(TENANT_ID, "t"), (CLIENT_ID, "c"), (CLIENT_SECRET, "s"), ("AZURE_AUTHORITY_HOST", host)];
            choose(&pairs).expect(host);
        }
    }
}
