//! Where requests of a bucket go: endpoints, addressing styles, and the URLs that come of them.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::{Host, Url};

use crate::error::{Error, Result};

/// What may stand bare in a query; all else is encoded, as the signature wants it.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What may stand bare in a path.
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// A key as it stands in the path of a request.
pub(crate) fn encode_key(key: &str) -> String {
    utf8_percent_encode(key, PATH).to_string()
}

/// A name or value as it stands in a query.
pub(crate) fn encode_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// Where the bucket's name stands in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addressing {
    /// `https://endpoint/bucket/key`
    Path,
    /// `https://bucket.endpoint/key`
    Virtual,
}

impl Addressing {
    /// The word that options use.
    pub fn as_str(self) -> &'static str {
        match self {
            Addressing::Path => "path",
            Addressing::Virtual => "virtual",
        }
    }
}

impl fmt::Display for Addressing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Chooses the addressing style, and says why.
///
/// A configured endpoint gets `path` unless `virtual` is asked for, AWS the other way round. An IP address
/// as host and a bucket whose name cannot be a host name get `path` in any case.
pub(crate) fn choose_addressing(
    asked: Option<Addressing>,
    endpoint: &Endpoint,
    configured: bool,
    bucket: &str,
) -> (Addressing, &'static str) {
    let dots_are_safe = configured && endpoint.scheme == "http" && asked == Some(Addressing::Virtual);
    if endpoint.is_ip {
        (Addressing::Path, "an IP address has no sub-hosts")
    } else if !is_host_name(bucket, dots_are_safe) {
        (Addressing::Path, "the bucket's name cannot be part of the host")
    } else if let Some(asked) = asked {
        (asked, "options: config_kwargs.s3.addressing_style")
    } else if configured {
        (Addressing::Path, "default of a configured endpoint")
    } else {
        (Addressing::Virtual, "default of AWS")
    }
}

/// Whether a bucket's name can come before the host; `dots` says whether it may be several labels.
fn is_host_name(bucket: &str, dots: bool) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_ip = bucket.parse::<std::net::Ipv4Addr>().is_ok();
    bucket.len() >= 3 && !is_ip && if dots { bucket.split('.').all(is_label) } else { is_label(bucket) }
}

/// Checks that a bucket's name is one that S3 could have.
pub(crate) fn check_bucket(bucket: &str) -> Result<()> {
    if bucket.starts_with("arn:") {
        return Err(Error::unsupported("access points by ARN are not supported")
            .with_hint("use the access point's alias as the bucket's name"));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if bucket.is_empty() || bucket.len() > 255 || !bucket.bytes().all(plain) {
        return Err(Error::invalid_config(format!("the bucket's name is not valid: bucket={bucket:?}"))
            .with_hint("a bucket's name holds letters, digits, `-`, `.` and `_`"));
    }
    Ok(())
}

/// A service's address: scheme, host, port, and a path that comes before everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    scheme: String,
    host: String,
    prefix: String,
    is_ip: bool,
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
            is_ip: matches!(url.host(), Some(Host::Ipv4(_) | Host::Ipv6(_))),
        })
    }

    /// Whether requests go over TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.scheme == "https"
    }

    /// AWS's own endpoint of a region.
    pub(crate) fn aws(region: &str, tls: bool) -> Self {
        let domain = match region {
            r if r.starts_with("cn-") => "amazonaws.com.cn",
            r if r.starts_with("us-iso-") => "c2s.ic.gov",
            r if r.starts_with("us-isob-") => "sc2s.sgov.gov",
            _ => "amazonaws.com",
        };
        let host = if region == "us-east-1" { format!("s3.{domain}") } else { format!("s3.{region}.{domain}") };
        Self { scheme: if tls { "https" } else { "http" }.to_owned(), host, prefix: String::new(), is_ip: false }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.prefix)
    }
}

/// Makes the URLs of one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketAddress {
    base: String,
    addressing: Addressing,
}

impl BucketAddress {
    pub(crate) fn new(endpoint: &Endpoint, addressing: Addressing, bucket: &str) -> Self {
        let Endpoint { scheme, host, prefix, .. } = endpoint;
        let base = match addressing {
            Addressing::Path => format!("{scheme}://{host}{prefix}/{bucket}"),
            Addressing::Virtual => format!("{scheme}://{bucket}.{host}{prefix}"),
        };
        Self { base, addressing }
    }

