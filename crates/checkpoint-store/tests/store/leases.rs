//! One owner at a time: who may begin beside whom, on a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use checkpoint_fs::{Capabilities, MemoryStorage, ObjectPath, Storage, StorageRef};
use checkpoint_store::{
    AttemptState, Begin, BeginOptions, Checkpoint, CompactOptions, Error, ErrorKind, LeaseOptions, ParquetIds,
    RecoverOptions, compact,
};
use checkpoint_testkit::{Fault, FaultPlan, FaultyStorage, ManualRuntime, Operation, Rule};

use crate::small_job::{Done, World, attempt, begin, kind, run, write_task};

const SECOND: Duration = Duration::from_secs(1);

fn watching() -> BeginOptions {
    let mut options = BeginOptions::default();
    options.lease.trust_process = false;
    options
}

/// Begins in the background while the clock moves; answers what came out and after how many seconds.
async fn begin_while_time_passes(
    world: &World,
    process: &Arc<ManualRuntime>,
    options: BeginOptions,
) -> (Result<Begin, Error>, u64) {
    let (checkpoint, output) = (world.seen_by(process), world.output.clone());
    let began = world.clock.now();
    let task = tokio::spawn(async move { Box::pin(begin(&checkpoint, &output, options)).await });
    for _ in 0..120 {
        world.clock.advance(SECOND).await;
        if task.is_finished() {
            break;
        }
    }
    let waited = (world.clock.now() - began).as_secs();
    (task.await.expect("ends"), waited)
}

#[tokio::test]
async fn a_second_job_is_refused_while_the_first_lives() {
    let world = World::new(true);
    let first = world.attempt().await;
    let error = world.begin().await.expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("process 1 on host a"), "{error}");
    // Long after the first lease would have run out, too.
    world.clock.advance(SECOND * 300).await;
    assert_eq!(kind(world.begin().await), ErrorKind::Conflict);
    first.check_lease().expect("it has renewed");
    assert_eq!(kind(checkpoint_store::remove(&world.look(), LeaseOptions::default()).await), ErrorKind::Conflict);
    let looker = world.look();
    let recover = checkpoint_store::recover(&looker, &world.output, RecoverOptions::default(), &ParquetIds);
    assert_eq!(kind(Box::pin(recover).await), ErrorKind::Conflict);
}

/// What a start leaves that was killed before it made its job.
async fn only_an_attempt(world: &World) {
    world.attempt().await.end(AttemptState::Failed).await.expect("ends");
    for name in world.checkpoint_files().await.into_iter().filter(|name| !name.ends_with("attempts/1.json")) {
        world.remove(&world.checkpoint, &name).await;
    }
}

/// The next owner may take the number as soon as the attempt's file is gone: written again, it would end or replace
/// the lease of a job that runs.
#[tokio::test]
async fn a_lease_that_was_given_up_is_never_written_again() {
    for lost in [false, true] {
        for command in ["compact", "recover"] {
            let world = World::new(true);
            only_an_attempt(&world).await;
            let plan = FaultPlan::new();
            if lost {
                let its_own = |path: &ObjectPath| path.as_str().ends_with("attempts/2.json");
                plan.add(Rule::new(Operation::Delete, Fault::LoseReply(checkpoint_fs::ErrorKind::Io)).path(its_own));
            }
            let storage: StorageRef = Arc::new(FaultyStorage::new(world.checkpoint.clone(), plan.clone()));
            let checkpoint = Checkpoint::new(storage, world.process("a"));
            let refused = match command {
                "compact" => {
                    let options = CompactOptions::default();
                    Box::pin(compact(&checkpoint, None, options, &ParquetIds)).await.map(drop)
                }
                _ => {
                    let options = RecoverOptions::default();
                    Box::pin(checkpoint_store::recover(&checkpoint, &world.output, options, &ParquetIds))
                        .await
                        .map(drop)
                }
            };
            let expected = if lost { ErrorKind::Storage } else { ErrorKind::NoCheckpoint };
            assert_eq!(kind(refused), expected, "{command}");
            assert_eq!(plan.struck().len(), usize::from(lost), "{command}");
            assert_eq!(world.checkpoint_files().await, ["_meta/attempts/1.json"], "{command}");
        }
    }
}

