//! The end of a job and of a checkpoint: stopped at every step, and what comes after.

use checkpoint_store::{
    AttemptState, BeginOptions, Checkpoint, ErrorKind, Fingerprint, InputFile, LeaseOptions, ParquetIds,
    RecoverOptions, VerifyOptions, remove,
};

use crate::crash_storage::{Crash, Point};
use crate::small_job::{Done, World, attempt, begin, fingerprint, kind, write_task};

const IDS: [i64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// A job with all its rows done, and its checkpoint kept.
async fn done(world: &World) {
    assert_eq!(world.run(&IDS, true).await.expect("runs"), Done::Processed(IDS.len()));
}

#[tokio::test]
async fn a_removal_that_is_stopped_anywhere_is_finished_and_the_output_refused() {
    let mut stopped = 0;
    for atomic_rename in [true, false] {
        for number in 0.. {
            let mut over = false;
            for point in [Point::Before(number), Point::After(number)] {
                let world = World::new(atomic_rename);
                done(&world).await;
                let crash = Crash::at(point);
                let process = world.process("a");
                let dying = Checkpoint::new(crash.wrap(&world.checkpoint), process.clone());
                let removed = remove(&dying, LeaseOptions::default()).await;
                process.kill();
                over = !crash.happened();
                assert_eq!(removed.is_ok(), over);
                stopped += u64::from(crash.happened());
                // Before the removal is written down nothing has changed: the job still knows what is done.
                // From then on its checkpoint is gone, and going on would double every row.
                let begun = world.run(&IDS, true).await;
                match begun {
                    Ok(done) => {
                        assert_eq!(done, Done::Processed(0), "{point:?}");
                        assert!(number < 3, "{point:?}: only before the removal is written down");
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                        assert!(error.hint().is_some_and(|h| h.contains("--append") && h.contains("--output")));
                        assert_eq!(world.checkpoint_files().await, [""; 0], "{point:?}: nothing is left");
                    }
                }
                world.holds_once(&IDS).await;
            }
            if over {
                break;
            }
        }
    }
    println!("removals stopped: {stopped}");
    assert!(stopped > 30);
}

#[tokio::test]
async fn rm_again_finishes_a_removal_too() {
    let world = World::new(true);
    done(&world).await;
    let crash = Crash::at(Point::After(5));
    let dying = world.process("a");
    remove(&Checkpoint::new(crash.wrap(&world.checkpoint), dying.clone()), LeaseOptions::default())
        .await
        .expect_err("dies");
    dying.kill();
    assert_eq!(
        kind(checkpoint_store::verify(&world.look(), &world.output, VerifyOptions::default(), &ParquetIds).await),
        ErrorKind::NoCheckpoint
    );
    remove(&world.seen_by(&world.process("a")), LeaseOptions::default()).await.expect("finishes");
    assert_eq!(world.checkpoint_files().await, [""; 0]);
    assert_eq!(kind(remove(&world.look(), LeaseOptions::default()).await), ErrorKind::NoCheckpoint);
    world.holds_once(&IDS).await;
}

#[tokio::test]
async fn parquet_files_of_somebody_are_no_checkpoint_to_remove() {
    let world = World::new(true);
    let path = checkpoint_fs::ObjectPath::parse("part-0.parquet").expect("valid");
    let written = world.checkpoint.write(&path, "rows".into(), checkpoint_fs::WriteOptions::new()).await;
    written.expect("no error").into_result("part-0.parquet").expect("written");
    assert_eq!(kind(remove(&world.look(), LeaseOptions::default()).await), ErrorKind::NoCheckpoint);
    assert_eq!(kind(world.look().existing_for_sure().await), ErrorKind::NoCheckpoint);
    let mut options = checkpoint_store::RecoverOptions::default();
    options.repair = true;
    let repaired = checkpoint_store::recover(&world.look(), &world.output, options, &ParquetIds).await;
    assert_eq!(kind(repaired), ErrorKind::NoCheckpoint);
    assert_eq!(world.checkpoint_files().await, ["part-0.parquet"], "nothing was added or taken away");
}

/// Ends the job in a process that dies right after `complete` was written.
async fn half_deleted(world: &World) {
    done(world).await;
    for number in 0.. {
        let crash = Crash::at(Point::After(number));
        let process = world.process("a");
        let checkpoint = Checkpoint::new(crash.wrap(&world.checkpoint), process.clone());
        let ended = crate::small_job::run(&checkpoint, &crash.wrap(&world.output), &IDS, false).await;
        process.kill();
        ended.expect_err("dies");
        if world.look().snapshot().await.expect("reads").is_complete() {
            return;
        }
    }
}

#[tokio::test]
async fn a_half_deleted_checkpoint_says_what_it_is() {
    let world = World::new(true);
    half_deleted(&world).await;
    let status = checkpoint_store::status(&world.look()).await.expect("counts");
    assert!(status.complete);
    assert_eq!(status.committed_rows, 8);
    let report = world.verify().await;
    assert!(report.ok, "{report:?}");
    assert_eq!((report.committed_ids, report.output_rows), (8, 8));
    let error = crate::small_job::committed(&world.look()).await.expect_err("its IDs are half gone");
    assert_eq!(error.kind(), ErrorKind::NoCheckpoint);
    let mut dry = RecoverOptions::default();
    dry.dry_run = true;
    let report = checkpoint_store::recover(&world.look(), &world.output, dry, &ParquetIds).await.expect("looks");
    assert_eq!((report.voided, report.repaired_tasks, report.deleted_files), (0, 0, 0));
    // With the data gone it must not say that all is well.
    let data = world.output_ids().await;
    assert_eq!(data.len(), 8);
    let file = crate::small_job::files(&world.output).await.into_iter().find(|f| f.ends_with(".parquet"));
    world.remove(&world.output, &file.expect("data")).await;
    let report = world.verify().await;
    assert_eq!((report.ok, report.lost_tasks), (false, 1), "{report:?}");
}

#[tokio::test]
async fn recover_finishes_a_deletion() {
    let world = World::new(true);
    half_deleted(&world).await;
    let checkpoint = world.seen_by(&world.process("a"));
    checkpoint_store::recover(&checkpoint, &world.output, RecoverOptions::default(), &ParquetIds)
        .await
        .expect("finishes");
    assert_eq!(world.checkpoint_files().await, [""; 0]);
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Already(8));
}

