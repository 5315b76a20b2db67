//! Any storage of this crate as an [`object_store::ObjectStore`], for DataFusion, Delta, Lance and others.
//!
//! What the two contracts share is passed on: atomic and create-only writes, ranges, listings, bulk deletes.
//! Where a storage cannot keep that crate's contract the call is refused with `NotSupported` or
//! `NotImplemented`: updates by version, attributes, and tags. A create-only copy on a store that has none
//! ([`Capabilities::copy_if_absent`](crate::Capabilities::copy_if_absent)) is a read and a create-only write, for
//! objects of up to 256 MiB. Listings follow the storage: afresh, unless it was opened with a listing cache.

mod multipart;
mod read;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, RenameTargetMode,
    Result as StoreResult,
};

use crate::error::{Error, ErrorKind};
use crate::path::ObjectPath;
use crate::storage::{
    CopyOptions as Copy, DeleteOptions, Entry, ListOptions, ObjectMeta as Meta, ReadOptions, RenameOptions as Rename,
    StatOptions, Storage, StorageRef, WriteMode, WriteOptions, WriteOutcome,
};

/// The name of this store in that crate's errors.
const NAME: &str = "checkpoint-fs";
/// Keys of one bulk delete; the storage cuts it further where it must.
const DELETES: usize = 1000;

/// The largest object that is copied by way of this machine.
const CARRIED: u64 = 256 << 20;

/// A storage as that crate sees it; paths are relative to the storage's root.
#[derive(Debug, Clone)]
pub struct ObjectStoreAdapter {
    storage: StorageRef,
}

impl ObjectStoreAdapter {
    /// Wraps a storage.
    pub fn new(storage: StorageRef) -> Self {
        Self { storage }
    }

    fn entries(&self, prefix: Option<&Path>, options: ListOptions) -> BoxStream<'static, StoreResult<Entry>> {
        match prefix.map_or(Ok(ObjectPath::root()), ours) {
            Ok(prefix) => self.storage.list(&prefix, options).map_err(|e| store_error(e, "")).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn files(&self, prefix: Option<&Path>, options: ListOptions) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.entries(prefix, options.recursive(true))
            .try_filter_map(|entry| async move {
                match entry {
                    Entry::File { path, meta } => store_meta(&path, &meta).map(Some),
                    Entry::Dir { .. } => Ok(None),
                }
            })
            .boxed()
    }
}

impl fmt::Display for ObjectStoreAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}({})", self.storage.url())
    }
}

