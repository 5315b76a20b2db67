//! A storage whose process dies at one effect: before it or after it, and does nothing more from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, Error, ErrorKind, ListOptions,
    ObjectMeta, ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageRef,
    StorageWriter, WriteOptions, WriteOutcome,
};
use futures::stream::{self, BoxStream, StreamExt};

/// Where a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before the effect of this number, from 0.
    Before(u64),
    /// After it: it happened, and nobody heard of it.
    After(u64),
}

/// The death of a process, shared by its storages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crash(Arc<State>);

#[derive(Debug, Default)]
struct State {
    point: Option<Point>,
    effects: AtomicU64,
    dead: AtomicBool,
}

impl Crash {
    /// No death: counts effects.
    pub(crate) fn never() -> Self {
        Self::default()
    }

    pub(crate) fn at(point: Point) -> Self {
        Self(Arc::new(State { point: Some(point), ..State::default() }))
    }

    /// Effects that were begun.
    pub(crate) fn effects(&self) -> u64 {
        self.0.effects.load(Ordering::SeqCst)
    }

    pub(crate) fn happened(&self) -> bool {
        self.0.dead.load(Ordering::SeqCst)
    }

    /// Puts a storage into the process.
    pub(crate) fn wrap(&self, inner: &StorageRef) -> StorageRef {
        Arc::new(CrashStorage { inner: inner.clone(), crash: self.clone() })
    }

    fn alive(&self) -> Result<()> {
        if self.happened() { Err(Error::new(ErrorKind::Io, "the process is dead")) } else { Ok(()) }
    }

    async fn effect<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.alive()?;
        let number = self.0.effects.fetch_add(1, Ordering::SeqCst);
        let die = |point| {
            if self.0.point == Some(point) {
                self.0.dead.store(true, Ordering::SeqCst);
            }
            self.alive()
        };
        die(Point::Before(number))?;
        let answer = call.await;
        die(Point::After(number))?;
        answer
    }
}

#[derive(Debug)]
struct CrashStorage {
    inner: StorageRef,
    crash: Crash,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for CrashStorage {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        self.crash.alive()?;
        self.inner.read(path, options).await
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        self.crash.effect(self.inner.write(path, bytes, options)).await
    }

    async fn writer(&self, _path: &ObjectPath, _options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        Err(Error::new(ErrorKind::Unsupported, "no streamed writes here"))
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.crash.alive()?;
        self.inner.stat(path, options).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        match self.crash.alive() {
            Ok(()) => self.inner.list(prefix, options),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        self.crash.effect(self.inner.copy(from, to, options)).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.crash.effect(self.inner.delete(path, options)).await
    }

    /// Key by key, so that a batch is cut at any place.
    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        for path in paths {
            self.delete(&path, options.clone()).await?;
        }
        Ok(Vec::new())
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.crash.effect(self.inner.create_dir(path, options)).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        self.crash.effect(self.inner.rename(from, to, options)).await
    }
}
