//! An attempt: the one owner of a checkpoint, from taking the lease to the end of the job.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::ArrayRef;
use arrow::datatypes::Schema;
use checkpoint_fs::{ObjectPath, StorageRef, WriteMode, WriteOptions, WriteOutcome};

use crate::checkpoint::{Checkpoint, FORMAT, Snapshot, read_json, to_json};
use crate::closed::ClosedList;
use crate::complete::{CompleteFile, Found, OutputView, judge};
use crate::data::DataReader;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::FencedStorage;
use crate::id::{ExactIdSet, IdColumn, IdSet};
use crate::job::{Fingerprint, JobFile};
use crate::layout;
use crate::lease::{AttemptState, Lease, LeaseOptions, timestamp};
use crate::names::{JobId, TaskName};
use crate::record::{self, DataFile, RecordFacts, decode_schema};
use crate::recovery::{Damage, RecoveryReport, Settled, Verdict, delete_all, settle, sweep_plan};
use crate::task::{CommitOutcome, PreparedTask};

/// Pending records that are deleted in one go.
const PENDING_BATCH: usize = 1000;

/// How an attempt begins.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BeginOptions {
    /// How the lease is kept.
    pub lease: LeaseOptions,
    /// Go on although what is read has changed, and record what it is now.
    pub allow_changed_read: bool,
    /// Add to an output that holds data of jobs whose checkpoint is gone.
    pub append: bool,
}

/// What [`Attempt::begin`] found.
#[derive(Debug)]
#[non_exhaustive]
pub enum Begin {
    /// There is work to do, or at least a checkpoint to own.
    Attempt(Box<Attempt>),
    /// The job ended before and nothing has changed since; nothing is owned.
    AlreadyComplete {
        /// The rows that were done.
        rows: u64,
    },
}

/// The facts of a task that is about to be written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskPlan {
    /// Rows that it writes.
    pub output_rows: u64,
    /// Rows that it sets aside.
    pub failed_rows: u64,
    /// Its data files, encoded and not yet written.
    pub data_files: Vec<DataFile>,
    /// The schema of its data; none when it writes no row.
    pub output_schema: Option<Arc<Schema>>,
}

impl TaskPlan {
    /// A task that writes these files.
    pub fn new(data_files: Vec<DataFile>) -> Self {
        let output_rows = data_files.iter().filter(|f| !f.name.starts_with(layout::FAILED_DIR)).map(|f| f.rows).sum();
        Self { output_rows, failed_rows: 0, data_files, output_schema: None }
    }

    /// Sets the schema of the data.
    #[must_use]
    pub fn with_output_schema(mut self, schema: Option<Arc<Schema>>) -> Self {
        self.output_schema = schema;
        self
    }

    /// Sets how many rows are set aside.
    #[must_use]
    pub fn with_failed_rows(mut self, rows: u64) -> Self {
        self.failed_rows = rows;
        self
    }
}

/// The owner of a checkpoint. Dropping it without [`finish`](Attempt::finish) or [`end`](Attempt::end) leaves
/// the checkpoint as a killed process would; the next attempt recovers.
#[derive(Debug)]
pub struct Attempt {
    checkpoint: Checkpoint,
    output: StorageRef,
    lease: Lease,
    job: JobFile,
    fingerprint: Fingerprint,
    closed: ClosedList,
    ids: Arc<ExactIdSet>,
    output_schema: Option<Schema>,
    failed_rows: u64,
    recovery: RecoveryReport,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    next: u64,
    committed: BTreeSet<u64>,
    rows: u64,
    data_files: Vec<DataFile>,
    served_pending: Vec<ObjectPath>,
}

impl Attempt {
    /// Takes the lease, closes the past, and loads the IDs that are done.
    ///
    /// In order: an unfinished deletion is finished; an output that holds data of an unknown job is refused;
    /// the fingerprint is compared; the next attempt is created, which may mean watching another's lease;
    /// what counts of the attempts before is decided and written down; what does not is deleted.
    ///
    /// # Errors
    /// `Conflict` (in use, changed, another's output), `InvalidConfig`, `BadData` (a damaged committed
    /// record, by name), `OutcomeUnknown`, `Storage`.
    pub async fn begin(
        checkpoint: &Checkpoint,
        output: &StorageRef,
        fingerprint: Fingerprint,
        options: BeginOptions,
        reader: &dyn DataReader,
    ) -> Result<Begin> {
        crate::apart::check(checkpoint.url(), output.url())?;
        let mut before = checkpoint.snapshot().await?;
        if before.complete.is_some() {
            crate::end::finish_deletion(checkpoint, Some(output), &options.lease).await?;
            before = checkpoint.snapshot().await?;
        }
        if let Found::Complete(mark) = judge_output(checkpoint, &before, output, &fingerprint, options.append).await? {
            return Ok(Begin::AlreadyComplete { rows: mark.rows });
        }
        compare(&before, &fingerprint, options.allow_changed_read, may_count(&before), checkpoint.url())?;

        let lease = Lease::acquire(checkpoint, options.lease.clone()).await?;
        match Self::recover(checkpoint, output, fingerprint, &options, reader, &lease).await {
            Ok(ready) => Ok(Begin::Attempt(Box::new(ready.own(lease)))),
            Err(error) => {
                let _ = lease.end(AttemptState::Failed).await;
                Err(error)
            }
        }
    }

