//! The HTTP client: one per opened location, with its connection pool, TLS roots and proxies.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Certificate, Client, NoProxy, Proxy};

use crate::error::{Error, Result};
use crate::options::Environment;

/// How long an idle connection is kept; below what common services and balancers allow.
const POOL_IDLE: Duration = Duration::from_secs(20);
/// Proxy variables by the scheme they are for; the first that is set counts.
const PROXY_VARIABLES: [(&str, [&str; 4]); 2] = [
    ("http", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]),
    ("https", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
];
/// Hosts that are reached directly.
const NO_PROXY_VARIABLES: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Which certificates are trusted.
#[cfg_attr(not(feature = "_bucket"), allow(dead_code, reason = "only stores of S3's kind have settings for it"))]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum TlsRoots {
    /// Those of the machine.
    #[default]
    System,
    /// Those of a PEM file, and no others.
    Bundle(PathBuf),
    /// Any certificate at all.
    Unverified,
}

#[cfg(feature = "_bucket")]
impl TlsRoots {
    /// What `verify` asks for: `true`, `false`, or the path of a bundle.
    pub(crate) fn of_verify(verify: &str) -> Self {
        match verify {
            "true" => Self::System,
            "false" => Self::Unverified,
            path => Self::Bundle(path.into()),
        }
    }
}

/// What the client needs to know.
#[derive(Debug, Clone)]
pub(crate) struct ClientSettings {
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_connections: usize,
    pub(crate) tls: TlsRoots,
    pub(crate) environment: Environment,
}

impl ClientSettings {
    /// Builds the client. Reads the certificate bundle where one is set. Redirects are never followed,
    /// so that no signature or token reaches another host, and nothing is retried behind our back.
    pub(crate) fn build(&self) -> Result<Client> {
        let mut builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(self.idle_connections)
            .no_proxy();
        for proxy in self.proxies()? {
            builder = builder.proxy(proxy);
        }
        builder = match &self.tls {
            TlsRoots::System => builder,
            TlsRoots::Bundle(path) => builder.tls_certs_only(read_bundle(path)?),
            TlsRoots::Unverified => {
                tracing::warn!("certificates are not verified, as `verify` is false: anyone on the way can read along");
                builder.tls_danger_accept_invalid_certs(true)
            }
        };
        builder.build().map_err(|e| Error::invalid_config("the HTTP client could not be set up").with_source(e))
    }

    /// The proxies that the usual variables name, read from the environment that was handed in.
    fn proxies(&self) -> Result<Vec<Proxy>> {
        let first = |names: &[&'static str]| names.iter().find_map(|n| Some((*n, self.environment.get(n)?)));
        let direct = first(&NO_PROXY_VARIABLES).map_or("", |(_, hosts)| hosts);
        // The client's own matching does not let a lone star stand for IP addresses.
        if direct.split(',').any(|host| host.trim() == "*") {
            return Ok(Vec::new());
        }
        let direct = NoProxy::from_string(direct);
        let mut proxies = Vec::new();
        for (scheme, names) in PROXY_VARIABLES {
            let Some((name, url)) = first(&names) else { continue };
            // CGI servers turn a request's `Proxy` header into HTTP_PROXY.
            if name == "HTTP_PROXY" && self.environment.get("REQUEST_METHOD").is_some() {
                continue;
            }
            let proxy = if scheme == "http" { Proxy::http(url) } else { Proxy::https(url) };
            let proxy = proxy.map_err(|_| {
                Error::invalid_config(format!("the proxy variable is not a URL: variable={name}"))
                    .with_hint("write it as http://host:port, or unset it")
            })?;
            tracing::debug!(scheme, variable = name, "requests go through a proxy; no_proxy lists hosts that do not");
            proxies.push(proxy.no_proxy(direct.clone()));
        }
        Ok(proxies)
    }
}

fn read_bundle(path: &PathBuf) -> Result<Vec<Certificate>> {
    let wrong = |e: Box<dyn std::error::Error + Send + Sync>| {
        Error::invalid_config(format!("the certificate bundle cannot be used: path={}", path.display()))
            .with_hint("give a PEM file in `verify` or AWS_CA_BUNDLE")
            .with_source(e)
    };
    let pem = std::fs::read(path).map_err(|e| wrong(e.into()))?;
    Certificate::from_pem_bundle(&pem).map_err(|e| wrong(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> ClientSettings {
        ClientSettings {
            connect_timeout: Duration::from_secs(1),
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: pairs.iter().copied().collect(),
        }
    }

    #[test]
    fn proxies_come_from_the_given_environment() {
        let count = |pairs| settings(pairs).proxies().expect("valid").len();
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[("HTTP_PROXY", "http://127.0.0.1:1")]), 1);
        assert_eq!(count(&[("HTTP_PROXY", "http://127.0.0.1:1"), ("REQUEST_METHOD", "GET")]), 0);
        assert_eq!(count(&[("all_proxy", "http://127.0.0.1:1")]), 2);
    }

    #[test]
    fn what_is_wrong_is_named_without_its_value() {
        let error = settings(&[("https_proxy", "http://user:hunter2@:bad:")]).proxies().expect_err("no URL");
        assert!(error.to_string().contains("https_proxy"), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        let missing = ClientSettings { tls: TlsRoots::Bundle("/nowhere.pem".into()), ..settings(&[]) };
        assert!(missing.build().expect_err("no file").to_string().contains("/nowhere.pem"));
    }
}
