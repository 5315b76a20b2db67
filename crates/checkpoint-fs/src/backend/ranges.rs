//! Reads of an object or a part of it: how it is asked for, and whether an answer is that.

use std::ops::Range;

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::backend::headers::content_range;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::storage::{ObjectMeta, ReadOptions, ReadResult};
use crate::transport::{Answer, Call, Failure, Transport, Wanted, content_length};

/// A read as a request is told of it: what the answer may hold.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The range, not empty; the whole object when `None`.
    pub(crate) range: Option<Range<u64>>,
    /// The most bytes of a whole object.
    pub(crate) limit: Option<u64>,
}

impl Asked {
    /// What the options ask for; `None` for a range without bytes.
    pub(crate) fn new(options: &ReadOptions) -> Option<Self> {
        // Longer objects than this end allows do not exist, and some servers read the end as a signed number.
        let range = options.range.as_ref().map(|range| range.start..range.end.min(i64::MAX as u64));
        let is_empty = range.as_ref().is_some_and(|range| range.start >= range.end);
        (!is_empty).then_some(Self { range, limit: options.limit })
    }

    pub(crate) fn wanted(&self) -> Wanted {
        match &self.range {
            Some(range) => Wanted::Part { start: range.start, end: range.end },
            None => Wanted::Whole { limit: self.limit.unwrap_or(u64::MAX) },
        }
    }

    /// The offset of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.range.as_ref().map_or(0, |range| range.start)
    }
}

/// The header's value for a range that is not empty, or for the whole object. The whole is asked for as a range,
/// too: then the answer says twice how long the object is, and a length that lies is found out. Of an object
/// without bytes there is no such range, which is status 416.
pub(crate) fn header(range: Option<&Range<u64>>) -> Result<HeaderValue> {
    let Some(range) = range else { return Ok(HeaderValue::from_static("bytes=0-")) };
    HeaderValue::from_str(&format!("bytes={}-{}", range.start, range.end - 1))
        .map_err(|e| Error::invalid_config("not a range").with_source(e))
}

/// Takes what was asked for, a range or the whole object, out of an answer with a success status. `describe`
/// makes metadata of an answer's headers and the object's size.
///
/// # Errors
/// `Corrupt` when the answer is another part than that, or does not say which.
pub(crate) fn taken(
    answer: Answer,
    asked: Option<Range<u64>>,
    describe: impl FnOnce(&HeaderMap, u64) -> ObjectMeta,
) -> Result<ReadResult> {
    let Answer { status, headers, body } = answer;
    let asked = match (asked, status) {
        (range, StatusCode::PARTIAL_CONTENT) => range.unwrap_or(0..u64::MAX),
        (range, StatusCode::OK) => {
            // A server may ignore the range. It was read no further then than the range's end.
            let meta = describe(&headers, content_length(&headers).unwrap_or(body.len() as u64));
            let range = range.unwrap_or(0..u64::MAX);
            let cut = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(body.len());
            return Ok(ReadResult { bytes: body.slice(cut(range.start)..cut(range.end)), meta });
        }
        _ => return Err(damaged(&format!("another part than asked: status={status}"))),
    };
    let Some((first, last, total)) = content_range(&headers) else {
        return Err(damaged("a part that it does not name"));
    };
    let end = asked.end.min(total);
    let got = body.len() as u64;
    if first != asked.start || last.checked_add(1) != Some(end) || end.checked_sub(first) != Some(got) {
        let start = asked.start;
        return Err(damaged(&format!("another part: asked={start}-{end} got={first}-{last} bytes={got}")));
    }
    Ok(ReadResult { bytes: body, meta: describe(&headers, total) })
}

/// The answer to a range that a server refused as one behind the object's end, once the object was looked at.
///
/// # Errors
/// `Conflict` when the object reaches further than that: it has changed meanwhile.
pub(crate) fn behind_the_end(read: ReadResult, start: u64) -> Result<ReadResult> {
    if read.meta.size <= start {
        return Ok(read);
    }
    let message = format!("the object changed while it was read: start={start} size={}", read.meta.size);
    Err(Error::new(ErrorKind::Conflict, message).with_retry(Retry::Maybe))
}