    async fn recover(
        checkpoint: &Checkpoint,
        output: &StorageRef,
        fingerprint: Fingerprint,
        options: &BeginOptions,
        reader: &dyn DataReader,
        lease: &Lease,
    ) -> Result<Ready> {
        let fenced = checkpoint.fenced(lease);
        let output: StorageRef = Arc::new(FencedStorage::new(output.clone(), lease.guard()));
        let job = create_job(&fenced, &fingerprint, options.append).await?;
        let settled = settle(&fenced, &output, lease.attempt(), reader, Damage::Refuse).await?;
        let Settled { closed, plan, recovery, .. } = settled;
        // Again, now that nobody else can change it; what began between the first look and the lease counts.
        let snapshot = fenced.snapshot().await?;
        let changed = compare(&snapshot, &fingerprint, options.allow_changed_read, !plan.is_empty(), checkpoint.url())?;
        if changed {
            let path = layout::fingerprint(lease.attempt())?;
            let written = fenced.control.write(&path, to_json(&fingerprint)?, WriteOptions::new()).await?;
            written.into_result(checkpoint.url())?;
        }
        let output_schema = plan.output_schema.as_deref().map(decode_schema).transpose()?;
        Ok(Ready {
            checkpoint: fenced,
            output,
            job,
            fingerprint,
            closed,
            ids: Arc::new(plan.ids),
            output_schema,
            failed_rows: plan.failed_rows,
            recovery,
            data_files: plan.data_files,
        })
    }

    /// The job's ID.
    pub fn job(&self) -> &JobId {
        &self.job.job
    }

    /// The attempt's number, from 1.
    pub fn number(&self) -> u64 {
        self.lease.attempt()
    }

    /// The IDs that are done from earlier attempts.
    pub fn ids(&self) -> Arc<dyn IdSet> {
        self.ids.clone()
    }

    /// What recovery did.
    pub fn recovery(&self) -> RecoveryReport {
        self.recovery
    }

    /// Rows that earlier attempts set aside.
    pub fn failed_rows(&self) -> u64 {
        self.failed_rows
    }

    /// The schema of the output that earlier attempts wrote, where they wrote any.
    pub fn output_schema(&self) -> Option<&Schema> {
        self.output_schema.as_ref()
    }

    /// The output, every effect of it under the lease.
    pub fn output(&self) -> &StorageRef {
        &self.output
    }

    /// Whether this process still owns the checkpoint.
    ///
    /// # Errors
    /// `Conflict` once it does not.
    pub fn check_lease(&self) -> Result<()> {
        self.lease.check()
    }

    /// A name for the next task; no other task ever has it.
    pub fn next_task(&self) -> TaskName {
        let mut progress = self.progress();
        progress.next += 1;
        TaskName { job: self.job.job.clone(), attempt: self.lease.attempt(), number: progress.next }
    }

    /// Writes a task's pending record. One request. After it the data may be written, and then
    /// [`commit`](Attempt::commit) called; a task that is not committed is void, or is rolled forward by the
    /// next attempt when all its data is there.
    ///
    /// # Errors
    /// `BadData` for an ID that is null, empty, of another type, or twice in the task; `Conflict` when the
    /// lease is lost; `Storage`.
    pub async fn prepare(&self, task: &TaskName, ids: &ArrayRef, plan: TaskPlan) -> Result<PreparedTask> {
        let problem = |p: crate::IdProblem| Error::bad_data(format!("{p} task={task}"));
        let ids = IdColumn::try_new(ids)?.map_err(problem)?;
        if let Some(duplicate) = ids.duplicate() {
            return Err(problem(duplicate));
        }
        if ids.class().to_string() != self.fingerprint.id_class {
            return Err(Error::bad_data(format!(
                "the IDs of a task are of another type than the job's: job={} task={}",
                self.fingerprint.id_class,
                ids.class()
            )));
        }
        let runtime = &self.checkpoint.runtime;
        let facts = RecordFacts {
            format: FORMAT,
            job: task.job.to_string(),
            attempt: task.attempt,
            task: task.to_string(),
            input_rows: ids.len() as u64,
            output_rows: plan.output_rows,
            failed_rows: plan.failed_rows,
            data_files: plan.data_files,
            job_version: self.fingerprint.version.clone(),
            output_schema: plan.output_schema.as_deref().map(record::encode_schema),
            write_token: format!("{:016x}{:016x}", runtime.random(), runtime.random()),
        };
        let bytes = record::encode(&self.fingerprint.id_column, &ids, &facts)?;
        let prepared = PreparedTask::new(facts, &self.fingerprint.id_column, bytes.clone())?;
        let written = self.checkpoint.storage.write(&prepared.pending, bytes, WriteOptions::new()).await?;
        written.into_result(self.checkpoint.url())?;
        Ok(prepared)
    }

