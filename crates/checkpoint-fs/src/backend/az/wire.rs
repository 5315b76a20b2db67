//! Requests of one container as the service gets them, but for date and authorization.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName};
use http::{HeaderMap, HeaderValue, Method};

use crate::backend::encode::{encode_key, encode_query};
use crate::transport::{AnswerForm, Request};

/// The version of the service's protocol that requests are written in.
const VERSION: HeaderValue = HeaderValue::from_static("2023-11-03");

pub(super) const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");
pub(super) const BLOCK_BLOB: HeaderValue = HeaderValue::from_static("BlockBlob");
pub(super) const COPY_SOURCE: HeaderName = HeaderName::from_static("x-ms-copy-source");
pub(super) const DATE: HeaderName = HeaderName::from_static("x-ms-date");
pub(super) const DELETE_SNAPSHOTS: HeaderName = HeaderName::from_static("x-ms-delete-snapshots");
pub(super) const INCLUDE: HeaderValue = HeaderValue::from_static("include");
pub(super) const RANGE: HeaderName = HeaderName::from_static("x-ms-range");
pub(super) const SOURCE_IF_MATCH: HeaderName = HeaderName::from_static("x-ms-source-if-match");

/// Makes the requests of one container.
#[derive(Debug, Clone)]
pub(super) struct AzWire {
    /// The container's URL.
    base: String,
}

impl AzWire {
    pub(super) fn new(endpoint: &str, container: &str) -> Self {
        Self { base: format!("{endpoint}/{container}") }
    }

    /// The URL of a blob.
    pub(super) fn blob_url(&self, key: &str) -> String {
        format!("{}/{}", self.base, encode_key(key))
    }

    /// The path of a blob, as requests inside of a batch name it.
    pub(super) fn blob_path(&self, key: &str) -> String {
        let url = self.blob_url(key);
        let host = url.find("://").map_or(0, |at| at + 3);
        url[host..].find('/').map_or_else(String::new, |at| url[host + at..].to_owned())
    }

    /// The URL of the container with a query.
    pub(super) fn container_url(&self, query: &[(&str, &str)]) -> String {
        with_query(&self.base, query)
    }

    /// A request for a blob.
    pub(super) fn blob(&self, method: Method, key: &str, query: &[(&str, &str)], body: Bytes) -> Request {
        request(method, with_query(&self.blob_url(key), query), body, AnswerForm::Bytes)
    }

    /// A request for the container, answered with a document.
    pub(super) fn container(&self, method: Method, query: &[(&str, &str)], body: Bytes) -> Request {
        request(method, self.container_url(query), body, AnswerForm::Document)
    }
}

fn request(method: Method, url: String, body: Bytes, answer: AnswerForm) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert("x-ms-version", VERSION);
    // Without a body nothing else says so, and the service wants to know.
    if method == Method::PUT && body.is_empty() {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    Request { method, url, headers, body, answer }
}

fn with_query(url: &str, query: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = query.iter().map(|(k, v)| format!("{}={}", encode_query(k), encode_query(v))).collect();
    if pairs.is_empty() { url.to_owned() } else { format!("{url}?{}", pairs.join("&")) }
}

/// The query of a listing's first page. Metadata comes along, since it marks directories.
pub(super) fn list_query(prefix: &str, recursive: bool) -> Vec<(&str, &str)> {
    let mut query = vec![("restype", "container"), ("comp", "list"), ("prefix", prefix)];
    if !recursive {
        query.push(("delimiter", "/"));
    }
    query.push(("include", "metadata"));
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_encoded() {
        let wire = AzWire::new("http://127.0.0.1:1/devstoreaccount1", "data");
        assert_eq!(wire.blob_url("a b/+%"), "http://127.0.0.1:1/devstoreaccount1/data/a%20b/%2B%25");
        assert_eq!(wire.blob_path("a b"), "/devstoreaccount1/data/a%20b");
        assert_eq!(AzWire::new("https://acct.blob.core.windows.net", "data").blob_path("x"), "/data/x");
        let request = wire.blob(Method::PUT, "x", &[("comp", "block"), ("blockid", "a+b=")], Bytes::new());
        assert_eq!(request.url, "http://127.0.0.1:1/devstoreaccount1/data/x?comp=block&blockid=a%2Bb%3D");
    }
}
