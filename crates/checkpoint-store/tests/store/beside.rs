//! Readers beside a live owner: between any two requests of theirs it may go on, and they are right all the same.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta,
    ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageRef, StorageWriter,
    WriteOptions, WriteOutcome,
};
use checkpoint_store::{Attempt, AttemptState, Checkpoint, ErrorKind, ParquetIds, VerifyOptions};
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::Mutex;

use crate::small_job::{ROWS, Step, World, committed, write_task};

/// What an owner does, one step at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Begin,
    Prepare(i64),
    Data(usize),
    Commit,
    /// Dies with its task as it is.
    Die,
    /// The record of the first task that was left half done arrives, though its attempt is closed.
    Late,
    Finish {
        keep: bool,
    },
}

/// A job with two deaths in it, every act of it, with or without a record that arrives late.
fn acts(keep: bool, late: bool) -> Vec<Act> {
    let task = |first| [Act::Prepare(first), Act::Data(0), Act::Data(1), Act::Commit];
    let mut acts = vec![Act::Begin];
    acts.extend(task(0));
    // Dead with half of its data: void. Then with all of it: rolled forward.
    acts.extend([Act::Prepare(4), Act::Data(0), Act::Die, Act::Begin]);
    acts.extend(late.then_some(Act::Late));
    acts.extend([Act::Prepare(4), Act::Data(0), Act::Data(1), Act::Die, Act::Begin]);
    acts.extend(task(8));
    acts.push(Act::Finish { keep });
    acts
}

#[derive(Debug)]
struct Owner {
    world: Arc<World>,
    acts: VecDeque<Act>,
    attempt: Option<Attempt>,
    step: Option<Step>,
    late: Option<(String, Bytes)>,
}

impl Owner {
    async fn act(&mut self) {
        match self.acts.pop_front() {
            None => {}
            Some(Act::Begin) => self.attempt = Some(self.world.attempt().await),
            Some(Act::Prepare(first)) => {
                let ids: Vec<i64> = (first..).take(ROWS).collect();
                self.step = Some(Step::prepare(self.attempt(), &ids).await.expect("prepares"));
            }
            Some(Act::Data(i)) => {
                self.step.as_ref().expect("prepared").data(self.attempt(), i).await.expect("writes");
            }
            Some(Act::Commit) => {
                let step = self.step.take().expect("prepared");
                step.commit(self.attempt()).await.expect("commits");
            }
            Some(Act::Late) => {
                let (name, record) = self.late.clone().expect("a task was left");
                self.world.put(&self.world.checkpoint, &name, record).await;
            }
            Some(Act::Die) => {
                if let (None, Some(step)) = (&self.late, &self.step) {
                    let pending = format!("_meta/pending/{}.parquet", step.name);
                    let record = self.world.get(&self.world.checkpoint, &pending).await;
                    self.late = Some((format!("{}.parquet", step.name), record));
                }
                let attempt = self.attempt.take().expect("began");
                attempt.end(AttemptState::Failed).await.expect("ends");
            }
            Some(Act::Finish { keep }) => {
                let attempt = self.attempt.take().expect("began");
                attempt.finish(keep).await.expect("finishes");
            }
        }
    }

    fn attempt(&self) -> &Attempt {
        self.attempt.as_ref().expect("began")
    }
}

/// Lets the owner act right before the request of a given number.
#[derive(Debug)]
struct Beside {
    inner: StorageRef,
    interruption: Arc<Interruption>,
}

#[derive(Debug)]
struct Interruption {
    owner: Mutex<Owner>,
    state: Mutex<(u64, u64, usize)>,
    /// The store serves one request at a time: one that nobody waits for would keep out all others.
    place: Mutex<()>,
}

