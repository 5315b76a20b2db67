//! Writing an object in one request, and settling what a lost reply left open.

use std::collections::HashMap;

use bytes::Bytes;
use http::StatusCode;
use opendal::options::WriteOptions as Put;
use rand::RngExt;

use super::endpoint::encode_key;
use super::meta::{WRITE_TOKEN, object_meta};
use super::storage::Inner;
use crate::error::{Error, Result};
use crate::storage::{WriteMode, WriteOutcome};
use crate::transport::{Call, Failure};

/// The most that S3 takes in one PUT.
pub(super) const MAX_PUT: u64 = 5 << 30;

/// A text that only one write carries.
pub(super) fn fresh_token() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}

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
        Ok(_) => Ok(WriteOutcome::Done(object_meta(&live.headers(), size))),
        Err(failure) => settle(inner, call, key, &token, mode, failure).await,
    }
}

pub(super) fn too_large(size: u64) -> Error {
    Error::unsupported(format!("the object is too large for one request: bytes={size} most={MAX_PUT}"))
        .with_hint("write it in several objects, or let it replace what is there")
}

/// Decides a write that was not answered with success, by reading back who wrote what is there now.
///
/// Our token: it is done. Another's, for a write that must not replace: that one was first, whatever
/// becomes of a copy of ours that is still under way. Everything else stays unknown, unless no attempt
/// can have taken effect.
pub(super) async fn settle(
    inner: &Inner,
    call: &Call,
    key: &str,
    token: &str,
    mode: WriteMode,
    failure: Failure,
) -> Result<WriteOutcome> {
    let condition_failed = mode == WriteMode::IfAbsent && failure.status == Some(StatusCode::PRECONDITION_FAILED);
    let contended = mode == WriteMode::IfAbsent && failure.status == Some(StatusCode::CONFLICT);
    if !(failure.maybe_applied || condition_failed || contended) {
        return Err(failure.error);
    }
    // A condition that failed may have met an earlier attempt of this very write: ours, or a proxy's.
    let open = failure.maybe_applied || condition_failed;
    match Box::pin(inner.head(call, key)).await {
        Ok((meta, Some(found))) if found == token => Ok(WriteOutcome::Done(meta)),
        Ok(_) if mode == WriteMode::IfAbsent => Ok(WriteOutcome::AlreadyExists),
        _ if !open => Err(failure.error),
        Ok(_) => Ok(unknown(failure.error, "another object is there now, and the lost write may still land")),
        Err(read_back) if read_back.error.is_not_found() => {
            Ok(unknown(failure.error, "nothing is there now, and the lost write may still land"))
        }
        Err(_) => Ok(unknown(failure.error, "reading back did not settle it")),
    }
}

fn unknown(error: Error, why: &str) -> WriteOutcome {
    WriteOutcome::Unknown(error.with_hint(format!("whether it was written is unknown: {why}")))
}
