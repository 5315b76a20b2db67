//! Writes, copies, renames and deletes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use checkpoint_fs::{
    CopyOptions, CreateDirOptions, DeleteOptions, Error, Location, ObjectPath, RenameOptions, StorageRef,
    StorageWriter, WriteMode, WriteOptions,
};
use futures::{StreamExt, stream};

use crate::error::{Failure, Outcome, settled};
use crate::session::{Place, Session};

/// What is read at once of an object that goes on to another place.
const PIECE: usize = 8 << 20;
/// Changes at once, where many are asked for.
const CHANGES: usize = 64;

/// Those of many that were not done, by the first path of each, and why.
pub(crate) type Left = Vec<(String, Failure)>;

impl Session {
    /// Writes an object. False when it was not to replace one that is there.
    pub(crate) async fn write(self: Arc<Self>, path: String, bytes: Bytes, if_absent: bool) -> Outcome<bool> {
        let place = self.place(&path)?;
        let storage = self.storage(&place.root).await?;
        let options = WriteOptions::new().mode(mode(if_absent));
        settled(storage.write(&place.path, bytes, options).await)
    }

    /// Writes many objects, at the same time.
    pub(crate) async fn write_many(self: Arc<Self>, objects: Vec<(String, Bytes)>) -> Outcome<Left> {
        let writes = objects.into_iter().map(|(path, bytes)| {
            let session = Arc::clone(&self);
            async move { session.write(path.clone(), bytes, false).await.err().map(|failure| (path, failure)) }
        });
        Ok(stream::iter(writes).buffer_unordered(CHANGES).filter_map(async |left| left).collect().await)
    }

    /// Starts a streamed write.
    pub(crate) async fn writer(self: Arc<Self>, path: String, if_absent: bool) -> Outcome<Box<dyn StorageWriter>> {
        let place = self.place(&path)?;
        let storage = self.storage(&place.root).await?;
        Ok(storage.writer(&place.path, WriteOptions::new().mode(mode(if_absent))).await?)
    }

    /// Copies an object: by the store itself inside one bucket, through here from one to another.
    pub(crate) async fn copy(self: Arc<Self>, source: String, target: String, if_absent: bool) -> Outcome<bool> {
        let (from, to) = (self.place(&source)?, self.place(&target)?);
        let storage = self.storage(&from.root).await?;
        if from.root == to.root {
            let options = CopyOptions::new().mode(mode(if_absent));
            return settled(storage.copy(&from.path, &to.path, options).await);
        }
        self.carry(source, &storage, &from, target, if_absent).await
    }

    /// Copies many objects, at the same time.
    pub(crate) async fn copy_many(self: Arc<Self>, pairs: Vec<(String, String)>) -> Outcome<Left> {
        let copies = pairs.into_iter().map(|(source, target)| {
            let session = Arc::clone(&self);
            async move { session.copy(source.clone(), target, false).await.err().map(|failure| (source, failure)) }
        });
        Ok(stream::iter(copies).buffer_unordered(CHANGES).filter_map(async |left| left).collect().await)
    }

    /// Renames an object atomically, where the store can.
    pub(crate) async fn rename(self: Arc<Self>, source: String, target: String, if_absent: bool) -> Outcome<bool> {
        let (from, to) = (self.place(&source)?, self.place(&target)?);
        if from.root != to.root {
            let error = Error::unsupported("objects are not renamed from one bucket or volume to another");
            return Err(to.error(error).with_hint("copy and delete them instead").into());
        }
        let storage = self.storage(&from.root).await?;
        settled(storage.rename(&from.path, &to.path, RenameOptions::new().mode(mode(if_absent))).await)
    }

    /// Deletes objects, many to a request. Answers those that are left, and why.
    pub(crate) async fn delete(self: Arc<Self>, paths: Vec<String>) -> Outcome<Left> {
        let mut by_root: HashMap<Location, (Vec<ObjectPath>, HashMap<ObjectPath, String>)> = HashMap::new();
        for name in paths {
            let Place { root, path } = self.place(&name)?;
            let (wanted, names) = by_root.entry(root).or_default();
            wanted.push(path.clone());
            names.insert(path, name);
        }
        let mut left = Vec::new();
        for (root, (wanted, mut names)) in by_root {
            let storage = self.storage(&root).await?;
            for failure in storage.delete_many(wanted, DeleteOptions::new()).await? {
                let name = names.remove(&failure.path).unwrap_or_else(|| failure.path.to_string());
                left.push((name, failure.error.into()));
            }
        }
        Ok(left)
    }

    /// Makes a directory, where there are any.
    pub(crate) async fn create_dir(self: Arc<Self>, path: String) -> Outcome<()> {
        let place = self.place(&path)?;
        let storage = self.storage(&place.root).await?;
        Ok(storage.create_dir(&place.path, CreateDirOptions::new()).await?)
    }

    /// Whether objects are renamed atomically there, created only where none is, and kept in real directories.
    pub(crate) async fn abilities(self: Arc<Self>, path: String) -> Outcome<(bool, bool, bool)> {
        let place = self.place(&path)?;
        let storage = self.storage(&place.root).await?;
        let can = storage.capabilities();
        Ok((can.atomic_rename, can.write_if_absent, can.directories))
    }

    /// Reads an object piece by piece into a writer. The target is there whole, or not at all.
    async fn carry(
        self: &Arc<Self>,
        source: String,
        storage: &StorageRef,
        from: &Place,
        target: String,
        if_absent: bool,
    ) -> Outcome<bool> {
        let meta = storage.stat(&from.path, checkpoint_fs::StatOptions::new()).await?;
        let mut writer = Arc::clone(self).writer(target, if_absent).await?;
        let mut at = 0;
        while at < meta.size {
            let end = meta.size.min(at + PIECE as u64);
            let wanted = (source.clone(), Some(at), Some(end));
            let written = match Arc::clone(self).read(wanted, meta.etag.clone()).await {
                Ok(body) if body.len() as u64 == end - at => body.write_to(&mut writer).await,
                Ok(_) => {
                    Err(from.error(Error::new(checkpoint_fs::ErrorKind::Conflict, "the source became shorter")).into())
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = written {
                // The failure itself is what there is to tell.
                let _ = writer.abort().await;
                return Err(failure);
            }
            at = end;
        }
        settled(writer.finish().await)
    }
}

fn mode(if_absent: bool) -> WriteMode {
    if if_absent { WriteMode::IfAbsent } else { WriteMode::Overwrite }
}
