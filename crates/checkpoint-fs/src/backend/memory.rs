//! Objects in memory, shared by all storages of one process that name the same authority.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};

use crate::capability::Capabilities;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::location::Location;
use crate::path::ObjectPath;
use crate::registry::{OpenContext, Scheme};
use crate::storage::{
    CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta, ReadOptions,
    ReadResult, RenameOptions, StatOptions, Storage, StorageRef, StorageWriter, WriteMode, WriteOptions, WriteOutcome,
};

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    meta: ObjectMeta,
}

type Objects = Arc<Mutex<BTreeMap<ObjectPath, Object>>>;

/// Opens `memory://name/path`.
#[derive(Debug)]
pub(crate) struct MemoryScheme;

#[async_trait]
impl Scheme for MemoryScheme {
    fn names(&self) -> &'static [&'static str] {
        &["memory"]
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        context.options.kwargs(&["memory"]).finish()
    }

    async fn open(&self, location: &Location, _context: &OpenContext) -> Result<StorageRef> {
        static SHARED: OnceLock<Mutex<HashMap<String, Objects>>> = OnceLock::new();
        let mut shared = lock(SHARED.get_or_init(Mutex::default));
        let objects = Arc::clone(shared.entry(location.authority().to_owned()).or_default());
        Ok(Arc::new(MemoryStorage {
            objects,
            root: location.path().clone(),
            ..MemoryStorage::new(&location.to_string())
        }))
    }
}

/// A storage in memory: every capability, no durability. The reference for what the trait means.
#[derive(Debug)]
pub struct MemoryStorage {
    objects: Objects,
    root: ObjectPath,
    url: String,
    capabilities: Capabilities,
}

impl MemoryStorage {
    /// A storage of its own, shared with nobody, that calls itself `url`.
    pub fn new(url: &str) -> Self {
        Self {
            objects: Objects::default(),
            root: ObjectPath::root(),
            url: url.to_owned(),
            capabilities: Capabilities {
                atomic_rename: true,
                write_if_absent: true,
                copy_if_absent: true,
                consistent_list: true,
                ordered_list: true,
                max_delete_batch: 1000,
                max_path: usize::MAX,
                max_segment: usize::MAX,
                directories: false,
                durable: false,
                versioning: None,
            },
        }
    }

    /// The same objects with capabilities taken away, to test callers against weaker stores.
    #[must_use]
    pub fn with_capabilities(&self, capabilities: Capabilities) -> Self {
        Self { objects: Arc::clone(&self.objects), root: self.root.clone(), url: self.url.clone(), capabilities }
    }

    fn at(&self, path: &ObjectPath) -> ObjectPath {
        self.root.join_path(path)
    }

    fn error(&self, kind: ErrorKind, operation: &'static str, path: &ObjectPath, message: &str) -> Error {
        Error::new(kind, message).with_operation(operation).with_url(format!("{}/{path}", self.url))
    }

    fn missing(&self, operation: &'static str, path: &ObjectPath) -> Error {
        self.error(ErrorKind::NotFound, operation, path, "no such object")
    }

    fn put(&self, path: &ObjectPath, bytes: Bytes, mode: WriteMode) -> Result<WriteOutcome> {
        if path.is_root() {
            return Err(self.error(ErrorKind::InvalidConfig, "write", path, "the root is not an object"));
        }
        if mode == WriteMode::IfAbsent && !self.capabilities.write_if_absent {
            return Err(self.error(ErrorKind::Unsupported, "write", path, "this store has no create-only write"));
        }
        let mut objects = lock(&self.objects);
        let key = self.at(path);
        if mode == WriteMode::IfAbsent && objects.contains_key(&key) {
            return Ok(WriteOutcome::AlreadyExists);
        }
        let meta = new_meta(bytes.len());
        objects.insert(key, Object { bytes, meta: meta.clone() });
        Ok(WriteOutcome::Done(meta))
    }
}

