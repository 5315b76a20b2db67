//! An attempt: the one owner of a checkpoint, from taking the lease to the end of the job.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::array::ArrayRef;
use arrow::datatypes::Schema;
use checkpoint_fs::{ObjectPath, StorageRef, WriteOptions};

use crate::checkpoint::{Checkpoint, FORMAT};
use crate::closed::ClosedList;
use crate::compact::data_files_of;
use crate::complete::{CompleteFile, OutputView};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{IdColumn, IdSet, UniqueIds, show_id};
use crate::job::{Fingerprint, JobFile};
use crate::layout;
use crate::lease::{AttemptState, Lease, timestamp};
use crate::lengths;
use crate::names::{JobId, TaskName, owner};
use crate::record::{self, DataFile, RecordFacts};
use crate::recovery::{RecoveryReport, Verdict, delete_all, sweep_plan};
use crate::schema::encode_schema;
use crate::served::Served;
use crate::snapshot::Source;
use crate::task::{CommitOutcome, PreparedTask, TaskRecord};

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
    lease: Lease,
    ready: Ready,
    progress: Mutex<Progress>,
    served: Served,
    /// How the IDs of its first task compare, for a job that has recorded none before.
    id_class: OnceLock<String>,
}

/// An attempt that lacks only its lease.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) output: StorageRef,
    pub(crate) job: JobFile,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) closed: ClosedList,
    /// What is in the names of the tasks that another engine ran for the attempts that are closed.
    pub(crate) writes: Vec<String>,
    pub(crate) ids: Arc<dyn IdSet>,
    pub(crate) output_schema: Option<Schema>,
    pub(crate) failed_rows: u64,
    pub(crate) recovery: RecoveryReport,
    pub(crate) data_files: Vec<DataFile>,
    /// Records whose data files are not among those.
    pub(crate) unread: Vec<Source>,
}

#[derive(Debug, Default)]
struct Progress {
    next: u64,
    committed: BTreeSet<u64>,
    /// Tasks whose commit was begun and is not known to have succeeded.
    in_doubt: BTreeSet<u64>,
    rows: u64,
    data_files: Vec<DataFile>,
}

impl Attempt {
    pub(crate) fn new(lease: Lease, mut ready: Ready) -> Self {
        let data_files = std::mem::take(&mut ready.data_files);
        let served = Served::new(ready.checkpoint.storage.clone(), ready.checkpoint.runtime.clone());
        let progress = Mutex::new(Progress { data_files, ..Progress::default() });
        Self { lease, ready, progress, served, id_class: OnceLock::new() }
    }

    /// The job's ID.
    pub fn job(&self) -> &JobId {
        &self.ready.job.job
    }

    /// The attempt's number, from 1.
    pub fn number(&self) -> u64 {
        self.lease.attempt()
    }

    /// What tells it from any other attempt of its number: numbers begin anew once a job has ended. It is in the
    /// attempt's file.
    pub fn nonce(&self) -> String {
        self.lease.nonce()
    }

    /// The IDs that are done from earlier attempts.
    pub fn ids(&self) -> Arc<dyn IdSet> {
        self.ready.ids.clone()
    }

    /// How many rows that is by the records. More than there are IDs, where an ID was committed more than once.
    pub fn rows(&self) -> u64 {
        self.ready.closed.rows
    }

    /// What recovery did.
    pub fn recovery(&self) -> RecoveryReport {
        self.ready.recovery
    }

    /// Rows that earlier attempts set aside.
    pub fn failed_rows(&self) -> u64 {
        self.ready.failed_rows
    }

    /// The schema of the output that earlier attempts wrote, where they wrote any.
    pub fn output_schema(&self) -> Option<&Schema> {
        self.ready.output_schema.as_ref()
    }

    /// The output, every effect of it under the lease.
    pub fn output(&self) -> &StorageRef {
        &self.ready.output
    }

    /// Whether this process still owns the checkpoint.
    ///
    /// # Errors
    /// `Conflict` once it does not.
    pub fn check_lease(&self) -> Result<()> {
        self.lease.check()
    }

