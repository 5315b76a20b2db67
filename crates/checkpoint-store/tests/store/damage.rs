//! Damage: named, never guessed about, and repaired when the user says so.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use bytes::Bytes;
use checkpoint_store::{AttemptState, Error, ErrorKind, ParquetIds, VerifyOptions};

use crate::closing::recover;
use crate::small_job::{Done, World, column, committed, parquet, run, write_task};

const IDS: [i64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Two tasks of a job that failed, and the record of the second.
async fn two_tasks(world: &World, closed: bool) -> String {
    let first = world.attempt().await;
    write_task(&first, &IDS[..4]).await.expect("writes");
    let second = write_task(&first, &IDS[4..]).await.expect("writes");
    first.end(AttemptState::Failed).await.expect("ends");
    if closed {
        world.attempt().await.end(AttemptState::Failed).await.expect("ends");
    }
    format!("{second}.parquet")
}

/// Every way in which a committed record can be wrong.
fn damages(good: &Bytes) -> Vec<(&'static str, Option<Bytes>)> {
    let strings: ArrayRef = Arc::new(StringArray::from(vec!["4", "5", "6", "7"]));
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(4), None]));
    let mut flipped = good.to_vec();
    let middle = flipped.len() / 3;
    flipped[middle] ^= 0xff;
    flipped[middle + 1] ^= 0xff;
    let tail = good.len() - 1;
    vec![
        ("of zero bytes", Some(Bytes::new())),
        ("cut", Some(good.slice(..tail))),
        ("garbage", Some(Bytes::from_static(b"this is no Parquet file at all"))),
        ("of another column", Some(parquet("uid", &column(&IDS[4..])))),
        ("of another type", Some(parquet("id", &strings))),
        ("with a null", Some(parquet("id", &nulls))),
        ("flipped", Some(flipped.into())),
    ]
}

fn names(error: &Error, record: &str) {
    assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
    assert!(error.to_string().contains(record), "{error}");
}

#[tokio::test]
async fn a_damaged_record_stops_the_start_and_is_repaired_on_request() {
    for closed in [false, true] {
        let good = {
            let world = World::new(true);
            let record = two_tasks(&world, closed).await;
            world.get(&world.checkpoint, &record).await
        };
        for (what, damage) in damages(&good) {
            let world = World::new(true);
            let record = two_tasks(&world, closed).await;
            let damage = damage.expect("bytes");
            world.put(&world.checkpoint, &record, damage.clone()).await;
            let error = world.begin().await.expect_err("damaged");
            names(&error, &record);
            assert!(error.hint().is_some_and(|hint| hint.contains("--repair")), "{what}: {error:?}");
            names(&committed(&world.look()).await.expect_err("damaged"), &record);
            let found = world.verify().await;
            assert_eq!((found.ok, found.lost_tasks), (false, 1), "{what}: {found:?}");
            assert_eq!(world.output_ids().await, IDS, "{what}: nothing was touched");

            let repaired = recover(&world, false, true).await;
            assert_eq!((repaired.repaired_tasks, repaired.voided), (1, 1), "{what}");
            let aside = world.get(&world.checkpoint, &format!("_meta/damaged/{record}")).await;
            assert_eq!(aside, damage, "{what}: kept for who wants to look");
            assert_eq!(world.output_ids().await, IDS[..4], "{what}");
            assert!(world.verify().await.ok, "{what}");
            assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Processed(4), "{what}");
            world.holds_once(&IDS).await;
            assert_eq!(world.checkpoint_files().await, [""; 0], "{what}");
        }
    }
}

#[tokio::test]
async fn a_record_that_a_list_counts_and_that_is_gone_is_named() {
    let world = World::new(true);
    let record = two_tasks(&world, true).await;
    world.remove(&world.checkpoint, &record).await;
    names(&world.begin().await.expect_err("gone"), &record);
    names(&committed(&world.look()).await.expect_err("gone"), &record);
    assert_eq!(world.verify().await.lost_tasks, 1);
    assert_eq!(recover(&world, false, true).await.repaired_tasks, 1);
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Processed(4));
    world.holds_once(&IDS).await;
}

