//! A storage on which a task commits between two looks at its records.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta,
    ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageRef, StorageWriter,
    WriteOptions, WriteOutcome,
};
use futures::stream::{BoxStream, StreamExt};

/// A task that commits meanwhile.
#[derive(Debug)]
pub(crate) struct AppearingStorage {
    inner: StorageRef,
    pending: ObjectPath,
    committed: ObjectPath,
    is_moved: AtomicBool,
}

impl AppearingStorage {
    /// The record of a task that is pending by now, and not when the records were listed.
    pub(crate) fn new(inner: &StorageRef, task: &str) -> Self {
        let path = |ending: &str| ObjectPath::parse(format!("{task}{ending}")).expect("a path");
        let (pending, committed) = (path(".pending.parquet"), path(".parquet"));
        Self { inner: inner.clone(), pending, committed, is_moved: AtomicBool::new(false) }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for AppearingStorage {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        self.inner.read(path, options).await
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        self.inner.write(path, bytes, options).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        self.inner.writer(path, options).await
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        let found = self.inner.stat(path, options).await;
        if [&self.pending, &self.committed].contains(&path) && !self.is_moved.swap(true, Ordering::SeqCst) {
            let record = self.inner.read(&self.pending, ReadOptions::new()).await?;
            self.inner.write(&self.committed, record.bytes, WriteOptions::new()).await?.into_result(self.url())?;
            self.inner.delete(&self.pending, DeleteOptions::new()).await?;
        }
        found
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        let pending = self.pending.clone();
        let is_shown = move |entry: &Result<Entry>| {
            let shown = !matches!(entry, Ok(Entry::File { path, .. }) if *path == pending);
            std::future::ready(shown)
        };
        self.inner.list(prefix, options).filter(is_shown).boxed()
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        self.inner.copy(from, to, options).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.inner.delete(path, options).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        self.inner.delete_many(paths, options).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.inner.create_dir(path, options).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        self.inner.rename(from, to, options).await
    }
}
