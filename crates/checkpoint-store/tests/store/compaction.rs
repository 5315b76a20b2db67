//! Compaction: many small records become few, nothing that counts changes, and a death at any step is harmless.

use std::sync::Arc;

use checkpoint_fs::StorageRef;
use checkpoint_store::{
    Attempt, AttemptState, Begin, BeginOptions, Checkpoint, ClosedList, CompactOptions, CompactReport, Error,
    ErrorKind, ParquetIds, RecoverOptions,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::crash_storage::{Crash, Point};
use crate::small_job::{
    Done, Step, World, attempt, begin, column, committed, files, fingerprint, kind, left, parquet, run, write_task,
};

pub(crate) const IDS: [i64; 20] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 1 << 53, (1 << 53) + 1];

pub(crate) fn five() -> Vec<&'static [i64]> {
    IDS.chunks(4).collect()
}

/// A job that was stopped twice: three tasks of its first attempt count, and two of its second, which is open.
pub(crate) async fn stopped(world: &World) {
    for tasks in [&five()[..3], &five()[3..]] {
        let owner = world.attempt().await;
        for ids in tasks {
            write_task(&owner, ids).await.expect("writes");
        }
        owner.end(AttemptState::Failed).await.expect("ends");
    }
}

pub(crate) async fn compact_as(checkpoint: &Checkpoint, output: Option<&StorageRef>) -> Result<CompactReport, Error> {
    Box::pin(checkpoint_store::compact(checkpoint, output, CompactOptions::default(), &ParquetIds)).await
}

pub(crate) async fn compact(world: &World) -> CompactReport {
    compact_as(&world.seen_by(&world.process("a")), Some(&world.output)).await.expect("compacts")
}

/// An attempt that merges whatever there is.
async fn merging(checkpoint: &Checkpoint, output: &StorageRef) -> Result<Attempt, Error> {
    let mut options = BeginOptions::default();
    options.compact_above = Some(1);
    Ok(match begin(checkpoint, output, options).await? {
        Begin::Attempt(attempt) => *attempt,
        other => panic!("there is work to do: {other:?}"),
    })
}

/// The record files, and the files beside merged ones.
async fn records(world: &World) -> (Vec<String>, Vec<String>) {
    let all = files(&world.checkpoint).await;
    let beside = |name: &&String| name.starts_with("_meta/merged/") && name.ends_with(".parquet");
    let beside = all.iter().filter(beside).cloned().collect();
    (all.into_iter().filter(|name| !name.contains('/')).collect(), beside)
}

pub(crate) async fn closed_list(world: &World, number: u64) -> ClosedList {
    let bytes = world.get(&world.checkpoint, &format!("_meta/closed/{number}")).await;
    serde_json::from_slice(&bytes).expect("a closed list")
}

/// Everything that people ask says the same as before any compaction.
pub(crate) async fn says_the_same(world: &World, context: &str) {
    let status = checkpoint_store::status(&world.look()).await.expect("counts");
    assert_eq!((status.committed_rows, status.committed_tasks, status.void_tasks), (20, 5, 0), "{context}");
    assert_eq!(committed(&world.look()).await.expect("reads"), IDS, "{context}");
    let report = world.verify().await;
    let found = (report.lost_tasks, report.missing_ids, report.duplicate_ids, report.committed_ids, report.output_rows);
    assert_eq!(found, (0, 0, 0, 20, 20), "{context}: {report:?}");
    let (now, options) = (fingerprint(&world.output), BeginOptions::default());
    let looked = world.look();
    let preview = checkpoint_store::preview(&looked, &world.output, &now, &options, &ParquetIds);
    assert_eq!(Box::pin(preview).await.expect("looks").ids.len(), 20, "{context}");
}

