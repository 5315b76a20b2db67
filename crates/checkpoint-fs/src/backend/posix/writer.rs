//! Streamed writes: a temporary file that grows, and gets its name at the end.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::Inner;
use super::fault::Fault;
use super::publish::Staged;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::{StorageWriter, WriteOptions, WriteOutcome};

/// Dropping it removes the temporary file; so does a failed or abandoned `write`.
#[derive(Debug)]
pub(super) struct PosixWriter {
    inner: Arc<Inner>,
    path: ObjectPath,
    options: WriteOptions,
    /// Away while a thread works on it; gone for good once that failed.
    staged: Option<Staged>,
}

impl PosixWriter {
    pub(super) fn new(inner: Arc<Inner>, path: ObjectPath, staged: Staged, options: WriteOptions) -> Self {
        Self { inner, path, options, staged: Some(staged) }
    }

    fn take(&mut self) -> Result<Staged> {
        self.staged.take().ok_or_else(|| {
            Error::new(ErrorKind::Io, "an earlier part of this write failed or was abandoned")
                .with_operation("write")
                .with_url(self.inner.url_of(&self.path))
        })
    }

    fn error(&self, fault: Fault) -> Error {
        fault.into_error("write", self.inner.url_of(&self.path))
    }

    /// Runs blocking work with the temporary file.
    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(Staged) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        let staged = self.take()?;
        match tokio::task::spawn_blocking(move || work(staged)).await {
            Ok(done) => done.map_err(|fault| self.error(fault)),
            Err(lost) => Err(Error::new(ErrorKind::Io, "the work was broken off")
                .with_operation("write")
                .with_url(self.inner.url_of(&self.path))
                .with_source(lost)),
        }
    }
}

#[async_trait]
impl StorageWriter for PosixWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let guard = self.options.guard.clone();
        let work = move |mut staged: Staged| {
            Guard::check(guard.as_ref())?;
            staged.write(&bytes)?;
            Ok(staged)
        };
        self.staged = Some(self.run(work).await?);
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<WriteOutcome> {
        let (inner, path, options) = (Arc::clone(&self.inner), self.path.clone(), self.options.clone());
        let work = move |staged: Staged| {
            Guard::check(options.guard.as_ref())?;
            let outcome =
                inner.publish(staged, path.name(), options.mode, !options.unsettled, options.guard.as_ref())?;
            Ok(inner.outcome("write", &path, outcome))
        };
        self.run(work).await
    }

    async fn abort(mut self: Box<Self>) -> Result<()> {
        if self.staged.is_none() {
            return Ok(());
        }
        self.run(|staged| Ok(staged.discard()?)).await
    }
}
