//! The promise that a write which must not replace does not: when it holds, and what takes it back.
//!
//! Two things are known to break it, and answers show both. A bucket of COS or OSS that keeps old versions, or
//! once did, ignores the condition; then its objects have version IDs. OpenStack Swift looks whether an object
//! exists and writes afterwards, so that of several writers at once more than one wins; each of its answers has
//! headers of its own. From such an answer on the capability is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, StatusCode};

use super::storage::Inner;
use super::vendor::IfAbsent;
use super::versioning;
use crate::backend::headers::text;
use crate::capability::Versioning;
use crate::error::{Error, Result};
use crate::storage::{WriteMode, WriteOutcome};
use crate::transport::{Call, Dialect, DocumentFault, ServiceError, Verdict};

/// The headers of an object's version.
const VERSION_IDS: [&str; 3] = ["x-cos-version-id", "x-oss-version-id", "x-amz-version-id"];
/// The ID of an object that was written while no versions were kept.
const NO_VERSION: &str = "null";
/// The headers of every answer of Swift's.
const OF_SWIFT: [&str; 2] = ["x-trans-id", "x-openstack-request-id"];

/// What answers have shown.
#[derive(Debug, Default)]
pub(super) struct Signs {
    has_versions: AtomicBool,
    is_swift: AtomicBool,
}

impl Signs {
    /// Whether a write that must not replace may replace after all.
    pub(super) fn are_bad(&self) -> bool {
        self.has_versions() || self.is_swift.load(Ordering::SeqCst)
    }

    /// Whether the bucket keeps versions, or once did.
    pub(super) fn has_versions(&self) -> bool {
        self.has_versions.load(Ordering::SeqCst)
    }

    fn note(&self, sign: &AtomicBool, shown: &str) {
        if !sign.swap(true, Ordering::SeqCst) {
            tracing::warn!(shown, "writes that must not replace do not hold here: they are refused from now on");
        }
    }

    fn read(&self, condition: &IfAbsent, headers: &HeaderMap) {
        match condition {
            IfAbsent::ForbidOverwrite(_) if version(headers).is_some_and(|id| id != NO_VERSION) => {
                self.note(&self.has_versions, "an object has a version ID");
            }
            IfAbsent::IfNoneMatch if OF_SWIFT.iter().any(|name| headers.contains_key(*name)) => {
                self.note(&self.is_swift, "OpenStack Swift answers");
            }
            _ => {}
        }
    }
}

/// Another dialect, which looks at each answer for signs on the way.
#[derive(Debug)]
pub(super) struct Watching {
    pub(super) inner: Arc<dyn Dialect>,
    pub(super) condition: IfAbsent,
    pub(super) signs: Arc<Signs>,
}

impl Dialect for Watching {
    fn answered(&self, headers: &HeaderMap) {
        self.signs.read(&self.condition, headers);
        self.inner.answered(headers);
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        self.inner.is_own(headers)
    }

    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        self.inner.service_error(headers, body)
    }

    fn verdict(&self, status: StatusCode, headers: &HeaderMap, error: &ServiceError, temporary: bool) -> Verdict {
        self.inner.verdict(status, headers, error, temporary)
    }

    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        self.inner.check_document(headers, body)
    }
}

fn version(headers: &HeaderMap) -> Option<&str> {
    VERSION_IDS.iter().find_map(|name| text(headers, name)).filter(|id| !id.is_empty())
}

/// Refuses a write that must not replace where the store, or the bucket's setup, does not let it keep its word.
pub(super) fn check(inner: &Inner, call: &Call, mode: WriteMode) -> Result<()> {
    if mode == WriteMode::Overwrite {
        return Ok(());
    }
    if let IfAbsent::Never(way_on) = &inner.config.vendor.if_absent {
        let message = "this store's S3 interface has no write that must not replace";
        return Err(call.named(Error::unsupported(message).with_hint(*way_on)));
    }
    if inner.capabilities().write_if_absent { Ok(()) } else { Err(broken(inner, call, "")) }
}

fn broken(inner: &Inner, call: &Call, what: &str) -> Error {
    let (message, hint) = match inner.capabilities().versioning {
        Some(versioning) => (
            format!(
                "this bucket keeps old versions, or once did, and then the service ignores that a write must not \
                 replace: versioning={versioning}"
            ),
            "use a bucket that never had versioning; a checkpoint can stay here with its lease on another store \
             (--lease-url)",
        ),
        None => (
            "OpenStack Swift answers here, where of several writers at once more than one creates the same object"
                .to_owned(),
            "use another store for what several write to; a checkpoint can stay here with its lease on another store \
             (--lease-url)",
        ),
    };
    call.named(Error::unsupported(format!("{what}{message}")).with_hint(hint))
}

/// What a write came to whose answer says that it is done. One that was not to replace, and whose answer shows
/// that it may have, is unknown: its bytes are there, and perhaps another's were before. `headers` are those of
/// the answer, or of what was read back.
pub(super) async fn examined(
    inner: &Inner,
    call: &Call,
    mode: WriteMode,
    headers: &HeaderMap,
    done: WriteOutcome,
) -> WriteOutcome {
    if mode == WriteMode::Overwrite {
        return done;
    }
    let is_conditional = matches!(inner.config.vendor.if_absent, IfAbsent::ForbidOverwrite(_));
    if is_conditional && !inner.signs.are_bad() && version(headers) == Some(NO_VERSION) {
        // By the vendors' documents only a bucket that once kept versions answers so.
        match Box::pin(versioning::ask(inner)).await {
            Ok(Some(Versioning::Off)) => {}
            Ok(_) => inner.signs.note(&inner.signs.has_versions, "an object has the version ID null"),
            Err(error) => return WriteOutcome::Unknown(call.named(error)),
        }
    }
    if inner.signs.are_bad() {
        return WriteOutcome::Unknown(broken(
            inner,
            call,
            "it was written, and whether over another object is unknown: ",
        ));
    }
    done
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn signs(condition: &IfAbsent, name: &'static str, value: &'static str) -> (bool, bool) {
        let signs = Signs::default();
        let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
        signs.read(condition, &HeaderMap::from_iter([header]));
        (signs.has_versions(), signs.are_bad())
    }

    #[test]
    fn which_answers_are_bad_signs() {
        let forbid = IfAbsent::ForbidOverwrite(HeaderName::from_static("x-cos-forbid-overwrite"));
        for (condition, name, value, expected) in [
            (&forbid, "x-cos-version-id", "MTg0NDY3NDI1NTM4NDQ3", (true, true)),
            (&forbid, "x-oss-version-id", "CAEQEhiBgIDmgPf8m", (true, true)),
            (&forbid, "x-amz-version-id", "MTg0NDY3NDI1NTM4NDQ3", (true, true)),
            (&forbid, "x-cos-version-id", "null", (false, false)),
            (&forbid, "x-oss-version-id", "", (false, false)),
            (&forbid, "x-trans-id", "tx1", (false, false)),
            // S3 itself keeps its word in a bucket with versions.
            (&IfAbsent::IfNoneMatch, "x-amz-version-id", "3HL4kqtJlcpXroDTDmjVBH40Nrjfkd", (false, false)),
            (&IfAbsent::IfNoneMatch, "x-amz-request-id", "tx1", (false, false)),
            (&IfAbsent::IfNoneMatch, "x-trans-id", "tx1", (false, true)),
            (&IfAbsent::IfNoneMatch, "x-openstack-request-id", "tx1", (false, true)),
        ] {
            assert_eq!(signs(condition, name, value), expected, "{name}: {value}");
        }
    }
}
