//! Reading: descriptions, whole objects, and ranges.

use std::ops::Range;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, RANGE};
use http::{HeaderValue, Method, StatusCode};

use super::crc32c::Crc32c;
use super::resource::{self, Resource};
use super::storage::Inner;
use crate::backend::headers::content_range;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::storage::{ObjectMeta, ReadResult};
use crate::transport::{Answer, AnswerForm, Call, Failure};

/// Asks for an object's description.
pub(super) async fn describe(inner: &Inner, call: &Call, key: &str, fields: &str) -> Result<Resource, Failure> {
    let url = inner.object_url(key, &[("fields", fields)]);
    let request = inner.request(Method::GET, url, Bytes::new(), AnswerForm::Document);
    let answer = inner.transport.send(call, &request).await?;
    Resource::parse(&answer.body).map_err(|why| damaged(call, &why))
}

/// Asks for an object's metadata, and for the token of the write that made it.
pub(super) async fn stat(inner: &Inner, call: &Call, key: &str) -> Result<(ObjectMeta, Option<String>), Failure> {
    let resource = describe(inner, call, key, resource::FIELDS).await?;
    let meta = resource.meta().map_err(|why| damaged(call, &why))?;
    Ok((meta, resource.token().map(str::to_owned)))
}

/// Reads an object, or a range of it that is not empty; again where what came was damaged on its way.
pub(super) async fn get(
    inner: &Inner,
    call: &Call,
    key: &str,
    range: Option<Range<u64>>,
) -> Result<ReadResult, Failure> {
    let policy = inner.transport.retry();
    let mut attempt = 0;
    loop {
        attempt += 1;
        match Box::pin(get_once(inner, call, key, range.clone())).await {
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

async fn get_once(inner: &Inner, call: &Call, key: &str, range: Option<Range<u64>>) -> Result<ReadResult, Failure> {
    let url = inner.object_url(key, &[("alt", "media")]);
    let mut request = inner.request(Method::GET, url, Bytes::new(), AnswerForm::Bytes);
    // Objects that are kept compressed come as they are kept, so that sizes, ranges and checksums are right.
    request.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    if let Some(range) = &range {
        let value = HeaderValue::from_str(&format!("bytes={}-{}", range.start, range.end - 1))
            .map_err(|e| Failure::unsent(call.named(Error::invalid_config("not a range").with_source(e))))?;
        request.headers.insert(RANGE, value);
    }
    let Answer { status, headers, body } = inner.transport.send(call, &request).await?;
    let range = match (range, status) {
        (Some(range), StatusCode::PARTIAL_CONTENT) => range,
        (range, StatusCode::OK) => {
            if let Some(sum) = resource::checksum(&headers).filter(|sum| *sum != Crc32c::of(&body).text()) {
                return Err(damaged(call, &format!("other bytes than the checksum says: crc32c={sum}")));
            }
            let meta = resource::downloaded(&headers, body.len() as u64);
            // A server may ignore the range.
            let range = range.unwrap_or(0..u64::MAX);
            let cut = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(body.len());
            return Ok(ReadResult { bytes: body.slice(cut(range.start)..cut(range.end)), meta });
        }
        _ => return Err(damaged(call, &format!("another part than asked: status={status}"))),
    };
    let Some((first, last, total)) = content_range(&headers) else {
        return Err(damaged(call, "a part that it does not name"));
    };
    let end = range.end.min(total);
    if first != range.start || last.checked_add(1) != Some(end) || body.len() as u64 != end - first {
        let (start, bytes) = (range.start, body.len());
        return Err(damaged(call, &format!("another part: asked={start}-{end} got={first}-{last} bytes={bytes}")));
    }
    Ok(ReadResult { bytes: body, meta: resource::downloaded(&headers, total) })
}

/// An answer that does not count.
pub(super) fn damaged(call: &Call, what: &str) -> Failure {
    let error = Error::new(ErrorKind::Corrupt, format!("the answer is {what}")).with_retry(Retry::Maybe);
    Failure { error: call.named(error), status: None, maybe_applied: true }
}
