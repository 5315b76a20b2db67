//! Listings: one page of keys and common prefixes, in both versions of the protocol.

use std::collections::BTreeMap;
use std::ops::Bound;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::clock::iso;
use super::refusal::Refusal;
use super::request::encode_path;
use super::store::Object;
use super::xml::Document;

/// The most that a page holds.
const MOST: usize = 1000;

/// A request for a page.
#[derive(Debug, Default)]
pub(crate) struct ListRequest {
    pub(crate) bucket: String,
    pub(crate) is_second: bool,
    pub(crate) prefix: String,
    pub(crate) delimiter: String,
    pub(crate) most: usize,
    /// `marker`, or `start-after`.
    pub(crate) after: String,
    pub(crate) token: Option<String>,
    pub(crate) is_encoded: bool,
    /// Whether version 1 names its next marker even without a delimiter.
    pub(crate) always_marks: bool,
    /// What each entry has besides.
    pub(crate) extra: &'static [(&'static str, &'static str)],
}

impl ListRequest {
    /// # Errors
    /// `InvalidArgument` for values that are none, `NotImplemented` for parameters that are unknown.
    pub(crate) fn parse(bucket: &str, pairs: &[(String, String)]) -> Result<Self, Refusal> {
        let is_second = pairs.iter().any(|(name, _)| name == "list-type");
        let mut list = Self { bucket: bucket.to_owned(), is_second, most: MOST, ..Self::default() };
        for (name, value) in pairs {
            match (name.as_str(), is_second) {
                ("list-type", _) if value == "2" => {}
                ("prefix", _) => list.prefix.clone_from(value),
                ("delimiter", _) => list.delimiter.clone_from(value),
                ("encoding-type", _) if value == "url" => list.is_encoded = true,
                ("max-keys", _) => {
                    let most: usize = value.parse().map_err(|_| invalid(name))?;
                    list.most = most.min(MOST);
                }
                ("marker", false) | ("start-after", true) => list.after.clone_from(value),
                ("continuation-token", true) => list.token = Some(value.clone()),
                ("fetch-owner", true) if value == "true" || value == "false" => {}
                ("list-type" | "encoding-type" | "fetch-owner", _) => return Err(invalid(name)),
                _ => return Err(Refusal::not_implemented(name)),
            }
        }
        Ok(list)
    }

    /// Reads a page off some objects and writes it down.
    ///
    /// # Errors
    /// `InvalidArgument` for a token that was never given.
    pub(crate) fn answer(&self, objects: &BTreeMap<String, Object>) -> Result<String, Refusal> {
        let after = match &self.token {
            Some(token) => read_token(token)?,
            None => self.after.clone(),
        };
        let page = self.page(objects, &after);
        let text = |text: &str| if self.is_encoded { encode_path(text) } else { text.to_owned() };
        let mut document = Document::new("ListBucketResult");
        document.leaf("Name", &self.bucket).leaf("Prefix", text(&self.prefix));
        if self.is_second {
            document.leaf("KeyCount", (page.files.len() + page.prefixes.len()).to_string());
            if let Some(token) = &self.token {
                document.leaf("ContinuationToken", token);
            }
            if !self.after.is_empty() {
                document.leaf("StartAfter", text(&self.after));
            }
        } else {
            document.leaf("Marker", text(&self.after));
        }
        document.leaf("MaxKeys", self.most.to_string());
        if !self.delimiter.is_empty() {
            document.leaf("Delimiter", text(&self.delimiter));
        }
        if self.is_encoded {
            document.leaf("EncodingType", "url");
        }
        document.leaf("IsTruncated", if page.next.is_some() { "true" } else { "false" });
        match &page.next {
            Some(next) if self.is_second => {
                document.leaf("NextContinuationToken", write_token(next));
            }
            Some(next) if self.always_marks || !self.delimiter.is_empty() => {
                document.leaf("NextMarker", text(next));
            }
            _ => {}
        }
        for (key, object) in page.files {
            document.open("Contents").leaf("Key", text(key)).leaf("LastModified", iso(object.modified));
            document.leaf("ETag", format!("\"{}\"", object.etag)).leaf("Size", object.bytes.len().to_string());
            for (name, value) in self.extra {
                document.leaf(name, value);
            }
            document.close();
        }
        for prefix in page.prefixes {
            document.open("CommonPrefixes").leaf("Prefix", text(&prefix)).close();
        }
        Ok(document.end())
    }

