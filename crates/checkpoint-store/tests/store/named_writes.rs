//! Tasks that another engine runs for an attempt, under names that its owner wrote down.

use std::sync::Arc;
use std::time::Duration;

use checkpoint_fs::{MemoryStorage, StorageRef};
use checkpoint_store::{Attempt, AttemptState, Begin, BeginOptions, Checkpoint, ErrorKind};

use crate::compaction::compact_as;
use crate::crash_storage::{Crash, Point};
use crate::small_job::{Done, World, attempt, begin, column, committed, kind, parquet, write_task};

/// What a driver names before its workers start.
const WRITES: [&str; 3] =
    ["5f0c1d2e3a4b4c5d8e9f000000000001", "5f0c1d2e3a4b4c5d8e9f000000000002", "5f0c1d2e3a4b4c5d8e9f000000000003"];

/// What a worker does, at any time, whoever owns the checkpoint by then.
struct Worker<'a> {
    world: &'a World,
    task: String,
    ids: Vec<i64>,
}

impl<'a> Worker<'a> {
    fn new(world: &'a World, write: &str, number: usize, ids: &[i64]) -> Self {
        Self { world, task: format!("{write}_{number:06}"), ids: ids.to_vec() }
    }

    fn parquet(&self) -> bytes::Bytes {
        parquet("id", &column(&self.ids))
    }

    async fn prepare(&self) {
        self.world.put(&self.world.checkpoint, &format!("{}.pending.parquet", self.task), self.parquet()).await;
    }

    async fn data(&self) {
        self.world.put(&self.world.output, &format!("{}-0.parquet", self.task), self.parquet()).await;
    }

    async fn publish(&self) {
        self.world.put(&self.world.checkpoint, &format!("{}.parquet", self.task), self.parquet()).await;
        self.world.remove(&self.world.checkpoint, &format!("{}.pending.parquet", self.task)).await;
    }

    async fn whole(&self) {
        self.prepare().await;
        self.data().await;
        self.publish().await;
    }
}

async fn owner(world: &World, write: &str) -> Attempt {
    let attempt = world.attempt().await;
    attempt.name_writes(vec![write.to_owned()]).await.expect("is written down");
    attempt
}

#[tokio::test]
async fn they_count_while_the_attempt_is_open_and_are_closed_by_the_next() {
    let world = World::new(true);
    let first = owner(&world, WRITES[0]).await;
    assert_eq!(first.number(), 1);
    Worker::new(&world, WRITES[0], 0, &[0, 1]).whole().await;
    assert_eq!(committed(&world.look()).await.expect("loads"), [0, 1], "before anything is closed");
    first.end(AttemptState::Failed).await.expect("ends");

    let second = owner(&world, WRITES[1]).await;
    assert_eq!((second.rows(), second.ids().len()), (2, 2));
    Worker::new(&world, WRITES[1], 0, &[2]).whole().await;
    assert_eq!(committed(&world.look()).await.expect("loads"), [0, 1, 2], "and after");
    second.end(AttemptState::Failed).await.expect("ends");
    world.run(&[0, 1, 2, 3], false).await.expect("ends");
    world.holds_once(&[0, 1, 2, 3]).await;
    assert_eq!(world.checkpoint_files().await, [""; 0]);
}

/// Each step of a worker that goes on after the next attempt closed its own.
#[tokio::test]
async fn what_comes_after_the_closing_is_void_with_its_data() {
    for early in 0..3 {
        for late in early..3 {
            let world = World::new(true);
            let first = owner(&world, WRITES[0]).await;
            Worker::new(&world, WRITES[0], 0, &[0]).whole().await;
            let zombie = Worker::new(&world, WRITES[0], 1, &[1, 2]);
            if early > 0 {
                zombie.prepare().await;
            }
            if early > 1 {
                // Of its data a part is there, which proves nothing.
                world.put(&world.output, &format!("{}-0.parquet", zombie.task), parquet("id", &column(&[1]))).await;
            }
            first.end(AttemptState::Failed).await.expect("ends");

            let second = owner(&world, WRITES[1]).await;
            assert_eq!(second.ids().len(), 1);
            zombie.prepare().await;
            if late > 0 {
                zombie.data().await;
            }
            if late > 1 {
                zombie.publish().await;
            }
            assert_eq!(committed(&world.look()).await.expect("loads"), [0], "{early} {late}");
            second.end(AttemptState::Failed).await.expect("ends");

            let third = world.attempt().await;
            assert_eq!((third.ids().len(), third.rows()), (1, 1), "{early} {late}");
            third.end(AttemptState::Failed).await.expect("ends");
            world.run(&[0, 1, 2, 3], true).await.expect("ends");
            world.holds_once(&[0, 1, 2, 3]).await;
            let left = world.checkpoint_files().await;
            assert!(left.iter().all(|file| !file.contains(&zombie.task)), "{early} {late}: {left:?}");
            assert!(world.verify().await.ok, "{early} {late}");
        }
    }
}

