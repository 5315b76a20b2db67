//! Publishing: one write from memory, a streamed one from disk, nothing left after a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, Error, ErrorKind, ListOptions,
    MemoryStorage, ObjectMeta, ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage,
    StorageExt, StorageRef, StorageWriter, WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_pipeline::Format;
use checkpoint_pipeline::output::{EncodeOptions, EncodedFile, FileEncoder};
use futures::stream::BoxStream;

/// A memory storage that counts, and whose streamed writes fail at a chosen piece.
#[derive(Debug)]
struct Counting {
    inner: MemoryStorage,
    counts: Arc<Counts>,
    fail_at: Option<usize>,
}

#[derive(Debug, Default)]
struct Counts {
    writes: AtomicUsize,
    pieces: AtomicUsize,
    largest: AtomicUsize,
    finished: AtomicUsize,
    aborted: AtomicUsize,
}

#[derive(Debug)]
struct CountingWriter {
    inner: Box<dyn StorageWriter>,
    counts: Arc<Counts>,
    fail_at: Option<usize>,
}

#[async_trait]
impl StorageWriter for CountingWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let piece = self.counts.pieces.fetch_add(1, Ordering::Relaxed);
        self.counts.largest.fetch_max(bytes.len(), Ordering::Relaxed);
        if self.fail_at == Some(piece) {
            return Err(Error::new(ErrorKind::Io, "the network is gone").with_operation("write"));
        }
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        self.counts.finished.fetch_add(1, Ordering::Relaxed);
        self.inner.finish().await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.counts.aborted.fetch_add(1, Ordering::Relaxed);
        self.inner.abort().await
    }
}

#[async_trait]
impl Storage for Counting {
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
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.write(path, bytes, options).await
    }
    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        let inner = self.inner.writer(path, options).await?;
        Ok(Box::new(CountingWriter { inner, counts: Arc::clone(&self.counts), fail_at: self.fail_at }))
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

fn storage(fail_at: Option<usize>) -> (StorageRef, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let inner = MemoryStorage::new("memory://t");
    (Arc::new(Counting { inner, counts: Arc::clone(&counts), fail_at }), counts)
}

/// A JSON lines file of 20 MiB and some.
fn file(spool_memory: usize) -> EncodedFile {
    let row = "x".repeat(1 << 20);
    let batch =
        RecordBatch::try_from_iter([("t", Arc::new(StringArray::from(vec![row; 20])) as ArrayRef)]).expect("valid");
    let options = EncodeOptions::new().spool_memory(spool_memory);
    let mut encoder = FileEncoder::new(Format::JsonLines, batch.schema(), options).expect("starts");
    encoder.write(&batch).expect("writes");
    encoder.finish().expect("finishes")
}

fn path() -> ObjectPath {
    ObjectPath::parse("out/data.jsonl").expect("valid")
}

#[tokio::test]
async fn from_memory_it_is_one_write() {
    let (storage, counts) = storage(None);
    let outcome = file(usize::MAX).publish(&storage, &path(), WriteOptions::new()).await.expect("publishes");
    assert!(matches!(outcome, WriteOutcome::Done(_)));
    assert_eq!((counts.writes.load(Ordering::Relaxed), counts.pieces.load(Ordering::Relaxed)), (1, 0));
}

#[tokio::test]
async fn from_disk_it_is_streamed_in_bounded_pieces() {
    let (storage, counts) = storage(None);
    let file = file(1000);
    let size = file.bytes();
    let outcome = file.publish(&storage, &path(), WriteOptions::new()).await.expect("publishes");
    let WriteOutcome::Done(meta) = outcome else { panic!("{outcome:?}") };
    assert_eq!(meta.size, size);
    assert_eq!((counts.writes.load(Ordering::Relaxed), counts.pieces.load(Ordering::Relaxed)), (0, 3));
    assert_eq!(counts.largest.load(Ordering::Relaxed), 8 << 20);
    let bytes = storage.read(&path(), ReadOptions::new()).await.expect("reads").bytes;
    assert!(bytes.chunks((1 << 20) + 9).all(|line| line.starts_with(b"{\"t\":\"xxx") && line.ends_with(b"x\"}\n")));
}

#[tokio::test]
async fn a_failed_stream_is_aborted_and_leaves_nothing() {
    for piece in 0..3 {
        let (storage, counts) = storage(Some(piece));
        let error = file(0).publish(&storage, &path(), WriteOptions::new()).await.expect_err("fails");
        assert_eq!(error.kind(), checkpoint_pipeline::ErrorKind::Storage);
        assert_eq!((counts.aborted.load(Ordering::Relaxed), counts.finished.load(Ordering::Relaxed)), (1, 0));
        assert!(storage.list_files(&ObjectPath::root(), true).await.expect("lists").is_empty());
    }
}

#[tokio::test]
async fn create_only_never_replaces_either_way() {
    let (storage, _) = storage(None);
    let _ = storage.write(&path(), "theirs".into(), WriteOptions::new()).await.expect("writes");
    for spool_memory in [0, usize::MAX] {
        let options = WriteOptions::new().mode(WriteMode::IfAbsent);
        let outcome = file(spool_memory).publish(&storage, &path(), options).await.expect("answers");
        assert!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
    }
    assert_eq!(storage.read(&path(), ReadOptions::new()).await.expect("reads").bytes, "theirs");
}
