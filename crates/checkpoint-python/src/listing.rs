//! What is there: objects, directories, and what is known of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use checkpoint_fs::{Entry, ListOptions, Location, ObjectMeta, ObjectPath, StatOptions, StorageRef};
use futures::{StreamExt, TryStreamExt, stream};

use crate::error::Outcome;
use crate::session::{Place, Session, name};

/// Questions at once, where many are asked.
const QUESTIONS: usize = 64;
/// Directories that are listed at once.
const DIRECTORIES: usize = 16;

/// What is known of an object: size, time of the last change in nanoseconds since 1970, entity tag.
pub(crate) type Known = (u64, Option<i128>, Option<String>);

/// What is at a path: `file`, `directory` or `missing`; and what is known of a file.
pub(crate) type Info = (&'static str, Option<Known>);

/// Paths without their scheme, and what is known of files; nothing of directories.
pub(crate) type Listed = Vec<(String, Option<Known>)>;

impl Session {
    /// What is at a path. One that ends in a slash is no file.
    pub(crate) async fn info(self: Arc<Self>, path: String) -> Outcome<Info> {
        let place = self.place(&path)?;
        let storage = self.storage(&place.root).await?;
        if !place.path.is_root() && !path.ends_with('/') {
            match storage.stat(&place.path, StatOptions::new()).await {
                Ok(meta) => return Ok(("file", Some(known(&meta)))),
                Err(error) if error.is_not_found() && !error.is_bucket_missing() => {}
                Err(error) if error.is_not_found() => return Ok(("missing", None)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((if is_directory(&place, &storage).await? { "directory" } else { "missing" }, None))
    }

    /// What is at many paths, asked at the same time, in their order.
    pub(crate) async fn info_many(self: Arc<Self>, paths: Vec<String>) -> Outcome<Vec<Info>> {
        let questions = paths.into_iter().map(|path| Arc::clone(&self).info(path));
        stream::iter(questions).buffered(QUESTIONS).try_collect().await
    }

    /// What is known of an object; nothing where there is none.
    pub(crate) async fn stat(self: Arc<Self>, path: String) -> Outcome<Option<Known>> {
        let place = self.place(&path)?;
        if place.path.is_root() {
            return Ok(None);
        }
        match self.storage(&place.root).await?.stat(&place.path, StatOptions::new()).await {
            Ok(meta) => Ok(Some(known(&meta))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether anything is below a directory.
    pub(crate) async fn has_entries(self: Arc<Self>, path: String) -> Outcome<bool> {
        let place = self.place(&path)?;
        let storage = self.storage(&place.root).await?;
        Ok(has_entries(&place, &storage).await?)
    }

    /// What is in a directory, or everything below it; with the directories between, where they are wanted.
    pub(crate) async fn list(self: Arc<Self>, path: String, recursive: bool, directories: bool) -> Outcome<Listed> {
        let place = self.place(&path)?;
        let storage = self.storage(&place.root).await?;
        let is_tree = recursive && directories;
        if is_tree && storage.capabilities().directories {
            return Ok(tree(&place, &storage).await?);
        }
        let options = ListOptions::new().recursive(recursive);
        let entries: Vec<Entry> = storage.list(&place.path, options).try_collect().await?;
        let mut listed: Listed = Vec::with_capacity(entries.len());
        if is_tree {
            listed.extend(between(&place.path, &entries).iter().map(|path| (name(&place.root, path), None)));
        }
        listed.extend(entries.iter().map(|entry| named(&place.root, entry)));
        Ok(listed)
    }
}

/// Whether there is a directory: one of the machine's, a bucket, or a prefix that something is below.
async fn is_directory(place: &Place, storage: &StorageRef) -> checkpoint_fs::Result<bool> {
    let location = Location::from_parts(place.root.scheme(), place.root.authority(), place.path.clone());
    if let Some(path) = location.local_path() {
        return Ok(tokio::fs::metadata(path).await.is_ok_and(|meta| meta.is_dir()));
    }
    match has_entries(place, storage).await {
        Ok(has_entries) => Ok(has_entries || place.path.is_root()),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

async fn has_entries(place: &Place, storage: &StorageRef) -> checkpoint_fs::Result<bool> {
    let mut listing = storage.list(&place.path, ListOptions::new().fresh(true));
    Ok(listing.next().await.transpose()?.is_some())
}

/// Everything below a directory where directories are real and may be empty.
async fn tree(place: &Place, storage: &StorageRef) -> checkpoint_fs::Result<Listed> {
    let mut listed = Vec::new();
    let mut level = vec![place.path.clone()];
    while !level.is_empty() {
        let lists: Vec<_> = level.iter().map(|path| storage.list(path, ListOptions::new()).try_collect()).collect();
        let found: Vec<Vec<Entry>> = stream::iter(lists).buffered(DIRECTORIES).try_collect().await?;
        let found: Vec<Entry> = found.into_iter().flatten().collect();
        listed.extend(found.iter().map(|entry| named(&place.root, entry)));
        level = found.into_iter().filter(|entry| matches!(entry, Entry::Dir { .. })).map(into_path).collect();
    }
    Ok(listed)
}

/// The directories between one and what is below it.
fn between(base: &ObjectPath, entries: &[Entry]) -> Vec<ObjectPath> {
    let mut found = HashSet::new();
    for entry in entries {
        let mut at = entry.path().parent();
        while let Some(path) = at.filter(|path| path != base && !path.is_root() && !found.contains(path)) {
            at = path.parent();
            found.insert(path);
        }
    }
    let mut found: Vec<ObjectPath> = found.into_iter().collect();
    found.sort();
    found
}

fn named(root: &Location, entry: &Entry) -> (String, Option<Known>) {
    match entry {
        Entry::File { path, meta } => (name(root, path), Some(known(meta))),
        Entry::Dir { path } => (name(root, path), None),
    }
}

fn into_path(entry: Entry) -> ObjectPath {
    match entry {
        Entry::File { path, .. } | Entry::Dir { path } => path,
    }
}

fn known(meta: &ObjectMeta) -> Known {
    let nanoseconds = |time: SystemTime| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    };
    (meta.size, meta.last_modified.map(nanoseconds), meta.etag.clone())
}
