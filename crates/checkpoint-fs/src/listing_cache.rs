//! Listings kept for a while, for those who ask: `use_listings_cache`, off unless it is said.
//!
//! A cached listing may hide what another client wrote or deleted until it expires. This client's own
//! writes and deletes end it at once. A caller that must not miss anything asks with
//! [`ListOptions::fresh`], as the checkpoint store always does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use moka::sync::Cache;
use serde_json::{Map, Value};

use crate::capability::Capabilities;
use crate::error::Result;
use crate::guard::Guard;
use crate::options::KwArgs;
use crate::path::ObjectPath;
use crate::storage::{
    CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta, ReadOptions,
    ReadResult, RenameOptions, StatOptions, Storage, StorageRef, StorageWriter, WriteOptions, WriteOutcome,
};

/// How listings are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ListingCacheSettings {
    /// How long one is used; until this client changes something when `None`.
    pub expiry: Option<Duration>,
    /// How many are kept; as many as there are when `None`.
    pub max_listings: Option<u64>,
}

impl ListingCacheSettings {
    /// The options of the cache, under fsspec's names.
    pub(crate) const OPTIONS: [&str; 3] = ["use_listings_cache", "listings_expiry_time", "max_paths"];

    /// Takes the options of the cache out of a protocol's options. `None` when the cache is not asked for.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for values of the wrong kind.
    pub(crate) fn take(protocol: &'static str, kwargs: &mut Map<String, Value>) -> Result<Option<Self>> {
        let taken: Map<String, Value> =
            Self::OPTIONS.iter().filter_map(|name| Some(((*name).to_owned(), kwargs.shift_remove(*name)?))).collect();
        let mut kw = KwArgs::new(protocol, Some(&taken));
        let asked = kw.flag("use_listings_cache").unwrap_or(false);
        let expiry = kw.seconds("listings_expiry_time");
        let max_listings = kw.count("max_paths", 1);
        kw.finish()?;
        Ok(asked.then_some(Self { expiry, max_listings }))
    }
}

/// Which listing it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    prefix: ObjectPath,
    recursive: bool,
}

/// A storage whose listings are kept. Listings that start after a key are always asked.
#[derive(Debug, Clone)]
pub struct ListingCache {
    inner: StorageRef,
    kept: Arc<Kept>,
}

#[derive(Debug)]
struct Kept {
    listings: Cache<Key, Arc<Vec<Entry>>>,
    /// Grows with every change by this client, so that a listing which began before it is not kept.
    changes: AtomicU64,
}

impl Kept {
    /// Ends every listing that a change of `path` could show in.
    fn forget(&self, path: &ObjectPath) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        let mut at = Some(path.clone());
        while let Some(prefix) = at {
            at = prefix.parent();
            for recursive in [false, true] {
                self.listings.invalidate(&Key { prefix: prefix.clone(), recursive });
            }
        }
    }

    fn keep(&self, key: Key, entries: Vec<Entry>, changes: u64) {
        let unchanged = || self.changes.load(Ordering::SeqCst) == changes;
        if unchanged() {
            self.listings.insert(key.clone(), Arc::new(entries));
            // A change between the question and the insertion found nothing to end.
            if !unchanged() {
                self.listings.invalidate(&key);
            }
        }
    }
}

/// Ends the listings of paths when it is made and when it goes: a change counts from its start, and a listing
/// that was asked meanwhile may have missed it, however the change ended.
struct Change {
    kept: Arc<Kept>,
    paths: Vec<ObjectPath>,
}

impl Change {
    fn of(kept: &Arc<Kept>, paths: Vec<ObjectPath>) -> Self {
        paths.iter().for_each(|path| kept.forget(path));
        Self { kept: Arc::clone(kept), paths }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.paths.iter().for_each(|path| self.kept.forget(path));
    }
}

impl ListingCache {
    /// Keeps the listings of a storage.
    pub fn new(inner: StorageRef, settings: ListingCacheSettings) -> Self {
        let mut builder = Cache::builder();
        if let Some(expiry) = settings.expiry {
            builder = builder.time_to_live(expiry);
        }
        if let Some(max) = settings.max_listings {
            builder = builder.max_capacity(max);
        }
        Self { inner, kept: Arc::new(Kept { listings: builder.build(), changes: AtomicU64::new(0) }) }
    }

