//! An owner that stands still while another takes over, and then goes on: nothing that it does counts, the
//! next start sweeps what it leaves, and until then `verify` sees it.

use std::sync::Arc;
use std::time::Duration;

use checkpoint_fs::StorageRef;
use checkpoint_store::{Attempt, AttemptState, BeginOptions, Checkpoint, ErrorKind};
use checkpoint_testkit::{Fault, FaultPlan, FaultyStorage, ManualRuntime, Operation, Rule};

use crate::small_job::{Done, Step, World, attempt, begin, kind, write_task};

/// Longer than a lease.
const LONG: Duration = Duration::from_secs(60);

/// An owner on another host, with one task done.
async fn owner(world: &World) -> (Arc<ManualRuntime>, Attempt) {
    let process = world.process("b");
    let owner = attempt(begin(&world.seen_by(&process), &world.output, BeginOptions::default()).await);
    write_task(&owner, &[0, 1, 2, 3]).await.expect("writes");
    (process, owner)
}

/// The owner stands still; its lease is watched and taken. As in a process of its own, its mark as alive says
/// nothing here.
async fn take_over(world: &World, zombie: &Arc<ManualRuntime>) -> Attempt {
    zombie.stop();
    let file = world.get(&world.checkpoint, "_meta/attempts/1.json").await;
    let mut other: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    other["nonce"] = "of a process on another machine".into();
    world.put(&world.checkpoint, "_meta/attempts/1.json", other.to_string()).await;
    let (checkpoint, output) = (world.seen_by(&world.process("a")), world.output.clone());
    let task = tokio::spawn(async move { Box::pin(begin(&checkpoint, &output, BeginOptions::default())).await });
    world.clock.advance(LONG).await;
    attempt(task.await.expect("ends"))
}

#[tokio::test]
async fn it_wakes_before_its_prepare() {
    for atomic_rename in [true, false] {
        let world = World::new(atomic_rename);
        let (process, zombie) = owner(&world).await;
        let next = take_over(&world, &process).await;
        process.resume();
        world.clock.advance(LONG).await;
        assert_eq!(kind(Step::prepare(&zombie, &[4, 5]).await), ErrorKind::Conflict);
        assert_eq!(kind(zombie.finish(false).await), ErrorKind::Conflict);
        write_task(&next, &[4, 5]).await.expect("writes");
        next.finish(true).await.expect("ends");
        assert!(world.verify().await.ok);
        world.holds_once(&[0, 1, 2, 3, 4, 5]).await;
    }
}

#[tokio::test]
async fn it_wakes_before_its_data() {
    for atomic_rename in [true, false] {
        let world = World::new(atomic_rename);
        let (process, zombie) = owner(&world).await;
        let step = Step::prepare(&zombie, &[4, 5]).await.expect("prepares");
        step.data(&zombie, 0).await.expect("writes");
        let next = take_over(&world, &process).await;
        assert_eq!((next.recovery().voided, next.recovery().deleted_files), (1, 1));
        process.resume();
        assert_eq!(kind(step.data(&zombie, 1).await), ErrorKind::Conflict);
        assert_eq!(kind(step.commit(&zombie).await), ErrorKind::Conflict);
        write_task(&next, &[4, 5]).await.expect("writes");
        next.finish(true).await.expect("ends");
        assert!(world.verify().await.ok);
        world.holds_once(&[0, 1, 2, 3, 4, 5]).await;
    }
}

#[tokio::test]
async fn it_wakes_before_its_commit() {
    for atomic_rename in [true, false] {
        let world = World::new(atomic_rename);
        let (process, zombie) = owner(&world).await;
        let step = Step::prepare(&zombie, &[4, 5]).await.expect("prepares");
        step.all_data(&zombie).await.expect("writes");
        // Its data is whole: its work is not thrown away.
        let next = take_over(&world, &process).await;
        assert_eq!((next.recovery().rolled_forward, next.recovery().voided), (1, 0));
        assert_eq!(crate::small_job::left(&next, &[4, 5]), [0; 0]);
        process.resume();
        assert_eq!(kind(step.commit(&zombie).await), ErrorKind::Conflict);
        next.finish(true).await.expect("ends");
        assert!(world.verify().await.ok);
        world.holds_once(&[0, 1, 2, 3, 4, 5]).await;
    }
}

