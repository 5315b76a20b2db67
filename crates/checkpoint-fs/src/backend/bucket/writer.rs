//! Streamed writes: parts of equal size, several at once, for what may replace; one request for what may not.

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
/// Parts of one upload that are sent at the same time. Besides them a write holds one that may be the last, and one that
/// is not full yet: 48 MiB altogether.
const PARTS_AT_ONCE: usize = 4;
/// Parts that one upload can have.
const MAX_PARTS: u64 = 10_000;
/// A longer body that may replace goes up in parts too. All that go at the same time are full then, which makes up for
/// the requests that begin and complete the upload.
pub(super) const LONG_BODY: usize = PARTS_AT_ONCE * PART;

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
    Ok(Box::new(Unbroken::new(InParts::open(inner, call, key).await?, named)))
}

/// Writes a long body, which may replace, in parts.
pub(super) async fn write_long(inner: &Arc<Inner>, call: Call, key: String, bytes: Bytes) -> Result<WriteOutcome> {
    let mut writer = Box::new(InParts::open(inner, call, key).await?);
    if let Err(error) = writer.write(bytes).await {
        // The error of the write is what there is to tell.
        let _ = writer.abort().await;
        return Err(error);
    }
    writer.finish().await
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
    /// Bytes that are less than a part.
    buffer: BytesMut,
    written: u64,
}

impl InParts {
    /// Starts an upload. Nothing is sent before the second part.
    async fn open(inner: &Arc<Inner>, call: Call, key: String) -> Result<Self> {
        let token = fresh_token();
        let given_up = Arc::new(AtomicBool::new(false));
        let call = until_given_up(call, &given_up);
        let live = inner.live(&call);
        let put = put_options(&token, WriteMode::Overwrite);
        // What it is given is a part each: it puts together only what is too short for one.
        let options = Put { chunk: None, concurrent: PARTS_AT_ONCE, ..put };
        let opened = live.operator.writer_options(&encode_key(&key), options).await;
        let upload = Some(live.settle(opened).map_err(|f| f.error)?);
        let inner = Arc::clone(inner);
        Ok(Self { inner, call, key, token, live, given_up, upload, buffer: BytesMut::new(), written: 0 })
    }

    /// Hands on a part, or what is left at the end. Waits while as many as may be are on their way.
    async fn send(&mut self, part: Bytes) -> Result<()> {
        let Self { upload: Some(upload), live, .. } = self else { return Err(self.ended()) };
        Box::pin(live.unless_failed(upload.write(part))).await.map_err(|f| f.error)
    }

    fn ended(&self) -> Error {
        self.call.named(Error::unsupported("this write has already ended"))
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
    async fn write(&mut self, mut bytes: Bytes) -> Result<()> {
        let size = self.written + bytes.len() as u64;
        let most = PART as u64 * MAX_PARTS;
        if size > most {
            let message = format!("the object is too large: bytes={size} most={most}");
            return Err(self.call.named(Error::unsupported(message).with_hint("write it in several objects")));
        }
        // Parts that are on their way look at it too, but nobody waits for them here.
        Guard::check(self.call.guard.as_ref()).map_err(|e| self.call.named(e))?;
        while !bytes.is_empty() {
            // Whole parts go on as they are; what is shorter is put together.
            let part = if self.buffer.is_empty() && bytes.len() >= PART {
                bytes.split_to(PART)
            } else {
                let piece = bytes.split_to(bytes.len().min(PART - self.buffer.len()));
                if self.buffer.is_empty() && self.written >= PART as u64 {
                    self.buffer.reserve(PART);
                }
                self.buffer.extend_from_slice(&piece);
                if self.buffer.len() < PART {
                    break;
                }
                self.buffer.split().freeze()
            };
            self.send(part).await?;
        }
        self.written = size;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<WriteOutcome> {
        let rest = self.buffer.split().freeze();
        self.send(rest).await?;
        let Self { upload: Some(upload), live, .. } = &mut *self else { return Err(self.ended()) };
        match Box::pin(live.unless_failed(upload.close())).await {
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
        self.live.background.stop().await;
        self.given_up.store(true, Ordering::SeqCst);
        // What a part failed with is not what this fails with.
        drop(self.live.failure());
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
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (url, given_up) = (self.call.url.clone(), Arc::clone(&self.given_up));
            let background = self.live.background.clone();
            runtime.spawn(async move {
                background.stop().await;
                given_up.store(true, Ordering::SeqCst);
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
