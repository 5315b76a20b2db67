//! The storage trait: a small object-safe core that every backend and every wrapper writes in full.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::path::ObjectPath;

/// A storage, shared.
pub type StorageRef = Arc<dyn Storage>;

/// What is known of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectMeta {
    /// Size in bytes.
    pub size: u64,
    /// The store's entity tag, quotes removed; `None` where it has none (POSIX).
    pub etag: Option<String>,
    /// When the store says it was last changed, by the store's clock.
    pub last_modified: Option<SystemTime>,
}

impl ObjectMeta {
    /// Metadata with a size alone.
    pub fn new(size: u64) -> Self {
        Self { size, etag: None, last_modified: None }
    }

    /// Sets the entity tag.
    #[must_use]
    pub fn with_etag(mut self, etag: Option<String>) -> Self {
        self.etag = etag;
        self
    }

    /// Sets the time of the last change.
    #[must_use]
    pub fn with_last_modified(mut self, time: Option<SystemTime>) -> Self {
        self.last_modified = time;
        self
    }
}

/// One row of a listing. Paths are relative to the storage's root, not to the listed prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An object with its metadata.
    File {
        /// Where it is.
        path: ObjectPath,
        /// What is known of it.
        meta: ObjectMeta,
    },
    /// A directory, or a common prefix; only in listings that are not recursive.
    Dir {
        /// Where it is.
        path: ObjectPath,
    },
}

impl Entry {
    /// Where it is.
    pub fn path(&self) -> &ObjectPath {
        match self {
            Entry::File { path, .. } | Entry::Dir { path } => path,
        }
    }
}

/// Whether a write may replace what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Create or replace, atomically: a reader sees the old object whole or the new one whole.
    #[default]
    Overwrite,
    /// Create; never replace. Of many racers exactly one wins.
    IfAbsent,
}

/// How a write that may meet an existing object ended. Unknown is never turned into one of the others.
#[derive(Debug)]
#[must_use = "a write is only done when this says so"]
pub enum WriteOutcome {
    /// This call's bytes are there, whole and durable.
    Done(ObjectMeta),
    /// Another object was there first; nothing was changed.
    AlreadyExists,
    /// The reply was lost and reading back did not settle it: the bytes may be there now, or later.
    Unknown(Error),
}

impl WriteOutcome {
    /// `Ok` when done; an error of kind `AlreadyExists`, or the unknown outcome's own, otherwise.
    ///
    /// # Errors
    /// See above.
    pub fn into_result(self, url: impl Into<String>) -> Result<ObjectMeta> {
        match self {
            WriteOutcome::Done(meta) => Ok(meta),
            WriteOutcome::AlreadyExists => {
                Err(Error::new(crate::ErrorKind::AlreadyExists, "an object is already there")
                    .with_operation("write")
                    .with_url(url))
            }
            WriteOutcome::Unknown(error) => Err(error),
        }
    }
}

macro_rules! options {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $ty,)*
            /// Asked before each attempt; see [`Guard`].
            pub guard: Option<Guard>,
        }

        impl $name {
            /// The defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, value: $ty) -> Self {
                    self.$field = value;
                    self
                }
            )*

            /// Sets the guard.
            #[must_use]
            pub fn guard(mut self, value: Option<Guard>) -> Self {
                self.guard = value;
                self
            }
        }
    };
}

options! {
    /// Options of [`Storage::read`].
    ReadOptions {
        /// The bytes wanted, half open; the whole object when `None`. A range that ends beyond the object is
        /// cut at its end; one that starts there or beyond gives no bytes.
        range: Option<Range<u64>>,
        /// The most bytes of a whole object. One that is longer is `Corrupt`, and no more than this is read of
        /// it: for files that a server or another writer may have made arbitrarily long. A range is its own limit.
        limit: Option<u64>,
    }
}

