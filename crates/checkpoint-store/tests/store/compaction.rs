//! Compaction: many small records become few, and nothing that counts changes.

use std::sync::Arc;

use checkpoint_fs::StorageRef;
use checkpoint_store::{
    AttemptState, BeginOptions, Checkpoint, ClosedList, CompactOptions, CompactReport, Error, ErrorKind, ParquetIds,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::small_job::{
    Done, World, attempt, begin, column, committed, files, fingerprint, kind, left, parquet, run, write_task,
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

/// The record files, and the files beside merged ones.
pub(crate) async fn records(world: &World) -> (Vec<String>, Vec<String>) {
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

#[tokio::test]
async fn without_the_output_nothing_may_be_pending() {
    let world = World::new(true);
    stopped(&world).await;
    world.leave_pending(&[100, 101]).await;
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
