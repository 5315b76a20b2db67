//! A death at any step of a compaction, once and twice, and what a late owner of one leaves: nothing that counts changes.

use checkpoint_fs::StorageRef;
use checkpoint_store::{Attempt, AttemptState, Begin, BeginOptions, Checkpoint, Error};

use crate::compaction::{IDS, compact, compact_as, records, says_the_same, stopped};
use crate::crash_storage::{Crash, Point};
use crate::small_job::{Done, World, begin};

/// An attempt that merges whatever there is.
pub(crate) async fn merging(checkpoint: &Checkpoint, output: &StorageRef) -> Result<Attempt, Error> {
    let mut options = BeginOptions::default();
    options.compact_above = Some(1);
    Ok(match begin(checkpoint, output, options).await? {
        Begin::Attempt(attempt) => *attempt,
        other => panic!("there is work to do: {other:?}"),
    })
}

/// Runs something in a process that dies at a point; answers whether it did, and how many effects it had.
async fn die(world: &World, point: Option<Point>, automatic: bool) -> (bool, u64) {
    let crash = point.map_or_else(Crash::never, Crash::at);
    let process = world.process("a");
    let checkpoint = Checkpoint::new(crash.wrap(&world.checkpoint), process.clone());
    let output = crash.wrap(&world.output);
    let ended = if automatic {
        match merging(&checkpoint, &output).await {
            Ok(owner) => owner.end(AttemptState::Failed).await,
            Err(error) => Err(error),
        }
    } else {
        compact_as(&checkpoint, Some(&output)).await.map(drop)
    };
    process.kill();
    assert_eq!(crash.happened(), ended.is_err(), "{point:?}: {ended:?}");
    (crash.happened(), crash.effects())
}

fn points(effects: u64) -> impl Iterator<Item = Point> {
    (0..effects).flat_map(|n| [Point::Before(n), Point::After(n)])
}

#[tokio::test]
async fn killed_around_every_effect() {
    let mut deaths = 0;
    for (atomic_rename, automatic) in [(true, false), (false, false), (false, true)] {
        let world = World::new(atomic_rename);
        stopped(&world).await;
        let (_, effects) = die(&world, None, automatic).await;
        assert!(effects > 10, "attempt, side file, record, list, five parts, the end: {effects}");
        for point in points(effects) {
            let world = World::new(atomic_rename);
            stopped(&world).await;
            assert!(die(&world, Some(point), automatic).await.0, "{point:?}");
            let context = format!("{point:?} of {effects}, renaming {atomic_rename}, automatic {automatic}");
            says_the_same(&world, &context).await;
            // The next start sweeps what is left, and merges nothing by itself.
            assert_eq!(world.run(&IDS, true).await.expect("resumes"), Done::Processed(0), "{context}");
            assert!(world.verify().await.ok, "{context}");
            let (parts, beside) = records(&world).await;
            assert!(matches!((parts.len(), beside.len()), (5, 0) | (1, 1)), "{context}: {parts:?} {beside:?}");
            let report = compact(&world).await;
            assert_eq!((report.records_before, report.records_after), (parts.len() as u64, 1), "{context}");
            says_the_same(&world, &context).await;
            assert_eq!(world.run(&IDS, false).await.expect("ends"), Done::Processed(0), "{context}");
            assert_eq!(world.checkpoint_files().await, [""; 0], "{context}");
            world.holds_once(&IDS).await;
            deaths += 1;
        }
    }
    assert!(deaths > 60, "{deaths}");
}

#[tokio::test]
async fn killed_twice() {
    let world = World::new(false);
    stopped(&world).await;
    let (_, effects) = die(&world, None, false).await;
    for first in points(effects) {
        for second in points(effects).skip(1).step_by(3) {
            let world = World::new(false);
            stopped(&world).await;
            die(&world, Some(first), false).await;
            die(&world, Some(second), false).await;
            let context = format!("{first:?}, {second:?} of {effects}");
            says_the_same(&world, &context).await;
            assert_eq!(world.run(&IDS, true).await.expect("resumes"), Done::Processed(0), "{context}");
            assert!(world.verify().await.ok, "{context}");
            let (parts, beside) = records(&world).await;
            assert!(matches!((parts.len(), beside.len()), (5, 0) | (1, 1)), "{context}: {parts:?} {beside:?}");
        }
    }
}

/// Every file that a compaction wrote or deleted, arriving late at any later time, changes nothing.
#[tokio::test]
async fn what_a_zombie_wrote_or_did_not_see_arrives_late() {
    let world = World::new(false);
    stopped(&world).await;
    let before = crate::small_job::contents(&world.checkpoint).await;
    // A copy, in which attempt 3 compacts; in the world itself it dies first, and attempt 4 does so.
    let copy = World::new(false);
    for (from, to) in [(&world.checkpoint, &copy.checkpoint), (&world.output, &copy.output)] {
        for (name, bytes) in crate::small_job::contents(from).await {
            copy.put(to, &name, bytes).await;
        }
    }
    compact(&copy).await;
    let after = crate::small_job::contents(&copy.checkpoint).await;
    let written: Vec<_> = after.iter().filter(|(name, _)| !before.contains_key(*name)).collect();
    let lease = "_meta/attempts/3.json";
    let names: Vec<&String> = written.iter().map(|(name, _)| *name).collect();
    assert_eq!(written.len(), 5, "a side file, a record, a set, a list, and the lease: {names:?}");
    world.put(&world.checkpoint, lease, after[lease].clone()).await;
    compact(&world).await;
    let settled = crate::small_job::contents(&world.checkpoint).await;
    for late in [written.clone(), written.iter().rev().copied().collect()] {
        for (name, bytes) in late {
            world.put(&world.checkpoint, name, bytes.clone()).await;
            says_the_same(&world, name).await;
        }
    }
    // And the parts that were merged, written again.
    for (name, bytes) in before.iter().filter(|(name, _)| !name.contains('/')) {
        world.put(&world.checkpoint, name, bytes.clone()).await;
    }
    says_the_same(&world, "parts that came again").await;
    let report = world.verify().await;
    assert_eq!((report.ok, report.orphan_files), (false, 1), "the zombie's merged record alone: {report:?}");
    let owner = world.attempt().await;
    assert_eq!(owner.recovery(), Default::default(), "no task was touched");
    owner.end(AttemptState::Failed).await.expect("ends");
    assert!(world.verify().await.ok);
    let swept = crate::small_job::contents(&world.checkpoint).await;
    let records = |all: &std::collections::BTreeMap<String, bytes::Bytes>| -> Vec<String> {
        all.keys().filter(|name| !name.contains('/') || name.starts_with("_meta/merged/")).cloned().collect()
    };
    assert_eq!(records(&swept), records(&settled));
}