    /// Publishes a task whose data is written. One request; the pending record goes with it on POSIX, and
    /// later, a thousand at a time, elsewhere.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost, before or while publishing. Everything else is in the outcome.
    pub async fn commit(&self, task: PreparedTask) -> Result<CommitOutcome> {
        self.lease.check()?;
        let (outcome, pending_left) = task.publish(&self.checkpoint.storage).await?;
        let full = {
            let mut progress = self.progress();
            if matches!(outcome, CommitOutcome::Committed) {
                progress.committed.extend(TaskName::parse(&task.facts.task).map(|t| t.number));
                progress.rows += task.facts.input_rows;
                progress.data_files.extend(task.facts.data_files);
                if pending_left {
                    progress.served_pending.push(task.pending);
                }
            }
            if progress.served_pending.len() >= PENDING_BATCH {
                std::mem::take(&mut progress.served_pending)
            } else {
                Vec::new()
            }
        };
        if let Err(error) = delete_all(&self.checkpoint.storage, full).await {
            tracing::warn!(%error, "pending records that have served could not be removed yet");
        }
        Ok(outcome)
    }

    /// Ends the attempt without ending the job: the checkpoint stays, and the next attempt may begin at once.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost already; `Storage`.
    pub async fn end(self, state: AttemptState) -> Result<()> {
        let served = std::mem::take(&mut self.progress().served_pending);
        if let Err(error) = delete_all(&self.checkpoint.storage, served).await {
            tracing::warn!(%error, "pending records that have served could not be removed; the next attempt does");
        }
        self.lease.end(state).await
    }