#[expect(clippy::disallowed_methods, reason = "this store's own clock")]
fn new_meta(len: usize) -> ObjectMeta {
    static VERSION: AtomicU64 = AtomicU64::new(1);
    ObjectMeta::new(len as u64)
        .with_etag(Some(format!("m{}", VERSION.fetch_add(1, Ordering::Relaxed))))
        .with_last_modified(Some(std::time::SystemTime::now()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for MemoryStorage {
    fn url(&self) -> &str {
        &self.url
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        Guard::check(options.guard.as_ref())?;
        let objects = lock(&self.objects);
        let object = objects.get(&self.at(path)).ok_or_else(|| self.missing("read", path))?;
        let len = object.bytes.len() as u64;
        let range = options
            .whole_or_range(len)
            .map_err(|e| e.with_operation("read").with_url(format!("{}/{path}", self.url)))?;
        let start = range.start.min(len);
        let range = start..range.end.min(len).max(start);
        Ok(ReadResult {
            bytes: object.bytes.slice(range.start as usize..range.end as usize),
            meta: object.meta.clone(),
        })
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        Guard::check(options.guard.as_ref())?;
        self.put(path, bytes, options.mode)
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        Guard::check(options.guard.as_ref())?;
        let storage = Self {
            objects: Arc::clone(&self.objects),
            root: self.root.clone(),
            url: self.url.clone(),
            capabilities: self.capabilities.clone(),
        };
        Ok(Box::new(MemoryWriter { storage, path: path.clone(), options, buffer: BytesMut::new() }))
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        Guard::check(options.guard.as_ref())?;
        let objects = lock(&self.objects);
        objects.get(&self.at(path)).map(|o| o.meta.clone()).ok_or_else(|| self.missing("stat", path))
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        if let Err(error) = Guard::check(options.guard.as_ref()) {
            return stream::once(async { Err(error) }).boxed();
        }
        let dir = self.at(prefix);
        let mut entries: Vec<Entry> = Vec::new();
        for (key, object) in lock(&self.objects).iter() {
            let (Some(below), Some(path)) = (key.strip_prefix(&dir), key.strip_prefix(&self.root)) else { continue };
            if below.is_root() {
                continue;
            }
            let entry = match (options.recursive, below.as_str().split_once('/')) {
                (false, Some((first, _))) => match prefix.join(first) {
                    Ok(path) => Entry::Dir { path },
                    Err(error) => return stream::once(async { Err(error) }).boxed(),
                },
                _ => Entry::File { path, meta: object.meta.clone() },
            };
            if options.start_after.as_ref().is_none_or(|after| entry.path() > after) && entries.last() != Some(&entry) {
                entries.push(entry);
            }
        }
        stream::iter(entries.into_iter().map(Ok)).boxed()
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        Guard::check(options.guard.as_ref())?;
        if options.mode == WriteMode::IfAbsent && !self.capabilities.copy_if_absent {
            return Err(self.error(ErrorKind::Unsupported, "copy", from, "this store has no create-only copy"));
        }
        let source = self.read(from, ReadOptions::new()).await.map_err(|e| e.with_operation("copy"))?;
        self.put(to, source.bytes, options.mode)
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        Guard::check(options.guard.as_ref())?;
        lock(&self.objects).remove(&self.at(path));
        Ok(())
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        Guard::check(options.guard.as_ref())?;
        let mut objects = lock(&self.objects);
        for path in paths {
            objects.remove(&self.at(&path));
        }
        Ok(Vec::new())
    }

    async fn create_dir(&self, _path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        Guard::check(options.guard.as_ref()).map(|_| ())
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        Guard::check(options.guard.as_ref())?;
        if !self.capabilities.atomic_rename {
            return Err(self.error(ErrorKind::Unsupported, "rename", from, "this store has no atomic rename"));
        }
        if to.is_root() {
            return Err(self.error(ErrorKind::InvalidConfig, "rename", to, "the root is not an object"));
        }
        let mut objects = lock(&self.objects);
        let (from_key, to_key) = (self.at(from), self.at(to));
        if !objects.contains_key(&from_key) {
            return Err(self.missing("rename", from));
        }
        if options.mode == WriteMode::IfAbsent && objects.contains_key(&to_key) {
            return Ok(WriteOutcome::AlreadyExists);
        }
        let object = objects.remove(&from_key).ok_or_else(|| self.missing("rename", from))?;
        let meta = object.meta.clone();
        objects.insert(to_key, object);
        Ok(WriteOutcome::Done(meta))
    }
}

#[derive(Debug)]
struct MemoryWriter {
    storage: MemoryStorage,
    path: ObjectPath,
    options: WriteOptions,
    buffer: BytesMut,
}

#[async_trait]
impl StorageWriter for MemoryWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.buffer.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        Guard::check(self.options.guard.as_ref())?;
        self.storage.put(&self.path, self.buffer.freeze(), self.options.mode)
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
