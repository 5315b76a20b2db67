//! Data of Ray's whose record is gone, or says nothing: never counted beside rows that are computed again.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use checkpoint_fs::StorageRef;
use checkpoint_store::{AttemptState, BeginOptions, Checkpoint, ErrorKind};

use crate::appearing_storage::AppearingStorage;
use crate::closing::recover;
use crate::small_job::{Done, World, begin, column, files, parquet};

/// What the owner of an attempt names.
const NAMED: &str = "5f0c1d2e3a4b4c5d8e9f000000000001";
/// What nobody named.
const WRITE: &str = "0123456789abcdef012345_0123456789abcdef0123456789abcdef";
const IDS: [i64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// A task of Ray's, whole.
async fn task(world: &World, name: &str, ids: &[i64]) {
    let bytes = parquet("id", &column(ids));
    world.put(&world.output, &format!("{name}-0.parquet"), bytes.clone()).await;
    world.put(&world.checkpoint, &format!("{name}.parquet"), bytes).await;
}

fn record(write: &str, number: u32) -> String {
    format!("{write}_{number:06}.parquet")
}

#[tokio::test]
async fn data_of_a_named_write_without_a_record_is_void() {
    for gone in [&[1][..], &[0, 1]] {
        for closed in [false, true] {
            let world = World::new(true);
            let first = world.attempt().await;
            first.name_writes(vec![NAMED.to_owned()]).await.expect("is written down");
            for number in 0..2 {
                let ids = &IDS[number as usize * 4..][..4];
                task(&world, &format!("{NAMED}_{number:06}"), ids).await;
            }
            world.put(&world.output, "x-5f0c1d2e3a4b4c5d8e9f000000000009-0.parquet", "of others").await;
            first.end(AttemptState::Failed).await.expect("ends");
            if !closed {
                for number in gone {
                    world.remove(&world.checkpoint, &record(NAMED, *number)).await;
                }
                let second = world.attempt().await;
                assert_eq!(second.ids().len(), 4 * (2 - gone.len() as u64));
                assert_eq!(second.recovery().deleted_files, gone.len() as u64);
                second.end(AttemptState::Failed).await.expect("ends");
                let done = Done::Processed(4 * gone.len());
                assert_eq!(world.run(&IDS, true).await.expect("runs"), done);
            } else {
                // A list counts it: that is damage, and named.
                world.attempt().await.end(AttemptState::Failed).await.expect("ends");
                world.remove(&world.checkpoint, &record(NAMED, 1)).await;
                let error = world.begin().await.expect_err("gone");
                assert!(error.kind() == ErrorKind::BadData && error.to_string().contains(&record(NAMED, 1)), "{error}");
                assert_eq!(recover(&world, false, true).await.repaired_tasks, 1);
                assert_eq!(world.run(&IDS, true).await.expect("runs"), Done::Processed(4));
            }
            world.remove(&world.output, "x-5f0c1d2e3a4b4c5d8e9f000000000009-0.parquet").await;
            world.holds_once(&IDS).await;
            assert!(world.verify().await.ok);
        }
    }
}

/// What a worker of a closed attempt leaves while the last one ends the job.
#[tokio::test]
async fn what_comes_late_is_swept_at_the_end() {
    for (pending, committed) in [(false, false), (true, false), (false, true)] {
        let world = World::new(true);
        let first = world.attempt().await;
        first.name_writes(vec![NAMED.to_owned()]).await.expect("is written down");
        task(&world, &format!("{NAMED}_000000"), &IDS).await;
        first.end(AttemptState::Failed).await.expect("ends");
        let last = world.attempt().await;
        let late = parquet("id", &column(&[7]));
        world.put(&world.output, &format!("{NAMED}_000001-0.parquet"), late.clone()).await;
        if pending {
            world.put(&world.checkpoint, &format!("{NAMED}_000001.pending.parquet"), late.clone()).await;
        }
        if committed {
            world.put(&world.checkpoint, &record(NAMED, 1), late).await;
        }
        assert!(!world.verify().await.ok);
        last.finish(false).await.expect("ends");
        world.holds_once(&IDS).await;
        assert_eq!(world.checkpoint_files().await, [""; 0], "{pending} {committed}");
    }
}

/// A checkpoint of plain Ray's, of which a record was lost or emptied.
#[tokio::test]
async fn a_record_of_rays_that_is_gone_or_empty_is_named_and_repaired() {
    let empty: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    for damage in [None, Some(parquet("id", &empty))] {
        let world = World::new(true);
        for number in 0..2 {
            task(&world, &format!("{WRITE}_{number:06}"), &IDS[number * 3..][..3]).await;
        }
        world.put(&world.output, "9123456789abcdef0123456789abcdef_000001-0.parquet", "of another write").await;
        match &damage {
            None => world.remove(&world.checkpoint, &record(WRITE, 1)).await,
            Some(bytes) => world.put(&world.checkpoint, &record(WRITE, 1), bytes.clone()).await,
        }
        let error = world.begin().await.expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
        assert!(error.to_string().contains(&record(WRITE, 1)), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--repair")), "{error:?}");
        assert_eq!(files(&world.output).await.len(), 3, "nothing was touched");
        let found = world.verify().await;
        assert!(!found.ok, "{found:?}");

        let repaired = recover(&world, false, true).await;
        assert_eq!((repaired.repaired_tasks, repaired.deleted_files), (1, 1));
        world.remove(&world.output, "9123456789abcdef0123456789abcdef_000001-0.parquet").await;
        assert_eq!(world.run(&IDS, true).await.expect("runs"), Done::Processed(5));
        world.holds_once(&IDS).await;
        assert!(world.verify().await.ok);
    }
}

/// Without a job nothing says which column is right, but the data does.
#[tokio::test]
async fn a_record_of_rays_of_another_column_is_repaired() {
    for wrong in 0..2 {
        let world = World::new(true);
        for number in 0..2 {
            task(&world, &format!("{WRITE}_{number:06}"), &IDS[number * 3..][..3]).await;
        }
        world.put(&world.checkpoint, &record(WRITE, wrong), parquet("key", &column(&IDS[..3]))).await;
        let error = world.begin().await.expect_err("damaged");
        assert!(error.to_string().contains(&record(WRITE, wrong)), "{error}");
        let repaired = recover(&world, false, true).await;
        assert_eq!((repaired.repaired_tasks, repaired.deleted_files), (1, 1));
        assert_eq!(world.run(&IDS, true).await.expect("runs"), Done::Processed(5));
        world.holds_once(&IDS).await;
    }
}

/// It may be at work yet: what it has said by the time that it is asked for is settled as ever.
#[tokio::test]
async fn a_task_that_is_pending_is_not_gone() {
    let world = World::new(true);
    task(&world, &format!("{WRITE}_000000"), &IDS[..3]).await;
    let bytes = parquet("id", &column(&IDS[3..]));
    world.put(&world.output, &format!("{WRITE}_000001-0.parquet"), bytes.clone()).await;
    world.put(&world.checkpoint, &format!("{WRITE}_000001.pending.parquet"), bytes).await;
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Processed(0));
    world.holds_once(&IDS).await;
}

/// Names that a program of the user's makes: those of the data do not begin with that of the record.
#[tokio::test]
async fn data_of_a_counted_task_with_a_template_in_its_name_stays() {
    let mut lost = Vec::new();
    for (record, data) in [
        (format!("{NAMED}_000000-{{i}}"), format!("{NAMED}_000000-0")),
        (format!("shard_{{i}}_{NAMED}_000000"), format!("shard_0_{NAMED}_000000")),
    ] {
        let world = World::new(true);
        let first = world.attempt().await;
        first.name_writes(vec![NAMED.to_owned()]).await.expect("named");
        let bytes = parquet("id", &column(&[1, 2]));
        world.put(&world.output, &format!("{data}.parquet"), bytes.clone()).await;
        world.put(&world.checkpoint, &format!("{record}.parquet"), bytes).await;
        first.end(AttemptState::Succeeded).await.expect("ends");
        let closing = world.attempt().await;
        assert_eq!(closing.rows(), 2, "its record counts");
        closing.finish(false).await.expect("ends");
        if world.output_ids().await != [1, 2] {
            lost.push(record);
        }
    }
    assert!(lost.is_empty(), "the job is done, and its rows are gone: {lost:?}");
}

/// What a person copied into a directory below is no file of the task's.
#[tokio::test]
async fn a_copy_in_a_directory_below_does_not_cost_a_task() {
    let world = World::new(true);
    let first = world.attempt().await;
    first.name_writes(vec![NAMED.to_owned()]).await.expect("named");
    let bytes = parquet("id", &column(&[1, 2]));
    world.put(&world.checkpoint, &format!("{NAMED}_000000.pending.parquet"), bytes.clone()).await;
    world.put(&world.output, &format!("{NAMED}_000000-0.parquet"), bytes.clone()).await;
    world.put(&world.output, &format!("backup/{NAMED}_000000-0.parquet"), bytes).await;
    first.end(AttemptState::Failed).await.expect("ends");
    let second = world.attempt().await;
    assert_eq!(second.ids().len(), 2, "rolled forward");
    assert!(files(&world.output).await.iter().any(|f| f.starts_with("backup/")), "the copy stays");
}

/// Its pending record came after the listing, and is moved between the two looks.
#[tokio::test]
async fn a_task_that_commits_meanwhile_is_not_without_record() {
    let world = World::new(false);
    for (number, ending) in [(0, ".parquet"), (1, ".pending.parquet")] {
        let bytes = parquet("id", &column(&IDS[number * 2..][..2]));
        world.put(&world.output, &format!("{WRITE}_{number:06}-0.parquet"), bytes.clone()).await;
        world.put(&world.checkpoint, &format!("{WRITE}_{number:06}{ending}"), bytes).await;
    }
    let meanwhile: StorageRef = Arc::new(AppearingStorage::new(&world.checkpoint, &format!("{WRITE}_000001")));
    let c = Checkpoint::new(meanwhile, world.process("a"));
    let begun = begin(&c, &world.output, BeginOptions::default()).await;
    assert!(begun.is_ok(), "its record is there: {:?}", begun.err());
    assert!(world.checkpoint_files().await.contains(&record(WRITE, 1)));
}
