//! Writing an object in one request, and settling what a lost reply left open.

use std::collections::HashMap;

use bytes::Bytes;
use http::HeaderMap;
use opendal::options::WriteOptions as Put;

use super::address::encode_key;
use super::meta::object_meta;
use super::promise;
use super::storage::Inner;
use crate::backend::settle::{self, WRITE_TOKEN};
pub(super) use crate::backend::settle::{Mark, fresh_token};
use crate::error::{Error, Result};
use crate::storage::{WriteMode, WriteOutcome};
use crate::transport::{Call, Failure};

/// The most that these stores take in one PUT.
pub(super) const MAX_PUT: u64 = 5 << 30;

/// The options of a write that carries a token.
pub(super) fn put_options(token: &str, mode: WriteMode) -> Put {
    Put {
        if_not_exists: mode == WriteMode::IfAbsent,
        user_metadata: Some(HashMap::from([(WRITE_TOKEN.to_owned(), token.to_owned())])),
        ..Put::default()
    }
}

/// Writes an object with a single PUT.
pub(super) async fn put(inner: &Inner, call: &Call, key: &str, bytes: Bytes, mode: WriteMode) -> Result<WriteOutcome> {
    let size = bytes.len() as u64;
    if size > MAX_PUT {
        return Err(call.named(too_large(size)));
    }
    let token = fresh_token();
    let live = inner.live(call);
    let answered = live.operator.write_options(&encode_key(key), bytes, put_options(&token, mode)).await;
    match live.settle(answered) {
        Ok(_) => {
            let headers = live.headers();
            let done = WriteOutcome::Done(object_meta(&headers, size));
            Ok(promise::examined(inner, call, mode, &headers, done).await)
        }
        Err(failure) => settle(inner, call, key, Mark { token: &token, size }, mode, failure).await,
    }
}

pub(super) fn too_large(size: u64) -> Error {
    Error::unsupported(format!("the object is too large for one request: bytes={size} most={MAX_PUT}"))
        .with_hint("write it in several objects, or let it replace what is there")
}

/// Decides a write that was not answered with success.
pub(super) async fn settle(
    inner: &Inner,
    call: &Call,
    key: &str,
    mark: Mark<'_>,
    mode: WriteMode,
    failure: Failure,
) -> Result<WriteOutcome> {
    let mut headers = HeaderMap::new();
    let read_back = Box::pin(async {
        let (meta, token, found) = inner.head_with_headers(call, key).await?;
        headers = found;
        Ok((meta, token))
    });
    match settle::settle(failure, mode, mark, read_back).await? {
        done @ WriteOutcome::Done(_) => Ok(promise::examined(inner, call, mode, &headers, done).await),
        outcome => Ok(outcome),
    }
}
