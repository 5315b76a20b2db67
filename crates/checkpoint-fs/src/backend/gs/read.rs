//! Reading: descriptions, whole objects, and ranges.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, RANGE};
use http::{HeaderValue, Method, StatusCode};

use super::crc32c::Crc32c;
use super::resource::{self, Resource};
use super::storage::Inner;
use crate::backend::ranges::{self, Asked};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::storage::{ObjectMeta, ReadResult};
use crate::transport::{AnswerForm, Call, Failure, content_length};

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
pub(super) async fn get(inner: &Inner, call: &Call, key: &str, asked: &Asked) -> Result<ReadResult, Failure> {
    ranges::until_sound(&inner.transport, call, || Box::pin(get_once(inner, call, key, asked))).await
}

async fn get_once(inner: &Inner, call: &Call, key: &str, asked: &Asked) -> Result<ReadResult, Failure> {
    let url = inner.object_url(key, &[("alt", "media")]);
    let mut request = inner.request(Method::GET, url, Bytes::new(), AnswerForm::Object(asked.wanted()));
    // Objects that are kept compressed come as they are kept, so that sizes, ranges and checksums are right.
    request.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    // The whole comes with a checksum.
    if asked.range.is_some() {
        request
            .headers
            .insert(RANGE, ranges::header(asked.range.as_ref()).map_err(|e| Failure::unsent(call.named(e)))?);
    }
    let answer = inner.transport.send(call, &request).await?;
    let is_whole = content_length(&answer.headers).is_none_or(|length| length == answer.body.len() as u64);
    if answer.status == StatusCode::OK
        && is_whole
        && let Some(sum) = resource::checksum(&answer.headers)
        && sum != Crc32c::of(&answer.body).text()
    {
        return Err(damaged(call, &format!("other bytes than the checksum says: crc32c={sum}")));
    }
    ranges::taken(answer, asked.range.clone(), resource::downloaded).map_err(|e| Failure::unsent(call.named(e)))
}

/// An answer that does not count.
pub(super) fn damaged(call: &Call, what: &str) -> Failure {
    let error = Error::new(ErrorKind::Corrupt, format!("the answer is {what}")).with_retry(Retry::Maybe);
    Failure { error: call.named(error), status: None, maybe_applied: true }
}
