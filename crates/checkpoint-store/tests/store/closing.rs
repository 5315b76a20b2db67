//! The table of what counts, row by row, in states that are built by hand.

use checkpoint_store::{AttemptState, RecoverOptions, RecoverReport, RecoveryReport};

use crate::small_job::{Done, Step, World, column, committed, left, parquet, write_task};

const IDS: [i64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

fn report(rolled_forward: u64, voided: u64, deleted_files: u64) -> RecoveryReport {
    let mut report = RecoveryReport::default();
    (report.rolled_forward, report.voided, report.deleted_files) = (rolled_forward, voided, deleted_files);
    report
}

/// One task is committed; a second is left as `leave` leaves it. Answers what the next start did.
async fn after(world: &World, leave: impl AsyncFnOnce(&World, &Step)) -> RecoveryReport {
    let first = world.attempt().await;
    write_task(&first, &IDS[..4]).await.expect("writes");
    let step = Step::prepare(&first, &IDS[4..]).await.expect("prepares");
    step.all_data(&first).await.expect("writes");
    first.end(AttemptState::Failed).await.expect("ends");
    leave(world, &step).await;
    let next = world.attempt().await;
    let recovery = next.recovery();
    next.end(AttemptState::Interrupted).await.expect("ends");
    let report = world.verify().await;
    assert!(report.ok, "{report:?}");
    recovery
}

async fn ends_well(world: &World, processed: usize) {
    assert_eq!(world.run(&IDS, true).await.expect("runs"), Done::Processed(processed));
    assert!(world.verify().await.ok);
    world.holds_once(&IDS).await;
    assert_eq!(committed(&world.look()).await.expect("reads"), IDS);
}

fn pending(step: &Step) -> String {
    format!("_meta/pending/{}.parquet", step.name)
}

#[tokio::test]
async fn pending_with_whole_data_is_rolled_forward() {
    let world = World::new(false);
    assert_eq!(after(&world, async |_, _| {}).await, report(1, 0, 0));
    ends_well(&world, 0).await;
}

#[tokio::test]
async fn a_task_that_was_given_up_is_gone_and_never_rolled_forward() {
    for atomic_rename in [false, true] {
        let world = World::new(atomic_rename);
        let first = world.attempt().await;
        write_task(&first, &IDS[..4]).await.expect("writes");
        let before = (world.checkpoint_files().await, world.output_ids().await);
        let step = Step::prepare(&first, &IDS[4..]).await.expect("prepares");
        step.all_data(&first).await.expect("writes");
        step.abort(&first).await.expect("gives up");
        assert_eq!((world.checkpoint_files().await, world.output_ids().await), before);
        // Its IDs are free for another task of the same attempt.
        write_task(&first, &IDS[4..6]).await.expect("writes");
        first.end(AttemptState::Failed).await.expect("ends");
        ends_well(&world, 2).await;
    }
}

#[tokio::test]
async fn pending_with_a_part_of_its_data_is_redone() {
    let world = World::new(true);
    let recovery = after(&world, async |world, step| world.remove(&world.output, &step.files[1].0.name).await).await;
    assert_eq!(recovery, report(0, 1, 1));
    ends_well(&world, 4).await;
}

#[tokio::test]
async fn pending_with_data_of_another_size_is_redone() {
    let world = World::new(true);
    let recovery = after(&world, async |world, step| {
        world.put(&world.output, &step.files[0].0.name, step.files[0].1.slice(..9)).await;
    });
    assert_eq!(recovery.await, report(0, 1, 2));
    ends_well(&world, 4).await;
}

#[tokio::test]
async fn pending_without_data_is_redone() {
    let world = World::new(true);
    let recovery = after(&world, async |world, step| {
        for (file, _) in &step.files {
            world.remove(&world.output, &file.name).await;
        }
    });
    assert_eq!(recovery.await, report(0, 1, 0));
    ends_well(&world, 4).await;
}

#[tokio::test]
async fn a_damaged_pending_record_proves_nothing() {
    for damage in ["", "PAR1 no more"] {
        let world = World::new(true);
        let recovery = after(&world, async |world, step| world.put(&world.checkpoint, &pending(step), damage).await);
        assert_eq!(recovery.await, report(0, 1, 2));
        ends_well(&world, 4).await;
    }
}

#[tokio::test]
async fn a_pending_record_of_another_name_proves_nothing() {
    let world = World::new(true);
    let recovery = after(&world, async |world, step| {
        let bytes = world.get(&world.checkpoint, &pending(step)).await;
        world.remove(&world.checkpoint, &pending(step)).await;
        let other = step.name.to_string().replace("000002", "000009");
        world.put(&world.checkpoint, &format!("_meta/pending/{other}.parquet"), bytes).await;
    });
    // Its own data has no record at all, and goes; the other name never had any.
    assert_eq!(recovery.await, report(0, 2, 2));
    ends_well(&world, 4).await;
}

#[tokio::test]
async fn a_pending_twin_of_a_committed_record_is_litter() {
    let world = World::new(true);
    let recovery = after(&world, async |world, step| {
        let bytes = world.get(&world.checkpoint, &pending(step)).await;
        world.put(&world.checkpoint, &format!("{}.parquet", step.name), bytes).await;
    });
    assert_eq!(recovery.await, report(0, 0, 0));
    let files = world.checkpoint_files().await;
    assert!(files.iter().all(|f| !f.contains("pending")), "{files:?}");
    ends_well(&world, 0).await;
}

#[tokio::test]
async fn data_without_any_record_is_swept() {
    let world = World::new(true);
    let recovery = after(&world, async |world, step| world.remove(&world.checkpoint, &pending(step)).await).await;
    assert_eq!(recovery, report(0, 1, 2));
    ends_well(&world, 4).await;
}

#[tokio::test]
async fn of_two_pending_tasks_with_the_same_ids_one_counts() {
    let world = World::new(true);
    let first = world.attempt().await;
    for _ in 0..2 {
        let step = Step::prepare(&first, &IDS[..4]).await.expect("prepares");
        step.all_data(&first).await.expect("writes");
    }
    first.end(AttemptState::Failed).await.expect("ends");
    let next = world.attempt().await;
    assert_eq!(next.recovery(), report(1, 1, 2));
    assert_eq!(left(&next, &IDS), IDS[4..]);
    next.end(AttemptState::Failed).await.expect("ends");
    ends_well(&world, 4).await;
}

#[tokio::test]
async fn pending_whose_ids_are_partly_done_elsewhere_is_redone() {
    let world = World::new(true);
    let first = world.attempt().await;
    let step = Step::prepare(&first, &IDS[2..]).await.expect("prepares");
    step.all_data(&first).await.expect("writes");
    write_task(&first, &IDS[..4]).await.expect("writes");
    first.end(AttemptState::Failed).await.expect("ends");
    let next = world.attempt().await;
    assert_eq!(next.recovery(), report(0, 1, 2));
    assert_eq!(left(&next, &IDS), IDS[4..]);
    next.end(AttemptState::Failed).await.expect("ends");
    ends_well(&world, 4).await;
}

#[tokio::test]
async fn a_task_without_rows_is_a_task() {
    let world = World::new(true);
    let first = world.attempt().await;
    write_task(&first, &[]).await.expect("writes");
    let pending = Step::prepare(&first, &[]).await.expect("prepares");
    first.end(AttemptState::Failed).await.expect("ends");
    let next = world.attempt().await;
    assert_eq!(next.recovery(), report(1, 0, 0), "nothing of it is missing");
    next.end(AttemptState::Failed).await.expect("ends");
    let status = checkpoint_store::status(&world.look()).await.expect("counts");
    assert_eq!((status.committed_rows, status.committed_tasks), (0, 2), "{}", pending.name);
    assert!(world.verify().await.ok);
    ends_well(&world, 8).await;
}

#[tokio::test]
async fn what_an_attempt_prepared_and_gave_up_is_swept_at_the_end() {
    let world = World::new(true);
    let first = world.attempt().await;
    let given_up = Step::prepare(&first, &IDS).await.expect("prepares");
    given_up.all_data(&first).await.expect("writes");
    write_task(&first, &IDS).await.expect("writes");
    first.finish(true).await.expect("ends");
    assert!(world.verify().await.ok);
    world.holds_once(&IDS).await;
}

#[tokio::test]
async fn a_task_may_only_name_itself_and_only_rows_that_are_not_done() {
    use checkpoint_store::{DataFile, ErrorKind, TaskPlan};
    let world = World::new(true);
    let first = world.attempt().await;
    write_task(&first, &IDS[..4]).await.expect("writes");
    first.end(AttemptState::Failed).await.expect("ends");
    let next = world.attempt().await;
    assert_eq!(crate::small_job::kind(Step::prepare(&next, &IDS[3..]).await), ErrorKind::BadData, "3 is done");
    let task = next.next_task();
    let other = next.next_task();
    let file = |name: String| DataFile { name, bytes: 1, rows: 1 };
    for bad in [
        file("x.parquet".into()),
        file(format!("{other}.parquet")),
        file(format!("{task}")),
        file(format!("sub/{task}.parquet")),
        file(format!("_failed/sub/{task}.jsonl")),
    ] {
        let prepared = next.prepare(&task, &column(&[9]), TaskPlan::new(vec![bad.clone()])).await;
        assert_eq!(crate::small_job::kind(prepared), ErrorKind::InvalidConfig, "{}", bad.name);
    }
    let good = vec![file(format!("{task}.parquet")), file(format!("_failed/{task}.jsonl"))];
    let _prepared = next.prepare(&task, &column(&[9]), TaskPlan::new(good)).await.expect("its own");
}

#[tokio::test]
async fn recover_does_what_a_start_does_and_a_dry_run_says_it() {
    let world = World::new(true);
    let first = world.attempt().await;
    for ids in [&IDS[..2], &IDS[2..4], &IDS[4..6]] {
        let step = Step::prepare(&first, ids).await.expect("prepares");
        step.all_data(&first).await.expect("writes");
        if ids[0] == 4 {
            world.remove(&world.output, &step.files[0].0.name).await;
        }
    }
    first.end(AttemptState::Failed).await.expect("ends");
    let said = recover(&world, true, false).await;
    assert!(said.dry_run);
    assert_eq!((said.rolled_forward, said.voided, said.deleted_files), (2, 1, 1));
    let files = world.checkpoint_files().await;
    assert_eq!(recover(&world, true, false).await, said, "a dry run changes nothing");
    assert_eq!(world.checkpoint_files().await, files);
    let done = recover(&world, false, false).await;
    assert_eq!((done.rolled_forward, done.voided, done.deleted_files), (2, 1, 1));
    assert!(world.verify().await.ok);
    let again = recover(&world, false, false).await;
    assert_eq!((again.rolled_forward, again.voided, again.deleted_files), (0, 0, 0));
    ends_well(&world, 4).await;
}

pub(crate) async fn recover(world: &World, dry_run: bool, repair: bool) -> RecoverReport {
    let mut options = RecoverOptions::default();
    (options.dry_run, options.repair) = (dry_run, repair);
    let checkpoint = world.seen_by(&world.process("a"));
    checkpoint_store::recover(&checkpoint, &world.output, options, &checkpoint_store::ParquetIds)
        .await
        .expect("recovers")
}

/// A record as Ray writes it, and its data.
async fn ray_task(world: &World, name: &str, ids: &[i64]) {
    world.put(&world.output, &format!("{name}-0.parquet"), parquet("id", &column(ids))).await;
    world.put(&world.checkpoint, &format!("{name}.parquet"), parquet("id", &column(ids))).await;
}

#[tokio::test]
async fn ray_going_on_beside_us_doubles_nothing() {
    let world = World::new(true);
    ray_task(&world, "u_000000", &IDS[..2]).await;
    let first = world.attempt().await;
    assert_eq!(left(&first, &IDS), IDS[2..]);
    write_task(&first, &IDS[2..6]).await.expect("writes");
    // A Ray that should be dead goes on: one task repeats rows that we have done, one does others.
    ray_task(&world, "u_000001", &IDS[4..7]).await;
    ray_task(&world, "u_000002", &IDS[7..]).await;
    first.end(AttemptState::Failed).await.expect("ends");
    let status = checkpoint_store::status(&world.look()).await.expect("counts");
    assert_eq!(status.committed_rows, 6, "what came after the closing is taken in by the next start alone");
    let next = world.attempt().await;
    assert_eq!(next.recovery(), report(0, 1, 1));
    assert_eq!(left(&next, &IDS), [6]);
    next.end(AttemptState::Failed).await.expect("ends");
    ends_well(&world, 1).await;
}

#[tokio::test]
async fn records_of_another_job_of_ours_never_count() {
    let (world, other) = (World::new(true), World::new(true));
    let theirs = other.attempt().await;
    write_task(&theirs, &IDS[..4]).await.expect("writes");
    theirs.end(AttemptState::Failed).await.expect("ends");
    let first = world.attempt().await;
    write_task(&first, &IDS[4..]).await.expect("writes");
    first.end(AttemptState::Failed).await.expect("ends");
    let record = other.checkpoint_files().await.into_iter().find(|f| !f.contains('/')).expect("a record");
    world.put(&world.checkpoint, &record, other.get(&other.checkpoint, &record).await).await;
    assert_eq!(committed(&world.look()).await.expect("reads"), IDS[4..]);
    let found = world.verify().await;
    assert_eq!((found.ok, found.orphan_files), (false, 1), "{found:?}");
    let next = world.attempt().await;
    assert_eq!(left(&next, &IDS), IDS[..4]);
    next.end(AttemptState::Failed).await.expect("ends");
    assert!(world.checkpoint_files().await.contains(&record), "it is not ours to delete");
    // With their data in our output, going on would double it: a matter for the user.
    for (name, bytes) in crate::small_job::contents(&other.output).await {
        world.put(&world.output, &name, bytes).await;
    }
    assert_eq!(crate::small_job::kind(world.begin().await), checkpoint_store::ErrorKind::Conflict);
    assert_eq!(world.verify().await.orphan_files, 3);
}
