//! A storage whose every effect asks the lease first.

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, Guard, ListOptions, ObjectMeta,
    ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageRef, StorageWriter,
    WriteOptions, WriteOutcome,
};
use futures::stream::BoxStream;

/// Puts a guard on every write, copy, delete and rename; reads pass through.
#[derive(Debug)]
pub(crate) struct FencedStorage {
    inner: StorageRef,
    guard: Guard,
}

impl FencedStorage {
    pub(crate) fn new(inner: StorageRef, guard: Guard) -> Self {
        Self { inner, guard }
    }

    fn guard(&self) -> Option<Guard> {
        Some(self.guard.clone())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for FencedStorage {
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
        self.inner.write(path, bytes, options.guard(self.guard())).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        self.inner.writer(path, options.guard(self.guard())).await
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.inner.stat(path, options).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        self.inner.list(prefix, options)
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        self.inner.copy(from, to, options.guard(self.guard())).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.inner.delete(path, options.guard(self.guard())).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        self.inner.delete_many(paths, options.guard(self.guard())).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.inner.create_dir(path, options.guard(self.guard())).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        self.inner.rename(from, to, options.guard(self.guard())).await
    }
}