#[tokio::test]
async fn many_records_become_one_and_the_job_goes_on() {
    for atomic_rename in [true, false] {
        let world = World::new(atomic_rename);
        stopped(&world).await;
        let report = compact(&world).await;
        assert_eq!((report.records_before, report.records_after), (5, 1));
        assert!(report.bytes_after < report.bytes_before, "{report:?}");
        let (parts, beside) = records(&world).await;
        assert_eq!((parts.len(), beside.len()), (1, 1), "{parts:?} {beside:?}");
        assert_eq!(format!("_meta/merged/{}", parts[0]), beside[0]);
        let list = closed_list(&world, 2).await;
        assert_eq!((list.format, list.rows, list.merged.len()), (2, 20, 1));
        assert_eq!((list.merged[0].rows, list.merged[0].len()), (20, 5));
        let status = checkpoint_store::status(&world.look()).await.expect("counts");
        assert_eq!(status.bytes, list.merged[0].bytes);
        says_the_same(&world, "compacted").await;
        assert!(world.verify().await.ok);

        let again = compact(&world).await;
        assert_eq!((again.records_before, again.records_after), (1, 1));
        assert_eq!(records(&world).await.0, parts, "there is nothing to merge any more");

        // Two more tasks, and the end: the mark knows every data file.
        let more: Vec<i64> = IDS.into_iter().chain(100..108).collect();
        let mut sorted = more.clone();
        sorted.sort_unstable();
        assert_eq!(world.run(&more, true).await.expect("runs"), Done::Processed(8));
        assert_eq!(compact(&world).await.records_after, 1, "the first is small enough to be merged again");
        assert_eq!(records(&world).await.1.len(), 1);
        assert_eq!(world.run(&more, false).await.expect("ends"), Done::Processed(0));
        assert_eq!(world.checkpoint_files().await, [""; 0]);
        assert_eq!(world.run(&more, false).await.expect("again"), Done::Already(28));
        let data: Vec<String> = files(&world.output).await;
        let mark = data.iter().find(|name| name.starts_with("_CHECKPOINT_COMPLETE-")).expect("a mark");
        let mark = String::from_utf8(world.get(&world.output, mark).await.to_vec()).expect("text");
        for file in data.iter().filter(|name| name.ends_with(".parquet")) {
            assert!(mark.contains(file), "{file}");
        }
        world.holds_once(&sorted).await;
    }
}

#[tokio::test]
async fn an_attempt_merges_above_its_threshold_alone() {
    let world = World::new(true);
    stopped(&world).await;
    world.attempt().await.end(AttemptState::Failed).await.expect("ends");
    assert_eq!(records(&world).await.0.len(), 5, "five are not many");
    let mut options = BeginOptions::default();
    options.compact_above = Some(5);
    let seen = world.seen_by(&world.process("a"));
    attempt(begin(&seen, &world.output, options.clone()).await).end(AttemptState::Failed).await.expect("ends");
    assert_eq!(records(&world).await.0.len(), 5, "nor more than five");
    options.compact_above = None;
    let seen = world.seen_by(&world.process("a"));
    attempt(begin(&seen, &world.output, options.clone()).await).end(AttemptState::Failed).await.expect("ends");
    options.compact_above = Some(4);
    let seen = world.seen_by(&world.process("a"));
    let owner = attempt(begin(&seen, &world.output, options).await);
    assert_eq!(owner.ids().len(), 20);
    assert_eq!(left(&owner, &IDS), [0; 0]);
    owner.end(AttemptState::Failed).await.expect("ends");
    assert_eq!(records(&world).await.0.len(), 1);
    says_the_same(&world, "merged at the start").await;
}