/// What was sent in time and arrives late, or was stopped between the look at the lease and the request: the
/// test writes it past the lease.
#[tokio::test]
async fn what_arrives_late_is_void_and_is_swept() {
    for atomic_rename in [true, false] {
        let world = World::new(atomic_rename);
        let (process, zombie) = owner(&world).await;
        let step = Step::prepare(&zombie, &[4, 5]).await.expect("prepares");
        let name = step.name.to_string();
        let record = world.get(&world.checkpoint, &format!("_meta/pending/{name}.parquet")).await;
        let files = step.files.clone();
        let next = take_over(&world, &process).await;
        assert_eq!(next.recovery().voided, 1);
        write_task(&next, &[4, 5]).await.expect("writes");

        for (file, bytes) in files {
            world.put(&world.output, &file.name, bytes).await;
        }
        let report = world.verify().await;
        assert_eq!((report.ok, report.orphan_files, report.duplicate_ids), (false, 2, 0), "{report:?}");
        world.put(&world.checkpoint, &format!("{name}.parquet"), record.clone()).await;
        let report = world.verify().await;
        assert_eq!((report.ok, report.orphan_files, report.committed_ids), (false, 3, 6), "{report:?}");
        assert_eq!(report.duplicate_ids, 0, "a void record's IDs are nobody's: {report:?}");
        let status = checkpoint_store::status(&world.look()).await.expect("counts");
        assert_eq!((status.committed_rows, status.committed_tasks, status.void_tasks), (6, 2, 1));
        assert_eq!(crate::small_job::committed(&world.look()).await.expect("reads"), [0, 1, 2, 3, 4, 5]);

        next.end(AttemptState::Failed).await.expect("ends");
        assert_eq!(world.run(&[0, 1, 2, 3, 4, 5], true).await.expect("runs"), Done::Processed(0));
        assert!(world.verify().await.ok, "the next start has swept it");
        world.holds_once(&[0, 1, 2, 3, 4, 5]).await;
        // And before the end, too.
        let last = world.attempt().await;
        world.put(&world.checkpoint, &format!("{name}.parquet"), record).await;
        last.finish(true).await.expect("ends");
        assert!(world.verify().await.ok);
    }
}

#[tokio::test]
async fn its_end_does_not_end_the_job_of_the_next() {
    let world = World::new(true);
    let (process, zombie) = owner(&world).await;
    let job = zombie.job().to_string();
    let next = take_over(&world, &process).await;
    write_task(&next, &[4, 5]).await.expect("writes");
    // The end of attempt 1 as it would have written it, landing late.
    let now = crate::small_job::fingerprint(&world.output);
    let late = serde_json::json!({
        "format": 1, "job": job, "attempt": 1, "removed": false, "checkpoint": world.checkpoint.url(),
        "finished": "2026-01-01T00:00:00.000Z", "rows": 4, "fingerprint": now, "data_files": [],
    });
    world.put(&world.checkpoint, "_meta/complete", late.to_string()).await;
    assert!(!world.look().snapshot().await.expect("reads").is_complete());
    assert!(world.verify().await.ok);
    next.end(AttemptState::Failed).await.expect("ends");
    let ids = [0, 1, 2, 3, 4, 5, 6, 7];
    assert_eq!(world.run(&ids, false).await.expect("runs"), Done::Processed(2), "the job goes on");
    assert_eq!(world.run(&ids, false).await.expect("runs"), Done::Already(8), "and has an end of its own");
    world.holds_once(&ids).await;
    // It may land even after that. The mark in the output stays that of the true end.
    world.put(&world.checkpoint, "_meta/complete", late.to_string()).await;
    assert_eq!(world.run(&ids, false).await.expect("runs"), Done::Already(8));
    assert_eq!(world.checkpoint_files().await, [""; 0]);
}

#[tokio::test]
async fn its_renewal_does_not_give_the_lease_back() {
    let world = World::new(true);
    let (process, zombie) = owner(&world).await;
    let before = world.get(&world.checkpoint, "_meta/attempts/1.json").await;
    let next = take_over(&world, &process).await;
    world.put(&world.checkpoint, "_meta/attempts/1.json", before).await;
    process.resume();
    world.clock.advance(LONG).await;
    assert_eq!(kind(zombie.check_lease()), ErrorKind::Conflict);
    next.check_lease().expect("holds");
    assert_eq!(kind(world.begin().await), ErrorKind::Conflict, "the newest attempt decides");
    next.finish(true).await.expect("ends");
}

