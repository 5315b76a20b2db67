//! Streamed writes: parts of equal size for what may replace, one request for what may not.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use opendal::Writer;
use opendal::options::WriteOptions as Put;

use super::address::encode_key;
use super::meta::{document_etag, object_meta};
use super::storage::Inner;
use super::write::{MAX_PUT, Mark, fresh_token, put, put_options, settle, too_large};
use crate::backend::bridge::LiveCall;
use crate::backend::unbroken::Unbroken;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::storage::{ObjectMeta, StorageWriter, WriteMode, WriteOutcome};
use crate::transport::{Call, Failure};

/// The size of every part but the last; what is smaller altogether goes up in one request.
const PART: usize = 8 << 20;
/// Parts that one upload can have.
const MAX_PARTS: u64 = 10_000;

/// Starts a write.
pub(super) async fn open(
    inner: &Arc<Inner>,
    call: Call,
    key: String,
    mode: WriteMode,
) -> Result<Box<dyn StorageWriter>> {
    Guard::check(call.guard.as_ref()).map_err(|e| call.named(e))?;
    let named = call.clone();
    if mode == WriteMode::IfAbsent {
        let writer = OneRequest { inner: Arc::clone(inner), call, key, buffer: BytesMut::new() };
        return Ok(Box::new(Unbroken::new(writer, named)));
    }
    let token = fresh_token();
    let given_up = Arc::new(AtomicBool::new(false));
    let call = until_given_up(call, &given_up);
    let live = inner.live(&call);
    let options = Put { chunk: Some(PART), concurrent: 1, ..put_options(&token, mode) };
    let opened = live.operator.writer_options(&encode_key(&key), options).await;
    let upload = live.settle(opened).map_err(|f| f.error)?;
    let inner = Arc::clone(inner);
    let writer = InParts { inner, call, key, token, live, given_up, upload: Some(upload), written: 0 };
    Ok(Box::new(Unbroken::new(writer, named)))
}

/// The call, whose guard no longer holds once the upload is given up: freeing its parts changes nothing that
/// anybody sees, and has to work when the right to write is gone.
fn until_given_up(call: Call, given_up: &Arc<AtomicBool>) -> Call {
    let Call { operation, url, guard } = call;
    let given_up = Arc::clone(given_up);
    let guard = guard.map(|guard| {
        Guard::new(move || if given_up.load(Ordering::SeqCst) { Ok(Duration::MAX) } else { guard.remaining() })
    });
    Call::new(operation, url, guard)
}

/// Collects everything for a single conditional PUT.
struct OneRequest {
    inner: Arc<Inner>,
    call: Call,
    key: String,
    buffer: BytesMut,
}

#[async_trait]
impl StorageWriter for OneRequest {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let size = (self.buffer.len() + bytes.len()) as u64;
        if size > MAX_PUT {
            return Err(self.call.named(too_large(size)));
        }
        self.buffer.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        let bytes = self.buffer.freeze();
        Box::pin(put(&self.inner, &self.call, &self.key, bytes, WriteMode::IfAbsent)).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for OneRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneRequest").field("url", &self.call.url).field("bytes", &self.buffer.len()).finish()
    }
}

/// An upload in parts. `upload` is gone once it was finished or given up.
struct InParts {
    inner: Arc<Inner>,
    call: Call,
    key: String,
    token: String,
    live: LiveCall,
    given_up: Arc<AtomicBool>,
    upload: Option<Writer>,
    written: u64,
}

impl InParts {
    fn upload(&mut self) -> Result<&mut Writer> {
        let ended = || self.call.named(Error::unsupported("this write has already ended"));
        self.upload.as_mut().ok_or_else(ended)
    }

    /// What is known of the finished object. Where the answer had no entity tag (Ceph's to an upload in
    /// parts), it is asked for, and done without when that fails: the object is there either way.
    async fn published(&self) -> ObjectMeta {
        let meta = object_meta(&self.live.headers(), self.written);
        let etag = document_etag(&self.live.document()).or_else(|| meta.etag.clone());
        if etag.is_some() {
            return meta.with_etag(etag);
        }
        match Box::pin(self.inner.head(&self.call, &self.key)).await {
            Ok((found, Some(token))) if token == self.token => found,
            _ => meta,
        }
    }
}

#[async_trait]
impl StorageWriter for InParts {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let size = self.written + bytes.len() as u64;
        let most = PART as u64 * MAX_PARTS;
        if size > most {
            let message = format!("the object is too large: bytes={size} most={most}");
            return Err(self.call.named(Error::unsupported(message).with_hint("write it in several objects")));
        }
        let added = Box::pin(self.upload()?.write(bytes)).await;
        self.live.settle(added).map_err(|f| f.error)?;
        self.written = size;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<WriteOutcome> {
        let closed = Box::pin(self.upload()?.close()).await;
        match self.live.settle(closed) {
            Ok(_) => {
                self.upload = None;
                Ok(WriteOutcome::Done(self.published().await))
            }
            // What was not published is given up when this is dropped.
            Err(failure) => {
                let lost_upload = failure.error.service_code() == Some("NoSuchUpload");
                let failure = Failure { maybe_applied: failure.maybe_applied || lost_upload, ..failure };
                let mark = Mark { token: &self.token, size: self.written };
                let outcome = settle(&self.inner, &self.call, &self.key, mark, WriteMode::Overwrite, failure).await?;
                if matches!(outcome, WriteOutcome::Done(_)) {
                    self.upload = None;
                }
                Ok(outcome)
            }
        }
    }

    async fn abort(mut self: Box<Self>) -> Result<()> {
        let Some(mut upload) = self.upload.take() else { return Ok(()) };
        self.given_up.store(true, Ordering::SeqCst);
        let aborted = Box::pin(upload.abort()).await;
        match self.live.settle(aborted) {
            Err(failure) if !failure.error.is_not_found() => Err(failure.error),
            _ => Ok(()),
        }
    }
}

impl Drop for InParts {
    /// Frees the parts in the background, as far as that works.
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        self.given_up.store(true, Ordering::SeqCst);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let url = self.call.url.clone();
            runtime.spawn(async move {
                if upload.abort().await.is_err() {
                    tracing::debug!(url, "the parts of an abandoned upload could not be removed");
                }
            });
        }
    }
}

impl fmt::Debug for InParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InParts").field("url", &self.call.url).field("bytes", &self.written).finish_non_exhaustive()
    }
}