    fn page<'o>(&self, objects: &'o BTreeMap<String, Object>, after: &str) -> Page<'o> {
        let mut page = Page { files: Vec::new(), prefixes: Vec::new(), next: None };
        if self.most == 0 {
            return page;
        }
        let start =
            if after < self.prefix.as_str() { Bound::Included(self.prefix.as_str()) } else { Bound::Excluded(after) };
        let mut last: Option<String> = None;
        for (key, object) in objects.range::<str, _>((start, Bound::Unbounded)) {
            let Some(below) = key.strip_prefix(&self.prefix) else { break };
            let group = match below.find(&self.delimiter) {
                Some(at) if !self.delimiter.is_empty() => Some(&key[..self.prefix.len() + at + self.delimiter.len()]),
                _ => None,
            };
            // A group that the last page ended with, or that this one has already.
            if group.is_some() && (group == Some(after) || group == page.prefixes.last().map(String::as_str)) {
                continue;
            }
            if page.files.len() + page.prefixes.len() == self.most {
                page.next = last;
                break;
            }
            match group {
                Some(group) => page.prefixes.push(group.to_owned()),
                None => page.files.push((key, object)),
            }
            last = Some(group.unwrap_or(key).to_owned());
        }
        page
    }
}

struct Page<'o> {
    files: Vec<(&'o String, &'o Object)>,
    prefixes: Vec<String>,
    /// The last key or prefix of a page that is not the last.
    next: Option<String>,
}

fn invalid(name: &str) -> Refusal {
    Refusal::invalid_argument(format!("Argument {name} is invalid")).with("ArgumentName", name)
}

/// Tokens mean nothing to clients.
fn write_token(last: &str) -> String {
    format!("{}=", BASE64_URL_SAFE_NO_PAD.encode(format!("page/{last}")))
}

fn read_token(token: &str) -> Result<String, Refusal> {
    let bytes = token.strip_suffix('=').and_then(|text| BASE64_URL_SAFE_NO_PAD.decode(text).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let last = text.as_deref().and_then(|text| text.strip_prefix("page/"));
    last.map(str::to_owned).ok_or_else(|| invalid("continuation-token"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::mock::store::Kept;
    use crate::mock::xml::parse;

    fn objects(keys: &[&str]) -> BTreeMap<String, Object> {
        keys.iter().map(|k| ((*k).to_owned(), Object::new(Bytes::new(), Kept::default(), 0))).collect()
    }

    /// Keys and prefixes of all pages, and how many pages there were.
    fn walk(keys: &[&str], query: &[(&str, &str)]) -> (Vec<String>, usize) {
        let objects = objects(keys);
        let is_second = query.iter().any(|(name, _)| *name == "list-type");
        let mut next: Option<String> = None;
        let (mut found, mut pages) = (Vec::new(), 0);
        loop {
            let mut pairs: Vec<(String, String)> =
                query.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            if let Some(next) = next {
                pairs.push((if is_second { "continuation-token" } else { "marker" }.to_owned(), next));
            }
            let list = ListRequest { always_marks: true, ..ListRequest::parse("b", &pairs).expect("valid") };
            let document = list.answer(&objects).expect("a page");
            let root = parse(document.as_bytes(), "ListBucketResult").expect("well-formed");
            for child in &root.children {
                match child.name.as_str() {
                    "Contents" => found.push(child.child("Key").expect("a key").to_owned()),
                    "CommonPrefixes" => found.push(child.child("Prefix").expect("a prefix").to_owned()),
                    _ => {}
                }
            }
            pages += 1;
            let name = if is_second { "NextContinuationToken" } else { "NextMarker" };
            next = root.child(name).map(str::to_owned);
            assert_eq!(root.child("IsTruncated") == Some("true"), next.is_some());
            if next.is_none() {
                return (found, pages);
            }
        }
    }

    #[test]
    fn pages_cover_everything_once() {
        let keys = ["a", "b/1", "b/2", "b/c/3", "b0", "d/4", "e"];
        for version in [&[][..], &[("list-type", "2")]] {
            for most in ["1", "2", "3", "1000"] {
                let query = |more: &[(&'static str, &'static str)]| [version, &[("max-keys", most)], more].concat();
                assert_eq!(walk(&keys, &query(&[])).0, keys);
                assert_eq!(walk(&keys, &query(&[("prefix", "b/")])).0, ["b/1", "b/2", "b/c/3"]);
                let mut level = walk(&keys, &query(&[("delimiter", "/")])).0;
                level.sort();
                assert_eq!(level, ["a", "b/", "b0", "d/", "e"], "{most}");
            }
        }
        assert_eq!(walk(&keys, &[("max-keys", "2"), ("delimiter", "/")]).1, 3);
        assert_eq!(walk(&keys, &[("list-type", "2"), ("start-after", "b/2")]).0, ["b/c/3", "b0", "d/4", "e"]);
        assert_eq!(walk(&keys, &[("max-keys", "0")]), (Vec::new(), 1));
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for (name, value, code) in [
            ("max-keys", "x", "InvalidArgument"),
            ("encoding-type", "base64", "InvalidArgument"),
            ("acl", "", "NotImplemented"),
            ("continuation-token", "x", "NotImplemented"),
        ] {
            let refused = ListRequest::parse("b", &[(name.to_owned(), value.to_owned())]).expect_err(name);
            assert_eq!(refused.code, code, "{name}");
        }
        let forged = ListRequest { token: Some("abc".to_owned()), most: 1, ..ListRequest::default() };
        assert_eq!(forged.answer(&BTreeMap::new()).expect_err("forged").code, "InvalidArgument");
    }
}