#[tokio::test]
async fn a_closing_that_arrives_late_changes_nothing() {
    let world = World::new(true);
    let ids = [0, 1, 2, 3, 4, 5];
    // Attempt 1 leaves a task whose second file is still on its way.
    let first = world.attempt().await;
    write_task(&first, &[0, 1, 2, 3]).await.expect("writes");
    let step = Step::prepare(&first, &[4, 5]).await.expect("prepares");
    step.all_data(&first).await.expect("writes");
    let (late_file, late_bytes) = step.files[1].clone();
    world.remove(&world.output, &late_file.name).await;
    drop(first);
    // Attempt 2 stops right before its closing: what it would write is made in a copy.
    let copy = World::new(true);
    for (from, to) in [(&world.checkpoint, &copy.checkpoint), (&world.output, &copy.output)] {
        for (name, bytes) in crate::small_job::contents(from).await {
            copy.put(to, &name, bytes).await;
        }
    }
    let second = attempt(copy.begin().await);
    assert_eq!((second.number(), second.recovery().voided), (2, 1));
    let attempt_file = copy.get(&copy.checkpoint, "_meta/attempts/2.json").await;
    let closed = copy.get(&copy.checkpoint, "_meta/closed/1").await;
    let mut died: serde_json::Value = serde_json::from_slice(&attempt_file).expect("JSON");
    died["state"] = "failed".into();
    world.put(&world.checkpoint, "_meta/attempts/2.json", died.to_string()).await;
    // The file lands, attempt 3 finds the task whole, and attempt 2's list arrives after all.
    world.put(&world.output, &late_file.name, late_bytes).await;
    let third = world.attempt().await;
    assert_eq!((third.number(), third.recovery().rolled_forward), (3, 1));
    crate::small_job::create(&world.checkpoint, "_meta/closed/1", closed).await;
    assert_eq!(crate::small_job::committed(&world.look()).await.expect("reads"), ids);
    assert!(world.verify().await.ok);
    third.finish(true).await.expect("ends");
    assert_eq!(world.run(&ids, false).await.expect("runs"), Done::Processed(0));
    world.holds_once(&ids).await;
}

#[tokio::test]
async fn a_commit_of_which_nobody_knows_holds_up_the_end() {
    for (atomic_rename, operation) in [(true, Operation::Rename), (false, Operation::Write)] {
        for landed in [true, false] {
            let world = World::new(atomic_rename);
            let plan = FaultPlan::new();
            let storage: StorageRef = Arc::new(FaultyStorage::new(world.checkpoint.clone(), plan.clone()));
            let checkpoint = Checkpoint::new(storage, world.process("a"));
            let owner = attempt(begin(&checkpoint, &world.output, BeginOptions::default()).await);
            write_task(&owner, &[0, 1]).await.expect("writes");
            let commits = |path: &checkpoint_fs::ObjectPath| !path.as_str().contains('/');
            plan.add(Rule::new(operation, Fault::Unknown { landed }).path(commits));
            let outcome = write_task(&owner, &[2, 3]).await;
            // Reading back settles what has landed, and cannot settle what has not.
            assert_eq!(outcome.is_ok(), landed, "{outcome:?}");
            let ended = owner.finish(false).await;
            if landed {
                ended.expect("all is known");
            } else {
                assert_eq!(kind(ended), ErrorKind::OutcomeUnknown);
                assert_eq!(world.output_ids().await, [0, 1, 2, 3], "nothing was deleted");
                assert_eq!(world.run(&[0, 1, 2, 3], false).await.expect("runs"), Done::Processed(0));
            }
            world.holds_once(&[0, 1, 2, 3]).await;
        }
    }
}

#[tokio::test]
async fn a_commit_that_is_dropped_half_way_holds_up_the_end() {
    let world = World::new(true);
    let slow = FaultPlan::new().with(Rule::new(Operation::Rename, Fault::Delay(Duration::from_secs(3600))));
    let storage: StorageRef = Arc::new(FaultyStorage::new(world.checkpoint.clone(), slow));
    let checkpoint = Checkpoint::new(storage, world.process("a"));
    let owner = attempt(begin(&checkpoint, &world.output, BeginOptions::default()).await);
    let step = Step::prepare(&owner, &[0, 1]).await.expect("prepares");
    step.all_data(&owner).await.expect("writes");
    let commit = tokio::time::timeout(Duration::from_millis(20), step.commit(&owner)).await;
    assert!(commit.is_err(), "{commit:?}");
    assert_eq!(kind(owner.finish(true).await), ErrorKind::OutcomeUnknown);
    assert_eq!(world.run(&[0, 1], true).await.expect("runs"), Done::Processed(0), "rolled forward");
    world.holds_once(&[0, 1]).await;
}