/// The same at the end of a job, whose deletion fails after the attempt's own file is gone.
#[tokio::test]
async fn an_end_that_fails_at_its_last_step_writes_no_attempt_again() {
    let ids = [0, 1, 2];
    for name in ["_meta/complete", "_meta/attempts/1.json"] {
        let world = World::new(true);
        let plan = FaultPlan::new();
        let its = move |path: &ObjectPath| path.as_str().starts_with(name);
        plan.add(Rule::new(Operation::Delete, Fault::LoseReply(checkpoint_fs::ErrorKind::Io)).path(its));
        let storage: StorageRef = Arc::new(FaultyStorage::new(world.checkpoint.clone(), plan.clone()));
        let checkpoint = Checkpoint::new(storage, world.process("a"));
        let ended = run(&checkpoint, &world.output, &ids, false).await;
        assert_eq!(kind(ended), ErrorKind::Storage, "{name}");
        assert_eq!(plan.struck().len(), 1, "{name}");
        let left = world.checkpoint_files().await;
        assert!(left.iter().all(|file| !file.contains("attempts")), "{name}: {left:?}");
        assert_eq!(world.run(&ids, false).await.expect("is done"), Done::Already(ids.len() as u64), "{name}");
        world.holds_once(&ids).await;
        assert_eq!(world.checkpoint_files().await, [""; 0], "{name}");
    }
}

#[tokio::test]
async fn a_killed_job_is_taken_over_at_once_on_its_host() {
    let world = World::new(true);
    let process = world.process("a");
    let first = attempt(begin(&world.seen_by(&process), &world.output, BeginOptions::default()).await);
    let forgotten = world.clock.now();
    process.kill();
    // Its mark as alive in this test's own process goes too, as a killed process takes it along.
    drop(first);
    assert_eq!(world.attempt().await.number(), 2);
    assert_eq!(world.clock.now(), forgotten, "no time has passed");
}