    /// Says that another engine writes for this attempt, before the first of its tasks starts: tasks whose names
    /// contain one of these are of this attempt, and count only until the next one closes it. Ray puts the UUID of a
    /// write into the name of each of its tasks. From then on, whoever finds this attempt watches its lease, whatever
    /// became of its process. Two requests.
    ///
    /// # Errors
    /// `InvalidConfig` for a name so short that another's might contain it, or one that an earlier attempt has;
    /// `Conflict` when the lease is lost; `Storage`.
    pub async fn name_writes(&self, writes: Vec<String>) -> Result<()> {
        const SHORTEST: usize = 16;
        if let Some(short) = writes.iter().find(|write| write.len() < SHORTEST) {
            return Err(Error::invalid_config(format!("the name of a write is too short: {short:?}"))
                .with_hint(format!("give it {SHORTEST} random characters or more, such as a UUID")));
        }
        let before = &self.ready.writes;
        let again =
            |write: &&String| before.iter().any(|old| old.contains(write.as_str()) || write.contains(old.as_str()));
        if let Some(again) = writes.iter().find(again) {
            return Err(Error::invalid_config(format!("an earlier attempt has a write of this name: {again:?}"))
                .with_hint("its tasks would be void; give each write of each attempt a new UUID"));
        }
        self.lease.name_writes(writes).await
    }

    /// A name for the next task; no other task ever has it.
    pub fn next_task(&self) -> TaskName {
        let mut progress = self.progress();
        progress.next += 1;
        TaskName { job: self.job().clone(), attempt: self.lease.attempt(), number: progress.next }
    }

    /// Writes a task's pending record: [`record`](Attempt::record), then
    /// [`write_pending`](Attempt::write_pending).
    ///
    /// # Errors
    /// As these two.
    pub async fn prepare(&self, task: &TaskName, ids: &ArrayRef, plan: TaskPlan) -> Result<PreparedTask> {
        self.write_pending(self.record(task, ids, plan)?).await
    }

    /// Checks a task's IDs and encodes its record. Asks nothing of the store, and takes CPU time: a large
    /// task is best recorded on a blocking thread.
    ///
    /// # Errors
    /// `BadData` for an ID that is null, empty, of another type, twice in the task, or done already;
    /// `InvalidConfig` for a task or a data file that is not named as this attempt's are.
    pub fn record(&self, task: &TaskName, ids: &ArrayRef, plan: TaskPlan) -> Result<TaskRecord> {
        let problem = |p: crate::IdProblem| Error::bad_data(format!("{p} task={task}"));
        let column = IdColumn::try_new(ids)?.map_err(problem)?;
        let mut unique = UniqueIds::new();
        if let Some(repeat) = unique.add(&column) {
            return Err(problem(repeat.problem(&column)));
        }
        self.record_unique(task, unique, plan)
    }

    /// As [`record`](Attempt::record), for IDs that were checked on their way.
    ///
    /// # Errors
    /// As `record`.
    pub fn record_unique(&self, task: &TaskName, ids: UniqueIds, plan: TaskPlan) -> Result<TaskRecord> {
        self.check_names(task, &plan)?;
        let ids = ids.into_column()?;
        let class = ids.class().to_string();
        let of_job = match self.ready.fingerprint.known_class() {
            Some(class) => class,
            None => self.id_class.get_or_init(|| class.clone()),
        };
        if class != of_job {
            return Err(Error::bad_data(format!(
                "the IDs of a task are of another type than the job's: job={of_job} task={class}"
            )));
        }
        if let Some(row) = self.ready.ids.contains(ids.array())?.iter().position(|done| done == Some(true)) {
            return Err(Error::bad_data(format!(
                "an ID is done already, by a task of an earlier attempt: id={} row={row} task={task}",
                show_id(ids.array(), row)
            ))
            .with_hint("filter the input by the attempt's IDs before it is transformed"));
        }
        let runtime = &self.ready.checkpoint.runtime;
        let facts = RecordFacts {
            format: FORMAT,
            job: task.job.to_string(),
            attempt: task.attempt,
            task: task.to_string(),
            input_rows: ids.len() as u64,
            output_rows: plan.output_rows,
            failed_rows: plan.failed_rows,
            data_files: plan.data_files,
            job_version: self.ready.fingerprint.version.clone(),
            output_schema: plan.output_schema.as_deref().map(encode_schema),
            write_token: format!("{:016x}{:016x}", runtime.random(), runtime.random()),
        };
        let bytes = record::encode(&self.ready.fingerprint.id_column, &ids, &facts)?;
        let bytes = lengths::checked(bytes, &format_args!("the record of task {task}"))?;
        PreparedTask::new(facts, &self.ready.fingerprint.id_column, bytes).map(TaskRecord)
    }

