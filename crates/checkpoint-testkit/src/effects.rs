//! A storage that numbers its effects and calls a hook before and after each: the place to kill a process
//! at an exact point.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta,
    ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageExt, StorageRef,
    StorageWriter, WriteOptions, WriteOutcome,
};
use futures::stream::BoxStream;

use crate::Operation;

/// On which side of an effect a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// The call has not been passed on.
    Before,
    /// The call has returned, in success or failure.
    After,
}

/// One side of one effect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectPoint {
    /// The number of the effect, from 0, over all storages that share the hook; the same on both sides.
    pub index: u64,
    /// What changes the store: a write, a writer's finish, a copy, a rename, a delete, a directory made.
    /// Each key of `delete_many` is a `Delete` of its own.
    pub operation: Operation,
    /// What is changed: the target of copies and renames.
    pub path: ObjectPath,
    /// The same with the storage that it is in: its whole URL.
    pub url: String,
    /// Before or after.
    pub when: When,
}

/// A hook and the counter that numbers the effects. Clones share both.
#[derive(Clone)]
pub struct Effects {
    hook: Arc<dyn Fn(&EffectPoint) + Send + Sync>,
    next: Arc<AtomicU64>,
}

impl Effects {
    /// Calls `hook` on both sides of every effect, on the thread that polls the call. It may end the
    /// process, or block it.
    pub fn new(hook: impl Fn(&EffectPoint) + Send + Sync + 'static) -> Self {
        Self { hook: Arc::new(hook), next: Arc::new(AtomicU64::new(0)) }
    }

    /// How many effects have begun.
    pub fn count(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    async fn around<T>(
        &self,
        operation: Operation,
        path: &ObjectPath,
        url: String,
        call: impl Future<Output = T>,
    ) -> T {
        let index = self.next.fetch_add(1, Ordering::SeqCst);
        let mut point = EffectPoint { index, operation, path: path.clone(), url, when: When::Before };
        (self.hook)(&point);
        let answer = call.await;
        point.when = When::After;
        (self.hook)(&point);
        answer
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Effects({})", self.count())
    }
}

/// Calls the hook around every effect on the storage inside. Reads, listings and the parts of a streamed
/// write change nothing that can be seen, and pass without.
#[derive(Debug)]
pub struct EffectStorage {
    inner: StorageRef,
    effects: Effects,
}

impl EffectStorage {
    /// Wraps a storage.
    pub fn new(inner: StorageRef, effects: Effects) -> Self {
        Self { inner, effects }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for EffectStorage {
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
        self.effects
            .around(Operation::Write, path, self.inner.url_of(path), self.inner.write(path, bytes, options))
            .await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        let inner = self.inner.writer(path, options).await?;
        let (path, url) = (path.clone(), self.inner.url_of(path));
        Ok(Box::new(EffectWriter { inner, path, url, effects: self.effects.clone() }))
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.inner.stat(path, options).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        self.inner.list(prefix, options)
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        self.effects.around(Operation::Copy, to, self.inner.url_of(to), self.inner.copy(from, to, options)).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.effects.around(Operation::Delete, path, self.inner.url_of(path), self.inner.delete(path, options)).await
    }

    /// Passed on key by key, so that a batch can be cut at any place.
    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        let mut failures = Vec::new();
        for path in paths {
            let call = self.inner.delete_many(vec![path.clone()], options.clone());
            failures.extend(self.effects.around(Operation::Delete, &path, self.inner.url_of(&path), call).await?);
        }
        Ok(failures)
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.effects
            .around(Operation::CreateDir, path, self.inner.url_of(path), self.inner.create_dir(path, options))
            .await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        self.effects.around(Operation::Rename, to, self.inner.url_of(to), self.inner.rename(from, to, options)).await
    }
}

#[derive(Debug)]
struct EffectWriter {
    inner: Box<dyn StorageWriter>,
    path: ObjectPath,
    url: String,
    effects: Effects,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl StorageWriter for EffectWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        let Self { inner, path, url, effects } = *self;
        effects.around(Operation::WriterFinish, &path, url, inner.finish()).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use checkpoint_fs::MemoryStorage;

    use super::*;

    #[tokio::test]
    async fn every_effect_is_numbered_and_seen_from_both_sides() {
        let memory: StorageRef = Arc::new(MemoryStorage::new("memory://effects"));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let effects = Effects::new({
            let seen = Arc::clone(&seen);
            move |point: &EffectPoint| {
                let EffectPoint { index, operation, path, when, url } = point;
                assert_eq!(*url, format!("memory://effects/{path}"));
                seen.lock().expect("no panic").push(format!("{index} {when:?} {operation} {path}"));
            }
        });
        let storage = EffectStorage::new(Arc::clone(&memory), effects.clone());
        let path = |text: &str| ObjectPath::parse(text).expect("valid");
        let _ = storage.write(&path("a"), "1".into(), WriteOptions::new()).await.expect("writes");
        let mut writer = storage.writer(&path("b"), WriteOptions::new()).await.expect("starts");
        writer.write("1".into()).await.expect("writes");
        let _ = writer.finish().await.expect("publishes");
        let _ = storage.rename(&path("none"), &path("c"), RenameOptions::new()).await.expect_err("missing");
        storage.read(&path("a"), ReadOptions::new()).await.expect("reads");
        storage.delete_many(vec![path("a"), path("b")], DeleteOptions::new()).await.expect("deletes");
        let expected: Vec<String> = ["write a", "writer_finish b", "rename c", "delete a", "delete b"]
            .iter()
            .enumerate()
            .flat_map(|(i, what)| [format!("{i} Before {what}"), format!("{i} After {what}")])
            .collect();
        assert_eq!(*seen.lock().expect("no panic"), expected);
        assert_eq!(effects.count(), 5);
        assert!(memory.list_files(&ObjectPath::root(), true).await.expect("lists").is_empty());
    }

    #[tokio::test]
    async fn the_hook_stands_before_and_after_the_effect() {
        let memory: StorageRef = Arc::new(MemoryStorage::new("memory://effects"));
        let there: Arc<Mutex<Vec<bool>>> = Arc::default();
        let effects = Effects::new({
            let (memory, there) = (Arc::clone(&memory), Arc::clone(&there));
            move |point: &EffectPoint| {
                let stat = futures::executor::block_on(memory.stat_optional(&point.path)).expect("stat");
                there.lock().expect("no panic").push(stat.is_some());
            }
        });
        let storage = EffectStorage::new(memory, effects);
        let path = ObjectPath::parse("a").expect("valid");
        let _ = storage.write(&path, "1".into(), WriteOptions::new()).await.expect("writes");
        storage.delete_many(vec![path], DeleteOptions::new()).await.expect("deletes");
        assert_eq!(*there.lock().expect("no panic"), [false, true, true, false]);
    }
}
