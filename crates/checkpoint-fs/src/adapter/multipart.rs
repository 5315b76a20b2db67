//! An upload in parts over a writer that takes bytes in order.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result as StoreResult, UploadPart};
use tokio::sync::Mutex;

use super::{generic, put_result, store_error};
use crate::storage::StorageWriter;

/// Parts may be handed over at once and finish in any order; each is written when its turn has come, by
/// whoever holds the part before it. A part that came early waits in memory.
pub(super) struct Upload {
    location: Path,
    parts: usize,
    state: Arc<Mutex<State>>,
}

struct State {
    /// `None` once it was completed, given up, or has failed.
    writer: Option<Box<dyn StorageWriter>>,
    next: usize,
    early: BTreeMap<usize, Bytes>,
}

impl Upload {
    pub(super) fn new(writer: Box<dyn StorageWriter>, location: Path) -> Self {
        let state = State { writer: Some(writer), next: 0, early: BTreeMap::new() };
        Self { location, parts: 0, state: Arc::new(Mutex::new(state)) }
    }

    fn ended(&self) -> object_store::Error {
        generic(format!("the upload has ended: path={}", self.location))
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("location", &self.location).field("parts", &self.parts).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (index, state, location) = (self.parts, Arc::clone(&self.state), self.location.clone());
        let ended = self.ended();
        self.parts += 1;
        Box::pin(async move {
            let mut state = state.lock().await;
            let Some(mut writer) = state.writer.take() else { return Err(ended) };
            state.early.insert(index, data.into());
            let mut next = state.next;
            while let Some(bytes) = state.early.remove(&next) {
                // The writer stays out after a failure, and a write that is dropped half way is one.
                writer.write(bytes).await.map_err(|e| store_error(e, &location))?;
                next += 1;
            }
            state.next = next;
            state.writer = Some(writer);
            Ok(())
        })
    }

    async fn complete(&mut self) -> StoreResult<PutResult> {
        let mut state = self.state.lock().await;
        let writer = state.writer.take().ok_or_else(|| self.ended())?;
        if state.next != self.parts {
            let (written, parts) = (state.next, self.parts);
            state.writer = Some(writer);
            return Err(generic(format!("parts are missing: path={} written={written} parts={parts}", self.location)));
        }
        put_result(writer.finish().await, &self.location)
    }

    async fn abort(&mut self) -> StoreResult<()> {
        match self.state.lock().await.writer.take() {
            Some(writer) => writer.abort().await.map_err(|e| store_error(e, &self.location)),
            None => Ok(()),
        }
    }
}
