//! A small job over storages in memory: a few tasks of four rows and two data files each.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use checkpoint_fs::{
    MemoryStorage, ObjectPath, ReadOptions, Storage, StorageExt, StorageRef, WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_store::{
    Attempt, AttemptState, Begin, BeginOptions, Checkpoint, CommitOutcome, DataFile, Error, ErrorKind, Fingerprint,
    InputFile, ParquetIds, PreparedTask, TaskName, TaskPlan, VerifyOptions, VerifyReport,
};
use checkpoint_testkit::{ManualClock, ManualRuntime};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Rows of a task.
pub(crate) const ROWS: usize = 4;

/// Two storages, a clock, and processes on hosts.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) checkpoint: StorageRef,
    pub(crate) output: StorageRef,
    processes: AtomicU32,
    seed: u64,
}

/// A seed that no other world of this run has, and that the same world of the next run has again: tests share
/// a process, and with it the list of attempts that live in it.
fn seed() -> u64 {
    thread_local!(static WORLDS: Cell<u64> = const { Cell::new(0) });
    let number = WORLDS.replace(WORLDS.get() + 1);
    let mut hasher = DefaultHasher::new();
    (std::thread::current().name(), number).hash(&mut hasher);
    hasher.finish()
}

impl World {
    /// With or without a rename that is atomic: the two ways to publish.
    pub(crate) fn new(atomic_rename: bool) -> Self {
        let storage = |url: &str| -> StorageRef {
            let memory = MemoryStorage::new(url);
            let mut capabilities = memory.capabilities().clone();
            capabilities.atomic_rename = atomic_rename;
            Arc::new(memory.with_capabilities(capabilities))
        };
        Self {
            clock: ManualClock::new(),
            checkpoint: storage("memory://job/checkpoint"),
            output: storage("memory://job/output"),
            processes: AtomicU32::new(0),
            seed: seed(),
        }
    }

    /// A new process on a host.
    pub(crate) fn process(&self, host: &str) -> Arc<ManualRuntime> {
        let pid = self.processes.fetch_add(1, Ordering::SeqCst) + 1;
        Arc::new(ManualRuntime::new(&self.clock, host, pid, self.seed.wrapping_add(u64::from(pid))))
    }

    /// The checkpoint as a process sees it.
    pub(crate) fn seen_by(&self, process: &Arc<ManualRuntime>) -> Checkpoint {
        Checkpoint::new(self.checkpoint.clone(), process.clone())
    }

    /// The checkpoint as somebody sees it who only looks.
    pub(crate) fn look(&self) -> Checkpoint {
        self.seen_by(&self.process("looker"))
    }

    /// Begins an attempt in a new process on host `a`.
    pub(crate) async fn begin(&self) -> Result<Begin, Error> {
        begin(&self.seen_by(&self.process("a")), &self.output, BeginOptions::default()).await
    }

    /// As [`World::begin`], where there must be an attempt.
    pub(crate) async fn attempt(&self) -> Attempt {
        attempt(self.begin().await)
    }

    /// An attempt that fails once it has prepared a task and written its data.
    pub(crate) async fn leave_pending(&self, ids: &[i64]) {
        let owner = self.attempt().await;
        let step = Step::prepare(&owner, ids).await.expect("prepares");
        step.all_data(&owner).await.expect("writes");
        owner.end(AttemptState::Failed).await.expect("ends");
    }

    /// Runs the job to its end in a new process on host `a`.
    pub(crate) async fn run(&self, ids: &[i64], keep: bool) -> Result<Done, Error> {
        run(&self.seen_by(&self.process("a")), &self.output, ids, keep).await
    }

    pub(crate) async fn verify(&self) -> VerifyReport {
        checkpoint_store::verify(&self.look(), &self.output, VerifyOptions::default(), &ParquetIds)
            .await
            .expect("verifies")
    }

    /// Every file of the checkpoint.
    pub(crate) async fn checkpoint_files(&self) -> Vec<String> {
        files(&self.checkpoint).await
    }

    /// The IDs in the output, in order, each as often as it is there.
    pub(crate) async fn output_ids(&self) -> Vec<i64> {
        output_ids(&self.output).await
    }