#[async_trait]
impl ObjectStore for ObjectStoreAdapter {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> StoreResult<PutResult> {
        let mode = match opts.mode {
            PutMode::Overwrite => WriteMode::Overwrite,
            PutMode::Create => WriteMode::IfAbsent,
            PutMode::Update(_) => return Err(lacking("put_opts with PutMode::Update")),
        };
        if !opts.attributes.is_empty() || !opts.tags.encoded().is_empty() {
            return Err(lacking("put_opts with attributes or tags"));
        }
        let written = self.storage.write(&ours(location)?, payload.into(), WriteOptions::new().mode(mode)).await;
        put_result(written, location)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        if !opts.attributes.is_empty() || !opts.tags.encoded().is_empty() {
            return Err(lacking("put_multipart_opts with attributes or tags"));
        }
        let writer = self.storage.writer(&ours(location)?, WriteOptions::new()).await;
        let writer = writer.map_err(|e| store_error(e, location))?;
        Ok(Box::new(multipart::Upload::new(writer, location.clone())))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        if options.version.is_some() {
            return Err(lacking("get_opts with a version"));
        }
        read::get(&self.storage, location, &options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        let storage = Arc::clone(&self.storage);
        locations
            .ready_chunks(DELETES)
            .then(move |batch| {
                let storage = Arc::clone(&storage);
                async move { stream::iter(delete(storage.as_ref(), batch).await) }
            })
            .flatten()
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.files(prefix, ListOptions::new())
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        match ours(offset) {
            Ok(offset) => self.files(prefix, ListOptions::new().start_after(Some(offset))),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        let mut result = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
        let mut entries = self.entries(prefix, ListOptions::new());
        while let Some(entry) = entries.try_next().await? {
            match entry {
                Entry::File { path, meta } => result.objects.push(store_meta(&path, &meta)?),
                Entry::Dir { path } => result.common_prefixes.push(theirs(&path)?),
            }
        }
        Ok(result)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        let mode = match options.mode {
            CopyMode::Overwrite => WriteMode::Overwrite,
            CopyMode::Create => WriteMode::IfAbsent,
        };
        let capabilities = self.storage.capabilities();
        let carried = mode == WriteMode::IfAbsent && !capabilities.copy_if_absent && capabilities.write_if_absent;
        let copied = if carried {
            carry(self.storage.as_ref(), &ours(from)?, &ours(to)?).await
        } else {
            self.storage.copy(&ours(from)?, &ours(to)?, Copy::new().mode(mode)).await
        };
        let place = if copied.as_ref().is_err_and(Error::is_not_found) { from } else { to };
        put_result(copied, place).map(drop)
    }

    /// Atomic where the storage can; elsewhere a copy and a delete, which is what that crate's contract says
    /// a rename may be.
    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> StoreResult<()> {
        let (mode, copy_mode) = match options.target_mode {
            RenameTargetMode::Overwrite => (WriteMode::Overwrite, CopyMode::Overwrite),
            RenameTargetMode::Create => (WriteMode::IfAbsent, CopyMode::Create),
        };
        if self.storage.capabilities().atomic_rename {
            let renamed = self.storage.rename(&ours(from)?, &ours(to)?, Rename::new().mode(mode)).await;
            let place = if renamed.as_ref().is_err_and(Error::is_not_found) { from } else { to };
            return put_result(renamed, place).map(drop);
        }
        self.copy_opts(from, to, CopyOptions { mode: copy_mode, extensions: options.extensions }).await?;
        self.storage.delete(&ours(from)?, DeleteOptions::new()).await.map_err(|e| store_error(e, from))
    }
}

/// Copies by way of this machine, with a write that does not replace.
async fn carry(storage: &dyn Storage, from: &ObjectPath, to: &ObjectPath) -> crate::Result<WriteOutcome> {
    let size = storage.stat(from, StatOptions::new()).await?.size;
    if size > CARRIED {
        let message = format!("this store has no copy that refuses to replace, and the object is large: bytes={size}");
        return Err(Error::unsupported(message).with_hint("copy it with a mode that may replace"));
    }
    let bytes = storage.read(from, ReadOptions::new()).await?.bytes;
    storage.write(to, bytes, WriteOptions::new().mode(WriteMode::IfAbsent)).await
}

/// Deletes a batch; the answers stand in the order of the questions.
async fn delete(storage: &dyn Storage, batch: Vec<StoreResult<Path>>) -> Vec<StoreResult<Path>> {
    let batch: Vec<StoreResult<(Path, ObjectPath)>> =
        batch.into_iter().map(|path| path.and_then(|path| Ok((path.clone(), ours(&path)?)))).collect();
    let paths = batch.iter().flatten().map(|(_, path)| path.clone()).collect();
    let mut failed = match storage.delete_many(paths, DeleteOptions::new()).await {
        Ok(failures) => failures,
        Err(error) => {
            let text = error.to_string();
            let mut first = Some(store_error(error, ""));
            let mut whole = |(path, _): (Path, ObjectPath)| {
                Err(first.take().unwrap_or_else(|| generic(format!("the request failed: path={path}: {text}"))))
            };
            return batch.into_iter().map(|asked| asked.and_then(&mut whole)).collect();
        }
    };
    let mut answer = |(path, own): (Path, ObjectPath)| match failed.iter().position(|f| f.path == own) {
        Some(at) => Err(store_error(failed.swap_remove(at).error, &path)),
        None => Ok(path),
    };
    batch.into_iter().map(|asked| asked.and_then(&mut answer)).collect()
}

fn put_result(outcome: crate::Result<WriteOutcome>, location: &Path) -> StoreResult<PutResult> {
    match outcome {
        Ok(WriteOutcome::Done(meta)) => Ok(PutResult { e_tag: meta.etag, version: None }),
        Ok(WriteOutcome::AlreadyExists) => Err(StoreError::AlreadyExists {
            path: location.to_string(),
            source: Box::new(Error::new(ErrorKind::AlreadyExists, "an object is already there")),
        }),
        Ok(WriteOutcome::Unknown(error)) | Err(error) => Err(store_error(error, location)),
    }
}

/// A path of that crate as one of ours.
fn ours(path: &Path) -> StoreResult<ObjectPath> {
    ObjectPath::parse(path.as_ref()).map_err(|e| store_error(e, path))
}

/// A path of ours as one of that crate; keys with empty segments and the like it cannot name.
fn theirs(path: &ObjectPath) -> StoreResult<Path> {
    Ok(Path::parse(path.as_str())?)
}

fn store_meta(path: &ObjectPath, meta: &Meta) -> StoreResult<ObjectMeta> {
    Ok(meta_at(theirs(path)?, meta))
}

fn meta_at(location: Path, meta: &Meta) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: meta.last_modified.map_or(DateTime::<Utc>::UNIX_EPOCH, DateTime::from),
        size: meta.size,
        e_tag: meta.etag.clone(),
        version: None,
    }
}

fn lacking(operation: &str) -> StoreError {
    StoreError::NotImplemented { operation: operation.to_owned(), implementer: NAME.to_owned() }
}

fn generic(message: String) -> StoreError {
    StoreError::Generic { store: NAME, source: message.into() }
}

fn store_error(error: Error, path: impl fmt::Display) -> StoreError {
    let path = path.to_string();
    let source = Box::new(error);
    match source.kind() {
        ErrorKind::NotFound => StoreError::NotFound { path, source },
        ErrorKind::AlreadyExists => StoreError::AlreadyExists { path, source },
        ErrorKind::PermissionDenied => StoreError::PermissionDenied { path, source },
        ErrorKind::Unauthenticated => StoreError::Unauthenticated { path, source },
        ErrorKind::Unsupported => StoreError::NotSupported { source },
        _ => StoreError::Generic { store: NAME, source },
    }
}
