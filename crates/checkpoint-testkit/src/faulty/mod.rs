//! A storage that fails as it is told: before the effect, after it, late, short, or without an answer.

mod plan;

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, Error, ErrorKind, ListOptions,
    ObjectMeta, ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, Retry, StatOptions, Storage, StorageExt,
    StorageRef, StorageWriter, WriteOptions, WriteOutcome,
};
use futures::stream::{self, BoxStream, StreamExt};

pub use self::plan::{Fault, FaultPlan, Rule, Struck};
use crate::Operation;

/// Passes calls to the storage inside, with the faults of a plan. What a fault does not mention is as it
/// was: capabilities, URL, and every call that no rule strikes.
#[derive(Debug)]
pub struct FaultyStorage {
    inner: StorageRef,
    plan: FaultPlan,
}

impl FaultyStorage {
    /// Wraps a storage.
    pub fn new(inner: StorageRef, plan: FaultPlan) -> Self {
        Self { inner, plan }
    }

    async fn run<T>(
        &self,
        operation: Operation,
        path: &ObjectPath,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let fault = self.plan.next(operation, std::slice::from_ref(path));
        strike(fault, operation, self.inner.url_of(path), call).await
    }

    async fn run_outcome(
        &self,
        operation: Operation,
        path: &ObjectPath,
        call: impl Future<Output = Result<WriteOutcome>> + Send,
    ) -> Result<WriteOutcome> {
        let fault = self.plan.next(operation, std::slice::from_ref(path));
        strike_outcome(fault, operation, self.inner.url_of(path), call).await
    }
}

fn injected(kind: ErrorKind, operation: Operation, url: String) -> Error {
    let retry = match kind {
        ErrorKind::RateLimited | ErrorKind::Timeout | ErrorKind::Io => Retry::Exhausted,
        _ => Retry::Never,
    };
    Error::new(kind, "a fault was injected").with_operation(operation.as_str()).with_url(url).with_retry(retry)
}

/// Runs a call under a fault.
async fn strike<T>(
    fault: Option<Fault>,
    operation: Operation,
    url: String,
    call: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    match fault {
        None | Some(Fault::Truncate(_)) => call.await,
        Some(Fault::Refuse(kind)) => Err(injected(kind, operation, url)),
        Some(Fault::Unknown { landed: false }) => Err(injected(ErrorKind::Timeout, operation, url)),
        Some(Fault::LoseReply(kind)) => {
            call.await?;
            Err(injected(kind, operation, url))
        }
        Some(Fault::Unknown { landed: true }) => {
            call.await?;
            Err(injected(ErrorKind::Timeout, operation, url))
        }
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            call.await
        }
    }
}

