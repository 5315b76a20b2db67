//! What a request is about: read from its path and query, strictly.

use std::collections::BTreeMap;

use super::fault::Fault;
use crate::mock::request::{Arrived, decode};

/// Query parameters that are known, over all methods.
const KNOWN: [&str; 17] = [
    "alt",
    "delimiter",
    "fields",
    "ifGenerationMatch",
    "ifGenerationNotMatch",
    "ifSourceGenerationMatch",
    "maxResults",
    "name",
    "pageToken",
    "prefix",
    "project",
    "rewriteToken",
    "startOffset",
    "uploadType",
    "upload_id",
    "userProject",
    "versions",
];

/// What a request is about.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) is_upload: bool,
    pub(crate) bucket: String,
    pub(crate) key: Option<String>,
    /// The bucket and key of a copy.
    pub(crate) copy: Option<(String, String)>,
    pub(crate) query: BTreeMap<String, String>,
}

impl Target {
    /// Reads `/storage/v1/b/<bucket>/o/<key>/rewriteTo/b/<bucket>/o/<key>` as far as it goes.
    pub(crate) fn read(request: &Arrived) -> Result<Self, Fault> {
        Self::of(&request.path, &request.query)
    }

    /// The same of the path and query of a request within a batch.
    pub(crate) fn of(path: &str, query: &str) -> Result<Self, Fault> {
        let unknown = || Fault::new(404, "notFound", "Not Found");
        let (is_upload, rest) = match (path.strip_prefix("/upload/storage/v1/b/"), path.strip_prefix("/storage/v1/b/"))
        {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(unknown()),
        };
        let text = |encoded: &str| decode(encoded).map_err(|_| Fault::invalid("Invalid UTF-8"));
        let segments: Vec<&str> = rest.split('/').collect();
        let (bucket, key, copy) = match segments.as_slice() {
            [bucket, "o"] => (text(bucket)?, None, None),
            [bucket, "o", key] if !key.is_empty() => (text(bucket)?, Some(text(key)?), None),
            [bucket, "o", key, "rewriteTo", "b", to_bucket, "o", to_key] => {
                (text(bucket)?, Some(text(key)?), Some((text(to_bucket)?, text(to_key)?)))
            }
            _ => return Err(unknown()),
        };
        let mut pairs = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !KNOWN.contains(&name) {
                return Err(Fault::invalid(format!("Unknown name \"{name}\"")));
            }
            if pairs.insert(name.to_owned(), text(&value.replace('+', " "))?).is_some() {
                return Err(Fault::invalid(format!("\"{name}\" is given twice")));
            }
        }
        for name in key.iter().chain(copy.as_ref().map(|(_, key)| key)) {
            check_key(name)?;
        }
        Ok(Self { is_upload, bucket, key, copy, query: pairs })
    }

    /// A parameter of the query.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }
}

/// The rules of objects' names.
pub(crate) fn check_key(key: &str) -> Result<(), Fault> {
    let is_valid = (1..=1024).contains(&key.len()) && !key.contains(['\r', '\n']) && !matches!(key, "." | "..");
    if is_valid { Ok(()) } else { Err(Fault::invalid("Invalid object name")) }
}
