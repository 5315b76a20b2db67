//! Where requests of a bucket go: endpoints, addressing styles, and the URLs that come of them.

use std::fmt;

use percent_encoding::{AsciiSet, utf8_percent_encode};

use crate::backend::encode::PATH;
pub(crate) use crate::backend::encode::{encode_key, encode_query};
pub(crate) use crate::backend::endpoint::Endpoint;
use crate::backend::endpoint::is_ipv4;
use crate::error::{Error, Result};

/// What may stand bare in an endpoint's own path, which may be encoded already.
const PREFIX: &AsciiSet = &PATH.remove(b'%');

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

/// Whether a bucket's name can come before the host; `dots` says whether it may be several labels.
pub(crate) fn is_host_name(bucket: &str, dots: bool) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    bucket.len() >= 3 && !is_ipv4(bucket) && if dots { bucket.split('.').all(is_label) } else { is_label(bucket) }
}

/// Checks that a bucket's name is one that a store of this family could have.
pub(crate) fn check_bucket(bucket: &str) -> Result<()> {
    if bucket.starts_with("arn:") {
        return Err(Error::unsupported("access points by ARN are not supported")
            .with_hint("use the access point's alias, which ends in -s3alias, as the bucket's name"));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if bucket.is_empty() || bucket.len() > 255 || !bucket.bytes().all(plain) {
        return Err(Error::invalid_config(format!("the bucket's name is not valid: bucket={bucket:?}"))
            .with_hint("a bucket's name holds letters, digits, `-`, `.` and `_`"));
    }
    Ok(())
}

/// Makes the URLs of one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketAddress {
    base: String,
    /// Whether the URL of the bucket itself ends in a slash.
    slash: bool,
    page_size: Option<&'static str>,
}

impl BucketAddress {
    pub(crate) fn new(endpoint: &Endpoint, addressing: Addressing, bucket: &str) -> Self {
        let Endpoint { scheme, host, prefix, .. } = endpoint;
        let base = match addressing {
            // An encoded character is encoded again here, as botocore does it, and not there.
            Addressing::Path => format!("{scheme}://{host}{}/{bucket}", utf8_percent_encode(prefix, PATH)),
            Addressing::Virtual => format!("{scheme}://{bucket}.{host}{}", utf8_percent_encode(prefix, PREFIX)),
        };
        Self { base, slash: addressing == Addressing::Virtual && endpoint.slash, page_size: None }
    }

    /// A bucket that has a domain of its own.
    #[cfg(feature = "oss")]
    pub(crate) fn at_domain(endpoint: &Endpoint) -> Self {
        Self { base: endpoint.to_string(), slash: true, page_size: None }
    }

    /// Asks for pages of a listing of this size, where the store's own default is a small one.
    #[cfg(feature = "oss")]
    #[must_use]
    pub(crate) fn with_page_size(mut self, keys: &'static str) -> Self {
        self.page_size = Some(keys);
        self
    }

    /// The URL of an object (or of the bucket, for an empty key) from a key and query already encoded.
    pub(crate) fn url(&self, wire_key: &str, wire_query: &str) -> String {
        let mut url = self.base.clone();
        if !wire_key.is_empty() || self.slash {
            url.push('/');
            url.push_str(wire_key);
        }
        if !wire_query.is_empty() {
            url.push('?');
            url.push_str(wire_query);
        }
        url
    }

    /// The URL of a request for the bucket with a query.
    pub(crate) fn query_url(&self, pairs: &[(&str, &str)]) -> String {
        let query: Vec<String> =
            pairs.iter().map(|(k, v)| format!("{}={}", encode_query(k), encode_query(v))).collect();
        self.url("", &query.join("&"))
    }

    /// The URL of requests for an object.
    pub(crate) fn object_url(&self, key: &str) -> String {
        self.url(&encode_key(key), "")
    }

    /// The URL of a request for the first page of a listing. `prefix` ends in `/`, or is empty.
    pub(crate) fn list_url(&self, prefix: &str, recursive: bool) -> String {
        self.query_url(&self.list_query(prefix, recursive))
    }

    /// The query of a listing's first page.
    pub(crate) fn list_query<'a>(&self, prefix: &'a str, recursive: bool) -> Vec<(&'static str, &'a str)> {
        let mut query = vec![("list-type", "2"), ("prefix", prefix)];
        if !recursive {
            query.push(("delimiter", "/"));
        }
        query.push(("encoding-type", "url"));
        query.extend(self.page_size.map(|keys| ("max-keys", keys)));
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_urls() {
        let endpoint = Endpoint::at_host("s3.amazonaws.com".to_owned(), true);
        let list = |addressing| BucketAddress::new(&endpoint, addressing, "bkt").url("", "list-type=2");
        assert_eq!(list(Addressing::Virtual), "https://bkt.s3.amazonaws.com/?list-type=2");
        assert_eq!(list(Addressing::Path), "https://s3.amazonaws.com/bkt?list-type=2");
        let written = Endpoint::parse(" HTTP://MinIO.local:80/a//./b/../c%20d/?#x", "test").expect("valid");
        assert_eq!(written.written(), " HTTP://MinIO.local:80/a//./b/../c%20d/?#x");
        let url = |addressing| BucketAddress::new(&written, addressing, "bkt").url("k", "");
        assert_eq!(url(Addressing::Path), "http://MinIO.local:80/a/c%2520d/bkt/k");
        assert_eq!(url(Addressing::Virtual), "http://bkt.MinIO.local:80/a/c%20d/k");
        let bucket = |endpoint: &str| {
            let endpoint = Endpoint::parse(endpoint, "test").expect("valid");
            BucketAddress::new(&endpoint, Addressing::Virtual, "bkt").url("", "a=b")
        };
        assert_eq!(bucket("http://minio.local/a"), "http://bkt.minio.local/a?a=b");
        assert_eq!(bucket("http://minio.local/a/"), "http://bkt.minio.local/a/?a=b");
        assert_eq!(bucket("http://minio.local"), "http://bkt.minio.local/?a=b");
        for bad in ["", "my@bucket", "a b", "arn:aws:s3:us-west-2:1:accesspoint/x"] {
            assert!(check_bucket(bad).is_err(), "{bad}");
        }
        check_bucket("My_bucket.1").expect("valid");
    }
}