impl ReadOptions {
    /// The range, or the whole of an object of this size.
    ///
    /// # Errors
    /// `Corrupt` for a whole that is longer than the limit.
    pub fn whole_or_range(&self, size: u64) -> Result<Range<u64>> {
        match (&self.range, self.limit) {
            (Some(range), _) => Ok(range.clone()),
            (None, Some(limit)) if size > limit => Err(Error::too_long(limit)),
            (None, _) => Ok(0..size),
        }
    }
}

options! {
    /// Options of [`Storage::write`] and [`Storage::writer`].
    WriteOptions {
        /// Whether to replace.
        mode: WriteMode,
        /// Whether durability may wait for a [rename](Storage::rename) that asks for it. Until then a power
        /// failure may take the object, or its bytes and leave its name. Readers see it whole at once, and no
        /// other crash harms it. Only POSIX makes use of this; elsewhere every write is durable.
        unsettled: bool,
    }
}
options! {
    /// Options of [`Storage::stat`].
    StatOptions {}
}
options! {
    /// Options of [`Storage::list`].
    ListOptions {
        /// Everything below the prefix instead of its direct children.
        recursive: bool,
        /// Only paths that come after this one in byte order (relative to the root).
        start_after: Option<ObjectPath>,
        /// Asked of the store even where the storage was opened with a listing cache.
        fresh: bool,
    }
}
options! {
    /// Options of [`Storage::copy`].
    CopyOptions {
        /// Whether to replace the target.
        mode: WriteMode,
    }
}
options! {
    /// Options of [`Storage::delete`] and [`Storage::delete_many`].
    DeleteOptions {}
}
options! {
    /// Options of [`Storage::create_dir`].
    CreateDirOptions {}
}
options! {
    /// Options of [`Storage::rename`].
    RenameOptions {
        /// Whether to replace the target.
        mode: WriteMode,
        /// Whether the object may have been written [`unsettled`](WriteOptions::unsettled), by anyone: its
        /// bytes are made durable before it gets its new name. To its own name, a rename that replaces then
        /// changes nothing, and makes durable what a writer that died may have left in between: the bytes,
        /// and all names in the directory.
        settle: bool,
    }
}

/// The answer of [`Storage::read`]. The bytes are whole: a short body is an error, never a short answer.
#[derive(Debug, Clone)]
pub struct ReadResult {
    /// The bytes of the range, or of the object.
    pub bytes: Bytes,
    /// The object that they are of; `size` is the object's, not the range's.
    pub meta: ObjectMeta,
}

/// A key that [`Storage::delete_many`] could not delete, and why.
#[derive(Debug)]
pub struct DeleteFailure {
    /// Which one.
    pub path: ObjectPath,
    /// Why.
    pub error: Error,
}

/// A streamed write. Nothing is visible under the path until [`finish`](StorageWriter::finish) returns
/// [`WriteOutcome::Done`]; dropping the writer leaves nothing visible, and `abort` also frees what the
/// store holds for it.
#[async_trait]
pub trait StorageWriter: Debug + Send {
    /// Adds bytes. Backends buffer as their protocol needs, and send several parts at the same time where it
    /// allows that: at most six parts of 8 MiB are in memory.
    ///
    /// # Errors
    /// A failed upload; the writer can only be aborted then, and after a future of this was dropped half way:
    /// `finish` publishes nothing.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;

    /// Publishes the object atomically and durably, under the mode given when the writer was made.
    ///
    /// # Errors
    /// A failure that surely published nothing. Where that is not sure, the outcome is `Unknown`.
    async fn finish(self: Box<Self>) -> Result<WriteOutcome>;

    /// Gives up, and removes temporary files or parts, whatever the guard says: nobody else sees them.
    ///
    /// # Errors
    /// When the remains could not be removed; nothing is visible under the path either way.
    async fn abort(self: Box<Self>) -> Result<()>;
}

