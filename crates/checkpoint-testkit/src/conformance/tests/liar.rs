//! A storage that breaks one promise.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, Error, ErrorKind, ListOptions,
    ObjectMeta, ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageExt,
    StorageRef, StorageWriter, WriteMode, WriteOptions, WriteOutcome,
};
use futures::stream::{self, BoxStream, StreamExt};

/// The promise that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lie {
    Claims(Capabilities),
    CreateReplaces,
    CreateLooksFirst,
    StreamedCreateReplaces,
    WritesInPlace,
    CopiesInPlace,
    CopyReplaces,
    RenameReplaces,
    RenameLooksFirst,
    RenameKeepsSource,
    RenameCopiesAndDeletes,
    StreamsShow,
    StreamsLoseTheTail,
    ForgetsGuards,
    FinishForgetsGuards,
    FirstPageOnly,
    PagesOverlap,
    PlainPrefix,
    StartsAtTheStart,
    ListsLate,
    ListsBackwards,
    ListsFlat,
    MissingDirectoryFails,
    DecodesNames,
    RangesFailAtTheEnd,
    DirectoriesAreObjects,
    DeletesBelow,
    DeletingNothingFails,
    OneBatchOnly,
    NamelessErrors,
    WrongSize,
}

#[derive(Debug)]
pub(super) struct Liar {
    inner: StorageRef,
    lie: Lie,
}

impl Liar {
    pub(super) fn new(inner: StorageRef, lie: Lie) -> Self {
        Self { inner, lie }
    }

    fn name(&self, path: &ObjectPath) -> ObjectPath {
        match self.lie {
            Lie::DecodesNames => ObjectPath::parse(path.as_str().replace("%41", "A")).expect("valid"),
            _ => path.clone(),
        }
    }

    async fn is_there(&self, path: &ObjectPath) -> bool {
        let there = self.inner.stat_optional(path).await.expect("stat").is_some();
        tokio::task::yield_now().await;
        there
    }

    /// Half of the bytes, then all.
    async fn write_in_place(&self, path: &ObjectPath, bytes: &Bytes) {
        let half = bytes.slice(..bytes.len() / 2);
        let _ = self.inner.write(path, half, WriteOptions::new()).await.expect("writes");
        tokio::task::yield_now().await;
    }
}

#[async_trait]
impl Storage for Liar {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> &Capabilities {
        match &self.lie {
            Lie::Claims(claims) => claims,
            _ => self.inner.capabilities(),
        }
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        let end = options.range.as_ref().map(|r| r.end);
        let mut read = match self.inner.read(&self.name(path), options).await {
            Err(error) if self.lie == Lie::NamelessErrors => return Err(Error::new(error.kind(), "failed")),
            answer => answer?,
        };
        if self.lie == Lie::RangesFailAtTheEnd && end.is_some_and(|end| end > read.meta.size) {
            return Err(Error::new(ErrorKind::InvalidConfig, "range not satisfiable"));
        }
        if self.lie == Lie::WrongSize {
            read.meta.size += 1;
        }
        Ok(read)
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, mut options: WriteOptions) -> Result<WriteOutcome> {
        match self.lie {
            Lie::CreateReplaces => options.mode = WriteMode::Overwrite,
            Lie::CreateLooksFirst if options.mode == WriteMode::IfAbsent => {
                if self.is_there(path).await {
                    return Ok(WriteOutcome::AlreadyExists);
                }
                options.mode = WriteMode::Overwrite;
            }
            Lie::WritesInPlace => self.write_in_place(path, &bytes).await,
            Lie::ForgetsGuards => options.guard = None,
            _ => {}
        }
        self.inner.write(&self.name(path), bytes, options).await
    }

    async fn writer(&self, path: &ObjectPath, mut options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        match self.lie {
            Lie::StreamedCreateReplaces => options.mode = WriteMode::Overwrite,
            Lie::FinishForgetsGuards | Lie::ForgetsGuards => options.guard = None,
            Lie::StreamsShow | Lie::StreamsLoseTheTail => {
                let (inner, lie) = (self.inner.clone(), self.lie.clone());
                return Ok(Box::new(LyingWriter { inner, lie, path: path.clone(), bytes: BytesMut::new() }));
            }
            _ => {}
        }
        self.inner.writer(path, options).await
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        match self.inner.stat(&self.name(path), options).await {
            Err(error) if self.lie == Lie::DirectoriesAreObjects => {
                let below = self.inner.list_files(path, true).await?;
                if below.is_empty() { Err(error) } else { Ok(ObjectMeta::new(0)) }
            }
            Err(error) if self.lie == Lie::NamelessErrors => Err(Error::new(error.kind(), "failed")),
            answer => answer,
        }
    }