    /// The promise: each ID once, and no file that nobody knows.
    pub(crate) async fn holds_once(&self, ids: &[i64]) {
        assert_eq!(self.output_ids().await, ids, "each ID once");
    }

    /// Puts a file.
    pub(crate) async fn put(&self, storage: &StorageRef, path: &str, bytes: impl Into<Bytes>) {
        let written = storage.write(&path_of(path), bytes.into(), WriteOptions::new()).await.expect("writes");
        assert!(matches!(written, WriteOutcome::Done(_)));
    }

    /// The bytes of a file.
    pub(crate) async fn get(&self, storage: &StorageRef, path: &str) -> Bytes {
        storage.read(&path_of(path), ReadOptions::new()).await.expect("reads").bytes
    }

    pub(crate) async fn remove(&self, storage: &StorageRef, path: &str) {
        storage.delete(&path_of(path), checkpoint_fs::DeleteOptions::new()).await.expect("deletes");
    }
}

pub(crate) fn path_of(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("a path")
}

pub(crate) fn attempt(begun: Result<Begin, Error>) -> Attempt {
    match begun.expect("begins") {
        Begin::Attempt(attempt) => *attempt,
        other => panic!("there is work to do: {other:?}"),
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// It had ended before.
    Already(u64),
    /// So many rows were processed.
    Processed(usize),
}

pub(crate) fn fingerprint(output: &StorageRef) -> Fingerprint {
    Fingerprint {
        id_column: "id".into(),
        id_class: "integer".into(),
        id_type: "Int64".into(),
        row_hash: false,
        filter: None,
        output: output.url().to_owned(),
        version: None,
        inputs: vec![InputFile { path: "/in/a.parquet".into(), size: 1, version: Some("v".into()), rows: None }],
        inputs_unknown: false,
    }
}

pub(crate) async fn begin(c: &Checkpoint, output: &StorageRef, options: BeginOptions) -> Result<Begin, Error> {
    Box::pin(Attempt::begin(c, output, fingerprint(output), options, &ParquetIds)).await
}

/// One run to the end: what is not done is transformed, written and committed, task by task.
pub(crate) async fn run(c: &Checkpoint, output: &StorageRef, ids: &[i64], keep: bool) -> Result<Done, Error> {
    let attempt = match begin(c, output, BeginOptions::default()).await? {
        Begin::AlreadyComplete { rows } => return Ok(Done::Already(rows)),
        Begin::Attempt(attempt) => *attempt,
        other => panic!("unknown: {other:?}"),
    };
    let todo = left(&attempt, ids);
    for ids in todo.chunks(ROWS) {
        if let Err(error) = write_task(&attempt, ids).await {
            let _ = attempt.end(AttemptState::Failed).await;
            return Err(error);
        }
    }
    attempt.finish(keep).await?;
    Ok(Done::Processed(todo.len()))
}

/// The IDs that are not done.
pub(crate) fn left(attempt: &Attempt, ids: &[i64]) -> Vec<i64> {
    let column = column(ids);
    let done = attempt.ids().contains(&column).expect("integers");
    ids.iter().zip(done.iter()).filter(|(_, done)| *done == Some(false)).map(|(id, _)| *id).collect()
}

pub(crate) fn column(ids: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(ids.to_vec()))
}

/// A task between its steps.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: TaskName,
    pub(crate) files: Vec<(DataFile, Bytes)>,
    prepared: Option<PreparedTask>,
}

impl Step {
    /// Writes the pending record of a task.
    pub(crate) async fn prepare(attempt: &Attempt, ids: &[i64]) -> Result<Self, Error> {
        let name = attempt.next_task();
        let halves = [&ids[..ids.len() / 2], &ids[ids.len() / 2..]];
        let mut files = Vec::new();
        for (i, half) in halves.into_iter().enumerate().filter(|(_, half)| !half.is_empty()) {
            let bytes = parquet("id", &column(half));
            let file =
                DataFile { name: format!("{name}-{i}.parquet"), bytes: bytes.len() as u64, rows: half.len() as u64 };
            files.push((file, bytes));
        }
        let plan = TaskPlan::new(files.iter().map(|(file, _)| file.clone()).collect());
        let prepared = Some(attempt.prepare(&name, &column(ids), plan).await?);
        Ok(Self { name, files, prepared })
    }

