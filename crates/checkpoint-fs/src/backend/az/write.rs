//! Writing a blob in one request, and settling what a lost reply left open.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Method, StatusCode};

use super::found::WRITE_TOKEN;
use super::storage::Inner;
use super::wire::{BLOB_TYPE, BLOCK_BLOB};
use crate::backend::headers::object_meta;
use crate::backend::settle::{Mark, fresh_token, settle};
use crate::error::{Error, Result};
use crate::storage::{WriteMode, WriteOutcome};
use crate::transport::{Call, Failure};

/// The most that the service takes in one request.
const MAX_PUT: u64 = 5_000 << 20;

const ANY: HeaderValue = HeaderValue::from_static("*");

/// Writes a blob with a single request.
pub(super) async fn put(inner: &Inner, call: &Call, key: &str, bytes: Bytes, mode: WriteMode) -> Result<WriteOutcome> {
    let size = bytes.len() as u64;
    if size > MAX_PUT {
        let message = format!("the object is too large for one request: bytes={size} most={MAX_PUT}");
        return Err(call.named(Error::unsupported(message).with_hint("write it as a stream")));
    }
    let token = fresh_token();
    let mut request = inner.wire.blob(Method::PUT, key, &[], bytes);
    request.headers.insert(BLOB_TYPE, BLOCK_BLOB);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    mark(&mut request.headers, &token, mode).map_err(|e| call.named(e))?;
    match inner.transport.send(call, &request).await {
        Ok(answer) => Ok(WriteOutcome::Done(object_meta(&answer.headers, size))),
        Err(failure) => decide(inner, call, key, Mark { token: &token, size }, mode, failure).await,
    }
}

/// Adds the token of a write, and its condition.
pub(super) fn mark(headers: &mut HeaderMap, token: &str, mode: WriteMode) -> Result<()> {
    let value = HeaderValue::from_str(token)
        .map_err(|e| Error::invalid_config("the write's token is no header").with_source(e))?;
    headers.insert(WRITE_TOKEN, value);
    if mode == WriteMode::IfAbsent {
        headers.insert(IF_NONE_MATCH, ANY);
    }
    Ok(())
}

/// Decides a write that was not answered with success.
pub(super) async fn decide(
    inner: &Inner,
    call: &Call,
    key: &str,
    mark: Mark<'_>,
    mode: WriteMode,
    mut failure: Failure,
) -> Result<WriteOutcome> {
    // Both mean that another blob was there, or came first: one for a signature that may only create, the
    // other for blocks that went when another write of the name ended.
    let code = failure.error.service_code();
    if mode == WriteMode::IfAbsent && matches!(code, Some("UnauthorizedBlobOverwrite" | "InvalidBlockList")) {
        failure.status = Some(StatusCode::CONFLICT);
    }
    let read_back = async {
        let found = Box::pin(inner.head(call, key)).await?;
        Ok((found.meta, found.token))
    };
    settle(failure, mode, mark, read_back).await
}
