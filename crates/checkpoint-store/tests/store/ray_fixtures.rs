//! Checkpoints that Ray Data 2.60 made, recovered and resumed: what `expect.json` says must hold.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, UInt64Type};
use checkpoint_fs::{ObjectPath, PosixOptions, PosixStorage, ReadOptions, StorageExt, StorageRef, WriteOptions};
use checkpoint_store::{
    Attempt, AttemptState, Begin, BeginOptions, Checkpoint, CommitOutcome, CompactOptions, DataFile, ErrorKind,
    Fingerprint, ParquetIds, RecoverOptions, SystemRuntime, TaskPlan, VerifyOptions,
};
use futures::TryStreamExt;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use crate::small_job::parquet;

const CASES: [&str; 6] = ["finished-kept", "crashed", "both", "strings", "row-hash", "prefix"];

/// A copy of a fixture in a directory of its own.
struct Case {
    expect: Value,
    checkpoint: Checkpoint,
    output: StorageRef,
    _dir: tempfile::TempDir,
}

impl Case {
    fn new(name: &str) -> Self {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ray-2.60").join(name);
        let dir = tempfile::tempdir().expect("a directory");
        for part in ["checkpoint", "output"] {
            copy(&fixture.join(part), &dir.path().join(part));
        }
        let expect = std::fs::read(fixture.join("expect.json")).expect("expect.json");
        let open = |part: &str| -> StorageRef {
            Arc::new(PosixStorage::open(&dir.path().join(part), PosixOptions::new()).expect("opens"))
        };
        let checkpoint = Checkpoint::new(open("checkpoint"), SystemRuntime::shared());
        let expect = serde_json::from_slice(&expect).expect("JSON");
        Self { expect, checkpoint, output: open("output"), _dir: dir }
    }

    fn list(&self, of: &Value) -> Vec<String> {
        of.as_array().expect("a list").iter().map(|v| v.as_str().expect("a string").to_owned()).collect()
    }

    fn fingerprint(&self) -> Fingerprint {
        let class = if self.expect["id_type"] == "string" { "text" } else { "integer" };
        Fingerprint {
            id_column: self.expect["id_column"].as_str().expect("a name").to_owned(),
            id_class: class.to_owned(),
            id_type: self.expect["id_type"].as_str().expect("a type").to_owned(),
            row_hash: self.expect["case"] == "row-hash",
            filter: None,
            output: self.output.url().to_owned(),
            version: None,
            inputs: Vec::new(),
            inputs_unknown: false,
        }
    }

    /// All IDs of the input, as text.
    fn input(&self) -> Vec<String> {
        let files = self.expect["input"].as_array().expect("files");
        files.iter().flat_map(|file| texts(&file["ids"])).collect()
    }

    /// IDs as an array of the fixture's type.
    fn column(&self, ids: &[String]) -> ArrayRef {
        match self.expect["id_type"].as_str() {
            Some("string") => Arc::new(StringArray::from(ids.to_vec())),
            Some("uint64") => Arc::new(ids.iter().map(|id| id.parse::<u64>().ok()).collect::<UInt64Array>()),
            _ => Arc::new(ids.iter().map(|id| id.parse::<i64>().ok()).collect::<Int64Array>()),
        }
    }

    /// The IDs in the output, each as often as it is there.
    async fn output_ids(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (path, _) in self.output.list_files(&ObjectPath::root(), false).await.expect("lists") {
            if !path.name().ends_with(".parquet") {
                continue;
            }
            let bytes = self.output.read(&path, ReadOptions::new()).await.expect("reads").bytes;
            for batch in ParquetRecordBatchReaderBuilder::try_new(bytes).expect("Parquet").build().expect("reads") {
                let batch = batch.expect("whole");
                let name = self.expect["id_column"].as_str().expect("a name");
                found.extend(array_texts(batch.column_by_name(name).expect("the ID")));
            }
        }
        found.sort();
        found
    }

    async fn begin(&self) -> Attempt {
        let begun =
            Attempt::begin(&self.checkpoint, &self.output, self.fingerprint(), BeginOptions::default(), &ParquetIds);
        match Box::pin(begun).await.expect("begins") {
            Begin::Attempt(attempt) => *attempt,
            other => panic!("there is a checkpoint: {other:?}"),
        }
    }

    /// The names of the committed records.
    async fn records(&self) -> Vec<String> {
        let files = self.checkpoint.storage().list_files(&ObjectPath::root(), false).await.expect("lists");
        files.into_iter().map(|(path, _)| path.name().to_owned()).filter(|name| name.ends_with(".parquet")).collect()
    }

    /// The column of each record, as Arrow and as Parquet see it.
    async fn schemas(&self, records: &[String]) -> Vec<(Field, String)> {
        let mut schemas = Vec::new();
        for name in records {
            let path = ObjectPath::parse(name.as_str()).expect("a path");
            let bytes = self.checkpoint.storage().read(&path, ReadOptions::new()).await.expect("reads").bytes;
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("Parquet");
            let [field] = &reader.schema().fields()[..] else { panic!("one column: {name}") };
            let column = reader.parquet_schema().column(0);
            let types =
                format!("{:?} {:?} {:?}", column.physical_type(), column.logical_type_ref(), column.max_def_level());
            schemas.push((field.as_ref().clone(), types));
        }
        schemas
    }

