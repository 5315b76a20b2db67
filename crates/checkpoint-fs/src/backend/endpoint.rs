//! A service's address, as users write it.

use std::fmt;

#[cfg(feature = "_bucket")]
use url::Host;
use url::Url;

use crate::error::{Error, Result};

/// A service's address: scheme, host, port, and a path that comes before everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `http` or `https`.
    pub(crate) scheme: String,
    /// The host, with a port that is not the scheme's own.
    pub(crate) host: String,
    /// What comes before every path.
    pub(crate) prefix: String,
}

impl Endpoint {
    /// Parses a configured endpoint; `source` names it in errors.
    pub(crate) fn parse(text: &str, source: &str) -> Result<Self> {
        const HINT: &str = "write it as https://host or http://host:port, without a bucket, query or credentials";
        let wrong = |why: &str| Error::invalid_config(format!("the endpoint {why}: source={source}")).with_hint(HINT);
        let text = text.trim();
        if text.is_empty() {
            return Err(wrong("is empty"));
        }
        if !text.contains("://") {
            return Err(wrong("has no http:// or https://"));
        }
        let url = Url::parse(text).map_err(|e| wrong("is not a URL").with_source(e))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("holds credentials"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("holds a query or fragment"));
        }
        let host = url.host_str().ok_or_else(|| wrong("has no host"))?;
        Ok(Self {
            scheme: url.scheme().to_owned(),
            host: url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")),
            prefix: url.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Whether requests go over TLS.
    #[cfg(feature = "_bucket")]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.scheme == "https"
    }

    /// An endpoint that is known by its host name, which may end in a port.
    #[cfg(feature = "_bucket")]
    pub(crate) fn at_host(host: String, tls: bool) -> Self {
        Self { scheme: if tls { "https" } else { "http" }.to_owned(), host, prefix: String::new() }
    }

    /// Whether the host is an IP address.
    #[cfg(feature = "_bucket")]
    pub(crate) fn is_ip(&self) -> bool {
        Url::parse(&self.to_string()).is_ok_and(|url| matches!(url.host(), Some(Host::Ipv4(_) | Host::Ipv6(_))))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.prefix)
    }
}