    fn change(&self, path: &ObjectPath) -> Change {
        Change::of(&self.kept, vec![path.clone()])
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for ListingCache {
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
        let _change = self.change(path);
        self.inner.write(path, bytes, options).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        let inner = self.inner.writer(path, options).await?;
        Ok(Box::new(ForgettingWriter { inner, kept: Arc::clone(&self.kept), path: path.clone() }))
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.inner.stat(path, options).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        if options.fresh || options.start_after.is_some() {
            return self.inner.list(prefix, options);
        }
        let key = Key { prefix: prefix.clone(), recursive: options.recursive };
        if let Some(entries) = self.kept.listings.get(&key) {
            return match Guard::check(options.guard.as_ref()) {
                Ok(_) => stream::iter(0..entries.len()).map(move |i| Ok(entries[i].clone())).boxed(),
                Err(error) => stream::iter([Err(error)]).boxed(),
            };
        }
        let changes = self.kept.changes.load(Ordering::SeqCst);
        let recording = Recording { kept: Arc::clone(&self.kept), key, changes, seen: Vec::new() };
        stream::unfold((self.inner.list(prefix, options), Some(recording)), |(mut entries, recording)| async move {
            match (entries.next().await, recording) {
                (Some(Ok(entry)), Some(mut recording)) => {
                    recording.seen.push(entry.clone());
                    Some((Ok(entry), (entries, Some(recording))))
                }
                // Half a listing is none.
                (Some(entry), _) => Some((entry, (entries, None))),
                (None, Some(Recording { kept, key, changes, seen })) => {
                    kept.keep(key, seen, changes);
                    None
                }
                (None, None) => None,
            }
        })
        .boxed()
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        let _change = self.change(to);
        self.inner.copy(from, to, options).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        let _change = self.change(path);
        self.inner.delete(path, options).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        let _change = Change::of(&self.kept, paths.clone());
        self.inner.delete_many(paths, options).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        let _change = self.change(path);
        self.inner.create_dir(path, options).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        let _change = Change::of(&self.kept, vec![from.clone(), to.clone()]);
        self.inner.rename(from, to, options).await
    }
}

/// A listing under way, to be kept when it ends.
struct Recording {
    kept: Arc<Kept>,
    key: Key,
    changes: u64,
    seen: Vec<Entry>,
}

/// A streamed write that ends listings when it publishes.
#[derive(Debug)]
struct ForgettingWriter {
    inner: Box<dyn StorageWriter>,
    kept: Arc<Kept>,
    path: ObjectPath,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl StorageWriter for ForgettingWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        let _change = Change::of(&self.kept, vec![self.path]);
        self.inner.finish().await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryStorage, StorageExt, WriteMode};

    /// Two clients of one storage: one that keeps listings, and one that is somebody else.
    fn clients(settings: ListingCacheSettings) -> (ListingCache, StorageRef) {
        let other: StorageRef = Arc::new(MemoryStorage::new("memory://cached"));
        (ListingCache::new(Arc::clone(&other), settings), other)
    }

    fn path(text: &str) -> ObjectPath {
        ObjectPath::parse(text).expect("valid")
    }

    async fn put(storage: &dyn Storage, name: &str) {
        let written = storage.write(&path(name), Bytes::from_static(b"x"), WriteOptions::new()).await;
        written.expect("writes").into_result("").expect("done");
    }

    async fn names(storage: &dyn Storage, prefix: &str, options: ListOptions) -> Vec<String> {
        let mut names: Vec<String> = storage
            .list(&ObjectPath::parse(prefix).expect("valid"), options)
            .map(|entry| entry.expect("lists").path().to_string())
            .collect()
            .await;
        names.sort();
        names
    }

    #[tokio::test]
    async fn what_others_write_is_hidden_until_it_is_asked_afresh() {
        let (cached, other) = clients(ListingCacheSettings::default());
        put(other.as_ref(), "d/a").await;
        assert_eq!(names(&cached, "d", ListOptions::new()).await, ["d/a"]);
        put(other.as_ref(), "d/b").await;
        assert_eq!(names(&cached, "d", ListOptions::new()).await, ["d/a"], "kept");
        assert_eq!(names(&cached, "d", ListOptions::new().fresh(true)).await, ["d/a", "d/b"]);
        assert_eq!(cached.list_files(&path("d"), false).await.expect("lists").len(), 2, "always fresh");
        assert_eq!(names(&cached, "d", ListOptions::new().start_after(Some(path("d/a")))).await, ["d/b"]);
    }

    #[tokio::test]
    async fn every_change_of_ones_own_shows_at_once() {
        let (cached, other) = clients(ListingCacheSettings::default());
        put(other.as_ref(), "d/a").await;
        let deep = ListOptions::new().recursive(true);
        let seen = async || {
            let root = names(&cached, "", deep.clone()).await;
            let dir = names(&cached, "d", ListOptions::new()).await;
            assert_eq!(root.iter().filter(|n| n.starts_with("d/")).cloned().collect::<Vec<_>>(), dir);
            root
        };
        assert_eq!(seen().await, ["d/a"]);
        put(&cached, "d/b").await;
        assert_eq!(seen().await, ["d/a", "d/b"]);
        let mut writer = cached.writer(&path("d/c"), WriteOptions::new()).await.expect("starts");
        assert_eq!(seen().await.len(), 2);
        writer.write(Bytes::from_static(b"x")).await.expect("writes");
        writer.finish().await.expect("publishes").into_result("").expect("done");
        assert_eq!(seen().await.len(), 3);
        let copied = cached.copy(&path("d/a"), &path("d/e"), CopyOptions::new()).await;
        copied.expect("copies").into_result("").expect("done");
        assert_eq!(seen().await.len(), 4);
        cached.delete(&path("d/e"), DeleteOptions::new()).await.expect("deletes");
        assert_eq!(seen().await.len(), 3);
        cached.delete_many(vec![path("d/a"), path("d/b")], DeleteOptions::new()).await.expect("deletes");
        assert_eq!(seen().await, ["d/c"]);
        if cached.capabilities().atomic_rename {
            let renamed = cached.rename(&path("d/c"), &path("d/z"), RenameOptions::new()).await;
            renamed.expect("renames").into_result("").expect("done");
            assert_eq!(seen().await, ["d/z"]);
        }
    }

