//! Loading what is done: very many small records, and IDs of every kind from records of every kind.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use checkpoint_fs::{MemoryStorage, ObjectPath, StorageRef, WriteOptions};
use checkpoint_store::{
    Attempt, AttemptState, Begin, BeginOptions, Checkpoint, ErrorKind, Fingerprint, ParquetIds, SystemRuntime,
    VerifyOptions, VerifyReport, committed_ids, preview, status, verify,
};
use futures::TryStreamExt;

use crate::small_job::parquet;

const RECORDS: i64 = 50_000;

fn job(id_class: &str, id_type: &str) -> Fingerprint {
    Fingerprint {
        id_column: "id".into(),
        id_class: id_class.into(),
        id_type: id_type.into(),
        row_hash: false,
        filter: None,
        output: "memory://many/output".into(),
        version: None,
        inputs: Vec::new(),
        inputs_unknown: false,
    }
}

async fn put(storage: &StorageRef, name: &str, ids: ArrayRef) {
    let path = ObjectPath::parse(name).expect("a path");
    let written = storage.write(&path, parquet("id", &ids), WriteOptions::new()).await.expect("written");
    written.into_result(name).expect("done");
}

fn world() -> (Checkpoint, StorageRef, StorageRef) {
    let storage: StorageRef = Arc::new(MemoryStorage::new("memory://many/checkpoint"));
    let output: StorageRef = Arc::new(MemoryStorage::new("memory://many/output"));
    (Checkpoint::new(storage.clone(), SystemRuntime::shared()), storage, output)
}

/// Records as Ray leaves them, two IDs in each, out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_thousand_records_are_one_small_set() {
    let (checkpoint, storage, output) = world();
    for number in 0..RECORDS {
        let first = number * 7_919 % RECORDS * 2;
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![first, first + 1]));
        put(&storage, &format!("r_{number:06}.parquet"), ids).await;
    }
    let counted = status(&checkpoint).await.expect("counts");
    assert_eq!((counted.committed_tasks, counted.committed_rows), (RECORDS as u64, 2 * RECORDS as u64));

    let job = job("integer", "Int64");
    let begun = Attempt::begin(&checkpoint, &output, job, BeginOptions::default(), &ParquetIds).await.expect("begins");
    let Begin::Attempt(attempt) = begun else { panic!("there is work to do") };
    let ids = attempt.ids();
    assert_eq!(ids.len(), 2 * RECORDS as u64);
    assert!(ids.memory() < 1_000, "one stretch: {} bytes", ids.memory());
    let probe: ArrayRef = Arc::new(Int64Array::from_iter_values(-10..2 * RECORDS + 10));
    let found = ids.contains(&probe).expect("compares");
    assert!(found.iter().enumerate().all(|(i, found)| found == Some((10..10 + 2 * RECORDS as usize).contains(&i))));
    attempt.end(AttemptState::Interrupted).await.expect("ends");
}

#[tokio::test]
async fn an_id_in_two_records_is_named_with_both() {
    let (checkpoint, storage, output) = world();
    let texts = |ids: &[&str]| -> ArrayRef { Arc::new(StringArray::from(ids.to_vec())) };
    for (name, ids) in [("r_000001", &["a", "b"]), ("r_000002", &["c", "b"]), ("r_000003", &["d", "d"])] {
        put(&storage, &format!("{name}.parquet"), texts(ids)).await;
        put(&output, &format!("{name}-0.parquet"), texts(ids)).await;
    }
    let report: VerifyReport =
        verify(&checkpoint, &output, VerifyOptions::default(), &ParquetIds).await.expect("checks");
    assert_eq!((report.ok, report.committed_ids), (false, 6));
    let named: Vec<&String> = report.examples.iter().filter(|e| e.contains("tasks") || e.contains("record")).collect();
    assert_eq!(
        named,
        ["ID b is in two tasks, r_000001 and r_000002", "ID d is twice in the record of task r_000003"],
        "{report:?}"
    );
    let ids: Vec<_> = committed_ids(&checkpoint).await.expect("reads").try_collect().await.expect("whole");
    assert_eq!(ids.iter().map(|ids| ids.len()).sum::<usize>(), 6);
}

/// Nothing but the records says of which class the IDs are: the first in order does.
#[tokio::test]
async fn a_record_of_another_class_is_damage_and_never_decides() {
    let (checkpoint, storage, output) = world();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    put(&storage, "r_000001.parquet", Arc::new(StringArray::from(vec!["1"]))).await;
    put(&storage, "r_000002.parquet", numbers.clone()).await;
    put(&storage, "r_000003.parquet", numbers).await;
    let report = verify(&checkpoint, &output, VerifyOptions::default(), &ParquetIds).await.expect("checks");
    assert_eq!(report.committed_ids, 1, "{report:?}");
    let options = BeginOptions::default();
    let found = preview(&checkpoint, &output, &job("integer", "Int64"), &options, &ParquetIds).await;
    assert_eq!(found.map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::BadData));
}

#[tokio::test]
async fn a_set_that_does_not_fit_its_limit_is_spilled() {
    let (checkpoint, storage, output) = world();
    let ids = |from: i64| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((from..from + 30_000).map(|n| format!("id {n}"))))
    };
    for from in [0, 30_000, 60_000] {
        put(&storage, &format!("r_{from:06}.parquet"), ids(from)).await;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let load = async |spill: bool| {
        let mut options = BeginOptions::default();
        options.ids.memory_limit = Some(1 << 10);
        options.ids.spill_dir = spill.then(|| dir.path().to_owned());
        preview(&checkpoint, &output, &job("text", "Utf8"), &options, &ParquetIds).await.map(|p| p.ids)
    };
    let spilled = load(true).await.expect("loads");
    assert_eq!(spilled.len(), 90_000);
    assert_eq!(spilled.contains(&ids(45_000)).expect("compares").true_count(), 30_000);
    assert_eq!(load(false).await.map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::InvalidConfig));
}