#[tokio::test]
async fn a_record_of_an_open_attempt_that_is_gone_is_computed_again() {
    let world = World::new(true);
    let record = two_tasks(&world, false).await;
    world.remove(&world.checkpoint, &record).await;
    let found = world.verify().await;
    assert_eq!((found.ok, found.orphan_files), (false, 2), "its data has no record: {found:?}");
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Processed(4));
    world.holds_once(&IDS).await;
}

#[tokio::test]
async fn data_that_is_gone_or_cut_is_found_and_computed_again() {
    for cut in [true, false] {
        let world = World::new(true);
        let record = two_tasks(&world, true).await;
        let data = record.replace(".parquet", "-1.parquet");
        if cut {
            let bytes = world.get(&world.output, &data).await;
            world.put(&world.output, &data, bytes.slice(..bytes.len() - 1)).await;
        } else {
            world.remove(&world.output, &data).await;
        }
        let found = world.verify().await;
        assert_eq!((found.ok, found.lost_tasks), (false, 1), "{found:?}");
        assert!(found.examples.iter().any(|e| e.contains(&data)), "{found:?}");
        let repaired = recover(&world, false, true).await;
        assert_eq!((repaired.repaired_tasks, repaired.deleted_files), (1, if cut { 2 } else { 1 }));
        assert_eq!(world.run(&IDS, true).await.expect("runs"), Done::Processed(4), "only those rows");
        assert!(world.verify().await.ok);
        world.holds_once(&IDS).await;
    }
}

#[tokio::test]
async fn rows_that_are_not_what_the_record_says_are_found() {
    let world = World::new(true);
    let record = two_tasks(&world, true).await;
    // The same size, other rows: only reading tells.
    let name = record.replace(".parquet", "-1.parquet");
    let good = world.get(&world.output, &name).await;
    for (ids, missing, doubled) in [([4, 7], 1, 1), ([6, 3], 1, 1), ([6, 7], 0, 0)] {
        let bytes = parquet("id", &column(&ids));
        assert_eq!(bytes.len(), good.len());
        world.put(&world.output, &name, bytes).await;
        let found = world.verify().await;
        assert_eq!((found.missing_ids, found.duplicate_ids), (missing, doubled), "{ids:?}: {found:?}");
        assert_eq!(found.ok, missing == 0);
    }
}

#[tokio::test]
async fn an_id_in_two_tasks_is_found() {
    let world = World::new(true);
    let first = world.attempt().await;
    write_task(&first, &IDS[..4]).await.expect("writes");
    write_task(&first, &IDS[3..]).await.expect("the engine did not check");
    first.finish(true).await.expect("ends");
    let found = world.verify().await;
    assert_eq!((found.ok, found.duplicate_ids), (false, 1), "{found:?}");
}

#[tokio::test]
async fn damaged_files_of_meta_are_named() {
    for file in ["job.json", "attempts/2.json", "closed/1"] {
        for damage in ["", "{", "[]", "{\"format\": 1}", "\0\0\0\0"] {
            let world = World::new(true);
            two_tasks(&world, true).await;
            let path = format!("_meta/{file}");
            world.put(&world.checkpoint, &path, damage).await;
            names(&world.begin().await.expect_err("damaged"), &path);
            names(&checkpoint_store::status(&world.look()).await.expect_err("damaged"), &path);
            let found =
                checkpoint_store::verify(&world.look(), &world.output, VerifyOptions::default(), &ParquetIds).await;
            names(&found.expect_err("damaged"), &path);
            assert_eq!(world.output_ids().await, IDS, "nothing was touched");
        }
    }
}

#[tokio::test]
async fn a_file_of_meta_under_another_name_is_refused() {
    let world = World::new(true);
    two_tasks(&world, true).await;
    let list = world.get(&world.checkpoint, "_meta/closed/1").await;
    world.put(&world.checkpoint, "_meta/closed/7", list).await;
    names(&world.begin().await.expect_err("not the seventh"), "_meta/closed/7");
}

