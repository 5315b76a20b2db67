//! Streamed writes: blocks of equal size, several at once, published by one conditional request that names them all.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http::Method;
use http::header::HeaderValue;
use tokio::task::{JoinError, JoinSet};

use super::storage::Inner;
use super::write::{decide, mark, put};
use crate::backend::headers::object_meta;
use crate::backend::settle::{Mark, fresh_token};
use crate::backend::unbroken::Unbroken;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::storage::{StorageWriter, WriteMode, WriteOutcome};
use crate::transport::Call;

/// The size of every block but the last; what is no larger altogether goes up in one request.
const BLOCK: usize = 8 << 20;
/// Blocks of one write that are sent at the same time. Besides them a write holds one that is not full yet: 40 MiB
/// altogether.
const BLOCKS_AT_ONCE: usize = 4;
/// A longer body that may replace goes up in blocks too, all of them full that go at the same time.
pub(super) const LONG_BODY: usize = BLOCKS_AT_ONCE * BLOCK;
/// Blocks that one blob can have.
const MAX_BLOCKS: u32 = 50_000;

/// Starts a write. Sends nothing yet.
pub(super) fn open(inner: &Arc<Inner>, call: Call, key: String, mode: WriteMode) -> Result<Box<dyn StorageWriter>> {
    Guard::check(call.guard.as_ref()).map_err(|e| call.named(e))?;
    let named = call.clone();
    Ok(Box::new(Unbroken::new(InBlocks::new(inner, call, key, mode), named)))
}

/// Writes a long body, which may replace, in blocks.
pub(super) async fn write_long(inner: &Arc<Inner>, call: Call, key: String, bytes: Bytes) -> Result<WriteOutcome> {
    let mut writer = Box::new(InBlocks::new(inner, call, key, WriteMode::Overwrite));
    writer.write(bytes).await?;
    writer.finish().await
}

/// A write in blocks. The names of the blocks hold the write's token, so that writes to one name never
/// mix; blocks that are not published are forgotten by the service after a week, or when a write to
/// their name ends.
struct InBlocks {
    inner: Arc<Inner>,
    call: Call,
    key: String,
    mode: WriteMode,
    token: String,
    /// Bytes that are not sent yet, at most one block.
    buffer: BytesMut,
    /// The blocks that are on their way; they end with this.
    sending: JoinSet<Result<()>>,
    /// Blocks that are there or on their way.
    blocks: u32,
    written: u64,
}

impl InBlocks {
    fn new(inner: &Arc<Inner>, call: Call, key: String, mode: WriteMode) -> Self {
        Self {
            inner: Arc::clone(inner),
            call,
            key,
            mode,
            token: fresh_token(),
            buffer: BytesMut::new(),
            sending: JoinSet::new(),
            blocks: 0,
            written: 0,
        }
    }

    /// The name of a block: all are equally long, as the service wants it.
    fn block_id(&self, number: u32) -> String {
        BASE64_STANDARD.encode(format!("{}{number:08}", self.token))
    }

    /// Begins to send a block. Waits while as many as may be are on their way.
    async fn send_block(&mut self, bytes: Bytes) -> Result<()> {
        if self.blocks == MAX_BLOCKS {
            let message = format!("the object is too large: most={}", MAX_BLOCKS as u64 * BLOCK as u64);
            return Err(self.call.named(Error::unsupported(message).with_hint("write it in several objects")));
        }
        // One that failed ends the write as soon as that is known.
        while let Some(sent) = self.sending.try_join_next() {
            self.sent(sent)?;
        }
        if self.sending.len() == BLOCKS_AT_ONCE {
            self.wait_for_block().await?;
        }
        let id = self.block_id(self.blocks);
        let request = self.inner.wire.blob(Method::PUT, &self.key, &[("comp", "block"), ("blockid", &id)], bytes);
        let (inner, call) = (Arc::clone(&self.inner), self.call.clone());
        self.sending.spawn(async move { inner.transport.send(&call, &request).await.map(drop).map_err(|f| f.error) });
        self.blocks += 1;
        Ok(())
    }

    /// Waits for one block. False when none is on its way.
    async fn wait_for_block(&mut self) -> Result<bool> {
        match self.sending.join_next().await {
            Some(sent) => self.sent(sent).map(|()| true),
            None => Ok(false),
        }
    }

    fn sent(&self, sent: Result<Result<()>, JoinError>) -> Result<()> {
        sent.unwrap_or_else(|e| Err(self.call.named(Error::new(ErrorKind::Io, "a block was not sent").with_source(e))))
    }

    /// Publishes the blocks. They are named as the latest of their name, so that the same request, sent
    /// again after a lost answer, does the same again.
    async fn publish(&self) -> Result<WriteOutcome> {
        let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        for number in 0..self.blocks {
            // Writing to a string cannot fail.
            let _ = write!(body, "<Latest>{}</Latest>", self.block_id(number));
        }
        body.push_str("</BlockList>");
        let mut request = self.inner.wire.blob(Method::PUT, &self.key, &[("comp", "blocklist")], Bytes::from(body));
        request.headers.insert("x-ms-blob-content-type", HeaderValue::from_static("application/octet-stream"));
        mark(&mut request.headers, &self.token, self.mode).map_err(|e| self.call.named(e))?;
        match self.inner.transport.send(&self.call, &request).await {
            Ok(answer) => Ok(WriteOutcome::Done(object_meta(&answer.headers, self.written))),
            Err(failure) => {
                let mark = Mark { token: &self.token, size: self.written };
                decide(&self.inner, &self.call, &self.key, mark, self.mode, failure).await
            }
        }
    }
}

#[async_trait]
impl StorageWriter for InBlocks {
    async fn write(&mut self, mut bytes: Bytes) -> Result<()> {
        // Blocks that are on their way look at it too, but nobody waits for them here.
        Guard::check(self.call.guard.as_ref()).map_err(|e| self.call.named(e))?;
        while !bytes.is_empty() {
            if self.buffer.len() == BLOCK {
                let block = self.buffer.split().freeze();
                self.send_block(block).await?;
            }
            // Whole blocks go on as they are, unless they may be the last; what is shorter is put together.
            if self.buffer.is_empty() && bytes.len() > BLOCK {
                let block = bytes.split_to(BLOCK);
                self.send_block(block).await?;
                self.written += BLOCK as u64;
                continue;
            }
            let piece = bytes.split_to(bytes.len().min(BLOCK - self.buffer.len()));
            self.buffer.extend_from_slice(&piece);
            self.written += piece.len() as u64;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<WriteOutcome> {
        let rest = self.buffer.split().freeze();
        if self.blocks == 0 {
            return Box::pin(put(&self.inner, &self.call, &self.key, rest, self.mode)).await;
        }
        if !rest.is_empty() {
            self.send_block(rest).await?;
        }
        while self.wait_for_block().await? {}
        Box::pin(self.publish()).await
    }

    /// Nothing is to be removed: see [`InBlocks`].
    async fn abort(mut self: Box<Self>) -> Result<()> {
        self.sending.shutdown().await;
        Ok(())
    }
}

impl fmt::Debug for InBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InBlocks").field("url", &self.call.url).field("bytes", &self.written).finish_non_exhaustive()
    }
}