/// Reads again where what came was damaged, or another object than a moment ago, as often as requests are sent.
pub(crate) async fn until_sound<'a>(
    transport: &Transport,
    call: &Call,
    read: impl Fn() -> BoxFuture<'a, Result<ReadResult, Failure>> + Send,
) -> Result<ReadResult, Failure> {
    let policy = transport.retry();
    let mut attempt = 0;
    loop {
        attempt += 1;
        match read().await {
            Err(failure) if failure.error.retry() == Retry::Maybe && attempt < policy.attempts() => {
                tracing::debug!(url = call.url, attempt, error = %failure.error, "the read is tried again");
                tokio::time::sleep(policy.pause(attempt, None)).await;
            }
            Err(Failure { error, status, maybe_applied }) if error.retry() == Retry::Maybe => {
                return Err(Failure { error: error.with_retry(Retry::Exhausted), status, maybe_applied });
            }
            settled => return settled,
        }
    }
}

/// The error for an answer that is not what was asked for; another may be.
pub(crate) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the answer is {what}")).with_retry(Retry::Maybe)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::header::CONTENT_RANGE;

    use super::*;
    use crate::backend::headers::object_meta;

    fn read(status: u16, range: &str, body: &'static str, asked: Option<Range<u64>>) -> Result<ReadResult> {
        let mut headers = HeaderMap::new();
        if !range.is_empty() {
            headers.insert(CONTENT_RANGE, HeaderValue::from_str(range).expect("valid"));
        }
        let status = StatusCode::from_u16(status).expect("valid");
        taken(Answer { status, headers, body: Bytes::from_static(body.as_bytes()) }, asked, object_meta)
    }

    #[test]
    fn the_part_that_was_asked_for_is_taken() {
        for (status, range, body, asked, expected) in [
            (200, "", "0123456789", None, "0123456789"),
            (200, "", "0123456789", Some(2..4), "23"),
            (200, "", "0123456789", Some(8..40), "89"),
            (200, "", "0123456789", Some(20..40), ""),
            (206, "bytes 0-9/10", "0123456789", None, "0123456789"),
            (206, "bytes 2-3/10", "23", Some(2..4), "23"),
            (206, "bytes 8-9/10", "89", Some(8..40), "89"),
        ] {
            let read = read(status, range, body, asked.clone()).expect("that part");
            assert_eq!((read.bytes.as_ref(), read.meta.size), (expected.as_bytes(), 10), "{status} {asked:?}");
        }
    }

    #[test]
    fn any_other_part_is_damaged() {
        for (status, range, body, asked) in [
            (206, "bytes 0-8/10", "012345678", None),
            (206, "bytes 0-9/10", "01234", None),
            (206, "", "0123456789", None),
            (206, "", "23", Some(2..4)),
            (206, "bytes 1-2/10", "12", Some(2..4)),
            (206, "bytes 2-2/10", "2", Some(2..4)),
            (206, "bytes 2-3/10", "2", Some(2..4)),
            (206, "bytes 2-3/1", "", Some(2..4)),
            (206, "bytes 2-18446744073709551615/10", "23", Some(2..4)),
            (204, "", "", Some(2..4)),
        ] {
            let error = read(status, range, body, asked.clone()).expect_err("another part");
            assert_eq!((error.kind(), error.retry()), (ErrorKind::Corrupt, Retry::Maybe), "{status} {range} {asked:?}");
        }
    }

    #[test]
    fn a_refused_range_gives_no_bytes_only_behind_the_end() {
        let nothing = |size| ReadResult { bytes: Bytes::new(), meta: ObjectMeta::new(size) };
        assert!(behind_the_end(nothing(5), 5).is_ok());
        assert_eq!(behind_the_end(nothing(6), 5).expect_err("it reaches further").kind(), ErrorKind::Conflict);
    }
}