    fn list(&self, prefix: &ObjectPath, mut options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        let mut from = prefix.clone();
        match self.lie {
            Lie::StartsAtTheStart => options.start_after = None,
            Lie::ListsFlat => options.recursive = false,
            Lie::PlainPrefix => from = ObjectPath::root(),
            _ => {}
        }
        let (lie, prefix) = (self.lie.clone(), prefix.to_string());
        let entries = self.inner.list(&from, options);
        let all = async move {
            let mut all: Vec<Result<Entry>> = entries.collect().await;
            match lie {
                Lie::FirstPageOnly => all.truncate(1000),
                Lie::PagesOverlap if all.len() > 1000 => {
                    let again = all[999].as_ref().expect("entry").clone();
                    all.insert(1000, Ok(again));
                }
                Lie::PlainPrefix => {
                    all.retain(|e| e.as_ref().is_ok_and(|e| e.path().as_str().starts_with(&prefix)));
                }
                Lie::ListsLate => drop(all.pop()),
                Lie::ListsBackwards => all.reverse(),
                Lie::MissingDirectoryFails if all.is_empty() => {
                    all.push(Err(Error::new(ErrorKind::NotFound, "no such directory")));
                }
                _ => {}
            }
            stream::iter(all)
        };
        stream::once(all).flatten().boxed()
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, mut options: CopyOptions) -> Result<WriteOutcome> {
        match self.lie {
            Lie::CopyReplaces => options.mode = WriteMode::Overwrite,
            Lie::CopiesInPlace => {
                let bytes = self.inner.read(from, ReadOptions::new()).await?.bytes;
                self.write_in_place(to, &bytes).await;
            }
            Lie::ForgetsGuards => options.guard = None,
            _ => {}
        }
        self.inner.copy(from, to, options).await
    }

    async fn delete(&self, path: &ObjectPath, mut options: DeleteOptions) -> Result<()> {
        match self.lie {
            Lie::DeletesBelow => {
                for (below, _) in self.inner.list_files(path, true).await? {
                    self.inner.delete(&below, DeleteOptions::new()).await?;
                }
            }
            Lie::DeletingNothingFails => drop(self.inner.stat(path, StatOptions::new()).await?),
            Lie::ForgetsGuards => options.guard = None,
            _ => {}
        }
        self.inner.delete(&self.name(path), options).await
    }

    async fn delete_many(&self, mut paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        if self.lie == Lie::OneBatchOnly {
            paths.truncate(500);
        }
        self.inner.delete_many(paths, options).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.inner.create_dir(path, options).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, mut options: RenameOptions) -> Result<WriteOutcome> {
        match self.lie {
            Lie::RenameReplaces => options.mode = WriteMode::Overwrite,
            Lie::RenameLooksFirst if options.mode == WriteMode::IfAbsent => {
                if self.is_there(to).await {
                    return Ok(WriteOutcome::AlreadyExists);
                }
                options.mode = WriteMode::Overwrite;
            }
            Lie::RenameKeepsSource => {
                return self.inner.copy(from, to, CopyOptions::new().mode(options.mode)).await;
            }
            Lie::RenameCopiesAndDeletes => {
                let copied = self.inner.copy(from, to, CopyOptions::new().mode(options.mode)).await?;
                if matches!(copied, WriteOutcome::Done(_)) {
                    self.inner.delete(from, DeleteOptions::new()).await?;
                }
                return Ok(copied);
            }
            _ => {}
        }
        self.inner.rename(from, to, options).await
    }
}

#[derive(Debug)]
struct LyingWriter {
    inner: StorageRef,
    lie: Lie,
    path: ObjectPath,
    bytes: BytesMut,
}

#[async_trait]
impl StorageWriter for LyingWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&bytes);
        if self.lie == Lie::StreamsShow {
            let so_far = self.bytes.clone().freeze();
            let _ = self.inner.write(&self.path, so_far, WriteOptions::new()).await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<WriteOutcome> {
        if self.lie == Lie::StreamsLoseTheTail {
            self.bytes.truncate(self.bytes.len() / 4096 * 4096);
        }
        self.inner.write(&self.path, self.bytes.freeze(), WriteOptions::new()).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
