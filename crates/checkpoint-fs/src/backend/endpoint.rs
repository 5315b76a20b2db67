//! A service's address, as users write it.

use std::fmt;

use url::Url;

use crate::error::{Error, Result};

/// A service's address: scheme, host, port, and a path that comes before everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    text: String,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// Host and port, as they were written.
    pub(crate) host: String,
    /// What comes before every path: nothing, or segments that each begin with a slash.
    pub(crate) prefix: String,
    /// Whether a path ends in a slash, or is none.
    pub(crate) slash: bool,
    is_ip: bool,
}

impl Endpoint {
    /// Parses a configured endpoint; `source` names it in errors. Blanks before it, a fragment, and empty
    /// segments and dots of its path do not count.
    pub(crate) fn parse(text: &str, source: &str) -> Result<Self> {
        const HINT: &str = "write it as https://host or http://host:port, without a bucket, query or credentials";
        let wrong = |why: &str| Error::invalid_config(format!("the endpoint {why}: source={source}")).with_hint(HINT);
        let written = text;
        let text = text.trim_start_matches(|c: char| c <= ' ');
        if text.is_empty() {
            return Err(wrong("is empty"));
        }
        if text.contains(['\t', '\r', '\n']) {
            return Err(wrong("holds a line break or a tab"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("has no http:// or https://"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => "http",
            "https" => "https",
            _ => return Err(wrong("is neither http nor https")),
        };
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !query.is_empty() {
            return Err(wrong("holds a query"));
        }
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.contains('@') {
            return Err(wrong("holds credentials"));
        }
        let name = host_name(host).ok_or_else(|| wrong("has no valid host and port"))?;
        Url::parse(&format!("{scheme}://{host}")).map_err(|e| wrong("is not a URL").with_source(e))?;
        Ok(Self {
            text: written.to_owned(),
            scheme,
            host: host.to_owned(),
            prefix: plain_path(path),
            slash: path.is_empty() || path.ends_with('/'),
            is_ip: name.starts_with('[') || is_ipv4(name),
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
        let scheme = if tls { "https" } else { "http" };
        Self { text: format!("{scheme}://{host}"), scheme, host, prefix: String::new(), slash: true, is_ip: false }
    }

    /// The same at another host name.
    #[cfg(feature = "cos")]
    pub(crate) fn with_host(&self, host: String) -> Self {
        let text = format!("{}://{host}{}", self.scheme, self.prefix);
        let is_ip = host_name(&host).is_some_and(|name| name.starts_with('[') || is_ipv4(name));
        Self { host, text, is_ip, ..self.clone() }
    }

    /// The host in lower case, without the port that is the scheme's own.
    #[cfg(any(feature = "_bucket", feature = "gs"))]
    pub(crate) fn plain_host(&self) -> String {
        let host = self.host.to_ascii_lowercase();
        let port = if self.scheme == "https" { ":443" } else { ":80" };
        host.strip_suffix(port).map_or_else(|| host.clone(), str::to_owned)
    }

    /// As it was written.
    #[cfg(any(feature = "s3", all(test, feature = "_bucket")))]
    pub(crate) fn written(&self) -> &str {
        &self.text
    }

    /// Whether the host is an IP address.
    #[cfg(feature = "_bucket")]
    pub(crate) fn is_ip(&self) -> bool {
        self.is_ip
    }
}

/// The host without its port, where both are valid. An IPv6 address keeps its brackets.
fn host_name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(inside) => {
            let end = inside.find(']')? + 2;
            let address = host[1..end - 1].parse::<std::net::Ipv6Addr>().is_ok();
            (address.then(|| &host[..end])?, &host[end..])
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port_fits = match port.strip_prefix(':') {
        Some(digits) => {
            digits.is_empty() || (digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok())
        }
        None => port.is_empty(),
    };
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') || !c.is_ascii();
    let plain = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace) && name.chars().all(of_a_name);
    let valid = name.starts_with('[') || plain(name);
    (port_fits && valid).then_some(name)
}

/// Four numbers of up to three digits, whatever they are.
pub(crate) fn is_ipv4(text: &str) -> bool {
    let number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    text.split('.').count() == 4 && text.split('.').all(number)
}

fn plain_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    segments.iter().map(|segment| format!("/{segment}")).collect()
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_are_none() {
        for bad in [
            "",
            " ",
            "127.0.0.1:9000",
            "minio.local",
            "ftp://minio.local",
            "http://",
            "http://minio.local/?a=b",
            "http://minio.local ",
            "http://mini\to.local",
            "http://minio.local:x",
            "http://minio.local:99999",
            "http://[::1",
            "http://[::1]x",
            "http://[zz]",
            "https://AccountName=acct;AccountKey=hunter2",
            "https://sv=1&sig=hunter2",
            "http://minio%2elocal",
            "http://(minio)",
            "//minio.local",
            "http:minio.local",
            "https://user:hunter2@minio.local",
        ] {
            let error = Endpoint::parse(bad, "options: endpoint_url").expect_err(bad);
            assert!(error.to_string().contains("options: endpoint_url"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
