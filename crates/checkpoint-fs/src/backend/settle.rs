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

/// A write, as the object that it makes can be told by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark<'w> {
    /// The token that this write alone carries.
    pub(crate) token: &'w str,
    /// How many bytes it writes.
    pub(crate) size: u64,
}

/// Decides a write that was not answered with success, by reading back who wrote what is there now:
/// `read_back` gives an object's metadata and the token of the write that made it.
///
/// Our token, and all of our bytes: it is done. Another's, for a write that must not replace: that one was
/// first, whatever becomes of a copy of ours that is still under way. Everything else stays unknown, unless
/// no attempt can have taken effect.
pub(crate) async fn settle(
    failure: Failure,
    mode: WriteMode,
    mark: Mark<'_>,
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
        Ok((meta, Some(found))) if found == mark.token && meta.size == mark.size => Ok(WriteOutcome::Done(meta)),
        Ok((meta, Some(found))) if found == mark.token => {
            let why = format!("the store holds another number of its bytes: wrote={} holds={}", mark.size, meta.size);
            Ok(unknown(failure.error, &why))
        }
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
    let unknown = format!("whether it was written is unknown: {why}");
    // What to do about a store that cannot do something is worth more than that.
    let hint = match error.hint() {
        Some(hint) if error.kind() == ErrorKind::Unsupported => format!("{hint}; {unknown}"),
        _ => unknown,
    };
    WriteOutcome::Unknown(error.with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Mark<'static> = Mark { token: "ours", size: 3 };

    fn failure(status: Option<StatusCode>, kind: ErrorKind, maybe_applied: bool) -> Failure {
        Failure { error: Error::new(kind, "failed"), status, maybe_applied }
    }

    fn lost() -> Failure {
        failure(None, ErrorKind::Timeout, true)
    }

    async fn settled(failure: Failure, mode: WriteMode, found: Option<(u64, Option<&str>)>) -> &'static str {
        let read_back = async {
            let (size, token) = found.ok_or_else(|| Failure::unsent(Error::new(ErrorKind::NotFound, "nothing")))?;
            Ok((ObjectMeta::new(size), token.map(str::to_owned)))
        };
        match settle(failure, mode, OURS, read_back).await {
            Ok(WriteOutcome::Done(_)) => "done",
            Ok(WriteOutcome::AlreadyExists) => "already exists",
            Ok(WriteOutcome::Unknown(_)) => "unknown",
            Err(_) => "failed",
        }
    }

    #[tokio::test]
    async fn a_lost_write_is_done_only_with_our_token_and_all_of_our_bytes() {
        use WriteMode::{IfAbsent, Overwrite};
        for (mode, found, expected) in [
            (Overwrite, Some((3, Some("ours"))), "done"),
            (IfAbsent, Some((3, Some("ours"))), "done"),
            (Overwrite, Some((2, Some("ours"))), "unknown"),
            (IfAbsent, Some((2, Some("ours"))), "unknown"),
            (Overwrite, Some((3, Some("another's"))), "unknown"),
            (IfAbsent, Some((3, Some("another's"))), "already exists"),
            (Overwrite, Some((3, None)), "unknown"),
            (IfAbsent, Some((3, None)), "already exists"),
            (Overwrite, None, "unknown"),
            (IfAbsent, None, "unknown"),
        ] {
            assert_eq!(settled(lost(), mode, found).await, expected, "{mode:?} {found:?}");
        }
    }

    #[tokio::test]
    async fn what_was_surely_refused_failed_unless_it_was_ours() {
        let refused = || failure(Some(StatusCode::PRECONDITION_FAILED), ErrorKind::AlreadyExists, false);
        let contended = || failure(Some(StatusCode::CONFLICT), ErrorKind::Conflict, false);
        let denied = || failure(Some(StatusCode::FORBIDDEN), ErrorKind::PermissionDenied, false);
        let (ours, another) = (Some((3, Some("ours"))), Some((9, Some("another's"))));
        for (failure, found, expected) in [
            (refused(), ours, "done"),
            (refused(), another, "already exists"),
            (refused(), None, "unknown"),
            (contended(), ours, "done"),
            (contended(), another, "already exists"),
            (contended(), None, "failed"),
            (denied(), ours, "failed"),
        ] {
            assert_eq!(settled(failure, WriteMode::IfAbsent, found).await, expected, "{found:?}");
        }
        assert_eq!(settled(refused(), WriteMode::Overwrite, ours).await, "failed");
    }
}