/// Ray makes directories of the values of columns; what lies in them is its task's all the same.
#[tokio::test]
async fn data_in_directories_belongs_to_its_task() {
    let world = World::new(true);
    let first = owner(&world, WRITES[0]).await;
    let part = |task: &str, kind: &str| format!("kind={kind}/{task}-0.parquet");
    let [void, whole, done] =
        [(0, &[1, 2][..]), (1, &[3, 4]), (2, &[5, 6])].map(|(n, ids)| Worker::new(&world, WRITES[0], n, ids));
    for worker in [&void, &whole, &done] {
        worker.prepare().await;
        world.put(&world.output, &part(&worker.task, "a"), parquet("id", &column(&worker.ids[..1]))).await;
    }
    for worker in [&whole, &done] {
        world.put(&world.output, &part(&worker.task, "b"), parquet("id", &column(&worker.ids[1..]))).await;
    }
    done.publish().await;
    // A copy that somebody made of a file of another job.
    world.put(&world.output, "copies/abcdefghijklmnop-1-000001.parquet", "a copy").await;
    world.put(&world.output, &format!("_old/{}-0.parquet", void.task), "not looked at").await;
    first.end(AttemptState::Failed).await.expect("ends");

    let second = world.attempt().await;
    let recovery = second.recovery();
    assert_eq!((recovery.rolled_forward, recovery.deleted_files), (1, 1));
    assert_eq!(second.ids().len(), 4);
    let left = crate::small_job::files(&world.output).await;
    assert_eq!(left.iter().filter(|name| name.contains(&void.task)).count(), 1, "{left:?}");
    assert!(left.contains(&"copies/abcdefghijklmnop-1-000001.parquet".to_owned()));
    second.finish(false).await.expect("ends");
    let marks = left.iter().filter(|name| name.starts_with("kind=")).count();
    assert_eq!(marks, 4);
    let mark = crate::small_job::files(&world.output).await.into_iter().find(|name| name.starts_with("_CHECKPOINT"));
    let mark = world.get(&world.output, &mark.expect("a mark")).await;
    let mark: serde_json::Value = serde_json::from_slice(&mark).expect("JSON");
    assert_eq!(mark["data_files"].as_array().expect("files").len(), 4);
    assert_eq!(world.run(&[1, 2], false).await.expect("is done"), crate::small_job::Done::Already(4));
}

/// One row to a file: the names go on after the task's with an underscore.
#[tokio::test]
async fn files_of_single_rows_belong_to_their_task() {
    let world = World::new(true);
    let first = owner(&world, WRITES[0]).await;
    let worker = Worker::new(&world, WRITES[0], 10, &[1]);
    worker.prepare().await;
    let file = |task: &str| format!("{task}_000000_000003.png");
    world.put(&world.output, &file(&worker.task), "a picture").await;
    let other = Worker::new(&world, WRITES[0], 100_000, &[2]);
    let longer = Worker::new(&world, WRITES[0], 1_000_000, &[3]);
    other.prepare().await;
    longer.whole().await;
    world.put(&world.output, &file(&longer.task), "its own").await;
    world.put(&world.output, &format!("{}_0_1.png", worker.task), "of somebody else").await;
    first.end(AttemptState::Failed).await.expect("ends");
    let second = world.attempt().await;
    assert_eq!(second.recovery().deleted_files, 1);
    let names = crate::small_job::files(&world.output).await;
    assert_eq!(names.iter().filter(|name| name.ends_with(".png")).count(), 2, "{names:?}");
    assert!(!names.contains(&file(&worker.task)));
}