    #[tokio::test]
    async fn a_listing_that_a_change_met_is_not_kept() {
        let (cached, other) = clients(ListingCacheSettings::default());
        put(other.as_ref(), "d/a").await;
        let mut under_way = cached.list(&path("d"), ListOptions::new());
        assert!(under_way.next().await.is_some());
        put(&cached, "d/b").await;
        while under_way.next().await.is_some() {}
        assert_eq!(names(&cached, "d", ListOptions::new()).await, ["d/a", "d/b"]);
    }

    #[tokio::test]
    async fn listings_expire_and_are_bounded() {
        let expiry = Some(Duration::from_millis(40));
        let (cached, other) = clients(ListingCacheSettings { expiry, max_listings: Some(2) });
        assert!(names(&cached, "d", ListOptions::new()).await.is_empty());
        put(other.as_ref(), "d/a").await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(names(&cached, "d", ListOptions::new()).await, ["d/a"]);
        for dir in 0..50 {
            names(&cached, &format!("x{dir}"), ListOptions::new()).await;
        }
        cached.kept.listings.run_pending_tasks();
        assert!(cached.kept.listings.entry_count() <= 2);
    }

    #[tokio::test]
    async fn a_failed_condition_leaves_the_listing_right() {
        let (cached, other) = clients(ListingCacheSettings::default());
        assert!(names(&cached, "", ListOptions::new()).await.is_empty());
        put(other.as_ref(), "lease").await;
        let create = WriteOptions::new().mode(WriteMode::IfAbsent);
        let lost = cached.write(&path("lease"), Bytes::new(), create).await.expect("answers");
        assert!(matches!(lost, WriteOutcome::AlreadyExists));
        assert_eq!(names(&cached, "", ListOptions::new()).await, ["lease"]);
    }

    #[test]
    fn options_are_taken_out_and_checked() {
        let take = |value: Value| {
            let mut kwargs = value.as_object().expect("an object").clone();
            ListingCacheSettings::take("s3", &mut kwargs).map(|settings| (settings, kwargs.len()))
        };
        let asked = serde_json::json!({
            "use_listings_cache": true, "listings_expiry_time": 1.5, "max_paths": 7, "anon": true,
        });
        let settings = ListingCacheSettings { expiry: Some(Duration::from_millis(1_500)), max_listings: Some(7) };
        assert_eq!(take(asked).expect("valid"), (Some(settings), 1));
        assert_eq!(take(serde_json::json!({"max_paths": 7})).expect("valid"), (None, 0));
        assert_eq!(take(serde_json::json!({"use_listings_cache": "False"})).expect("valid"), (None, 0));
        assert!(take(serde_json::json!({"use_listings_cache": true, "max_paths": 0})).is_err());
    }

    #[tokio::test]
    async fn a_registry_keeps_listings_only_when_it_is_asked_to() {
        let dir = tempfile::tempdir().expect("a directory");
        let url = dir.path().to_str().expect("UTF-8");
        let registry = crate::Registry::with_environment(crate::Environment::default());
        for (options, seen) in [
            (serde_json::json!({}), 2),
            (serde_json::json!({"file": {"use_listings_cache": false, "max_paths": 9}}), 2),
            (serde_json::json!({"file": {"use_listings_cache": true}}), 1),
        ] {
            let options = crate::StorageOptions::from_value(options).expect("the right shape");
            let client = registry.open_dir(url, &options).await.expect("opens");
            let other = registry.open_dir(url, &crate::StorageOptions::new()).await.expect("opens");
            put(other.as_ref(), "d/a").await;
            assert_eq!(names(client.as_ref(), "d", ListOptions::new()).await.len(), 1);
            put(other.as_ref(), "d/b").await;
            assert_eq!(names(client.as_ref(), "d", ListOptions::new()).await.len(), seen);
            assert_eq!(names(client.as_ref(), "d", ListOptions::new().fresh(true)).await.len(), 2);
            other.delete_many(vec![path("d/a"), path("d/b")], DeleteOptions::new()).await.expect("deletes");
        }
        let options = crate::StorageOptions::from_json(r#"{"file": {"listings_expiry_time": "soon"}}"#).expect("JSON");
        assert!(registry.open_dir(url, &options).await.is_err());
    }
}
