//! Streamed writes: blocks of equal size, published by one conditional request that names them all.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http::Method;
use http::header::HeaderValue;

use super::storage::Inner;
use super::write::{decide, mark, put};
use crate::backend::headers::object_meta;
use crate::backend::settle::{Mark, fresh_token};
use crate::backend::unbroken::Unbroken;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::storage::{StorageWriter, WriteMode, WriteOutcome};
use crate::transport::Call;

/// The size of every block but the last; what is no larger altogether goes up in one request.
const BLOCK: usize = 8 << 20;
/// Blocks that one blob can have.
const MAX_BLOCKS: u32 = 50_000;

/// Starts a write. Sends nothing yet.
pub(super) fn open(inner: &Arc<Inner>, call: Call, key: String, mode: WriteMode) -> Result<Box<dyn StorageWriter>> {
    Guard::check(call.guard.as_ref()).map_err(|e| call.named(e))?;
    let writer = InBlocks {
        inner: Arc::clone(inner),
        call: call.clone(),
        key,
        mode,
        token: fresh_token(),
        buffer: BytesMut::new(),
        blocks: 0,
        written: 0,
    };
    Ok(Box::new(Unbroken::new(writer, call)))
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
    buffer: BytesMut,
    /// Blocks that are there.
    blocks: u32,
    written: u64,
}

impl InBlocks {
    /// The name of a block: all are equally long, as the service wants it.
    fn block_id(&self, number: u32) -> String {
        BASE64_STANDARD.encode(format!("{}{number:08}", self.token))
    }

    async fn send_block(&mut self) -> Result<()> {
        if self.blocks == MAX_BLOCKS {
            let message = format!("the object is too large: most={}", MAX_BLOCKS as u64 * BLOCK as u64);
            return Err(self.call.named(Error::unsupported(message).with_hint("write it in several objects")));
        }
        let id = self.block_id(self.blocks);
        let bytes = self.buffer.split().freeze();
        let request = self.inner.wire.blob(Method::PUT, &self.key, &[("comp", "block"), ("blockid", &id)], bytes);
        Box::pin(self.inner.transport.send(&self.call, &request)).await.map_err(|f| f.error)?;
        self.blocks += 1;
        Ok(())
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
        while !bytes.is_empty() {
            if self.buffer.len() == BLOCK {
                Box::pin(self.send_block()).await?;
            }
            let piece = bytes.split_to(bytes.len().min(BLOCK - self.buffer.len()));
            self.buffer.extend_from_slice(&piece);
            self.written += piece.len() as u64;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<WriteOutcome> {
        if self.blocks == 0 {
            let bytes = self.buffer.split().freeze();
            return Box::pin(put(&self.inner, &self.call, &self.key, bytes, self.mode)).await;
        }
        if !self.buffer.is_empty() {
            Box::pin(self.send_block()).await?;
        }
        Box::pin(self.publish()).await
    }

    /// Nothing is to be removed: see [`InBlocks`].
    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for InBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InBlocks").field("url", &self.call.url).field("bytes", &self.written).finish_non_exhaustive()
    }
}
