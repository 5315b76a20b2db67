//! What the S3 protocol says of an object beyond plain HTTP.

use std::time::SystemTime;

use aws_smithy_types::date_time::Format;
use http::HeaderMap;

pub(crate) use crate::backend::headers::{bare_etag, content_length, object_meta};
use crate::backend::headers::{date, text};
use crate::backend::settle::WRITE_TOKEN;
use crate::backend::xml;

/// The token of the write that made the object, where it was one of ours.
pub(crate) fn write_token<'h>(headers: &'h HeaderMap, prefixes: &[&str]) -> Option<&'h str> {
    prefixes.iter().find_map(|prefix| text(headers, &format!("{prefix}{WRITE_TOKEN}")))
}

/// The entity tag in the answer to a finished upload or copy; `None` where it has none.
pub(crate) fn document_etag(document: &[u8]) -> Option<String> {
    let root = xml::parse(document).ok()?;
    Some(bare_etag(root.child_text("ETag"))).filter(|etag| !etag.is_empty())
}

/// A time as listings write it.
pub(crate) fn iso_date(text: &str) -> Option<SystemTime> {
    date(text, Format::DateTimeWithOffset)
}
