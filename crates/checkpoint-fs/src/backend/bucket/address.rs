//! Where requests of a bucket go: endpoints, addressing styles, and the URLs that come of them.

use std::fmt;

pub(crate) use crate::backend::encode::{encode_key, encode_query};
pub(crate) use crate::backend::endpoint::Endpoint;
use crate::error::{Error, Result};

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
    let is_ip = bucket.parse::<std::net::Ipv4Addr>().is_ok();
    bucket.len() >= 3 && !is_ip && if dots { bucket.split('.').all(is_label) } else { is_label(bucket) }
}

/// Checks that a bucket's name is one that a store of this family could have.
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
        self.query_url(&list_query(prefix, recursive))
    }
}

/// The query of a listing's first page.
pub(crate) fn list_query(prefix: &str, recursive: bool) -> Vec<(&str, &str)> {
    let mut query = vec![("list-type", "2"), ("prefix", prefix)];
    if !recursive {
        query.push(("delimiter", "/"));
    }
    query.push(("encoding-type", "url"));
    query
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
            "http://minio.local/#x",
            "https://user:hunter2@minio.local",
        ] {
            let error = Endpoint::parse(bad, "options: endpoint_url").expect_err(bad);
            assert!(error.to_string().contains("options: endpoint_url"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn bucket_urls() {
        let endpoint = Endpoint::at_host("s3.amazonaws.com".to_owned(), true);
        let list = |addressing| BucketAddress::new(&endpoint, addressing, "bkt").url("", "list-type=2");
        assert_eq!(list(Addressing::Virtual), "https://bkt.s3.amazonaws.com/?list-type=2");
        assert_eq!(list(Addressing::Path), "https://s3.amazonaws.com/bkt?list-type=2");
        for bad in ["", "my@bucket", "a b", "arn:aws:s3:us-west-2:1:accesspoint/x"] {
            assert!(check_bucket(bad).is_err(), "{bad}");
        }
        check_bucket("My_bucket.1").expect("valid");
    }
}