    /// Writes its `i`th data file.
    pub(crate) async fn data(&self, attempt: &Attempt, i: usize) -> Result<(), Error> {
        let (file, bytes) = &self.files[i];
        let written = attempt.output().write(&path_of(&file.name), bytes.clone(), WriteOptions::new()).await?;
        written.into_result(attempt.output().url())?;
        Ok(())
    }

    pub(crate) async fn all_data(&self, attempt: &Attempt) -> Result<(), Error> {
        for i in 0..self.files.len() {
            self.data(attempt, i).await?;
        }
        Ok(())
    }

    pub(crate) async fn commit(mut self, attempt: &Attempt) -> Result<(), Error> {
        match attempt.commit(self.prepared.take().expect("once")).await? {
            CommitOutcome::Committed => Ok(()),
            CommitOutcome::Conflict(error) | CommitOutcome::Unknown(error) => Err(error),
        }
    }

    pub(crate) async fn abort(mut self, attempt: &Attempt) -> Result<(), Error> {
        attempt.abort(self.prepared.take().expect("once")).await
    }
}

/// One task, from its pending record to its committed one.
pub(crate) async fn write_task(attempt: &Attempt, ids: &[i64]) -> Result<TaskName, Error> {
    let step = Step::prepare(attempt, ids).await?;
    step.all_data(attempt).await?;
    let name = step.name.clone();
    step.commit(attempt).await?;
    Ok(name)
}

/// A Parquet file of one column.
pub(crate) fn parquet(name: &str, ids: &ArrayRef) -> Bytes {
    let batch = RecordBatch::try_from_iter_with_nullable([(name, ids.clone(), true)]).expect("a batch");
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("writes");
    writer.close().expect("closes");
    bytes.into()
}

pub(crate) async fn output_ids(output: &StorageRef) -> Vec<i64> {
    let mut found = Vec::new();
    for file in files(output).await.into_iter().filter(|f| f.ends_with(".parquet")) {
        let bytes = output.read(&path_of(&file), ReadOptions::new()).await.expect("reads").bytes;
        for batch in ParquetRecordBatchReaderBuilder::try_new(bytes).expect("Parquet").build().expect("reads") {
            let batch = batch.expect("whole");
            let ids = batch.column_by_name("id").expect("an ID");
            found.extend(ids.as_primitive::<Int64Type>().iter().map(|id| id.expect("no null")));
        }
    }
    found.sort_unstable();
    found
}

pub(crate) async fn files(storage: &StorageRef) -> Vec<String> {
    let files = storage.list_files(&ObjectPath::root(), true).await.expect("lists");
    let mut names: Vec<String> = files.into_iter().map(|(path, _)| path.to_string()).collect();
    names.sort();
    names
}

/// Everything in a storage, byte for byte.
pub(crate) async fn contents(storage: &StorageRef) -> BTreeMap<String, Bytes> {
    let mut all = BTreeMap::new();
    for name in files(storage).await {
        let bytes = storage.read(&path_of(&name), ReadOptions::new()).await.expect("reads").bytes;
        all.insert(name, bytes);
    }
    all
}

/// All IDs that the checkpoint says are done.
pub(crate) async fn committed(checkpoint: &Checkpoint) -> Result<Vec<i64>, Error> {
    use futures::TryStreamExt;
    let columns: Vec<_> = checkpoint_store::committed_ids(checkpoint).await?.try_collect().await?;
    let mut ids: Vec<i64> =
        columns.iter().flat_map(|c| c.array().as_primitive::<Int64Type>().values().to_vec()).collect();
    ids.sort_unstable();
    Ok(ids)
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("must be refused").kind()
}

/// Creates a file where there must be none.
pub(crate) async fn create(storage: &StorageRef, path: &str, bytes: Bytes) {
    let options = WriteOptions::new().mode(WriteMode::IfAbsent);
    let written = storage.write(&path_of(path), bytes, options).await.expect("writes");
    assert!(matches!(written, WriteOutcome::Done(_)), "{path} was there");
}