/// Runs a call under a fault, where an unknown outcome is an answer of its own.
async fn strike_outcome(
    fault: Option<Fault>,
    operation: Operation,
    url: String,
    call: impl Future<Output = Result<WriteOutcome>> + Send,
) -> Result<WriteOutcome> {
    match fault {
        Some(Fault::Unknown { landed }) => {
            if landed {
                let _ = call.await?;
            }
            Ok(WriteOutcome::Unknown(injected(ErrorKind::Timeout, operation, url)))
        }
        fault => strike(fault, operation, url, call).await,
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for FaultyStorage {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        let fault = self.plan.next(Operation::Read, std::slice::from_ref(path));
        let keep = if let Some(Fault::Truncate(keep)) = fault { keep } else { u64::MAX };
        let call = self.inner.read(path, options);
        let mut read = strike(fault, Operation::Read, self.inner.url_of(path), call).await?;
        read.bytes.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
        Ok(read)
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        self.run_outcome(Operation::Write, path, self.inner.write(path, bytes, options)).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        let inner = self.run(Operation::Writer, path, self.inner.writer(path, options)).await?;
        let url = self.inner.url_of(path);
        Ok(Box::new(FaultyWriter { inner, plan: self.plan.clone(), path: path.clone(), url }))
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.run(Operation::Stat, path, self.inner.stat(path, options)).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        let fault = self.plan.next(Operation::List, std::slice::from_ref(prefix));
        let url = self.inner.url_of(prefix);
        let broken = move |kind| stream::once(async move { Err(injected(kind, Operation::List, url)) });
        let entries = self.inner.list(prefix, options);
        match fault {
            None => entries,
            Some(Fault::Refuse(kind)) => broken(kind).boxed(),
            Some(Fault::Unknown { .. }) => broken(ErrorKind::Timeout).boxed(),
            Some(Fault::LoseReply(kind)) => entries.chain(broken(kind)).boxed(),
            Some(Fault::Truncate(keep)) => entries.take(usize::try_from(keep).unwrap_or(usize::MAX)).boxed(),
            Some(Fault::Delay(time)) => {
                stream::once(tokio::time::sleep(time)).flat_map(|()| stream::empty()).chain(entries).boxed()
            }
        }
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        self.run_outcome(Operation::Copy, to, self.inner.copy(from, to, options)).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.run(Operation::Delete, path, self.inner.delete(path, options)).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        let fault = self.plan.next(Operation::DeleteMany, &paths);
        let call = self.inner.delete_many(paths, options);
        strike(fault, Operation::DeleteMany, self.inner.url().to_owned(), call).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.run(Operation::CreateDir, path, self.inner.create_dir(path, options)).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        self.run_outcome(Operation::Rename, to, self.inner.rename(from, to, options)).await
    }
}

#[derive(Debug)]
struct FaultyWriter {
    inner: Box<dyn StorageWriter>,
    plan: FaultPlan,
    path: ObjectPath,
    url: String,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl StorageWriter for FaultyWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let fault = self.plan.next(Operation::WriterWrite, std::slice::from_ref(&self.path));
        strike(fault, Operation::WriterWrite, self.url.clone(), self.inner.write(bytes)).await
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        let Self { inner, plan, path, url } = *self;
        let fault = plan.next(Operation::WriterFinish, &[path]);
        strike_outcome(fault, Operation::WriterFinish, url, inner.finish()).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        let Self { inner, plan, path, url } = *self;
        let fault = plan.next(Operation::WriterAbort, &[path]);
        strike(fault, Operation::WriterAbort, url, inner.abort()).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use checkpoint_fs::{MemoryStorage, WriteMode};

    use super::*;

    fn path(text: &str) -> ObjectPath {
        ObjectPath::parse(text).expect("valid")
    }

    fn faulty(plan: &FaultPlan) -> (StorageRef, FaultyStorage) {
        let memory: StorageRef = Arc::new(MemoryStorage::new("memory://faulty"));
        (Arc::clone(&memory), FaultyStorage::new(memory, plan.clone()))
    }

    async fn there(storage: &StorageRef, at: &str) -> bool {
        storage.stat_optional(&path(at)).await.expect("stat").is_some()
    }

    #[tokio::test]
    async fn a_rule_strikes_its_operation_its_path_and_its_turn() {
        let rule = Rule::new(Operation::Write, Fault::Refuse(ErrorKind::Io)).path(|p| p.as_str() == "a").nth(2);
        let plan = FaultPlan::new().with(rule);
        let (memory, storage) = faulty(&plan);
        let write = |at: &str| {
            let at = path(at);
            let storage = &storage;
            async move { storage.write(&at, "1".into(), WriteOptions::new()).await.is_ok() }
        };
        assert!(write("a").await && write("b").await);
        memory.delete(&path("a"), DeleteOptions::new()).await.expect("deletes");
        assert!(!write("a").await, "the second on this path");
        assert!(!there(&memory, "a").await, "and nothing happened");
        assert!(write("a").await);
        assert_eq!(plan.struck().len(), 1);
    }

    #[tokio::test]
    async fn a_lost_reply_leaves_the_effect_and_an_unknown_outcome_says_so() {
        let plan = FaultPlan::new()
            .with(Rule::new(Operation::Write, Fault::LoseReply(ErrorKind::Timeout)).nth(1))
            .with(Rule::new(Operation::Write, Fault::Unknown { landed: true }).nth(2))
            .with(Rule::new(Operation::Write, Fault::Unknown { landed: false }).nth(3))
            .with(Rule::new(Operation::WriterFinish, Fault::Unknown { landed: true }))
            .with(Rule::new(Operation::Delete, Fault::LoseReply(ErrorKind::Io)));
        let (memory, storage) = faulty(&plan);
        let create = WriteOptions::new().mode(WriteMode::IfAbsent);
        let error = storage.write(&path("1"), "1".into(), create.clone()).await.expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        for at in ["2", "3"] {
            let outcome = storage.write(&path(at), "1".into(), create.clone()).await.expect("answers");
            assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{at}");
        }
        let writer = storage.writer(&path("4"), create).await.expect("starts");
        assert!(matches!(writer.finish().await, Ok(WriteOutcome::Unknown(_))));
        let landed = [there(&memory, "1").await, there(&memory, "2").await, there(&memory, "3").await];
        assert_eq!((landed, there(&memory, "4").await), ([true, true, false], true));
        storage.delete(&path("1"), DeleteOptions::new()).await.expect_err("lost");
        assert!(!there(&memory, "1").await);
        plan.heal();
        storage.delete(&path("2"), DeleteOptions::new()).await.expect("healthy again");
    }

    #[tokio::test]
    async fn reads_and_listings_can_be_short_broken_and_late() {
        let plan = FaultPlan::new()
            .with(Rule::new(Operation::Read, Fault::Truncate(2)))
            .with(Rule::new(Operation::List, Fault::Truncate(1)).nth(1))
            .with(Rule::new(Operation::List, Fault::LoseReply(ErrorKind::Io)).nth(2))
            .with(Rule::new(Operation::List, Fault::Delay(Duration::from_millis(1))).nth(3));
        let (memory, storage) = faulty(&plan);
        for at in ["a", "b"] {
            let _ = memory.write(&path(at), "12345".into(), WriteOptions::new()).await.expect("writes");
        }
        let read = storage.read(&path("a"), ReadOptions::new()).await.expect("reads");
        assert_eq!((&read.bytes[..], read.meta.size), (&b"12"[..], 5));
        let list = || storage.list(&ObjectPath::root(), ListOptions::new()).collect::<Vec<_>>();
        assert_eq!(list().await.len(), 1);
        let broken = list().await;
        assert!(broken.len() == 3 && broken[2].is_err());
        assert!(list().await.len() == 2 && list().await.len() == 2);
        assert_eq!(plan.struck().len(), 4);
    }

    #[tokio::test]
    async fn a_seed_decides_and_repeats() {
        let run = async |seed| {
            let plan = FaultPlan::random(seed, 0.5, &[Operation::Write]);
            let (_memory, storage) = faulty(&plan);
            for i in 0..40 {
                let _ = storage.write(&path(&i.to_string()), "1".into(), WriteOptions::new()).await;
                storage.stat_optional(&path("x")).await.expect("not among the operations");
            }
            plan.struck()
        };
        let first = run(7).await;
        assert!((5..35).contains(&first.len()), "{}", first.len());
        assert_eq!(first, run(7).await);
        assert_ne!(first, run(8).await);
        assert!(FaultPlan::random(1, 0.0, &Operation::ALL).struck().is_empty());
    }
}
