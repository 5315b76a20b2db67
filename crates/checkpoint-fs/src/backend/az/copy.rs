//! Copying a blob inside of its account, by the service itself.

use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method};

use super::found::Found;
use super::storage::Inner;
use super::wire::{COPY_SOURCE, SOURCE_IF_MATCH};
use super::write::mark;
use crate::backend::headers::{object_meta, text};
use crate::backend::settle::{Mark, fresh_token, settle};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::storage::{WriteMode, WriteOutcome};
use crate::transport::{Call, Failure};

/// The first pause between looks at a copy that goes on, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How long a copy may go on, besides the transfer of its bytes.
const PATIENCE: Duration = Duration::from_secs(60);
/// The slowest copy that is waited for, in bytes a second.
const SLOWEST: u64 = 1 << 20;

/// Copies a blob, with what its writer attached to it. The service does so at once as a rule; where it says
/// that the copy goes on, this waits for its end.
pub(super) async fn copy(inner: &Inner, call: &Call, from: &str, to: &str, mode: WriteMode) -> Result<WriteOutcome> {
    let source = Box::pin(inner.head(call, from)).await.map_err(|f| f.error)?;
    if source.is_directory {
        return Err(call.named(Error::new(ErrorKind::NotFound, "a directory is not an object")));
    }
    let token = fresh_token();
    let mut request = inner.wire.blob(Method::PUT, to, &[], Bytes::new());
    let header = |text: &str| {
        HeaderValue::from_str(text).map_err(|e| call.named(Error::invalid_config("not a header").with_source(e)))
    };
    request.headers.extend(source.metadata);
    request.headers.insert(COPY_SOURCE, header(&inner.wire.blob_url(from))?);
    if let Some(etag) = &source.meta.etag {
        request.headers.insert(SOURCE_IF_MATCH, header(&format!("\"{etag}\""))?);
    }
    mark(&mut request.headers, &token, mode).map_err(|e| call.named(e))?;
    let target = Target { inner, call, key: to, token: &token, size: source.meta.size };
    match inner.transport.send(call, &request).await {
        Ok(answer) if !is_pending(&answer.headers) => {
            Ok(WriteOutcome::Done(object_meta(&answer.headers, source.meta.size)))
        }
        Ok(_) => match Box::pin(target.ended()).await {
            Ok(found) if found.token.as_deref() == Some(&*token) => Ok(WriteOutcome::Done(found.meta)),
            Ok(_) => Ok(target.unknown("another object took the place of the copy while it went on")),
            Err(failure) if failure.maybe_applied => Ok(WriteOutcome::Unknown(failure.error)),
            Err(failure) => Err(failure.error),
        },
        Err(failure) if !failure.maybe_applied && failure.error.service_code() == Some("SourceConditionNotMet") => {
            let error = Error::new(ErrorKind::Conflict, "the source changed while it was copied");
            Err(call.named(error.with_retry(Retry::Maybe)))
        }
        Err(failure) => {
            let read_back = async {
                let found = Box::pin(target.ended()).await?;
                Ok((found.meta, found.token))
            };
            settle(failure, mode, Mark { token: &token, size: source.meta.size }, read_back).await
        }
    }
}

/// The header may be missing where a copy ended at once.
fn is_pending(headers: &HeaderMap) -> bool {
    text(headers, "x-ms-copy-status").is_some_and(|status| status.eq_ignore_ascii_case("pending"))
}

/// The blob that is copied to.
struct Target<'c> {
    inner: &'c Inner,
    call: &'c Call,
    key: &'c str,
    token: &'c str,
    size: u64,
}

impl Target<'_> {
    /// Looks at the target until no copy of ours goes on.
    async fn ended(&self) -> Result<Found, Failure> {
        let (mut pause, most) = PAUSES;
        let limit = PATIENCE + Duration::from_secs(self.size / SLOWEST);
        let mut waited = Duration::ZERO;
        loop {
            let found = Box::pin(self.inner.head(self.call, self.key)).await?;
            let status = found.copy_status.as_deref().unwrap_or_default().to_ascii_lowercase();
            match status.as_str() {
                _ if found.token.as_deref() != Some(self.token) => return Ok(found),
                "pending" if waited >= limit => return Err(self.too_slow(waited)),
                "pending" => tokio::time::sleep(pause).await,
                "failed" | "aborted" => {
                    self.remove(&found).await?;
                    let error = Error::new(ErrorKind::Io, format!("the service gave up the copy: status={status}"));
                    let error = self.call.named(error.with_retry(Retry::Maybe));
                    return Err(Failure { error, status: None, maybe_applied: false });
                }
                _ => return Ok(found),
            }
            waited += pause;
            pause = (pause * 2).min(most);
        }
    }

    /// Removes the empty blob that a failed copy leaves, unless somebody has written it since.
    async fn remove(&self, found: &Found) -> Result<(), Failure> {
        let mut request = self.inner.wire.blob(Method::DELETE, self.key, &[], Bytes::new());
        let etag = found.meta.etag.as_deref().and_then(|tag| HeaderValue::from_str(&format!("\"{tag}\"")).ok());
        let Some(etag) = etag else { return Ok(()) };
        request.headers.insert(http::header::IF_MATCH, etag);
        match self.inner.transport.send(self.call, &request).await {
            Err(failure) if !matches!(failure.error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
                Err(Failure { maybe_applied: true, ..failure })
            }
            _ => Ok(()),
        }
    }

    fn too_slow(&self, waited: Duration) -> Failure {
        let error = Error::new(ErrorKind::Timeout, format!("the copy still goes on: seconds={}", waited.as_secs()));
        Failure { error: self.call.named(error), status: None, maybe_applied: true }
    }

    fn unknown(&self, why: &str) -> WriteOutcome {
        WriteOutcome::Unknown(self.call.named(Error::new(ErrorKind::Io, format!("the copy's end is unknown: {why}"))))
    }
}

#[cfg(test)]
mod tests {
    use http::header::ETAG;

    use super::*;

    #[test]
    fn only_a_copy_that_goes_on_is_waited_for() {
        let with = |status: &'static str| {
            let mut headers = HeaderMap::from_iter([(ETAG, HeaderValue::from_static("\"1\""))]);
            headers.insert("x-ms-copy-status", HeaderValue::from_static(status));
            headers
        };
        assert!(is_pending(&with("pending")));
        assert!(!is_pending(&with("success")) && !is_pending(&HeaderMap::new()));
    }
}
