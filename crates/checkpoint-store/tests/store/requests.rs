//! What a task costs the store: requests, counted by kind.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use checkpoint_fs::{ErrorKind as StorageErrorKind, StorageRef};
use checkpoint_store::{Attempt, AttemptState, BeginOptions, Checkpoint, CommitOutcome, TaskPlan};
use checkpoint_testkit::{Count, Counters, CountingStorage, Counts, Fault, FaultPlan, FaultyStorage, Operation, Rule};

use super::small_job::{World, attempt, begin, column, committed, files};

async fn commit_tasks(attempt: &Attempt, tasks: i64) {
    commit_ids(attempt, 0..tasks).await;
}

/// Commits tasks of one ID each, without data.
async fn commit_ids(attempt: &Attempt, ids: Range<i64>) {
    for id in ids {
        let plan = TaskPlan::new(Vec::new());
        let prepared = attempt.prepare(&attempt.next_task(), &column(&[id]), plan).await.expect("prepares");
        let outcome = attempt.commit(prepared).await.expect("keeps its lease");
        assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
    }
}

/// A checkpoint whose storage is counted, inside what `wrap` makes of it.
fn counted(world: &World, wrap: impl FnOnce(StorageRef) -> StorageRef) -> (Checkpoint, Counters) {
    let counters = Counters::new();
    let storage = Arc::new(CountingStorage::new(world.checkpoint.clone(), counters.clone()));
    (Checkpoint::new(wrap(storage), world.process("a")), counters)
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Interrupted,
    Kept,
    Deleted,
}

/// All requests of a job of so many tasks, from its first to its last.
async fn requests(tasks: i64, end: End) -> Counts {
    let world = World::new(false);
    let (checkpoint, counters) = counted(&world, |storage| storage);
    let attempt = attempt(begin(&checkpoint, &world.output, BeginOptions::default()).await);
    commit_tasks(&attempt, tasks).await;
    match end {
        End::Interrupted => attempt.end(AttemptState::Interrupted).await.expect("ends"),
        End::Kept => attempt.finish(true).await.expect("ends"),
        End::Deleted => attempt.finish(false).await.expect("ends"),
    }
    assert!(!files(&world.checkpoint).await.iter().any(|file| file.contains("pending/")), "none is left behind");
    counters.reset()
}

#[tokio::test]
async fn a_task_costs_two_requests_and_a_thousand_pending_records_one() {
    for end in [End::Interrupted, End::Kept, End::Deleted] {
        let (without, with) = (requests(0, end).await, requests(2_500, end).await);
        for operation in Operation::ALL {
            let more = with.calls(operation) - without.calls(operation);
            // The end of the job deletes the committed records too, however many at once.
            let deletes = if matches!(end, End::Deleted) { 3 + 1 } else { 3 };
            let expected = match operation {
                Operation::Write => 2 * 2_500,
                Operation::DeleteMany => deletes,
                _ => 0,
            };
            assert_eq!(more, expected, "{operation:?} {end:?}");
        }
        let Count { items, .. } = with.of(Operation::DeleteMany);
        let gone = items - without.of(Operation::DeleteMany).items;
        assert_eq!(gone, if matches!(end, End::Deleted) { 5_000 } else { 2_500 }, "{end:?}");
    }
}

#[tokio::test]
async fn a_store_that_deletes_nothing_delays_no_commit_and_fails_no_job() {
    let world = World::new(false);
    let plan = FaultPlan::new();
    let (checkpoint, counters) = counted(&world, |storage| Arc::new(FaultyStorage::new(storage, plan.clone())));
    let first = attempt(begin(&checkpoint, &world.output, BeginOptions::default()).await);
    plan.add(Rule::new(Operation::DeleteMany, Fault::Refuse(StorageErrorKind::Io)));
    commit_tasks(&first, 2_001).await;
    first.end(AttemptState::Interrupted).await.expect("a failed delete is no error");
    assert_eq!(plan.struck().len(), 3, "two in the background, and one at the end");
    assert_eq!(counters.snapshot().calls(Operation::DeleteMany), 0);

    plan.heal();
    let next = attempt(begin(&checkpoint, &world.output, BeginOptions::default()).await);
    assert_eq!(next.ids().len(), 2_001);
    assert_eq!(next.recovery().voided, 0);
    next.finish(true).await.expect("ends");
    assert!(!files(&world.checkpoint).await.iter().any(|file| file.contains("pending/")), "swept by the next start");
    assert_eq!(committed(&world.look()).await.expect("reads").len(), 2_001);
}

#[tokio::test]
async fn commits_go_on_while_a_delete_hangs() {
    let world = World::new(false);
    let plan = FaultPlan::new();
    let (checkpoint, _) = counted(&world, |storage| Arc::new(FaultyStorage::new(storage, plan.clone())));
    let attempt = attempt(begin(&checkpoint, &world.output, BeginOptions::default()).await);
    plan.add(Rule::new(Operation::DeleteMany, Fault::Delay(Duration::from_secs(3600))));
    commit_tasks(&attempt, 1_000).await;
    while plan.struck().is_empty() {
        tokio::task::yield_now().await;
    }
    for round in 1..3_i64 {
        commit_ids(&attempt, 1_000 * round..1_000 * (round + 1)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(plan.struck().len(), 1, "one request at a time");
    assert_eq!(committed(&world.look()).await.expect("reads").len(), 3_000);
}
