//! Objects as the service describes them.

use std::collections::BTreeMap;

use aws_smithy_types::date_time::Format;
use http::HeaderMap;
use http::header::LAST_MODIFIED;
use serde::{Deserialize, Serialize};

use crate::backend::headers::{date, http_date, text};
use crate::backend::settle::WRITE_TOKEN;
use crate::storage::ObjectMeta;

/// What is asked of an object: all that is used here.
pub(crate) const FIELDS: &str = "name,size,generation,updated,crc32c,metadata";
/// What is asked of the source of a copy: what the copy must have too.
pub(crate) const COPIED_FIELDS: &str =
    "name,size,generation,cacheControl,contentDisposition,contentEncoding,contentLanguage,contentType,metadata";

/// An object's description. Numbers are texts, as the service writes 64 bits.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) size: Option<String>,
    pub(crate) generation: Option<String>,
    pub(crate) updated: Option<String>,
    pub(crate) crc32c: Option<String>,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) kept: Kept,
}

/// What a copy keeps of its source besides the bytes.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kept {
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_disposition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
}

impl Resource {
    /// Reads one.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|e| format!("not an object's description: {e}"))
    }

    /// Its metadata. The entity tag is the generation: unlike the service's own tags it is the same in a
    /// listing, a description and a download, and no two versions of an object share one.
    pub(crate) fn meta(&self) -> Result<ObjectMeta, String> {
        let size = self.size.as_deref().and_then(|size| size.parse().ok()).ok_or("an object without a size")?;
        Ok(ObjectMeta::new(size)
            .with_etag(self.generation.clone())
            .with_last_modified(self.updated.as_deref().and_then(|at| date(at, Format::DateTimeWithOffset))))
    }

    /// The token of the write that made it, where it was one of ours.
    pub(crate) fn token(&self) -> Option<&str> {
        self.metadata.get(WRITE_TOKEN).map(String::as_str)
    }
}

/// The metadata that comes with a download of an object of `size` bytes.
pub(crate) fn downloaded(headers: &HeaderMap, size: u64) -> ObjectMeta {
    let modified = text(headers, LAST_MODIFIED.as_str()).and_then(http_date);
    ObjectMeta::new(size).with_etag(text(headers, "x-goog-generation").map(str::to_owned)).with_last_modified(modified)
}

/// The checksum of the whole object, of `x-goog-hash: crc32c=...,md5=...`.
pub(crate) fn checksum(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).find_map(|part| part.trim().strip_prefix("crc32c="))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::HeaderValue;

    use super::*;

    #[test]
    fn descriptions_are_read() {
        let written = br#"{"name":"k","size":"5","generation":"17","updated":"2013-05-24T00:00:00.000Z","crc32c":"x",
            "metadata":{"checkpoint-write-token":"T"},"contentType":"a/b","unknown":1}"#;
        let resource = Resource::parse(written).expect("valid");
        let meta = resource.meta().expect("has a size");
        let then = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        assert_eq!((meta.size, meta.etag.as_deref(), meta.last_modified), (5, Some("17"), Some(then)));
        assert_eq!(resource.token(), Some("T"));
        assert_eq!(serde_json::to_string(&resource.kept).expect("valid"), r#"{"contentType":"a/b"}"#);
        assert!(Resource::parse(b"{\"name\":\"k\"}").expect("valid").meta().is_err());
    }

    #[test]
    fn headers_are_read() {
        let mut headers = HeaderMap::new();
        headers.append("x-goog-hash", HeaderValue::from_static("md5=a"));
        headers.append("x-goog-hash", HeaderValue::from_static("crc32c=n03x6A==, md5=b"));
        assert_eq!(checksum(&headers), Some("n03x6A=="));
        assert_eq!(checksum(&HeaderMap::new()), None);
    }
}
