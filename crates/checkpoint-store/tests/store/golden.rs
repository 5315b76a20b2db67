//! Checkpoints of each format as they were made once: today's code reads them, and refuses those of a later format.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use checkpoint_fs::{MemoryStorage, StorageRef};
use checkpoint_store::{
    Attempt, AttemptFile, AttemptState, Begin, BeginOptions, Checkpoint, ClosedList, CompactIdSet, CompleteFile, Error,
    ErrorKind, Fingerprint, IdSet, JobFile, ParquetIds, VerifyOptions,
};
use checkpoint_testkit::{ManualClock, ManualRuntime};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::small_job::{column, committed, files, left, output_ids, path_of, write_task};

const IDS: [i64; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

/// A fixture in memory, under the URLs that it was made with.
struct Golden {
    checkpoint: StorageRef,
    output: StorageRef,
}

impl Golden {
    async fn load(name: &str) -> Self {
        let golden = Self {
            checkpoint: Arc::new(MemoryStorage::new("memory://golden/checkpoint")),
            output: Arc::new(MemoryStorage::new("memory://golden/output")),
        };
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
        fill(&golden.checkpoint, &dir.join("checkpoint"), "").await;
        fill(&golden.output, &dir.join("output"), "").await;
        golden
    }

    /// As another machine sees it, where the process that made it is unknown.
    fn seen(&self) -> Checkpoint {
        let clock = ManualClock::new();
        Checkpoint::new(self.checkpoint.clone(), Arc::new(ManualRuntime::new(&clock, "reader", 9, 9)))
    }

    async fn get(&self, path: &str) -> Bytes {
        self.checkpoint.read(&path_of(path), Default::default()).await.expect("reads").bytes
    }

    async fn put(&self, path: &str, bytes: Bytes) {
        let written = self.checkpoint.write(&path_of(path), bytes, Default::default()).await.expect("writes");
        written.into_result("").expect("done");
    }

    async fn begin(&self, version: &str) -> Result<Begin, Error> {
        let first: JobFile = serde_json::from_slice(&self.get_job().await).expect("a job");
        let now = Fingerprint { version: Some(version.into()), ..first.fingerprint };
        // On the machine that made it, where its process is gone.
        let clock = ManualClock::new();
        let process = |pid| Arc::new(ManualRuntime::new(&clock, "golden", pid, 100 + u64::from(pid)));
        (1..=4).for_each(|pid| process(pid).kill());
        let checkpoint = Checkpoint::new(self.checkpoint.clone(), process(5));
        Box::pin(Attempt::begin(&checkpoint, &self.output, now, BeginOptions::default(), &ParquetIds)).await
    }

    async fn get_job(&self) -> Bytes {
        self.get("_meta/job.json").await
    }
}

async fn fill(storage: &StorageRef, dir: &Path, prefix: &str) {
    for entry in std::fs::read_dir(dir).expect("a fixture") {
        let entry = entry.expect("an entry");
        let name = format!("{prefix}{}", entry.file_name().to_str().expect("text"));
        if entry.path().is_dir() {
            Box::pin(fill(storage, &entry.path(), &format!("{name}/"))).await;
        } else {
            let bytes = std::fs::read(entry.path()).expect("reads").into();
            let written = storage.write(&path_of(&name), bytes, Default::default()).await.expect("writes");
            written.into_result("").expect("done");
        }
    }
}

#[tokio::test]
async fn an_open_checkpoint_is_read_and_resumed() {
    let golden = Golden::load("format-1/open").await;
    let status = checkpoint_store::status(&golden.seen()).await.expect("counts");
    assert_eq!((status.committed_rows, status.committed_tasks, status.pending_tasks), (7, 4, 1));
    assert_eq!(
        (status.attempts, status.id_column.as_deref(), status.id_type.as_deref()),
        (2, Some("id"), Some("Int64"))
    );
    assert_eq!(committed(&golden.seen()).await.expect("reads"), [0, 1, 2, 3, 4, 5, 9]);
    let found = checkpoint_store::verify(&golden.seen(), &golden.output, VerifyOptions::default(), &ParquetIds)
        .await
        .expect("checks");
    assert!(found.ok, "{found:?}");

    assert_eq!(golden.begin("3").await.expect_err("another version").kind(), ErrorKind::Conflict);
    let Begin::Attempt(attempt) = golden.begin("2").await.expect("begins") else { panic!("there is work") };
    assert_eq!((attempt.number(), attempt.recovery().rolled_forward), (3, 1));
    assert_eq!(left(&attempt, &IDS), [8]);
    assert!(attempt.output_schema().is_some_and(|schema| schema.field_with_name("id").is_ok()));
    write_task(&attempt, &[8]).await.expect("writes");
    attempt.finish(true).await.expect("ends");
    assert_eq!(output_ids(&golden.output).await, IDS);
}

#[tokio::test]
async fn an_ended_checkpoint_is_read_and_its_deletion_finished() {
    let golden = Golden::load("format-1/ended").await;
    let found = checkpoint_store::verify(&golden.seen(), &golden.output, VerifyOptions::default(), &ParquetIds)
        .await
        .expect("checks");
    assert!(found.ok && found.committed_ids == 9, "{found:?}");
    match golden.begin("2").await.expect("finishes") {
        Begin::AlreadyComplete { rows } => assert_eq!(rows, 9),
        other => panic!("it has ended: {other:?}"),
    }
    assert_eq!(files(&golden.checkpoint).await, [""; 0]);
    assert_eq!(output_ids(&golden.output).await, [0, 1, 2, 3, 4, 5, 6, 7, 9]);
}

#[tokio::test]
async fn a_compacted_checkpoint_is_read_and_resumed() {
    let golden = Golden::load("format-2/compacted").await;
    let status = checkpoint_store::status(&golden.seen()).await.expect("counts");
    assert_eq!((status.committed_rows, status.committed_tasks, status.pending_tasks), (7, 4, 1));
    assert_eq!(committed(&golden.seen()).await.expect("reads"), [0, 1, 2, 3, 4, 5, 9]);
    let found = checkpoint_store::verify(&golden.seen(), &golden.output, VerifyOptions::default(), &ParquetIds)
        .await
        .expect("checks");
    assert!(found.ok, "{found:?}");
    let list: ClosedList = serde_json::from_slice(&golden.get("_meta/closed/3").await).expect("is read");
    assert_eq!((list.format, list.merged.len(), list.merged[0].rows), (2, 1, 7));
    let saved = list.saved.expect("a saved set");
    let bytes = golden.get(&format!("_meta/merged/{}.ids", saved.name)).await;
    assert_eq!(bytes.len() as u64, saved.bytes);
    let set = CompactIdSet::from_bytes(bytes).expect("whole");
    let done: Vec<Option<bool>> = set.contains(&column(&IDS)).expect("integers").iter().collect();
    assert_eq!(done, IDS.map(|id| Some(id <= 5 || id == 9)));

    let Begin::Attempt(attempt) = golden.begin("2").await.expect("begins") else { panic!("there is work") };
    assert_eq!((attempt.number(), attempt.recovery().rolled_forward), (5, 1));
    assert_eq!(left(&attempt, &IDS), [8]);
    write_task(&attempt, &[8]).await.expect("writes");
    attempt.finish(true).await.expect("ends");
    assert_eq!(output_ids(&golden.output).await, IDS);
}

#[tokio::test]
async fn a_flipped_bit_of_a_closed_list_is_found() {
    let golden = Golden::load("format-2/compacted").await;
    let good = golden.get("_meta/closed/3").await;
    for at in 0..good.len() {
        let mut bytes = good.to_vec();
        bytes[at] ^= 1 << (at % 8);
        golden.put("_meta/closed/3", bytes.into()).await;
        let error = golden.seen().snapshot().await.expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::BadData, "{at}: {error}");
    }
}