#[tokio::test]
async fn records_without_their_job_are_refused() {
    let world = World::new(true);
    let record = two_tasks(&world, true).await;
    world.remove(&world.checkpoint, "_meta/job.json").await;
    let refused = [
        world.begin().await.map(drop).expect_err("refused"),
        checkpoint_store::status(&world.look()).await.map(drop).expect_err("refused"),
        committed(&world.look()).await.map(drop).expect_err("refused"),
        checkpoint_store::verify(&world.look(), &world.output, VerifyOptions::default(), &ParquetIds)
            .await
            .map(drop)
            .expect_err("refused"),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    assert!(world.checkpoint_files().await.contains(&record));
    assert_eq!(world.output_ids().await, IDS);
    // It can still be removed.
    checkpoint_store::remove(&world.seen_by(&world.process("a")), Default::default()).await.expect("removes");
    assert_eq!(world.checkpoint_files().await, [""; 0]);
}

#[tokio::test]
async fn what_a_newer_program_wrote_is_refused_and_never_repaired_away() {
    let world = World::new(true);
    let record = two_tasks(&world, true).await;
    let newer = |bytes: Bytes| {
        let text = String::from_utf8(bytes.to_vec()).expect("text").replacen("\"format\": 1", "\"format\": 3", 1);
        Bytes::from(text)
    };
    for file in ["_meta/job.json", "_meta/attempts/1.json", "_meta/closed/1"] {
        let good = world.get(&world.checkpoint, file).await;
        world.put(&world.checkpoint, file, newer(good.clone())).await;
        let error = world.begin().await.expect_err("newer");
        names(&error, file);
        assert!(
            error.to_string().contains("newer") && error.hint().is_some_and(|h| h.contains("version")),
            "{error:?}"
        );
        world.put(&world.checkpoint, file, good).await;
    }
    // A record's facts are in its footer; a byte there makes it one of format 2.
    let good = world.get(&world.checkpoint, &record).await;
    let needle = b"{\"format\":1,\"job\"";
    let at = good.windows(needle.len()).position(|w| w == needle).expect("its facts");
    let mut bytes = good.to_vec();
    bytes[at + needle.len() - 7] = b'2';
    world.put(&world.checkpoint, &record, bytes).await;
    names(&world.begin().await.expect_err("newer"), &record);
    let mut repair = checkpoint_store::RecoverOptions::default();
    repair.repair = true;
    let checkpoint = world.seen_by(&world.process("a"));
    let refused = checkpoint_store::recover(&checkpoint, &world.output, repair, &ParquetIds).await;
    names(&refused.expect_err("not to be set aside"), &record);
    assert_eq!(world.output_ids().await, IDS, "nothing was touched");
    world.put(&world.checkpoint, &record, good).await;
    assert_eq!(world.run(&IDS, false).await.expect("runs"), Done::Processed(0));
}

#[tokio::test]
async fn a_dropped_row_beside_a_doubled_one_is_no_fault_of_a_job_that_is_not_one_to_one() {
    use checkpoint_store::{DataFile, TaskPlan};
    let world = World::new(true);
    let owner = world.attempt().await;
    for (ids, written) in [(&[0, 1][..], &[0, 0][..]), (&[2, 3], &[2, 2, 3])] {
        let task = owner.next_task();
        let bytes = parquet("id", &column(written));
        let name = format!("{task}.parquet");
        let file = DataFile { name: name.clone(), bytes: bytes.len() as u64, rows: written.len() as u64 };
        let prepared = owner.prepare(&task, &column(ids), TaskPlan::new(vec![file])).await.expect("prepares");
        world.put(&world.output, &name, bytes).await;
        let outcome = owner.commit(prepared).await.expect("commits");
        assert!(matches!(outcome, checkpoint_store::CommitOutcome::Committed));
    }
    owner.finish(true).await.expect("ends");
    let found = world.verify().await;
    assert!(found.ok, "{found:?}");
    assert_eq!(found.output_rows, 5);
    let done = run(&world.seen_by(&world.process("a")), &world.output, &[0, 1, 2, 3], true).await;
    assert_eq!(done.expect("runs"), Done::Processed(0));
}