    /// Writes a task's pending record. One request. After it the data may be written, and then
    /// [`commit`](Attempt::commit) called; a task that is not committed is void, or is rolled forward by the
    /// next attempt when all its data is there.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost; `Storage`.
    pub async fn write_pending(&self, TaskRecord(task): TaskRecord) -> Result<PreparedTask> {
        let checkpoint = &self.ready.checkpoint;
        // What a power failure takes of it costs the task and no more; the rename that publishes it settles it.
        let options = WriteOptions::new().unsettled(checkpoint.storage.capabilities().atomic_rename);
        let written = checkpoint.storage.write(&task.pending, task.bytes.clone(), options).await?;
        written.into_result(checkpoint.url())?;
        Ok(task)
    }

    /// Names decide what a sweep may delete, so a task names its files after itself.
    fn check_names(&self, task: &TaskName, plan: &TaskPlan) -> Result<()> {
        if task.job != *self.job() || task.attempt != self.number() {
            return Err(Error::invalid_config(format!(
                "a task is not one of this attempt's: attempt={} task={task}",
                self.number()
            ))
            .with_hint("take a name for each task from `next_task`"));
        }
        for file in &plan.data_files {
            let name = match file.name.strip_prefix(layout::FAILED_DIR) {
                Some(rest) => rest.strip_prefix('/').unwrap_or(rest),
                None => &file.name,
            };
            if name.contains('/') || TaskName::of_file(name).as_ref() != Some(task) {
                return Err(Error::invalid_config(format!(
                    "a data file is not named after its task: file={} task={task}",
                    file.name
                ))
                .with_hint(
                    "name it `<task>.<ending>` or `<task>-<i>.<ending>`, at the top of the output or in _failed/",
                ));
            }
        }
        Ok(())
    }

    /// Publishes a task whose data is written. One request; the pending record goes with it on POSIX, and
    /// elsewhere in the background, a thousand to a request.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost, before or while publishing. Everything else is in the outcome.
    pub async fn commit(&self, task: PreparedTask) -> Result<CommitOutcome> {
        self.lease.check()?;
        let number = TaskName::parse(&task.facts.task).map_or(0, |task| task.number);
        // In doubt until it is settled, even if this future is dropped half way.
        self.progress().in_doubt.insert(number);
        let (outcome, pending_left) = task.publish(&self.ready.checkpoint.storage).await?;
        // A record that was published before the lease ran out counts. Of one that may have been later nobody
        // knows: the next owner may have closed this attempt without it.
        let outcome = match (outcome, self.lease.check_held()) {
            (CommitOutcome::Committed, Err(lost)) => CommitOutcome::Unknown(task.doubtful(&lost)),
            (outcome, _) => outcome,
        };
        if matches!(outcome, CommitOutcome::Committed) {
            {
                let mut progress = self.progress();
                progress.in_doubt.remove(&number);
                progress.committed.insert(number);
                progress.rows += task.facts.input_rows;
                progress.data_files.extend(task.facts.data_files);
            }
            if pending_left {
                self.served.push(task.pending);
            }
        }
        Ok(outcome)
    }

    /// Gives up a task that is prepared and not committed, whether its data is written or not: the pending record goes
    /// first, so that no later attempt takes the task for finished, and then the data. Two requests.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost; `Storage`, after which the task may be rolled forward by the next attempt when
    /// all its data is there.
    pub async fn abort(&self, task: PreparedTask) -> Result<()> {
        self.lease.check()?;
        let data = task.facts.data_files.iter().map(|file| ObjectPath::parse(file.name.as_str()));
        let data = data.collect::<Result<Vec<_>, _>>()?;
        delete_all(&self.ready.checkpoint.storage, vec![task.pending]).await?;
        delete_all(&self.ready.output, data).await
    }