impl Interruption {
    async fn request(&self) {
        let _place = self.place.lock().await;
        tokio::task::yield_now().await;
        let acts = {
            let mut state = self.state.lock().await;
            let (number, at, acts) = *state;
            state.0 += 1;
            if number == at { acts } else { 0 }
        };
        for _ in 0..acts {
            Box::pin(self.owner.lock().await.act()).await;
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for Beside {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        self.interruption.request().await;
        self.inner.read(path, options).await
    }

    async fn write(&self, _: &ObjectPath, _: Bytes, _: WriteOptions) -> Result<WriteOutcome> {
        unreachable!("a reader writes nothing")
    }

    async fn writer(&self, _: &ObjectPath, _: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        unreachable!("a reader writes nothing")
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.interruption.request().await;
        self.inner.stat(path, options).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        let (inner, prefix, interruption) = (self.inner.clone(), prefix.clone(), self.interruption.clone());
        stream::once(async move { interruption.request().await })
            .flat_map(move |()| inner.list(&prefix, options.clone()))
            .boxed()
    }

    async fn copy(&self, _: &ObjectPath, _: &ObjectPath, _: CopyOptions) -> Result<WriteOutcome> {
        unreachable!("a reader writes nothing")
    }

    async fn delete(&self, _: &ObjectPath, _: DeleteOptions) -> Result<()> {
        unreachable!("a reader writes nothing")
    }

    async fn delete_many(&self, _: Vec<ObjectPath>, _: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        unreachable!("a reader writes nothing")
    }

    async fn create_dir(&self, _: &ObjectPath, _: CreateDirOptions) -> Result<()> {
        unreachable!("a reader writes nothing")
    }

    async fn rename(&self, _: &ObjectPath, _: &ObjectPath, _: RenameOptions) -> Result<WriteOutcome> {
        unreachable!("a reader writes nothing")
    }
}

/// A job that has done its first `done` acts, and does `acts` more right before the `at`th request of a reader.
async fn set_up(
    atomic_rename: bool,
    acts: Vec<Act>,
    done: usize,
    at: u64,
    acts_then: usize,
) -> (Checkpoint, StorageRef, Arc<Interruption>) {
    let world = Arc::new(World::new(atomic_rename));
    let mut owner = Owner { world: world.clone(), acts: acts.into(), attempt: None, step: None, late: None };
    for _ in 0..done {
        Box::pin(owner.act()).await;
    }
    let interruption = Arc::new(Interruption {
        owner: Mutex::new(owner),
        state: Mutex::new((0, at, acts_then)),
        place: Mutex::default(),
    });
    let beside = |inner: &StorageRef| -> StorageRef {
        Arc::new(Beside { inner: inner.clone(), interruption: interruption.clone() })
    };
    let checkpoint = Checkpoint::new(beside(&world.checkpoint), world.process("looker"));
    (checkpoint, beside(&world.output), interruption)
}

/// The rows that are committed after so many acts, whole tasks: a step that was prepared is no commit.
fn rows_after(acts: &[Act]) -> u64 {
    let mut rows = 0;
    for (i, act) in acts.iter().enumerate() {
        let rolled_forward = *act == Act::Begin && i > 2 && acts[i - 1] == Act::Die && acts[i - 2] == Act::Data(1);
        rows += u64::from(*act == Act::Commit || rolled_forward) * ROWS as u64;
    }
    rows
}

/// Every place at which an owner can go on, by one act or by several.
fn interruptions(requests: u64) -> impl Iterator<Item = (usize, u64, usize)> {
    let acts = acts(true, true).len();
    (0..acts)
        .flat_map(move |done| (0..requests).flat_map(move |at| [1, 3].into_iter().map(move |then| (done, at, then))))
}

/// Both ways to publish, and both ends.
fn variant(done: usize, at: u64) -> (bool, bool) {
    let even = (done as u64 + at).is_multiple_of(2);
    (even, !even)
}

#[tokio::test]
async fn verify_finds_no_fault_where_there_is_none() {
    let mut looked = 0;
    for (done, at, then) in interruptions(22) {
        let (atomic_rename, keep) = variant(done, at);
        let all = acts(keep, false);
        let (checkpoint, output, _held) = set_up(atomic_rename, all.clone(), done, at, then).await;
        let before = rows_after(&all[..done]);
        match Box::pin(checkpoint_store::verify(&checkpoint, &output, VerifyOptions::default(), &ParquetIds)).await {
            Ok(found) => {
                let faults = (found.lost_tasks, found.missing_ids, found.duplicate_ids);
                assert_eq!(faults, (0, 0, 0), "{done} {at} {then}: {found:?}");
                // What a dead attempt left has pending records, until the next start sweeps it.
                assert_eq!(found.orphan_files, 0, "{done} {at} {then}: {found:?}");
                assert!(found.committed_ids >= before, "{done} {at} {then}: {found:?}");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoCheckpoint, "{done} {at} {then}: {error}"),
        }
        looked += 1;
    }
    println!("verify looked {looked} times");
    assert!(looked > 700);
}

#[tokio::test]
async fn status_and_ids_count_whole_tasks_once() {
    let mut looked = 0;
    for (done, at, then) in interruptions(20) {
        let (atomic_rename, keep) = variant(done, at);
        let all = acts(keep, true);
        let until = (done + then).min(all.len());
        let (low, high) = (rows_after(&all[..done]), rows_after(&all[..until]));
        let ended = all[..until].iter().any(|act| matches!(act, Act::Finish { keep: false }));
        let nothing = done == 0;

        let (checkpoint, _, _held) = set_up(atomic_rename, all.clone(), done, at, then).await;
        match checkpoint_store::status(&checkpoint).await {
            Ok(status) => {
                let rows = status.committed_rows;
                assert!((low..=high).contains(&rows) && rows % 4 == 0, "{done} {at} {then}: {status:?}");
                assert_eq!(status.committed_tasks * 4, rows, "{done} {at} {then}: {status:?}");
                assert!(status.pending_tasks <= 1, "{done} {at} {then}: {status:?}");
            }
            Err(error) => {
                assert!(error.kind() == ErrorKind::NoCheckpoint && (ended || nothing), "{done} {at} {then}: {error}");
            }
        }

        let (checkpoint, _, _held) = set_up(atomic_rename, all.clone(), done, at, then).await;
        match committed(&checkpoint).await {
            Ok(ids) => {
                let mut once = ids.clone();
                once.dedup();
                assert_eq!(ids, once, "{done} {at} {then}");
                assert!((low..=high).contains(&(ids.len() as u64)), "{done} {at} {then}: {ids:?}");
            }
            // Never fewer in silence: where the end fell into the reading, that is said.
            Err(error) => {
                assert!(ended || nothing, "{done} {at} {then}: {error}");
                assert!(matches!(error.kind(), ErrorKind::NoCheckpoint | ErrorKind::Storage), "{error}");
            }
        }
        looked += 1;
    }
    println!("status and ids looked {looked} times");
    assert!(looked > 700);
}

#[tokio::test]
async fn a_job_that_is_watched_all_along_ends_well() {
    let world = World::new(false);
    let owner = world.attempt().await;
    for first in [0, 4, 8] {
        let ids: Vec<i64> = (first..).take(ROWS).collect();
        write_task(&owner, &ids).await.expect("writes");
        assert!(world.verify().await.ok);
    }
    owner.finish(true).await.expect("ends");
    assert_eq!(world.verify().await.committed_ids, 12);
}