#[tokio::test]
async fn a_write_has_a_name_that_no_other_has() {
    let world = World::new(true);
    let owner = world.attempt().await;
    assert_eq!(kind(owner.name_writes(vec!["part".to_owned()]).await), ErrorKind::InvalidConfig);
    let again = vec![WRITES[0].to_owned(), WRITES[0].to_owned()];
    owner.name_writes(again).await.expect("is written down");
    let file = world.get(&world.checkpoint, "_meta/attempts/1.json").await;
    let file: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    assert_eq!(file["writes"], serde_json::json!([WRITES[0]]));
    owner.end(AttemptState::Failed).await.expect("ends");

    // A later attempt's would be taken for the earlier one's, and void.
    let next = world.attempt().await;
    for again in [WRITES[0].to_owned(), WRITES[0][..20].to_owned(), format!("x-{}", WRITES[0])] {
        assert_eq!(kind(next.name_writes(vec![again]).await), ErrorKind::InvalidConfig);
    }
    next.name_writes(vec![WRITES[1].to_owned()]).await.expect("is another");
}

/// Which of its tasks count is what the next one finds out.
#[tokio::test]
async fn the_attempt_that_named_writes_does_not_end_the_job() {
    let world = World::new(true);
    let first = owner(&world, WRITES[0]).await;
    Worker::new(&world, WRITES[0], 0, &[1, 2]).whole().await;
    assert_eq!(kind(first.finish(false).await), ErrorKind::InvalidConfig);
    world.attempt().await.finish(false).await.expect("ends");
    world.holds_once(&[1, 2]).await;
}

/// The record of a worker that is late, which a list will void.
#[tokio::test]
async fn a_late_pending_record_does_not_stop_a_compaction() {
    let world = World::new(true);
    let first = owner(&world, WRITES[0]).await;
    write_task(&first, &[1]).await.expect("writes");
    first.end(AttemptState::Failed).await.expect("ends");
    world.attempt().await.end(AttemptState::Failed).await.expect("ends");
    Worker::new(&world, WRITES[0], 1, &[7]).prepare().await;
    compact_as(&world.look(), None).await.expect("compacts");
    assert_eq!(committed(&world.look()).await.expect("loads"), [1]);
}

/// A worker of a closed attempt publishes when all that is left is the deletion of the checkpoint.
#[tokio::test]
async fn a_late_record_of_a_named_write_goes_with_the_checkpoint() {
    let mut tried = 0;
    for effect in 0..60 {
        let world = World::new(false);
        let first = world.attempt().await;
        first.name_writes(vec![WRITES[0].to_owned()]).await.expect("named");
        first.end(AttemptState::Failed).await.expect("ends");
        let crash = Crash::at(Point::After(effect));
        let process = world.process("a");
        let c = Checkpoint::new(crash.wrap(&world.checkpoint), process.clone());
        let Ok(Begin::Attempt(last)) = begin(&c, &world.output, BeginOptions::default()).await else { continue };
        if write_task(&last, &[1, 2, 3, 7]).await.is_err() {
            continue;
        }
        let finished = last.finish(false).await;
        process.kill();
        let there = world.checkpoint_files().await;
        if finished.is_ok()
            || !there.contains(&"_meta/complete".to_owned())
            || !there.contains(&"_meta/job.json".to_owned())
        {
            continue;
        }
        tried += 1;
        world.put(&world.checkpoint, &format!("{}_000001.parquet", WRITES[0]), parquet("id", &column(&[7]))).await;
        world.clock.advance(Duration::from_secs(600)).await;
        assert_eq!(world.run(&[1, 2, 3, 7], false).await.expect("ends"), Done::Already(4));
        let output: StorageRef = Arc::new(MemoryStorage::new("memory://job/other-output"));
        let next = attempt(begin(&world.look(), &output, BeginOptions::default()).await);
        assert_eq!(
            next.ids().len(),
            0,
            "effect {effect}: a new job in the freed directory has nothing done: {:?}",
            world.checkpoint_files().await
        );
    }
    assert!(tried > 0);
}
