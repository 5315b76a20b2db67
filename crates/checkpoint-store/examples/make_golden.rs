//! Makes the directories of `fixtures/format-*`: checkpoints in the states that a reader must know.
//!
//! `cargo run -p checkpoint-store --example make_golden -- fixtures/format-1 open ended`
//! `cargo run -p checkpoint-store --example make_golden -- fixtures/format-2 compacted`
//!
//! Clock, processes and randomness are fixed, so two runs make the same files. A file that was made once is
//! never made again: code of today reads what code of then has written.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use bytes::Bytes;
use checkpoint_fs::{MemoryStorage, ObjectPath, ReadOptions, StorageExt, StorageRef, WriteOptions};
use checkpoint_store::{
    Attempt, AttemptState, Begin, BeginOptions, Checkpoint, CommitOutcome, CompactOptions, DataFile, Fingerprint,
    InputFile, ParquetIds, PreparedTask, TaskPlan, compact,
};
use checkpoint_testkit::{Fault, FaultPlan, FaultyStorage, ManualClock, ManualRuntime, Operation, Rule};
use parquet::arrow::ArrowWriter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(dir) = args.next() else { bail!("usage: make_golden DIR STATE...") };
    for name in args {
        let golden = Golden::new();
        match name.as_str() {
            "open" => Box::pin(golden.make(false)).await?,
            "ended" => Box::pin(golden.make(true)).await?,
            "compacted" => Box::pin(golden.make_compacted()).await?,
            _ => bail!("no such state: {name}"),
        }
        let dir = Path::new(&dir).join(name);
        save(&golden.checkpoint, &dir.join("checkpoint")).await?;
        save(&golden.output, &dir.join("output")).await?;
    }
    Ok(())
}

struct Golden {
    clock: ManualClock,
    checkpoint: StorageRef,
    output: StorageRef,
}

impl Golden {
    fn new() -> Self {
        Self {
            clock: ManualClock::new(),
            checkpoint: Arc::new(MemoryStorage::new("memory://golden/checkpoint")),
            output: Arc::new(MemoryStorage::new("memory://golden/output")),
        }
    }

    /// Ray: ID 9 committed, and a pending record without data. Attempt 1: IDs 0 to 3 committed, 4 and 5 void. Attempt 2 with a changed version: 4 and 5 committed, 6 and
    /// 7 prepared with their data. Then it stands as if killed; or 6 and 7 are committed, the job ends, and
    /// stands as if killed in its deletion.
    async fn make(&self, ended: bool) -> Result<()> {
        self.make_first().await?;
        let plan = FaultPlan::new();
        let storage: StorageRef = Arc::new(FaultyStorage::new(self.checkpoint.clone(), plan.clone()));
        let attempt = self.begin(&storage, 2, Some("2")).await?;
        let task = self.prepare(&attempt, &[4, 5], true).await?;
        commit(&attempt, task).await?;
        let task = self.prepare(&attempt, &[6, 7], true).await?;
        if ended {
            commit(&attempt, task).await?;
            // Its first deletion fails, and so does everything that it would do about it.
            let io = || Fault::Refuse(checkpoint_fs::ErrorKind::Io);
            plan.add(Rule::new(Operation::DeleteMany, io()));
            plan.add(Rule::new(Operation::Write, io()).path(|path| path.as_str().starts_with("_meta/attempts/")));
            if attempt.finish(false).await.is_ok() {
                bail!("the end was to be stopped");
            }
        }
        Ok(())
    }

    /// The same up to 4 and 5; attempt 2 ends, 3 compacts, and 4 prepares 6 and 7 with their data and stands as if killed.
    async fn make_compacted(&self) -> Result<()> {
        self.make_first().await?;
        let attempt = self.begin(&self.checkpoint, 2, Some("2")).await?;
        let task = self.prepare(&attempt, &[4, 5], true).await?;
        commit(&attempt, task).await?;
        attempt.end(AttemptState::Failed).await?;
        let process = Arc::new(ManualRuntime::new(&self.clock, "golden", 3, 3));
        let checkpoint = Checkpoint::new(self.checkpoint.clone(), process);
        let report = compact(&checkpoint, Some(&self.output), CompactOptions::default(), &ParquetIds).await?;
        if report.records_after != 1 {
            bail!("one record was to be left: {report:?}");
        }
        let attempt = self.begin(&self.checkpoint, 4, Some("2")).await?;
        let _open = self.prepare(&attempt, &[6, 7], true).await?;
        Ok(())
    }

