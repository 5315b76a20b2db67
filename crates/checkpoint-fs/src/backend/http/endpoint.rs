//! A service's address, and the encoding of what comes after it.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use crate::error::{Error, Result};

/// What may stand bare in a query; all else is encoded, as signatures want it.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A name or value as it stands in a query, or in one segment of a path.
pub(crate) fn encode_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// A service's address: scheme, host, port, and a path that comes before everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    scheme: String,
    host: String,
    prefix: String,
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

    /// The host, with a port that is not the scheme's own.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.prefix)
    }
}