    /// The URL of an object (or of the bucket, for an empty key) from a key and query already encoded.
    pub(crate) fn url(&self, wire_key: &str, wire_query: &str) -> String {
        let mut url = self.base.clone();
        if !wire_key.is_empty() || self.addressing == Addressing::Virtual {
            url.push('/');
            url.push_str(wire_key);
        }
        if !wire_query.is_empty() {
            url.push('?');
            url.push_str(wire_query);
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Addressing::{Path, Virtual};

    fn url(endpoint: Option<&str>, asked: Option<Addressing>, bucket: &str) -> String {
        let parsed = match endpoint {
            Some(text) => Endpoint::parse(text, "test").expect("valid"),
            None => Endpoint::aws("eu-west-1", true),
        };
        let (addressing, _) = choose_addressing(asked, &parsed, endpoint.is_some(), bucket);
        BucketAddress::new(&parsed, addressing, bucket).url("dir/obj.bin", "")
    }

    #[test]
    fn object_urls() {
        for (endpoint, asked, bucket, expected) in [
            (None, None, "my-bucket", "https://my-bucket.s3.eu-west-1.amazonaws.com/dir/obj.bin"),
            (None, Some(Path), "my-bucket", "https://s3.eu-west-1.amazonaws.com/my-bucket/dir/obj.bin"),
            (None, None, "my.dotted.bucket", "https://s3.eu-west-1.amazonaws.com/my.dotted.bucket/dir/obj.bin"),
            (None, Some(Virtual), "MyBucket", "https://s3.eu-west-1.amazonaws.com/MyBucket/dir/obj.bin"),
            (None, None, "my_bucket", "https://s3.eu-west-1.amazonaws.com/my_bucket/dir/obj.bin"),
            (None, None, "ab", "https://s3.eu-west-1.amazonaws.com/ab/dir/obj.bin"),
            (Some("http://127.0.0.1:9000"), None, "my-bucket", "http://127.0.0.1:9000/my-bucket/dir/obj.bin"),
            (Some("http://127.0.0.1:9000"), Some(Virtual), "my-bucket", "http://127.0.0.1:9000/my-bucket/dir/obj.bin"),
            (Some("http://[::1]:9000"), Some(Virtual), "my-bucket", "http://[::1]:9000/my-bucket/dir/obj.bin"),
            (Some("http://localhost:9000"), Some(Virtual), "my-bucket", "http://my-bucket.localhost:9000/dir/obj.bin"),
            (
                Some("https://minio.local/pre/"),
                Some(Virtual),
                "my-bucket",
                "https://my-bucket.minio.local/pre/dir/obj.bin",
            ),
            (Some("https://minio.local/pre/"), None, "my-bucket", "https://minio.local/pre/my-bucket/dir/obj.bin"),
            (Some("https://minio.local"), Some(Virtual), "my.dotted", "https://minio.local/my.dotted/dir/obj.bin"),
            (Some("http://minio.local"), Some(Virtual), "my.dotted", "http://my.dotted.minio.local/dir/obj.bin"),
            (Some("http://minio.local"), None, "my.dotted", "http://minio.local/my.dotted/dir/obj.bin"),
            (Some("https://MinIO.local:443"), None, "my-bucket", "https://minio.local/my-bucket/dir/obj.bin"),
            (Some(" http://minio.local "), None, "my-bucket", "http://minio.local/my-bucket/dir/obj.bin"),
            (
                Some("https://s3.eu-west-1.amazonaws.com"),
                None,
                "bkt",
                "https://s3.eu-west-1.amazonaws.com/bkt/dir/obj.bin",
            ),
        ] {
            assert_eq!(url(endpoint, asked, bucket), expected, "{endpoint:?} {asked:?} {bucket}");
        }
    }

    #[test]
    fn aws_endpoints() {
        for (region, expected) in [
            ("us-east-1", "https://s3.amazonaws.com"),
            ("eu-west-1", "https://s3.eu-west-1.amazonaws.com"),
            ("cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn"),
        ] {
            assert_eq!(Endpoint::aws(region, true).to_string(), expected);
        }
        assert_eq!(Endpoint::aws("us-east-1", false).to_string(), "http://s3.amazonaws.com");
    }

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
            "http://minio.local/#x",
            "https://user:hunter2@minio.local",
        ] {
            let error = Endpoint::parse(bad, "options: endpoint_url").expect_err(bad);
            assert!(error.to_string().contains("options: endpoint_url"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn keys_and_queries_are_encoded_strictly() {
        let key = "a b+c/é%2F~!*'()=&@:,;#?.txt";
        assert_eq!(encode_key(key), "a%20b%2Bc/%C3%A9%252F~%21%2A%27%28%29%3D%26%40%3A%2C%3B%23%3F.txt");
        assert_eq!(encode_query("a/b c+"), "a%2Fb%20c%2B");
    }

    #[test]
    fn bucket_urls() {
        let endpoint = Endpoint::aws("us-east-1", true);
        let list = |addressing| BucketAddress::new(&endpoint, addressing, "bkt").url("", "list-type=2");
        assert_eq!(list(Virtual), "https://bkt.s3.amazonaws.com/?list-type=2");
        assert_eq!(list(Path), "https://s3.amazonaws.com/bkt?list-type=2");
        for bad in ["", "my@bucket", "a b", "arn:aws:s3:us-west-2:1:accesspoint/x"] {
            assert!(check_bucket(bad).is_err(), "{bad}");
        }
        check_bucket("My_bucket.1").expect("valid");
    }
}