    /// The data that must have survived is there byte for byte, and what must go is gone.
    fn check_data(&self, fixture: &str, context: &str) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ray-2.60").join(fixture);
        for file in self.list(&self.expect["recovery"]["keep_data"]) {
            let (was, is) = (std::fs::read(root.join(&file)), std::fs::read(self._dir.path().join(&file)));
            assert_eq!(was.expect("a fixture"), is.unwrap_or_default(), "{fixture} {context}: {file}");
        }
        for file in self.list(&self.expect["recovery"]["delete_data"]) {
            assert!(!self._dir.path().join(&file).exists(), "{fixture} {context}: {file}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a fixture") {
        let (path, name): (PathBuf, _) = entry.map(|e| (e.path(), e.file_name())).expect("an entry");
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).expect("copied");
        }
    }
}

fn texts(ids: &Value) -> Vec<String> {
    let text = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    ids.as_array().expect("IDs").iter().map(text).collect()
}

fn array_texts(array: &ArrayRef) -> Vec<String> {
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().values().iter().map(ToString::to_string).collect(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().values().iter().map(ToString::to_string).collect(),
        DataType::Utf8 => array.as_string::<i32>().iter().map(|v| v.expect("no null").to_owned()).collect(),
        other => panic!("no fixture has it: {other}"),
    }
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

async fn committed(checkpoint: &Checkpoint) -> Vec<String> {
    let columns: Vec<_> =
        checkpoint_store::committed_ids(checkpoint).await.expect("reads").try_collect().await.expect("whole");
    sorted(columns.iter().flat_map(|c| array_texts(c.array())).collect())
}

#[tokio::test]
async fn the_ids_load_before_anything_is_settled() {
    for name in CASES {
        let case = Case::new(name);
        assert_eq!(committed(&case.checkpoint).await, sorted(texts(&case.expect["committed_ids"])), "{name}");
        let status = checkpoint_store::status(&case.checkpoint).await.expect("counts");
        let pending = case.list(&case.expect["pending"]).len() as u64;
        assert_eq!((status.pending_tasks, status.void_tasks, status.attempts), (pending, 0, 0), "{name}");
        let known = case.list(&case.expect["committed"]).len() + case.list(&case.expect["both"]).len();
        assert_eq!(status.committed_tasks, known as u64, "{name}");
    }
}

#[tokio::test]
async fn recovery_keeps_what_counts_and_sweeps_what_does_not() {
    for name in CASES {
        let case = Case::new(name);
        let report = checkpoint_store::recover(&case.checkpoint, &case.output, RecoverOptions::default(), &ParquetIds)
            .await
            .expect("recovers");
        let forward = case.list(&case.expect["recovery"]["roll_forward_or_redo"]).len() as u64;
        let redo = case.list(&case.expect["recovery"]["redo"]).len() as u64;
        assert_eq!((report.rolled_forward, report.voided), (forward, redo), "{name}");
        case.check_data(name, "after recover");
        let files = case.checkpoint.storage().list_files(&ObjectPath::root(), false).await.expect("lists");
        assert!(files.iter().all(|(path, _)| !path.name().contains(".pending.")), "{name}: {files:?}");
        let found = checkpoint_store::verify(&case.checkpoint, &case.output, VerifyOptions::default(), &ParquetIds)
            .await
            .expect("checks");
        assert!(found.ok, "{name}: {found:?}");
    }
}

#[tokio::test]
async fn a_resumed_job_writes_each_row_once() {
    for name in CASES {
        let case = Case::new(name);
        let attempt = case.begin().await;
        case.check_data(name, "after begin");
        let input = case.input();
        let done = attempt.ids().contains(&case.column(&input)).expect("compares");
        let left: Vec<String> =
            input.iter().zip(done.iter()).filter(|(_, done)| *done == Some(false)).map(|(id, _)| id.clone()).collect();
        let compute: BTreeSet<String> = texts(&case.expect["recovery"]["compute"]).into_iter().collect();
        assert!(left.iter().all(|id| compute.contains(id)), "{name}: {left:?}");

        for ids in left.chunks(7) {
            let task = attempt.next_task();
            let column = case.column(ids);
            let bytes = parquet(case.expect["id_column"].as_str().expect("a name"), &column);
            let file = DataFile { name: format!("{task}.parquet"), bytes: bytes.len() as u64, rows: ids.len() as u64 };
            let path = ObjectPath::parse(file.name.as_str()).expect("a path");
            let prepared = attempt.prepare(&task, &column, TaskPlan::new(vec![file])).await.expect("prepares");
            let written = attempt.output().write(&path, bytes, WriteOptions::new()).await.expect("writes");
            written.into_result("").expect("done");
            let outcome = attempt.commit(prepared).await.expect("commits");
            assert!(matches!(outcome, CommitOutcome::Committed), "{name}: {outcome:?}");
        }
        attempt.finish(true).await.expect("ends");
        assert_eq!(case.output_ids().await, sorted(input.clone()), "{name}: each ID once");
        let found = checkpoint_store::verify(&case.checkpoint, &case.output, VerifyOptions::default(), &ParquetIds)
            .await
            .expect("checks");
        assert!(found.ok, "{name}: {found:?}");
        assert_eq!(found.committed_ids, input.len() as u64, "{name}");

        // And the end: nothing is left of Ray's records either, and the mark knows Ray's data.
        case.begin().await.finish(false).await.expect("ends");
        let files = case.checkpoint.storage().list_files(&ObjectPath::root(), true).await.expect("lists");
        assert!(files.is_empty(), "{name}: {files:?}");
        let (path, _) = case
            .output
            .list_files(&ObjectPath::root(), false)
            .await
            .expect("lists")
            .into_iter()
            .find(|(path, _)| path.name().starts_with("_CHECKPOINT_COMPLETE-"))
            .expect("a mark");
        let mark = case.output.read(&path, ReadOptions::new()).await.expect("reads").bytes;
        let mark: Value = serde_json::from_slice(&mark).expect("JSON");
        let known: BTreeSet<&str> =
            mark["data_files"].as_array().expect("files").iter().filter_map(|f| f["name"].as_str()).collect();
        for file in case.list(&case.expect["recovery"]["keep_data"]) {
            assert!(known.contains(file.trim_start_matches("output/")), "{name}: {file}");
        }
        let again = Box::pin(Attempt::begin(
            &case.checkpoint,
            &case.output,
            case.fingerprint(),
            BeginOptions::default(),
            &ParquetIds,
        ));
        match again.await.expect("looks") {
            Begin::AlreadyComplete { rows } => assert_eq!(rows, input.len() as u64, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn data_of_a_committed_record_that_is_gone_is_repaired() {
    let case = Case::new("both");
    let lost = case.list(&case.expect["recovery"]["keep_data"]).remove(0);
    std::fs::remove_file(case._dir.path().join(&lost)).expect("removed");
    let found = checkpoint_store::verify(&case.checkpoint, &case.output, VerifyOptions::default(), &ParquetIds)
        .await
        .expect("checks");
    assert_eq!((found.ok, found.lost_tasks), (false, 1), "{found:?}");
    let mut repair = RecoverOptions::default();
    repair.repair = true;
    let report = checkpoint_store::recover(&case.checkpoint, &case.output, repair, &ParquetIds).await.expect("repairs");
    assert_eq!(report.repaired_tasks, 1);
    let attempt = case.begin().await;
    assert_eq!(attempt.ids().len(), 20, "those rows, and only those, are free again");
    attempt.end(AttemptState::Failed).await.expect("ends");
    let found = checkpoint_store::verify(&case.checkpoint, &case.output, VerifyOptions::default(), &ParquetIds)
        .await
        .expect("checks");
    assert!(found.ok, "{found:?}");
}

#[tokio::test]
async fn records_of_rays_are_merged_once_a_job_owns_them() {
    for name in CASES {
        let case = Case::new(name);
        let options = CompactOptions::default();
        let alone = checkpoint_store::compact(&case.checkpoint, None, options.clone(), &ParquetIds);
        match Box::pin(alone).await {
            Ok(report) => assert_eq!(report.records_before, report.records_after, "{name}"),
            // Its names are not those that Ray gives.
            Err(error) => assert_eq!((error.kind(), name), (ErrorKind::NoCheckpoint, "prefix")),
        }
        let attempt = case.begin().await;
        let rows = attempt.ids().len();
        attempt.end(AttemptState::Failed).await.expect("ends");
        let before = committed(&case.checkpoint).await;
        let records = case.records().await;
        let schemas = case.schemas(&records).await;
        let report = checkpoint_store::compact(&case.checkpoint, Some(&case.output), options, &ParquetIds);
        let report = Box::pin(report).await.expect("compacts");
        assert_eq!(report.records_before, records.len() as u64, "{name}");
        assert_eq!(report.records_after, 1, "{name}");
        let merged = case.records().await;
        assert_eq!(merged.len(), 1, "{name}: {merged:?}");
        let merged = case.schemas(&merged).await;
        assert!(schemas.iter().all(|schema| *schema == merged[0]), "{name}: {schemas:?} {merged:?}");
        assert_eq!(committed(&case.checkpoint).await, before, "{name}");
        let found = checkpoint_store::verify(&case.checkpoint, &case.output, VerifyOptions::default(), &ParquetIds)
            .await
            .expect("checks");
        assert!(found.ok, "{name}: {found:?}");
        case.check_data(name, "compacted");
        let attempt = case.begin().await;
        assert_eq!((attempt.ids().len(), attempt.recovery()), (rows, Default::default()), "{name}");
        attempt.finish(false).await.expect("ends");
        assert_eq!(case.records().await, [""; 0], "{name}");
    }
}
