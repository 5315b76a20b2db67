//! Reading ahead: files are asked for before their turn, so that a slow store is not asked one thing at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta,
    ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageRef, StorageWriter,
    WriteOptions, WriteOutcome,
};
use checkpoint_pipeline::Ids;
use futures::stream::BoxStream;
use tokio::sync::watch;

use crate::bench::{Bench, properties, rows};

/// Answers no request for the start of a file before the starts of four have been asked for.
#[derive(Debug)]
struct Together {
    inner: StorageRef,
    asked: watch::Sender<usize>,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for Together {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        if options.range.as_ref().is_some_and(|range| range.start < 100) {
            self.asked.send_modify(|asked| *asked += 1);
            let four = self.asked.subscribe().wait_for(|asked| *asked >= 4).await.is_ok();
            assert!(four, "the sender lives");
        }
        self.inner.read(path, options).await
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        self.inner.write(path, bytes, options).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        self.inner.writer(path, options).await
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.inner.stat(path, options).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        self.inner.list(prefix, options)
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        self.inner.copy(from, to, options).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.inner.delete(path, options).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        self.inner.delete_many(paths, options).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.inner.create_dir(path, options).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        self.inner.rename(from, to, options).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_asked_for_before_their_turn() {
    const FILES: i64 = 12;
    let bench = Bench::wrapped("ahead", Ids::Column("number".into()), |inner| {
        Arc::new(Together { inner, asked: watch::Sender::new(0) })
    });
    for file in 0..FILES {
        let numbers: Vec<i64> = (file * 100..(file + 1) * 100).collect();
        bench.input(&format!("f{file:02}"), &rows(&numbers, None), properties(100, 64 << 10, true).build()).await;
    }
    // One request after the other would wait for ever.
    let run = tokio::time::timeout(Duration::from_secs(120), bench.run()).await;
    let (report, reads) = run.expect("the starts of four files are asked for at once");
    assert_eq!(report.processed_rows as i64, FILES * 100);
    assert_eq!(reads.requests as i64, FILES * 2, "a footer and a row group of each");
    assert_eq!(bench.output().await.len() as i64, FILES * 100);
}
