//! A storage that counts what is asked of it: calls, bytes and items by operation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta,
    ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageRef, StorageWriter,
    WriteOptions, WriteOutcome,
};
use futures::stream::{BoxStream, StreamExt};

use crate::Operation;

/// What one operation was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Count {
    /// Calls, failed ones too.
    pub calls: u64,
    /// Bytes that reads returned, or that writes were given.
    pub bytes: u64,
    /// Entries that listings returned, or keys that `delete_many` was given.
    pub items: u64,
}

/// The counts at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts(BTreeMap<Operation, Count>);

impl Counts {
    /// The count of one operation.
    pub fn of(&self, operation: Operation) -> Count {
        self.0.get(&operation).copied().unwrap_or_default()
    }

    /// Calls of one operation.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.of(operation).calls
    }

    /// Calls of all operations.
    pub fn total_calls(&self) -> u64 {
        self.0.values().map(|c| c.calls).sum()
    }

    /// Bytes that reads returned.
    pub fn bytes_read(&self) -> u64 {
        self.of(Operation::Read).bytes
    }

    /// Bytes that writes and writers were given.
    pub fn bytes_written(&self) -> u64 {
        self.of(Operation::Write).bytes + self.of(Operation::WriterWrite).bytes
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (operation, Count { calls, bytes, items }) in &self.0 {
            writeln!(f, "{operation:<13} calls={calls} bytes={bytes} items={items}")?;
        }
        Ok(())
    }
}

/// Counters that any number of storages add to. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Counters(Arc<Mutex<Counts>>);

impl Counters {
    /// Counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The counts now.
    pub fn snapshot(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets all to zero, and gives what they were.
    pub fn reset(&self) -> Counts {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, operation: Operation, calls: u64, bytes: usize, items: usize) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.0.entry(operation).or_default();
        count.calls += calls;
        count.bytes += bytes as u64;
        count.items += items as u64;
    }
}

/// Counts every call to the storage inside.
#[derive(Debug)]
pub struct CountingStorage {
    inner: StorageRef,
    counters: Counters,
}

impl CountingStorage {
    /// Counts calls to `inner` in `counters`.
    pub fn new(inner: StorageRef, counters: Counters) -> Self {
        Self { inner, counters }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for CountingStorage {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        self.counters.add(Operation::Read, 1, 0, 0);
        let read = self.inner.read(path, options).await?;
        self.counters.add(Operation::Read, 0, read.bytes.len(), 0);
        Ok(read)
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        self.counters.add(Operation::Write, 1, bytes.len(), 0);
        self.inner.write(path, bytes, options).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        self.counters.add(Operation::Writer, 1, 0, 0);
        let inner = self.inner.writer(path, options).await?;
        Ok(Box::new(CountingWriter { inner, counters: self.counters.clone() }))
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.counters.add(Operation::Stat, 1, 0, 0);
        self.inner.stat(path, options).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        self.counters.add(Operation::List, 1, 0, 0);
        let counters = self.counters.clone();
        let count = move |entry: &Result<Entry>| counters.add(Operation::List, 0, 0, usize::from(entry.is_ok()));
        self.inner.list(prefix, options).inspect(count).boxed()
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        self.counters.add(Operation::Copy, 1, 0, 0);
        self.inner.copy(from, to, options).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.counters.add(Operation::Delete, 1, 0, 0);
        self.inner.delete(path, options).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        self.counters.add(Operation::DeleteMany, 1, 0, paths.len());
        self.inner.delete_many(paths, options).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.counters.add(Operation::CreateDir, 1, 0, 0);
        self.inner.create_dir(path, options).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        self.counters.add(Operation::Rename, 1, 0, 0);
        self.inner.rename(from, to, options).await
    }
}

#[derive(Debug)]
struct CountingWriter {
    inner: Box<dyn StorageWriter>,
    counters: Counters,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl StorageWriter for CountingWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.counters.add(Operation::WriterWrite, 1, bytes.len(), 0);
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        self.counters.add(Operation::WriterFinish, 1, 0, 0);
        self.inner.finish().await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.counters.add(Operation::WriterAbort, 1, 0, 0);
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use checkpoint_fs::{MemoryStorage, StorageExt};

    use super::*;

    #[tokio::test]
    async fn counts_calls_bytes_and_items_and_starts_anew() {
        let counters = Counters::new();
        let storage = CountingStorage::new(Arc::new(MemoryStorage::new("memory://counting")), counters.clone());
        let path = |text: &str| ObjectPath::parse(text).expect("valid");
        let _ = storage.write(&path("a"), "12345".into(), WriteOptions::new()).await.expect("writes");
        let mut writer = storage.writer(&path("b"), WriteOptions::new()).await.expect("starts");
        writer.write("123".into()).await.expect("writes");
        let _ = writer.finish().await.expect("publishes");
        storage.read(&path("a"), ReadOptions::new().range(Some(1..3))).await.expect("reads");
        storage.read(&path("none"), ReadOptions::new()).await.expect_err("missing");
        storage.list_files(&ObjectPath::root(), true).await.expect("lists");
        storage.delete_many(vec![path("a"), path("b"), path("c")], DeleteOptions::new()).await.expect("deletes");
        let counts = counters.snapshot();
        assert_eq!((counts.bytes_written(), counts.bytes_read()), (8, 2));
        assert_eq!(counts.of(Operation::Read), Count { calls: 2, bytes: 2, items: 0 });
        assert_eq!(counts.of(Operation::List), Count { calls: 1, bytes: 0, items: 2 });
        assert_eq!(counts.of(Operation::DeleteMany), Count { calls: 1, bytes: 0, items: 3 });
        assert_eq!((counts.calls(Operation::WriterFinish), counts.calls(Operation::Stat)), (1, 0));
        assert_eq!(counts.total_calls(), 8);
        assert_eq!(counters.reset(), counts);
        assert_eq!(counters.snapshot(), Counts::default());
    }
}
