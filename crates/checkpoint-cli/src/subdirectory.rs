//! A directory inside an opened storage as a storage of its own, sharing its client.

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta,
    ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageExt, StorageRef,
    StorageWriter, WriteOptions, WriteOutcome,
};
use futures::stream::{BoxStream, StreamExt};

/// The storage below one of its directories. What it answers is what the whole answers, with the paths
/// made relative.
#[derive(Debug)]
pub(crate) struct Subdirectory {
    whole: StorageRef,
    dir: ObjectPath,
    url: String,
}

impl Subdirectory {
    /// The directory `dir` of `whole`; it need not exist.
    pub(crate) fn new(whole: StorageRef, dir: ObjectPath) -> Self {
        let url = whole.url_of(&dir);
        Self { whole, dir, url }
    }

    fn at(&self, path: &ObjectPath) -> ObjectPath {
        self.dir.join_path(path)
    }
}

fn relative(dir: &ObjectPath, entry: Entry) -> Option<Entry> {
    Some(match entry {
        Entry::File { path, meta } => Entry::File { path: path.strip_prefix(dir)?, meta },
        Entry::Dir { path } => Entry::Dir { path: path.strip_prefix(dir)? },
    })
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Storage for Subdirectory {
    fn url(&self) -> &str {
        &self.url
    }

    fn capabilities(&self) -> &Capabilities {
        self.whole.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        self.whole.read(&self.at(path), options).await
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        self.whole.write(&self.at(path), bytes, options).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        self.whole.writer(&self.at(path), options).await
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.whole.stat(&self.at(path), options).await
    }

    fn list(&self, prefix: &ObjectPath, mut options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        options.start_after = options.start_after.map(|path| self.at(&path));
        let dir = self.dir.clone();
        let entries = self.whole.list(&self.at(prefix), options);
        entries.filter_map(move |entry| std::future::ready(entry.map(|e| relative(&dir, e)).transpose())).boxed()
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        self.whole.copy(&self.at(from), &self.at(to), options).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.whole.delete(&self.at(path), options).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        let paths = paths.iter().map(|path| self.at(path)).collect();
        let mut failures = self.whole.delete_many(paths, options).await?;
        for failure in &mut failures {
            failure.path = failure.path.strip_prefix(&self.dir).unwrap_or_default();
        }
        Ok(failures)
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.whole.create_dir(&self.at(path), options).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        self.whole.rename(&self.at(from), &self.at(to), options).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use checkpoint_fs::{Environment, Registry, StorageOptions};

    use super::*;

    #[tokio::test]
    async fn paths_are_relative_on_the_way_in_and_out() {
        let registry = Registry::with_environment(Environment::default());
        let whole = registry.open_dir("memory://sub/root", &StorageOptions::new()).await.expect("opens");
        let path = |text: &str| ObjectPath::parse(text).expect("valid");
        let sub: StorageRef = Arc::new(Subdirectory::new(whole.clone(), path("a/b")));
        assert_eq!(sub.url(), "memory://sub/root/a/b");
        for name in ["c/1", "c/2"] {
            let written = sub.write(&path(name), "x".into(), WriteOptions::new()).await.expect("writes");
            written.into_result(name).expect("done");
        }
        assert!(whole.stat(&path("a/b/c/1"), StatOptions::new()).await.is_ok());
        let names = |files: Vec<(ObjectPath, ObjectMeta)>| files.into_iter().map(|(p, _)| p).collect::<Vec<_>>();
        assert_eq!(names(sub.list_files(&path("c"), false).await.expect("lists")), [path("c/1"), path("c/2")]);
        let after = ListOptions::new().recursive(true).start_after(Some(path("c/1")));
        let rest: Vec<_> = sub.list(&ObjectPath::root(), after).map(|e| e.expect("entry")).collect().await;
        assert_eq!(rest.iter().map(Entry::path).collect::<Vec<_>>(), [&path("c/2")]);
        assert!(sub.delete_many(vec![path("c/1")], DeleteOptions::new()).await.expect("deletes").is_empty());
        assert_eq!(whole.list_files(&ObjectPath::root(), true).await.expect("lists").len(), 1);
    }
}