/// The same, where the owner had another engine work for it: its workers may live on.
#[tokio::test]
async fn the_lease_of_a_killed_driver_is_watched_on_its_host_too() {
    let world = World::new(true);
    let driver = world.process("a");
    let first = attempt(begin(&world.seen_by(&driver), &world.output, BeginOptions::default()).await);
    first.name_writes(vec!["5f0c1d2e3a4b4c5d8e9f000000000001".to_owned()]).await.expect("is written down");
    driver.kill();
    drop(first);
    let (begun, waited) = begin_while_time_passes(&world, &world.process("a"), BeginOptions::default()).await;
    assert_eq!(attempt(begun).number(), 2);
    assert!((30..=32).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_lease_of_another_host_is_watched_and_taken_when_it_runs_out() {
    let world = World::new(true);
    let dead = world.process("b");
    drop(attempt(begin(&world.seen_by(&dead), &world.output, BeginOptions::default()).await));
    dead.kill();
    let (begun, waited) = begin_while_time_passes(&world, &world.process("a"), BeginOptions::default()).await;
    assert_eq!(attempt(begun).number(), 2);
    assert!((30..=32).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_lease_that_is_renewed_while_it_is_watched_is_held() {
    let world = World::new(true);
    let first = attempt(begin(&world.seen_by(&world.process("b")), &world.output, BeginOptions::default()).await);
    // The test's own process holds it too, which is told at once; what another process would see is the file.
    let file = world.get(&world.checkpoint, "_meta/attempts/1.json").await;
    let mut owner: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    drop(first);
    owner["nonce"] = "of a process on another machine".into();
    world.put(&world.checkpoint, "_meta/attempts/1.json", owner.to_string()).await;
    let (checkpoint, output) = (world.seen_by(&world.process("a")), world.output.clone());
    let task = tokio::spawn(async move { Box::pin(begin(&checkpoint, &output, BeginOptions::default())).await });
    world.clock.advance(SECOND * 20).await;
    assert!(!task.is_finished());
    owner["renewals"] = 1.into();
    world.put(&world.checkpoint, "_meta/attempts/1.json", owner.to_string()).await;
    world.clock.advance(SECOND * 3).await;
    let error = task.await.expect("ends").expect_err("renewed");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("renewed its lease"), "{error}");
}

#[tokio::test]
async fn an_attempt_that_says_it_has_ended_is_followed_at_once() {
    for state in [AttemptState::Failed, AttemptState::Interrupted, AttemptState::Maintained] {
        let world = World::new(true);
        let first = attempt(begin(&world.seen_by(&world.process("b")), &world.output, watching()).await);
        first.end(state).await.expect("ends");
        assert_eq!(attempt(begin(&world.seen_by(&world.process("a")), &world.output, watching()).await).number(), 2);
        assert_eq!(world.clock.now(), Duration::ZERO);
    }
}

#[tokio::test]
async fn a_dead_driver_proves_nothing_where_workers_may_live_on() {
    let world = World::new(true);
    let (dead, next) = (world.process("a"), world.process("a"));
    drop(attempt(begin(&world.seen_by(&dead), &world.output, watching()).await));
    dead.kill();
    let (begun, waited) = begin_while_time_passes(&world, &next, watching()).await;
    drop(attempt(begun));
    assert!(waited >= 30, "{waited}");
    // Even when it is this very process that dropped it.
    let (begun, waited) = begin_while_time_passes(&world, &next, watching()).await;
    assert_eq!(attempt(begun).number(), 3);
    assert!(waited >= 30, "{waited}");
}

#[tokio::test]
async fn of_two_begins_in_one_process_one_wins() {
    let world = World::new(true);
    let process = world.process("a");
    let (checkpoint, output) = (world.seen_by(&process), world.output.clone());
    // The first has created its attempt and is held up in its second, probing create, while the other begins.
    let slow = FaultPlan::new().with(
        Rule::new(Operation::Write, Fault::Delay(Duration::from_millis(50)))
            .path(|path| path.as_str().starts_with("_meta/attempts/"))
            .nth(2),
    );
    let slow: StorageRef = Arc::new(FaultyStorage::new(world.checkpoint.clone(), slow));
    let held_up = Checkpoint::new(slow, process.clone());
    let options = BeginOptions::default();
    let (one, two) =
        tokio::join!(begin(&held_up, &output, options.clone()), begin(&checkpoint, &output, options.clone()));
    let won = [&one, &two].into_iter().filter(|b| matches!(b, Ok(Begin::Attempt(_)))).count();
    assert_eq!(won, 1, "{one:?} {two:?}");
    let lost = if one.is_ok() { two } else { one };
    assert_eq!(kind(lost), ErrorKind::Conflict);
}

#[tokio::test]
async fn a_lease_that_vanishes_while_it_is_watched_means_that_the_job_has_ended() {
    let world = World::new(true);
    let ids: Vec<i64> = (0..8).collect();
    let (far, near) = (world.process("b"), world.process("a"));
    let first = attempt(begin(&world.seen_by(&far), &world.output, BeginOptions::default()).await);
    for ids in ids.chunks(4) {
        write_task(&first, ids).await.expect("writes");
    }
    // Hidden from the watcher's process, which would know it as its own: the file alone speaks.
    let file = world.get(&world.checkpoint, "_meta/attempts/1.json").await;
    let mut other: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    other["nonce"] = "of a process on another machine".into();
    world.put(&world.checkpoint, "_meta/attempts/1.json", other.to_string()).await;
    let (checkpoint, output) = (world.seen_by(&near), world.output.clone());
    let task = tokio::spawn(async move { Box::pin(begin(&checkpoint, &output, BeginOptions::default())).await });
    world.clock.advance(SECOND * 3).await;
    assert!(!task.is_finished(), "it watches");
    first.finish(false).await.expect("ends");
    world.clock.advance(SECOND * 3).await;
    match task.await.expect("ends").expect("looks again") {
        Begin::AlreadyComplete { rows } => assert_eq!(rows, 8),
        other => panic!("the rows would be doubled: {other:?}"),
    }
    world.holds_once(&ids).await;
    assert_eq!(world.checkpoint_files().await, [""; 0]);
}

#[tokio::test]
async fn a_renewal_that_fails_is_tried_again_until_the_lease_runs_out() {
    let world = World::new(true);
    let plan = FaultPlan::new();
    let storage: StorageRef = Arc::new(FaultyStorage::new(world.checkpoint.clone(), plan.clone()));
    let process = world.process("a");
    let first =
        attempt(begin(&Checkpoint::new(storage, process.clone()), &world.output, BeginOptions::default()).await);
    let renewals = |path: &checkpoint_fs::ObjectPath| path.as_str().starts_with("_meta/attempts/");
    let io = Fault::Refuse(checkpoint_fs::ErrorKind::Io);
    plan.add(Rule::new(Operation::Write, io.clone()).path(renewals).first(3));
    world.clock.advance(SECOND * 60).await;
    first.check_lease().expect("three failures are survived");
    plan.add(Rule::new(Operation::Write, io).path(renewals));
    world.clock.advance(SECOND * 24).await;
    first.check_lease().expect("the lease still holds, less its margin");
    world.clock.advance(SECOND * 4).await;
    assert_eq!(kind(first.check_lease()), ErrorKind::Conflict, "nothing is started any more");
    assert_eq!(kind(write_task(&first, &[1]).await), ErrorKind::Conflict);
    assert!(world.output_ids().await.is_empty());
}

#[tokio::test]
async fn many_attempts_that_die_one_after_the_other() {
    let world = World::new(false);
    for number in 1..=40 {
        let dead = world.process("a");
        let attempt = attempt(begin(&world.seen_by(&dead), &world.output, BeginOptions::default()).await);
        assert_eq!(attempt.number(), number);
        if number % 4 == 0 {
            write_task(&attempt, &[i64::try_from(number).expect("small")]).await.expect("writes");
        }
        dead.kill();
    }
    let ids: Vec<i64> = (1..=10).map(|n| n * 4).collect();
    assert_eq!(world.run(&ids, true).await.expect("runs"), Done::Processed(0));
    assert_eq!(world.look().snapshot().await.expect("reads").attempts().len(), 41);
    assert!(world.verify().await.ok);
}

fn without_create_only() -> StorageRef {
    let memory = MemoryStorage::new("memory://job/checkpoint");
    let mut capabilities: Capabilities = memory.capabilities().clone();
    (capabilities.write_if_absent, capabilities.atomic_rename) = (false, false);
    Arc::new(memory.with_capabilities(capabilities))
}

#[tokio::test]
async fn a_store_without_create_only_writes_needs_a_word_or_a_lease_elsewhere() {
    let world = World::new(false);
    let ids: Vec<i64> = (0..8).collect();
    let weak = Checkpoint::new(without_create_only(), world.process("a"));
    let error = run(&weak, &world.output, &ids, false).await.expect_err("cannot fence");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let hint = error.hint().expect("says what to do");
    assert!(hint.contains("--lease-url") && hint.contains("--assume-exclusive"), "{hint}");

    let mut options = BeginOptions::default();
    options.lease.assume_exclusive = true;
    let first = attempt(begin(&weak, &world.output, options).await);
    write_task(&first, &ids[..4]).await.expect("writes");
    first.end(AttemptState::Failed).await.expect("ends");

    let control: StorageRef = Arc::new(MemoryStorage::new("memory://leases/job"));
    let world = World::new(false);
    let fenced = Checkpoint::new(without_create_only(), world.process("a")).with_control(control.clone());
    let first = attempt(begin(&fenced, &world.output, BeginOptions::default()).await);
    write_task(&first, &ids[..4]).await.expect("writes");
    assert_eq!(kind(begin(&fenced, &world.output, BeginOptions::default()).await), ErrorKind::Conflict);
    first.end(AttemptState::Failed).await.expect("ends");
    let forgotten = Checkpoint::new(fenced.storage().clone(), world.process("a"));
    let error = checkpoint_store::status(&forgotten).await.expect_err("its job.json is elsewhere");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.hint().is_some_and(|hint| hint.contains("--lease-url")), "{error:?}");
    assert_eq!(run(&fenced, &world.output, &ids, false).await.expect("runs"), Done::Processed(4));
    world.holds_once(&ids).await;
    assert_eq!(crate::small_job::files(&control).await, [""; 0], "nothing is left there either");
    assert_eq!(run(&fenced, &world.output, &ids, false).await.expect("runs"), Done::Already(8));
}

#[tokio::test]
async fn a_store_that_cannot_be_written_to_is_not_taken_for_one_without_create_only_writes() {
    let world = World::new(false);
    let plan = FaultPlan::new()
        .with(Rule::new(Operation::CreateDir, Fault::Refuse(checkpoint_fs::ErrorKind::PermissionDenied)));
    let read_only: StorageRef = Arc::new(FaultyStorage::new(without_create_only(), plan));
    let checkpoint = Checkpoint::new(read_only, world.process("a"));
    let error = begin(&checkpoint, &world.output, BeginOptions::default()).await.expect_err("read-only");
    assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
}

#[tokio::test]
async fn a_store_that_ignores_the_condition_is_caught() {
    let world = World::new(false);
    let liar: StorageRef = Arc::new(Liar(without_create_only(), world.checkpoint.capabilities().clone()));
    let checkpoint = Checkpoint::new(liar, world.process("a"));
    let error = begin(&checkpoint, &world.output, BeginOptions::default()).await.expect_err("it lies");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    // The user's word is enough, and there is nothing to wait for, on another host neither.
    let mut options = BeginOptions::default();
    options.lease.assume_exclusive = true;
    let elsewhere = Checkpoint::new(checkpoint.storage().clone(), world.process("b"));
    assert_eq!(attempt(begin(&elsewhere, &world.output, options).await).number(), 2);
    assert_eq!(world.clock.now(), Duration::ZERO);
}

#[tokio::test]
async fn the_owner_of_a_number_that_is_gone_is_not_reborn() {
    let world = World::new(true);
    let ids: Vec<i64> = (0..8).collect();
    let first = world.attempt().await;
    write_task(&first, &ids[..4]).await.expect("writes");
    first.end(AttemptState::Failed).await.expect("ends");
    // Somebody tidied up the attempts: a new one must not make the names of the old one again.
    world.remove(&world.checkpoint, "_meta/attempts/1.json").await;
    assert_eq!(world.attempt().await.number(), 2);
    world.remove(&world.checkpoint, "_meta/attempts/2.json").await;
    let third = world.attempt().await;
    assert_eq!(third.number(), 3);
    third.end(AttemptState::Failed).await.expect("ends");
    assert_eq!(world.run(&ids, false).await.expect("runs"), Done::Processed(4));
    world.holds_once(&ids).await;
}

/// Takes every create-only write for an ordinary one, and says that it can do both.
#[derive(Debug)]
struct Liar(StorageRef, Capabilities);

mod liar {
    use async_trait::async_trait;
    use bytes::Bytes;
    use checkpoint_fs::{
        Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta,
        ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageWriter, WriteMode,
        WriteOptions, WriteOutcome,
    };
    use futures::stream::BoxStream;

    use super::Liar;

    #[async_trait]
    impl Storage for Liar {
        fn url(&self) -> &str {
            self.0.url()
        }

        fn capabilities(&self) -> &Capabilities {
            &self.1
        }

        async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
            self.0.read(path, options).await
        }

        async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
            self.0.write(path, bytes, options.mode(WriteMode::Overwrite)).await
        }

        async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
            self.0.writer(path, options).await
        }

        async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
            self.0.stat(path, options).await
        }

        fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
            self.0.list(prefix, options)
        }

        async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
            self.0.copy(from, to, options).await
        }

        async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
            self.0.delete(path, options).await
        }

        async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
            self.0.delete_many(paths, options).await
        }

        async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
            self.0.create_dir(path, options).await
        }

        async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
            self.0.rename(from, to, options).await
        }
    }
}