/// A tree of objects under one root: a directory of a file system, or a prefix of a bucket.
///
/// All methods may be called concurrently and from several processes. Every method takes its options
/// struct, has no default body (a wrapper that forgets one would silently change its meaning), and
/// returns errors that name the operation and the URL. Retries of what may pass happen inside, each
/// attempt with its own time limit; an error that comes out has been tried. Dropping a future stops
/// waiting, not necessarily the effect: a write that was dropped or timed out may still land.
#[async_trait]
pub trait Storage: Debug + Send + Sync + 'static {
    /// The root as a URL without secrets, without a final `/`.
    fn url(&self) -> &str;

    /// What holds for this storage; fixed when it was opened.
    fn capabilities(&self) -> &Capabilities;

    /// Reads an object, or a range of it, whole. A missing object is `NotFound`; a directory too.
    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult>;

    /// Writes a whole object in one atomic, durable step (one request on an object store, or parts that one
    /// request completes where it is long and may replace; on POSIX a temporary file, fsync, rename, fsync of
    /// the directory and of directories made on the way).
    /// Missing parent directories are made. `IfAbsent` needs `write_if_absent`.
    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome>;

    /// Starts a streamed write for objects too large for memory. The same publication contract as
    /// [`write`](Storage::write); large objects go up in parts.
    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>>;

    /// Metadata of one object. A missing object or a directory is `NotFound`. Never cached.
    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta>;

    /// Lists what is below a directory (or `prefix/`); the root lists everything. Asked afresh, unless the
    /// storage was opened with a listing cache and `fresh` is not said; streamed page by page; no order is promised; a missing directory lists as empty. What is written
    /// or deleted meanwhile may or may not appear, each path at most once. Temporary files of writes in
    /// flight do not appear.
    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>>;

    /// Copies one object inside this storage; the target appears whole or not at all.
    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome>;

    /// Deletes one object. A missing one is no error. Directories are not deleted by this, except that
    /// POSIX removes an empty directory named here.
    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()>;

    /// Deletes many, batched as the backend allows. Missing ones are no failure. What could not be
    /// deleted is returned key by key; `Err` means that a whole request failed.
    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>>;

    /// Makes a directory and its parents where directories exist; elsewhere does nothing.
    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()>;

    /// Renames one object atomically; needs `atomic_rename`, and is `Unsupported` elsewhere: it is never
    /// a copy and a delete. A missing source is `NotFound`. To its own name, replacing, it is done and
    /// changes nothing.
    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome>;
}

/// What callers need often, built on the core.
#[async_trait]
pub trait StorageExt: Storage {
    /// The URL of a path in this storage.
    fn url_of(&self, path: &ObjectPath) -> String {
        if path.is_root() { self.url().to_owned() } else { format!("{}/{}", self.url(), path) }
    }

    /// The whole object, or `None` where there is none.
    ///
    /// # Errors
    /// Any failure but `NotFound`.
    async fn read_optional(&self, path: &ObjectPath, options: ReadOptions) -> Result<Option<ReadResult>> {
        match self.read(path, options).await {
            Ok(result) => Ok(Some(result)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Metadata, or `None` where there is no such object.
    ///
    /// # Errors
    /// Any failure but `NotFound`.
    async fn stat_optional(&self, path: &ObjectPath) -> Result<Option<ObjectMeta>> {
        match self.stat(path, StatOptions::new()).await {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All files below a directory, collected, always asked afresh.
    ///
    /// # Errors
    /// The first failure of the listing.
    async fn list_files(&self, prefix: &ObjectPath, recursive: bool) -> Result<Vec<(ObjectPath, ObjectMeta)>> {
        self.list(prefix, ListOptions::new().recursive(recursive).fresh(true))
            .try_filter_map(|entry| async move {
                Ok(match entry {
                    Entry::File { path, meta } => Some((path, meta)),
                    Entry::Dir { .. } => None,
                })
            })
            .boxed()
            .try_collect()
            .await
    }
}

impl<S: Storage + ?Sized> StorageExt for S {}