    /// What is before attempt 2.
    async fn make_first(&self) -> Result<()> {
        let (_, record) = parquet(&[9])?;
        put(&self.output, "u_000000-0.parquet", record.clone()).await?;
        put(&self.checkpoint, "u_000000.parquet", record.clone()).await?;
        put(&self.checkpoint, "u_000001.pending.parquet", record).await?;

        let attempt = self.begin(&self.checkpoint, 1, None).await?;
        for ids in [[0, 1], [2, 3]] {
            let task = self.prepare(&attempt, &ids, true).await?;
            commit(&attempt, task).await?;
        }
        let _void = self.prepare(&attempt, &[4, 5], false).await?;
        attempt.end(AttemptState::Failed).await?;
        Ok(())
    }

    async fn begin(&self, checkpoint: &StorageRef, pid: u32, version: Option<&str>) -> Result<Attempt> {
        let process = Arc::new(ManualRuntime::new(&self.clock, "golden", pid, u64::from(pid)));
        let fingerprint = Fingerprint {
            id_column: "id".into(),
            id_class: "integer".into(),
            id_type: "Int64".into(),
            row_hash: false,
            filter: Some("id >= 0".into()),
            output: self.output.url().to_owned(),
            version: version.map(str::to_owned),
            inputs: vec![InputFile {
                path: "golden/input/a.parquet".into(),
                size: 64,
                version: Some("etag-1".into()),
                rows: None,
            }],
            inputs_unknown: false,
        };
        let mut options = BeginOptions::default();
        options.allow_changed_read = version.is_some();
        let checkpoint = Checkpoint::new(checkpoint.clone(), process);
        match Attempt::begin(&checkpoint, &self.output, fingerprint, options, &ParquetIds).await? {
            Begin::Attempt(attempt) => Ok(*attempt),
            other => bail!("there is work to do: {other:?}"),
        }
    }

    async fn prepare(&self, attempt: &Attempt, ids: &[i64], whole: bool) -> Result<PreparedTask> {
        let task = attempt.next_task();
        let (batch, bytes) = parquet(ids)?;
        let name = format!("{task}.parquet");
        let file = DataFile { name: name.clone(), bytes: bytes.len() as u64, rows: batch.num_rows() as u64 };
        let plan = TaskPlan::new(vec![file]).with_output_schema(Some(batch.schema()));
        let prepared = attempt.prepare(&task, batch.column(0), plan).await?;
        if whole {
            put(attempt.output(), &name, bytes).await?;
        }
        Ok(prepared)
    }
}

fn parquet(ids: &[i64]) -> Result<(RecordBatch, Bytes)> {
    let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let batch = RecordBatch::try_from_iter([("id", ids)])?;
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok((batch, bytes.into()))
}

async fn put(storage: &StorageRef, name: &str, bytes: Bytes) -> Result<()> {
    storage.write(&ObjectPath::parse(name)?, bytes, WriteOptions::new()).await?.into_result(storage.url())?;
    Ok(())
}

async fn commit(attempt: &Attempt, task: PreparedTask) -> Result<()> {
    match attempt.commit(task).await? {
        CommitOutcome::Committed => Ok(()),
        CommitOutcome::Conflict(error) | CommitOutcome::Unknown(error) => Err(error.into()),
    }
}

async fn save(storage: &StorageRef, dir: &Path) -> Result<()> {
    for (path, _) in storage.list_files(&ObjectPath::root(), true).await? {
        let bytes = storage.read(&path, ReadOptions::new()).await?.bytes;
        let file = dir.join(path.as_str());
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, bytes)?;
    }
    Ok(())
}
