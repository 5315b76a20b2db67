//! Deciding a write whose answer was lost, by the token that only this write carried.

use http::StatusCode;
use rand::RngExt;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::{ObjectMeta, WriteMode, WriteOutcome};
use crate::transport::Failure;

/// The user metadata, without a store's own prefix, that carries the token of a write.
#[cfg(any(feature = "_bucket", feature = "gs"))]
pub(crate) const WRITE_TOKEN: &str = "checkpoint-write-token";

/// A text that only one write carries.
pub(crate) fn fresh_token() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}

/// Decides a write that was not answered with success, by reading back who wrote what is there now:
/// `read_back` gives an object's metadata and the token of the write that made it.
///
/// Our token: it is done. Another's, for a write that must not replace: that one was first, whatever
/// becomes of a copy of ours that is still under way. Everything else stays unknown, unless no attempt
/// can have taken effect.
pub(crate) async fn settle(
    failure: Failure,
    mode: WriteMode,
    token: &str,
    read_back: impl Future<Output = Result<(ObjectMeta, Option<String>), Failure>>,
) -> Result<WriteOutcome> {
    let refused =
        failure.status == Some(StatusCode::PRECONDITION_FAILED) || failure.error.kind() == ErrorKind::AlreadyExists;
    let condition_failed = mode == WriteMode::IfAbsent && refused;
    let contended = mode == WriteMode::IfAbsent && failure.status == Some(StatusCode::CONFLICT);
    if !(failure.maybe_applied || condition_failed || contended) {
        return Err(failure.error);
    }
    // A condition that failed may have met an earlier attempt of this very write: ours, or a proxy's.
    let open = failure.maybe_applied || condition_failed;
    match read_back.await {
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
