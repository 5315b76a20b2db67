//! What cases do again and again to the storage under test.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, Entry, Error, ErrorKind, ListOptions, ObjectMeta, ObjectPath, ReadOptions, StatOptions, StorageExt,
    StorageRef, WriteMode, WriteOptions, WriteOutcome,
};
use futures::stream::{StreamExt, TryStreamExt};

use super::Settings;

/// The storage of one case.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) storage: StorageRef,
    /// The same place, as another client has it open.
    pub(super) other: StorageRef,
    pub(super) settings: Settings,
}

impl Subject {
    pub(super) fn new(storage: StorageRef, other: StorageRef, settings: Settings) -> Self {
        Self { storage, other, settings }
    }

    pub(super) fn capabilities(&self) -> &Capabilities {
        self.storage.capabilities()
    }

    /// Writes, and expects to be done.
    pub(super) async fn put(&self, at: &str, bytes: impl Into<Bytes>) -> Result<ObjectMeta> {
        let outcome = self.storage.write(&path(at)?, bytes.into(), WriteOptions::new()).await;
        done(outcome.with_context(|| format!("write of {at:?}"))?)
    }

    /// Writes each path as the content of its own object, several at a time.
    pub(super) async fn put_names(&self, names: &[String]) -> Result<()> {
        let writes = names.iter().map(|name| async move { self.put(name, name.clone()).await.map(|_| ()) });
        let writes: Vec<_> = writes.collect();
        futures::stream::iter(writes).buffer_unordered(32).try_collect().await
    }

    /// Creates, and gives the outcome.
    pub(super) async fn create(&self, at: &str, bytes: impl Into<Bytes>) -> Result<WriteOutcome> {
        let options = WriteOptions::new().mode(WriteMode::IfAbsent);
        let outcome = self.storage.write(&path(at)?, bytes.into(), options).await;
        outcome.with_context(|| format!("create of {at:?}"))
    }

    /// Reads a whole object.
    pub(super) async fn get(&self, at: &str) -> Result<Bytes> {
        let read = self.storage.read(&path(at)?, ReadOptions::new()).await;
        let read = read.with_context(|| format!("read of {at:?}"))?;
        ensure!(read.meta.size == read.bytes.len() as u64, "read of {at:?}: size={}", read.meta.size);
        Ok(read.bytes)
    }

    /// Expects an object to be there with these bytes.
    pub(super) async fn expect(&self, at: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let (got, bytes) = (self.get(at).await?, bytes.as_ref());
        ensure!(got == bytes, "{at:?} holds {}, not {}", shown(&got), shown(bytes));
        Ok(())
    }

    /// Expects no object, by `stat` and by `read`.
    pub(super) async fn expect_missing(&self, at: &str) -> Result<()> {
        let at = path(at)?;
        expect_kind(self.storage.stat(&at, StatOptions::new()).await, ErrorKind::NotFound, "stat")?;
        expect_kind(self.storage.read(&at, ReadOptions::new()).await, ErrorKind::NotFound, "read")
    }

    /// The paths of a listing, sorted; directories end with `/`. Each comes once.
    pub(super) async fn list(&self, prefix: &str, options: ListOptions) -> Result<Vec<String>> {
        let entries: Vec<Entry> = self.storage.list(&path(prefix)?, options).try_collect().await?;
        let mut names: Vec<String> = entries
            .iter()
            .map(|entry| match entry {
                Entry::File { path, .. } => path.to_string(),
                Entry::Dir { path } => format!("{path}/"),
            })
            .collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("listed twice: {:?}", twice[0]);
        }
        Ok(names)
    }

    /// Everything below the root.
    pub(super) async fn list_all(&self) -> Result<Vec<String>> {
        self.list("", ListOptions::new().recursive(true)).await
    }

    /// Expects these objects and no others, where listings are fresh; each by `stat` in any case.
    pub(super) async fn expect_exactly(&self, names: &[&str]) -> Result<()> {
        for name in names {
            ensure!(self.storage.stat_optional(&path(name)?).await?.is_some(), "{name:?} is missing");
        }
        if self.capabilities().consistent_list {
            let mut names = names.to_vec();
            names.sort_unstable();
            let listed = self.list_all().await?;
            ensure!(listed == names, "the storage holds {listed:?}, not {names:?}");
        }
        Ok(())
    }
}

/// A path that a case writes.
pub(super) fn path(text: &str) -> Result<ObjectPath> {
    ObjectPath::parse(text).with_context(|| format!("path {text:?}"))
}

/// The metadata of a write that is done; anything else is a failure of the case.
pub(super) fn done(outcome: WriteOutcome) -> Result<ObjectMeta> {
    match outcome {
        WriteOutcome::Done(meta) => Ok(meta),
        WriteOutcome::AlreadyExists => bail!("the outcome is `already exists`, where it should be done"),
        WriteOutcome::Unknown(error) => Err(error).context("the outcome is unknown, where it should be done"),
    }
}

/// Expects that the write lost against an object that is there.
pub(super) fn expect_exists(outcome: WriteOutcome) -> Result<()> {
    ensure!(matches!(outcome, WriteOutcome::AlreadyExists), "expected `already exists`, got {outcome:?}");
    Ok(())
}

/// Expects an error of a kind, named as the trait asks.
pub(super) fn expect_kind<T>(answer: checkpoint_fs::Result<T>, kind: ErrorKind, what: &str) -> Result<()> {
    match answer {
        Ok(_) => bail!("{what} succeeded, where it should fail: {kind}"),
        Err(error) if error.kind() != kind => Err(error).with_context(|| format!("{what} should fail: {kind}")),
        Err(error) => expect_named(&error).with_context(|| format!("error of {what}")),
    }
}

fn expect_named(error: &Error) -> Result<()> {
    ensure!(!error.operation().is_empty(), "names no operation: {error}");
    ensure!(!error.url().is_empty(), "names no URL: {error}");
    Ok(())
}

fn shown(bytes: &[u8]) -> String {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
    format!("{} bytes {head:?}", bytes.len())
}

/// Bytes without a pattern that a part size could hide in.
pub(super) fn noise(len: usize, seed: u32) -> Bytes {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 24) as u8
    };
    Bytes::from_iter((0..len).map(next))
}