/// Every field that is there is known, by the name that it has.
fn same_fields<T: DeserializeOwned + Serialize>(name: &str, bytes: &Bytes) {
    let text: serde_json::Value = serde_json::from_slice(bytes).expect("JSON");
    let known: T = serde_json::from_slice(bytes).expect("is read");
    assert_eq!(serde_json::to_value(&known).expect("JSON"), text, "{name}");
}

#[tokio::test]
async fn no_field_has_changed_its_name() {
    let (open, ended) = (Golden::load("format-1/open").await, Golden::load("format-1/ended").await);
    same_fields::<JobFile>("job", &open.get_job().await);
    for number in [1, 2] {
        same_fields::<AttemptFile>("attempt", &open.get(&format!("_meta/attempts/{number}.json")).await);
    }
    for number in [0, 1] {
        same_fields::<ClosedList>("closed", &open.get(&format!("_meta/closed/{number}")).await);
    }
    same_fields::<Fingerprint>("fingerprint", &open.get("_meta/fingerprints/2.json").await);
    let complete = ended.get("_meta/complete").await;
    same_fields::<CompleteFile>("complete", &complete);
    let marks: Vec<String> = files(&ended.output).await.into_iter().filter(|f| f.starts_with('_')).collect();
    let [mark] = marks.as_slice() else { panic!("one mark: {marks:?}") };
    let mark = ended.output.read(&path_of(mark), Default::default()).await.expect("reads").bytes;
    assert_eq!(mark, complete, "the mark is the end, word for word");
    let first: AttemptFile = serde_json::from_slice(&open.get("_meta/attempts/1.json").await).expect("reads");
    assert_eq!(first.state, AttemptState::Failed);
}

#[tokio::test]
async fn a_later_format_is_refused_politely() {
    let cases = [
        ("format-1/open", "_meta/job.json"),
        ("format-1/open", "_meta/attempts/1.json"),
        ("format-1/open", "_meta/closed/1"),
        ("format-1/ended", "_meta/complete"),
        ("format-2/compacted", "_meta/closed/3"),
    ];
    for (name, file) in cases {
        let golden = Golden::load(name).await;
        let text = String::from_utf8(golden.get(file).await.to_vec()).expect("text");
        // Closed lists have come to format 2.
        let newer = if file.contains("closed") { 3 } else { 2 };
        let now = if name.starts_with("format-1") { 1 } else { 2 };
        let later = text.replacen(&format!("\"format\": {now}"), &format!("\"format\": {newer}"), 1);
        assert_ne!(later, text, "{file}");
        golden.put(file, later.into()).await;
        let before = (files(&golden.checkpoint).await, files(&golden.output).await);
        let error = checkpoint_store::status(&golden.seen()).await.expect_err("later");
        assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
        assert!(error.to_string().contains(&format!("format {newer}")) && error.to_string().contains(file), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("newer")), "{error:?}");
        assert_eq!((files(&golden.checkpoint).await, files(&golden.output).await), before, "nothing was touched");
    }
}