    /// Ends the attempt without ending the job: the checkpoint stays, and the next attempt may begin at once.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost already; `Storage`.
    pub async fn end(self, state: AttemptState) -> Result<()> {
        self.served.flush().await;
        self.lease.end(state).await
    }

    /// Ends the job, all its rows done: sweeps what is void, and then deletes the checkpoint and leaves a
    /// mark in the output, or keeps it. Call it with no task in flight. A task that was prepared and never
    /// committed is void then.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost; `OutcomeUnknown`, also when a commit of this attempt ended in doubt
    /// or was dropped half way; `Storage`. The job can be run again after any.
    pub async fn finish(self, keep: bool) -> Result<()> {
        let finished = Box::pin(self.try_finish(keep)).await;
        if finished.is_err() {
            // So that the next attempt need not wait; it fails where the lease is lost anyway.
            let _ = self.lease.end(AttemptState::Failed).await;
        }
        finished
    }

    async fn try_finish(&self, keep: bool) -> Result<()> {
        self.lease.check()?;
        if self.lease.has_writes() {
            return Err(Error::invalid_config(
                "an attempt that named writes of another engine cannot end the job itself",
            )
            .with_hint(
                "end it, and begin another: that one closes it, knows which of its tasks count, and ends the job",
            ));
        }
        let committed = {
            let progress = self.progress();
            if let Some(number) = progress.in_doubt.first() {
                let task = TaskName { job: self.job().clone(), attempt: self.number(), number: *number };
                return Err(Error::new(
                    ErrorKind::OutcomeUnknown,
                    format!("the job cannot end while the commit of a task is in doubt: task={task}"),
                )
                .with_hint("nothing was deleted; run the same command again, it finds out and goes on"));
            }
            progress.committed.clone()
        };
        self.served.flush().await;
        let Ready { checkpoint, output, closed, fingerprint, writes, .. } = &self.ready;
        let view = OutputView::read(output).await?;
        let listing = checkpoint.listing().await?;
        let verdict = Verdict {
            job: Some(self.job()),
            closed,
            open: Some((self.number(), &committed)),
            writes: writes.iter().map(String::as_str).collect(),
        };
        sweep_plan(&verdict, &listing, &view)?.run(&checkpoint.storage, Some(output)).await?;
        if keep {
            return self.lease.end(AttemptState::Succeeded).await;
        }
        let (rows, mut data_files) = {
            let progress = self.progress();
            (progress.rows + closed.rows, progress.data_files.clone())
        };
        data_files.extend(others_files(closed, &view));
        let unread = data_files_of(checkpoint, &self.ready.unread, &fingerprint.id_column, &listing);
        // A record that was merged since has those of tasks that were read, too.
        let known: HashSet<String> = data_files.iter().map(|file| file.name.clone()).collect();
        data_files.extend(Box::pin(unread).await?.into_iter().filter(|file| !known.contains(&file.name)));
        let complete = CompleteFile {
            format: FORMAT,
            job: self.job().clone(),
            attempt: self.number(),
            removed: false,
            checkpoint: checkpoint.url().to_owned(),
            finished: timestamp(&checkpoint.runtime),
            rows,
            fingerprint: fingerprint.clone(),
            data_files,
            writes: writes.clone(),
        };
        crate::end::complete(checkpoint, Some(output), &self.lease, complete).await
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The data files of records that Ray wrote, whose rows nobody counted.
fn others_files(closed: &ClosedList, view: &OutputView) -> Vec<DataFile> {
    let counts = |name: &str| closed.records.get(name).map(String::as_str);
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let files = view.all().filter(|(path, _)| owner(&base(path), counts).is_some());
    let mut files: Vec<DataFile> =
        files.map(|(name, bytes)| DataFile { name: name.clone(), bytes: *bytes, rows: 0 }).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}
