//! Metadata from the headers of an answer.

use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED};

use super::xml;
use crate::backend::settle::WRITE_TOKEN;
use crate::storage::ObjectMeta;

/// Metadata of an object of `size` bytes.
pub(crate) fn object_meta(headers: &HeaderMap, size: u64) -> ObjectMeta {
    let modified = text(headers, LAST_MODIFIED.as_str()).and_then(http_date);
    ObjectMeta::new(size).with_etag(text(headers, ETAG.as_str()).map(bare_etag)).with_last_modified(modified)
}

/// The length that an answer gives.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_LENGTH.as_str())?.trim().parse().ok()
}

/// First byte, last byte and total of `Content-Range: bytes 0-9/100`.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<(u64, u64, u64)> {
    let (range, total) = text(headers, CONTENT_RANGE.as_str())?.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, total.parse().ok()?))
}

/// The token of the write that made the object, where it was one of ours.
pub(crate) fn write_token<'h>(headers: &'h HeaderMap, prefixes: &[&str]) -> Option<&'h str> {
    prefixes.iter().find_map(|prefix| text(headers, &format!("{prefix}{WRITE_TOKEN}")))
}

/// An entity tag without its quotes.
pub(crate) fn bare_etag(text: &str) -> String {
    text.trim().trim_matches('"').to_owned()
}

/// The entity tag in the answer to a finished upload or copy; `None` where it has none.
pub(crate) fn document_etag(document: &[u8]) -> Option<String> {
    let root = xml::parse(document).ok()?;
    Some(bare_etag(root.child_text("ETag"))).filter(|etag| !etag.is_empty())
}

/// A time as listings write it.
pub(crate) fn iso_date(text: &str) -> Option<SystemTime> {
    parse(text, Format::DateTimeWithOffset)
}

fn http_date(text: &str) -> Option<SystemTime> {
    parse(text, Format::HttpDate)
}

fn parse(text: &str, format: Format) -> Option<SystemTime> {
    SystemTime::try_from(DateTime::from_str(text.trim(), format).ok()?).ok()
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::HeaderValue;

    use super::*;

    #[test]
    fn headers_are_read() {
        let mut headers = HeaderMap::new();
        headers.insert(ETAG, HeaderValue::from_static("\"abc-2\""));
        headers.insert(LAST_MODIFIED, HeaderValue::from_static("Fri, 24 May 2013 00:00:00 GMT"));
        headers.insert(CONTENT_RANGE, HeaderValue::from_static("bytes 3-9/100"));
        let meta = object_meta(&headers, 100);
        let then = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        assert_eq!((meta.etag.as_deref(), meta.last_modified), (Some("abc-2"), Some(then)));
        assert_eq!(content_range(&headers), Some((3, 9, 100)));
        assert_eq!(iso_date("2013-05-24T00:00:00.000Z"), Some(then));
        assert_eq!(iso_date("yesterday"), None);
    }

    #[test]
    fn a_range_without_a_total_is_none() {
        let mut headers = HeaderMap::new();
        for bad in ["bytes 0-1/*", "bytes */5", "0-1/5", "bytes 0/5"] {
            headers.insert(CONTENT_RANGE, HeaderValue::from_str(bad).expect("valid"));
            assert_eq!(content_range(&headers), None, "{bad}");
        }
    }
}