#[tokio::test]
async fn merged_records_have_a_size() {
    let world = World::new(true);
    stopped(&world).await;
    let mut options = CompactOptions::default();
    options.merge.max_rows = 8;
    let compacted = async || {
        let seen = world.seen_by(&world.process("a"));
        Box::pin(checkpoint_store::compact(&seen, Some(&world.output), options.clone(), &ParquetIds)).await
    };
    let report = compacted().await.expect("compacts");
    assert_eq!((report.records_before, report.records_after), (5, 3), "two, two, and one left alone");
    let before = records(&world).await;
    assert_eq!(before.1.len(), 2);
    says_the_same(&world, "three records").await;
    compacted().await.expect("compacts");
    assert_eq!(records(&world).await, before, "full ones stay");
    options.merge = Default::default();
    options.merge.small_bytes = 1;
    let seen = world.seen_by(&world.process("a"));
    let large = checkpoint_store::compact(&seen, Some(&world.output), options.clone(), &ParquetIds);
    Box::pin(large).await.expect("compacts");
    assert_eq!(records(&world).await, before, "large ones too");
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

#[tokio::test]
async fn damage_is_named_and_repaired() {
    for beside in [false, true] {
        for damage in ["gone", "empty", "cut", "flipped", "another"] {
            let world = World::new(true);
            stopped(&world).await;
            compact(&world).await;
            // One more task, which must stay.
            let more: Vec<i64> = IDS.into_iter().chain(100..104).collect();
            assert_eq!(world.run(&more, true).await.expect("runs"), Done::Processed(4));
            let (parts, sides) = records(&world).await;
            let merged = parts.iter().find(|name| name.contains("-merged-")).expect("a merged record");
            let file = if beside { &sides[0] } else { merged };
            let good = world.get(&world.checkpoint, file).await;
            match damage {
                "gone" => world.remove(&world.checkpoint, file).await,
                "empty" => world.put(&world.checkpoint, file, "").await,
                "cut" => world.put(&world.checkpoint, file, good.slice(..good.len() - 1)).await,
                "flipped" => {
                    let mut bytes = good.to_vec();
                    bytes[20] ^= 1;
                    world.put(&world.checkpoint, file, bytes).await;
                }
                _ => {
                    let other = World::new(true);
                    stopped(&other).await;
                    compact(&other).await;
                    let (parts, sides) = records(&other).await;
                    let name = if beside { &sides[0] } else { &parts[0] };
                    world.put(&world.checkpoint, file, other.get(&other.checkpoint, name).await).await;
                }
            }
            let context = format!("{damage} {file}");
            for error in [
                world.begin().await.map(drop).expect_err("damaged"),
                committed(&world.look()).await.map(drop).expect_err("damaged"),
                compact_as(&world.seen_by(&world.process("a")), Some(&world.output)).await.map(drop).expect_err("too"),
            ] {
                assert_eq!(error.kind(), ErrorKind::BadData, "{context}: {error}");
                assert!(error.to_string().contains(merged.as_str()), "{context}: {error}");
            }
            let found = world.verify().await;
            assert_eq!((found.ok, found.lost_tasks), (false, 5), "{context}: {found:?}");
            let mut repair = RecoverOptions::default();
            repair.repair = true;
            let seen = world.seen_by(&world.process("a"));
            let repaired = checkpoint_store::recover(&seen, &world.output, repair, &ParquetIds);
            let repaired = Box::pin(repaired).await.expect("repairs");
            assert_eq!((repaired.repaired_tasks, repaired.voided, repaired.deleted_files), (5, 5, 10), "{context}");
            if damage != "gone" {
                let aside = files(&world.checkpoint).await;
                let aside = aside.iter().filter(|name| name.starts_with("_meta/damaged/")).count();
                assert_eq!(aside, 2, "{context}: both files are kept for who wants to look");
            }
            assert_eq!(records(&world).await.1, [""; 0], "{context}");
            assert!(world.verify().await.ok, "{context}");
            assert_eq!(world.run(&more, false).await.expect("runs"), Done::Processed(20), "{context}");
            assert_eq!(world.checkpoint_files().await, [""; 0], "{context}");
        }
    }
}

#[tokio::test]
async fn a_repair_of_one_task_writes_its_merged_record_anew() {
    let world = World::new(true);
    stopped(&world).await;
    compact(&world).await;
    let (before, _) = records(&world).await;
    let data = files(&world.output).await.into_iter().find(|name| name.contains("-1-000002-1.")).expect("data");
    world.remove(&world.output, &data).await;
    assert_eq!(world.verify().await.lost_tasks, 1);
    let mut repair = RecoverOptions::default();
    repair.repair = true;
    let seen = world.seen_by(&world.process("a"));
    let repaired = Box::pin(checkpoint_store::recover(&seen, &world.output, repair, &ParquetIds)).await;
    assert_eq!(repaired.expect("repairs").repaired_tasks, 1);
    let (now, beside) = records(&world).await;
    assert_eq!((now.len(), beside.len()), (1, 1));
    assert_ne!(now, before, "no file holds the IDs that do not count any more");
    let rest: Vec<i64> = IDS.into_iter().filter(|id| !(4..8).contains(id)).collect();
    assert_eq!(committed(&world.look()).await.expect("reads"), rest);
    assert!(world.verify().await.ok);
    assert_eq!(world.run(&IDS, true).await.expect("runs"), Done::Processed(4));
    assert!(world.verify().await.ok);
    world.holds_once(&IDS).await;
}

#[tokio::test]
async fn without_the_output_nothing_may_be_pending() {
    let world = World::new(true);
    stopped(&world).await;
    let owner = world.attempt().await;
    let step = Step::prepare(&owner, &[100, 101]).await.expect("prepares");
    step.all_data(&owner).await.expect("writes");
    owner.end(AttemptState::Failed).await.expect("ends");
    let seen = || world.seen_by(&world.process("a"));
    assert_eq!(kind(compact_as(&seen(), None).await), ErrorKind::InvalidConfig);
    assert_eq!(records(&world).await.0.len(), 5, "nothing was changed");
    let report = compact_as(&seen(), Some(&world.output)).await.expect("compacts");
    assert_eq!((report.records_before, report.records_after), (6, 2), "one is rolled forward, and merged next time");
    let report = compact_as(&seen(), None).await.expect("nothing is pending");
    assert_eq!((report.records_before, report.records_after), (2, 1));
    let ids: Vec<i64> = IDS.into_iter().chain([100, 101]).collect();
    assert_eq!(world.run(&ids, false).await.expect("ends"), Done::Processed(0));
}

#[tokio::test]
async fn refused_where_it_has_no_business() {
    let world = World::new(true);
    let seen = || world.seen_by(&world.process("a"));
    assert_eq!(kind(compact_as(&seen(), None).await), ErrorKind::NoCheckpoint);
    let owner = world.attempt().await;
    write_task(&owner, &[0, 1]).await.expect("writes");
    assert_eq!(kind(compact_as(&seen(), None).await), ErrorKind::Conflict, "somebody is at work");
    let other: StorageRef = Arc::new(checkpoint_fs::MemoryStorage::new("memory://other/output"));
    assert_eq!(kind(compact_as(&seen(), Some(&other)).await), ErrorKind::Conflict, "another's output");
    owner.end(AttemptState::Failed).await.expect("ends");
    let plain = World::new(true);
    plain.put(&plain.checkpoint, "sales.parquet", parquet("id", &column(&[1]))).await;
    let refused = compact_as(&plain.seen_by(&plain.process("a")), None).await;
    assert_eq!(kind(refused), ErrorKind::NoCheckpoint, "somebody's table");
}

#[tokio::test]
async fn a_merged_record_loads_beside_the_others() {
    let world = World::new(true);
    stopped(&world).await;
    let schema = async |name: &str| {
        let bytes = world.get(&world.checkpoint, name).await;
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("Parquet");
        (reader.schema().fields().clone(), reader.parquet_schema().root_schema().clone())
    };
    let (parts, _) = records(&world).await;
    let small = schema(&parts[0]).await;
    compact(&world).await;
    let (merged, _) = records(&world).await;
    assert_eq!(schema(&merged[0]).await, small);
}

#[tokio::test]
async fn a_reader_goes_on_when_records_are_merged_under_it() {
    use futures::StreamExt;
    for read in [0, 1, 39] {
        let world = World::new(true);
        let owner = world.attempt().await;
        for id in 0..40 {
            write_task(&owner, &[id]).await.expect("writes");
        }
        owner.end(AttemptState::Failed).await.expect("ends");
        let looked = world.look();
        let mut ids = std::pin::pin!(checkpoint_store::committed_ids(&looked).await.expect("reads"));
        let mut found = Vec::new();
        for _ in 0..read {
            found.push(ids.next().await.expect("more").expect("whole"));
        }
        assert_eq!(compact(&world).await.records_after, 1);
        while let Some(next) = ids.next().await {
            found.push(next.expect("whole"));
        }
        let mut found: Vec<Vec<u8>> = found.iter().flat_map(|ids| ids.canonical_keys()).collect();
        found.sort_unstable();
        assert_eq!(found.len(), 40, "{read}: each once");
        found.dedup();
        assert_eq!(found.len(), 40, "{read}: and all");
    }
}

#[tokio::test]
async fn removing_and_running_anew_leave_nothing() {
    let world = World::new(true);
    stopped(&world).await;
    compact(&world).await;
    checkpoint_store::remove(&world.seen_by(&world.process("a")), Default::default()).await.expect("removes");
    assert_eq!(world.checkpoint_files().await, [""; 0]);
    let refused = run(&world.seen_by(&world.process("a")), &world.output, &IDS, true).await;
    assert_eq!(kind(refused), ErrorKind::Conflict);
}
