//! Metadata of an object from the headers of an answer.

use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED};

use crate::error::ErrorKind;
use crate::storage::ObjectMeta;
use crate::transport::{Again, ServiceError, Verdict};

/// What to do where somebody else than the store answered.
pub(crate) const STRANGER: &str = "another server or a proxy answered in the store's place: check the endpoint, and proxy variables such as https_proxy";

/// What to do about a bucket that is not there.
pub(crate) const CHECK_BUCKET: &str = "check the bucket's name, the region and the endpoint";

/// What to do about a redirect. Where it leads is not repeated: whoever answered could name any place.
pub(crate) const REDIRECTED: &str =
    "the endpoint answers with a redirect, which is not followed: check the endpoint and the region";

/// How far into an answer it is looked for what tells a web page.
const BEGINNING: usize = 1024;

/// Whether an answer is a web page, as proxies and other servers send it and no store does.
pub(crate) fn is_page(headers: &HeaderMap) -> bool {
    text(headers, CONTENT_TYPE.as_str())
        .is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"))
}

/// Whether an answer describes an object, as stores do wherever they made or found one.
pub(crate) fn describes(headers: &HeaderMap) -> bool {
    headers.contains_key(ETAG) || headers.contains_key(LAST_MODIFIED)
}

/// What a web page says that came in place of a document, with success; `None` for anything else.
pub(crate) fn page_for_document(headers: &HeaderMap, body: &[u8]) -> Option<ServiceError> {
    let beginning = String::from_utf8_lossy(&body[..body.len().min(BEGINNING)]).to_ascii_lowercase();
    let is_page = is_page(headers) || ["<!doctype html", "<html"].iter().any(|mark| beginning.contains(mark));
    is_page.then(|| ServiceError { message: "a web page".to_owned(), ..ServiceError::default() })
}

/// The verdict on a web page in place of the store's answer: of what it does not have, it cannot say that the
/// store does not. A redirect says enough.
pub(crate) fn of_a_stranger(verdict: Verdict) -> Verdict {
    match verdict.kind {
        ErrorKind::NotFound => Verdict::new(ErrorKind::Io, Again::Later, false, STRANGER),
        ErrorKind::InvalidConfig if verdict.hint.is_some() => verdict,
        _ => Verdict { hint: Some(STRANGER.to_owned()), ..verdict },
    }
}

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

/// An entity tag without its quotes.
pub(crate) fn bare_etag(text: &str) -> String {
    text.trim().trim_matches('"').to_owned()
}

/// A time as HTTP headers write it.
pub(crate) fn http_date(text: &str) -> Option<SystemTime> {
    date(text, Format::HttpDate)
}

/// A time in one of the formats.
pub(crate) fn date(text: &str, format: Format) -> Option<SystemTime> {
    SystemTime::try_from(DateTime::from_str(text.trim(), format).ok()?).ok()
}

/// A header that is text.
pub(crate) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
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
        assert_eq!(date("2013-05-24T00:00:00.000Z", Format::DateTimeWithOffset), Some(then));
        assert_eq!(http_date("yesterday"), None);
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