#[tokio::test]
async fn a_deletion_never_leaves_its_mark_in_another_output() {
    let world = World::new(true);
    half_deleted(&world).await;
    let other: checkpoint_fs::StorageRef =
        std::sync::Arc::new(checkpoint_fs::MemoryStorage::new("memory://job/elsewhere"));
    let error = begin(&world.seen_by(&world.process("a")), &other, BeginOptions::default()).await;
    assert_eq!(kind(error), ErrorKind::Conflict);
    assert_eq!(crate::small_job::files(&other).await, [""; 0]);
    let checkpoint = world.look();
    let recovered = checkpoint_store::recover(&checkpoint, &other, RecoverOptions::default(), &ParquetIds).await;
    assert_eq!(kind(recovered), ErrorKind::Conflict);
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Already(8));
}

async fn begin_with(world: &World, now: Fingerprint, options: BeginOptions) -> Result<(), checkpoint_store::Error> {
    let checkpoint = world.seen_by(&world.process("a"));
    let begun = checkpoint_store::Attempt::begin(&checkpoint, &world.output, now, options, &ParquetIds);
    match Box::pin(begun).await? {
        checkpoint_store::Begin::Attempt(attempt) => attempt.end(AttemptState::Failed).await,
        _ => Ok(()),
    }
}

#[tokio::test]
async fn after_the_end_any_change_is_new_work() {
    let world = World::new(true);
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Processed(8));
    let same = fingerprint(&world.output);
    begin_with(&world, same.clone(), BeginOptions::default()).await.expect("already complete");
    let mut grown = same.clone();
    grown.inputs.push(InputFile { path: "/in/b.parquet".into(), size: 1, version: None, rows: None });
    let version = Fingerprint { version: Some("2".into()), ..same.clone() };
    for changed in [grown.clone(), version] {
        assert_eq!(kind(begin_with(&world, changed, BeginOptions::default()).await), ErrorKind::Conflict);
    }
    let mut append = BeginOptions::default();
    append.append = true;
    begin_with(&world, grown.clone(), append).await.expect("appends");
    begin_with(&world, grown, BeginOptions::default()).await.expect("the job knows that it appends");
    // A fresh checkpoint over the same output is refused as well.
    let fresh = World::new(true);
    for (name, bytes) in crate::small_job::contents(&world.output).await {
        fresh.put(&fresh.output, &name, bytes).await;
    }
    let elsewhere: checkpoint_fs::StorageRef =
        std::sync::Arc::new(checkpoint_fs::MemoryStorage::new("memory://job/checkpoint2"));
    let checkpoint = Checkpoint::new(elsewhere, fresh.process("a"));
    assert_eq!(kind(begin(&checkpoint, &fresh.output, BeginOptions::default()).await), ErrorKind::Conflict);
}

#[tokio::test]
async fn data_that_changed_after_the_end_is_seen() {
    let world = World::new(true);
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Processed(8));
    let files = crate::small_job::files(&world.output).await;
    let data = files.iter().find(|f| f.ends_with(".parquet")).expect("data");
    world.put(&world.output, data, "cut").await;
    assert_eq!(kind(world.run(&IDS, false).await), ErrorKind::Conflict);
    world.remove(&world.output, data).await;
    assert_eq!(kind(world.run(&IDS, false).await), ErrorKind::Conflict);
}

#[tokio::test]
async fn the_files_of_others_stay_where_they_are() {
    let world = World::new(true);
    let theirs = [(&world.checkpoint, "notes.txt"), (&world.checkpoint, "_SUCCESS"), (&world.checkpoint, ".nfs0001")];
    let data = ["report.csv", "other-1-000001.parquet", "x_000001-0.json", "_failed/why.txt", "sub/x.parquet"];
    for (storage, name) in theirs.into_iter().chain(data.map(|name| (&world.output, name))) {
        world.put(storage, name, "theirs").await;
    }
    let dead = world.process("a");
    let first = attempt(begin(&world.seen_by(&dead), &world.output, BeginOptions::default()).await);
    write_task(&first, &IDS[..4]).await.expect("writes");
    drop(first);
    dead.kill();
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Processed(4));
    let mut left = world.checkpoint_files().await;
    left.extend(crate::small_job::files(&world.output).await);
    for (_, name) in theirs {
        assert!(left.contains(&name.to_owned()), "{name}");
    }
    for name in data {
        assert!(left.contains(&name.to_owned()), "{name}");
        assert_eq!(world.get(&world.output, name).await, "theirs");
    }
    assert_eq!(world.checkpoint_files().await, [".nfs0001", "_SUCCESS", "notes.txt"]);
}

#[tokio::test]
async fn a_record_that_appears_during_the_job_is_not_deleted_with_it() {
    let world = World::new(true);
    let owner = world.attempt().await;
    write_task(&owner, &IDS).await.expect("writes");
    let record = crate::small_job::parquet("id", &crate::small_job::column(&[100]));
    world.put(&world.checkpoint, "late_000001.parquet", record).await;
    owner.finish(false).await.expect("ends");
    assert_eq!(world.checkpoint_files().await, ["late_000001.parquet"]);
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Already(8));
}
