//! What an answer says of a blob.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::backend::headers::{content_length, object_meta, text};
use crate::storage::ObjectMeta;

/// The metadata that carries the token of a write. The service takes identifiers only, so no hyphens.
pub(super) const WRITE_TOKEN: HeaderName = HeaderName::from_static("x-ms-meta-checkpointwritetoken");
/// The metadata by which tools for hierarchical namespaces mark a directory.
pub(super) const FOLDER_MARK: &str = "hdi_isfolder";

const METADATA: &str = "x-ms-meta-";

/// A blob's properties.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) meta: ObjectMeta,
    /// The token of the write that made it, where it was one of ours.
    pub(super) token: Option<String>,
    /// Whether it only stands for a directory.
    pub(super) is_directory: bool,
    /// How the copy ended, or goes on, that made it.
    pub(super) copy_status: Option<String>,
    /// All that a user attached to it, but for the token.
    pub(super) metadata: Vec<(HeaderName, HeaderValue)>,
}

impl Found {
    /// Reads the answer to a HEAD; `None` when it has no length.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let metadata = headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(METADATA) && **name != WRITE_TOKEN)
            .map(|(name, value)| (name.clone(), value.clone()));
        Some(Self {
            meta: object_meta(headers, content_length(headers)?),
            token: text(headers, WRITE_TOKEN.as_str()).map(str::to_owned),
            is_directory: is_directory(headers),
            copy_status: text(headers, "x-ms-copy-status").map(str::to_owned),
            metadata: metadata.collect(),
        })
    }
}

/// Whether an answer is about a directory of a hierarchical namespace.
pub(super) fn is_directory(headers: &HeaderMap) -> bool {
    let says = |name: &str, value: &str| text(headers, name).is_some_and(|v| v.eq_ignore_ascii_case(value));
    says("x-ms-meta-hdi_isfolder", "true") || says("x-ms-resource-type", "directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_tokens_are_seen() {
        let mut headers = HeaderMap::new();
        headers.insert("content-length", HeaderValue::from_static("7"));
        headers.insert(WRITE_TOKEN, HeaderValue::from_static("abc"));
        headers.insert("x-ms-meta-owner", HeaderValue::from_static("me"));
        let found = Found::read(&headers).expect("has a length");
        assert_eq!((found.meta.size, found.token.as_deref(), found.is_directory), (7, Some("abc"), false));
        assert_eq!(found.metadata.len(), 1);
        headers.insert("x-ms-meta-hdi_isfolder", HeaderValue::from_static("True"));
        assert!(is_directory(&headers));
        assert!(Found::read(&HeaderMap::new()).is_none());
    }
}