    /// Ends the job, all its rows done: sweeps what is void, and then deletes the checkpoint and leaves a
    /// mark in the output, or keeps it. Call it with no task in flight.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost; `OutcomeUnknown`; `Storage`. The job can be run again after any.
    pub async fn finish(self, keep: bool) -> Result<()> {
        self.lease.check()?;
        let committed = self.progress().committed.clone();
        let view = OutputView::read(&self.output).await?;
        let listing = self.checkpoint.listing().await?;
        let verdict =
            Verdict { job: Some(&self.job.job), closed: &self.closed, open: Some((self.number(), &committed)) };
        sweep_plan(&verdict, &listing, &view)?.run(&self.checkpoint.storage, &self.output).await?;
        if keep {
            return self.lease.end(AttemptState::Succeeded).await;
        }
        let (rows, data_files) = {
            let mut progress = self.progress();
            (progress.rows + self.closed.rows, std::mem::take(&mut progress.data_files))
        };
        let complete = CompleteFile {
            format: FORMAT,
            job: self.job.job.clone(),
            removed: false,
            checkpoint: self.checkpoint.url().to_owned(),
            finished: timestamp(&self.checkpoint.runtime),
            rows,
            fingerprint: self.fingerprint.clone(),
            data_files,
        };
        crate::end::complete(&self.checkpoint, Some(&self.output), &self.lease, complete).await
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt that lacks only its lease.
struct Ready {
    checkpoint: Checkpoint,
    output: StorageRef,
    job: JobFile,
    fingerprint: Fingerprint,
    closed: ClosedList,
    ids: Arc<ExactIdSet>,
    output_schema: Option<Schema>,
    failed_rows: u64,
    recovery: RecoveryReport,
    data_files: Vec<DataFile>,
}

impl Ready {
    fn own(self, lease: Lease) -> Attempt {
        let progress = Progress {
            next: 0,
            committed: BTreeSet::new(),
            rows: 0,
            data_files: self.data_files,
            served_pending: Vec::new(),
        };
        Attempt {
            checkpoint: self.checkpoint,
            output: self.output,
            lease,
            job: self.job,
            fingerprint: self.fingerprint,
            closed: self.closed,
            ids: self.ids,
            output_schema: self.output_schema,
            failed_rows: self.failed_rows,
            recovery: self.recovery,
            progress: Mutex::new(progress),
        }
    }
}

impl Checkpoint {
    /// The same checkpoint, every effect on it under a lease.
    pub(crate) fn fenced(&self, lease: &Lease) -> Self {
        let fence = |s: &StorageRef| -> StorageRef { Arc::new(FencedStorage::new(s.clone(), lease.guard())) };
        Self { storage: fence(&self.storage), control: fence(&self.control), runtime: self.runtime.clone() }
    }
}

/// Whether anything may count, by names alone.
pub(crate) fn may_count(snapshot: &Snapshot) -> bool {
    !snapshot.counting().is_empty() || !snapshot.listing.pending.is_empty() || !snapshot.listing.ray_pending.is_empty()
}

pub(crate) async fn judge_output(
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    output: &StorageRef,
    now: &Fingerprint,
    append: bool,
) -> Result<Found> {
    let allowed = append || snapshot.job.as_ref().is_some_and(|job| job.append);
    let view = OutputView::read(output).await?;
    let mut known: Vec<JobId> = snapshot.job_id().cloned().into_iter().collect();
    if snapshot.job.is_some() || may_count(snapshot) {
        for (name, _) in &snapshot.listing.committed {
            if let layout::RecordName::Own(task) = name {
                known.push(task.job.clone());
            }
        }
    }
    match judge(&view, checkpoint.url(), now, &known) {
        // With a checkpoint at hand there is something to resume, whatever marks lie about.
        Ok(Found::Complete(_)) if snapshot.job.is_some() => Ok(Found::Fresh),
        Err(_) if allowed => Ok(Found::Fresh),
        other => other,
    }
}

/// Compares with the recorded fingerprint; answers whether it must be recorded anew.
pub(crate) fn compare(
    snapshot: &Snapshot,
    now: &Fingerprint,
    allow_changed_read: bool,
    anything_counts: bool,
    url: &str,
) -> Result<bool> {
    let Some(recorded) = &snapshot.fingerprint else { return Ok(false) };
    let difference = recorded.difference(now);
    if difference.is_empty() {
        // An input that grew, or was written again under the same IDs, is recorded.
        return Ok(recorded != now);
    }
    if !anything_counts {
        return Ok(true);
    }
    if difference.identity.is_empty() && allow_changed_read {
        return Ok(true);
    }
    let lines: Vec<&str> = difference.lines().collect();
    let hint = if difference.identity.is_empty() {
        "undo the change; or begin again with a fresh --checkpoint and a fresh --output; or pass --allow-changed-read \
         to go on with what is read now and keep what is done"
    } else {
        "undo the change, or begin again with a fresh --checkpoint and a fresh --output"
    };
    Err(Error::conflict(format!("the job is not the one that began this checkpoint: {}: url={url}", lines.join("; ")))
        .with_hint(hint))
}

/// Creates `job.json`, or reads the one that is there.
async fn create_job(checkpoint: &Checkpoint, fingerprint: &Fingerprint, append: bool) -> Result<JobFile> {
    let path = layout::job()?;
    if let Some(job) = read_json::<JobFile>(&checkpoint.control, &path).await? {
        return Ok(job);
    }
    if let Some((name, _)) =
        checkpoint.listing().await?.committed.iter().find(|(n, _)| matches!(n, layout::RecordName::Own(_)))
    {
        return Err(Error::conflict(format!(
            "the checkpoint has records of a job but its _meta/job.json is gone: record={} url={}",
            name.stem(),
            checkpoint.url()
        ))
        .with_hint(
            "what counts cannot be known without it: restore _meta, or begin again with a fresh checkpoint and output",
        ));
    }
    let job = JobFile {
        format: FORMAT,
        job: JobId::random(checkpoint.runtime.as_ref()),
        created: timestamp(&checkpoint.runtime),
        append,
        fingerprint: fingerprint.clone(),
    };
    let mode =
        if checkpoint.control.capabilities().write_if_absent { WriteMode::IfAbsent } else { WriteMode::Overwrite };
    let doubt = match checkpoint.control.write(&path, to_json(&job)?, WriteOptions::new().mode(mode)).await? {
        WriteOutcome::Done(_) => return Ok(job),
        WriteOutcome::AlreadyExists => None,
        WriteOutcome::Unknown(error) => Some(error),
    };
    match (read_json::<JobFile>(&checkpoint.control, &path).await?, doubt) {
        (Some(found), _) => Ok(found),
        (None, doubt) => Err(Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "whether the job was created cannot be found out: {}",
                doubt.map(|e| e.to_string()).unwrap_or_default()
            ),
        )
        .with_hint("nothing was processed; run the same command again")),
    }
}
