//! A job that is killed before and after every effect that it has on the storages, alone and twice in a row.

use checkpoint_fs::StorageRef;
use checkpoint_store::{BeginOptions, Checkpoint, ErrorKind, ParquetIds, VerifyOptions};

use crate::crash_storage::{Crash, Point};
use crate::small_job::{Done, World, fingerprint, run};

const IDS: [i64; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1 << 53, (1 << 53) + 1];

/// What was reached, over all deaths.
#[derive(Debug, Default)]
struct Reached {
    deaths: u64,
    rolled_forward: u64,
    voided: u64,
    already_complete: u64,
    end_unfinished: u64,
}

/// Runs the job in a process that dies at a point; answers whether it did, and how many effects it had.
async fn die(world: &World, point: Point, keep: bool) -> (bool, u64) {
    let crash = Crash::at(point);
    let process = world.process("a");
    let checkpoint = Checkpoint::new(crash.wrap(&world.checkpoint), process.clone());
    let output: StorageRef = crash.wrap(&world.output);
    let ended = run(&checkpoint, &output, &IDS, keep).await;
    process.kill();
    // A death after the very last effect leaves nothing undone, and only the answer is lost.
    assert_eq!(crash.happened(), ended.is_err(), "{point:?}: {ended:?}");
    (crash.happened(), crash.effects())
}

/// What must hold right after a death: nothing that counts is lost or doubled. Litter is allowed.
async fn check_ruins(world: &World, reached: &mut Reached) {
    let looked = world.look();
    let snapshot = looked.snapshot().await.expect("reads");
    reached.end_unfinished += u64::from(snapshot.is_complete());
    match checkpoint_store::verify(&looked, &world.output, VerifyOptions::default(), &ParquetIds).await {
        Ok(report) => {
            assert_eq!((report.lost_tasks, report.missing_ids, report.duplicate_ids), (0, 0, 0), "{report:?}");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::NoCheckpoint, "{error}"),
    }
}

/// Resumes until the end, keeping the checkpoint, and checks the promise; then ends the job for good.
async fn resume(world: &World, reached: &mut Reached) {
    let looked = world.look();
    let process = world.process("a");
    let (now, options) = (fingerprint(&world.output), BeginOptions::default());
    let preview = checkpoint_store::preview(&looked, &world.output, &now, &options, &ParquetIds);
    let preview = Box::pin(preview).await.expect("looks");
    reached.rolled_forward += preview.recovery.rolled_forward;
    reached.voided += preview.recovery.voided;
    let done = run(&world.seen_by(&process), &world.output, &IDS, true).await.expect("resumes");
    world.holds_once(&IDS).await;
    match done {
        Done::Already(rows) => {
            reached.already_complete += 1;
            assert_eq!(rows, IDS.len() as u64);
            assert_eq!(preview.already_complete, Some(rows), "the preview knew");
        }
        Done::Processed(rows) => {
            assert_eq!(rows as u64 + preview.ids.len(), IDS.len() as u64, "the preview knew");
            let report = world.verify().await;
            assert!(report.ok, "{report:?}");
            assert_eq!((report.committed_ids, report.output_rows), (IDS.len() as u64, IDS.len() as u64));
            assert_eq!(world.run(&IDS, false).await.expect("ends"), Done::Processed(0), "all was done");
        }
    }
    assert_eq!(world.checkpoint_files().await, [""; 0], "nothing is left of the checkpoint");
    assert_eq!(world.run(&IDS, false).await.expect("again"), Done::Already(IDS.len() as u64));
    world.holds_once(&IDS).await;
}

async fn effects_of_a_run(atomic_rename: bool, keep: bool) -> u64 {
    let world = World::new(atomic_rename);
    let crash = Crash::never();
    let checkpoint = Checkpoint::new(crash.wrap(&world.checkpoint), world.process("a"));
    run(&checkpoint, &crash.wrap(&world.output), &IDS, keep).await.expect("runs");
    crash.effects()
}

fn points(effects: u64) -> impl Iterator<Item = Point> {
    (0..effects).flat_map(|n| [Point::Before(n), Point::After(n)])
}

#[tokio::test]
async fn killed_around_every_effect() {
    let mut reached = Reached::default();
    for (atomic_rename, keep) in [(true, true), (true, false), (false, true), (false, false)] {
        let effects = effects_of_a_run(atomic_rename, keep).await;
        for point in points(effects) {
            let world = World::new(atomic_rename);
            let (died, _) = die(&world, point, keep).await;
            assert!(died, "{point:?} of {effects}");
            check_ruins(&world, &mut reached).await;
            resume(&world, &mut reached).await;
            reached.deaths += 1;
        }
    }
    println!("{reached:?}");
    assert!(reached.deaths > 150 && reached.rolled_forward > 20 && reached.voided > 20, "{reached:?}");
    assert!(reached.already_complete > 10 && reached.end_unfinished > 10, "{reached:?}");
}

#[tokio::test]
async fn killed_twice() {
    let mut reached = Reached::default();
    for atomic_rename in [true, false] {
        let effects = effects_of_a_run(atomic_rename, false).await;
        for first in points(effects) {
            // The second death walks through the recovery, and on: it is the closing and sweeping that it tries.
            for second in points(effects).skip(2).step_by(2) {
                let world = World::new(atomic_rename);
                die(&world, first, false).await;
                let (died, _) = die(&world, second, false).await;
                check_ruins(&world, &mut reached).await;
                resume(&world, &mut reached).await;
                reached.deaths += 1 + u64::from(died);
            }
        }
    }
    println!("{reached:?}");
    assert!(reached.deaths > 3000 && reached.rolled_forward > 40 && reached.voided > 20, "{reached:?}");
}
