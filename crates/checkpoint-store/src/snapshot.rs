//! What a checkpoint directory holds at one moment, read without owning it.

use checkpoint_fs::{ObjectMeta, StorageRef};
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::checkpoint::{Checkpoint, read_json};
use crate::closed::ClosedList;
use crate::complete::{CompleteFile, marks_in};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Fingerprint, JobFile};
use crate::layout::{self, RecordName};
use crate::lease::AttemptFile;
use crate::listing::Listing;
use crate::merged::{self, Covered, MergedRecord};
use crate::names::{JobId, TaskName};
use crate::recovery::Verdict;
use crate::sealed::read_sealed;

/// How often a look is begun anew because the checkpoint changed hands meanwhile.
const LOOKS: usize = 8;
/// Attempt files that are read at a time.
const CONCURRENCY: usize = 16;

/// What a checkpoint directory held at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) job: Option<JobFile>,
    /// The end that holds, if any.
    pub(crate) complete: Option<CompleteFile>,
    pub(crate) attempts: Vec<AttemptFile>,
    pub(crate) closed: ClosedList,
    pub(crate) has_closed: bool,
    pub(crate) listing: Listing,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The attempt that recorded it; none for that of `job.json`.
    pub(crate) fingerprint_of: Option<u64>,
}

impl Checkpoint {
    /// Reads everything that says what counts: the job, attempts, closed lists, and the record names. It is
    /// right beside a live owner, and is read again when the checkpoint changes hands meanwhile.
    /// Cost: five listings and a read per object of `_meta` outside `pending`.
    ///
    /// # Errors
    /// `Storage`, `BadData` when a file of `_meta` is damaged or newer than this program, and `Conflict` when
    /// it keeps changing hands.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        for _ in 0..LOOKS {
            if let Some(snapshot) = self.look().await? {
                return Ok(snapshot);
            }
        }
        Err(Error::conflict(format!("the checkpoint keeps changing hands while it is read: url={}", self.url()))
            .with_hint("run the same command again"))
    }

    /// As [`Checkpoint::snapshot`], and an error when there is nothing, or nothing that can be understood.
    ///
    /// # Errors
    /// `NoCheckpoint`; `Conflict` when records of a job are there without its `job.json`; or as there.
    pub async fn existing(&self) -> Result<Snapshot> {
        let snapshot = self.snapshot().await?;
        if snapshot.is_empty() {
            return Err(self.none_here());
        }
        snapshot.refuse_headless(self.url())?;
        Ok(snapshot)
    }

    pub(crate) fn none_here(&self) -> Error {
        Error::new(ErrorKind::NoCheckpoint, format!("there is no checkpoint here: url={}", self.url()))
            .with_hint("check the path; a job that ended well deletes its checkpoint unless --keep-checkpoint is given")
    }

    /// A fingerprint that was recorded here, or that the mark of an ended job in `output` has: for what it knows
    /// of input files, not for what holds. `None` where nothing is recorded, or nothing that can be read.
    /// Cost: two requests and a listing; without a job, a listing of the output.
    pub async fn recorded_fingerprint(&self, output: &StorageRef) -> Option<Fingerprint> {
        match self.look_for_fingerprint(output).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "what earlier attempts knew of the input cannot be read");
                None
            }
        }
    }

    async fn look_for_fingerprint(&self, output: &StorageRef) -> Result<Option<Fingerprint>> {
        let Some(job) = self.job_file().await? else {
            let marks = marks_in(output).await?;
            return Ok(marks.into_iter().find(|m| m.checkpoint == self.url()).map(|m| m.fingerprint));
        };
        let newest = match self.numbers_in(&layout::fingerprints_dir()?, ".json").await?.last() {
            Some(number) => read_json(&self.control, &layout::fingerprint(*number)?).await?,
            None => None,
        };
        Ok(newest.or(Some(job.fingerprint)))
    }

    /// One look; `None` when a closing, an end or a beginning fell into it.
    ///
    /// The newest closed list is looked up before the records and after them: while it is the same, every
    /// record of an open attempt that is listed was published by an attempt that was open. The end is read
    /// after the records, so that their deletion is never taken for their absence, and the job first and
    /// last, so that no two jobs are mixed.
    async fn look(&self) -> Result<Option<Snapshot>> {
        let job = self.job_file().await?;
        let attempts = self.attempts().await?;
        let last = attempts.last().map_or(0, |a| a.attempt);
        let newest = self.newest_closed(last).await?;
        let closed = match newest {
            Some(number) => match self.read_closed(number).await? {
                Some(list) => list,
                None => return Ok(None),
            },
            None => ClosedList::empty(),
        };
        let fingerprint_of = self.newest_fingerprint(newest.is_some().then_some(&closed)).await?;
        let fingerprint = match fingerprint_of {
            Some(number) => match read_json(&self.control, &layout::fingerprint(number)?).await? {
                Some(fingerprint) => Some(fingerprint),
                None if self.job_file().await?.map(|j| j.job) != job.as_ref().map(|j| j.job.clone()) => {
                    return Ok(None);
                }
                None => self.lost_fingerprint(number).await?,
            },
            None => job.as_ref().map(|j| j.fingerprint.clone()),
        };
        let listing = self.listing().await?;
        if self.newest_closed(last).await? != newest {
            return Ok(None);
        }
        let complete: Option<CompleteFile> = read_json(&self.control, &layout::complete()?).await?;
        if self.job_file().await?.map(|j| j.job) != job.as_ref().map(|j| j.job.clone()) {
            return Ok(None);
        }
        let has_closed = newest.is_some();
        let job_id = job.as_ref().map(|j| &j.job);
        let complete = complete.filter(|end| end.holds(job_id, has_closed.then_some(&closed)));
        Ok(Some(Snapshot { job, complete, attempts, closed, has_closed, listing, fingerprint, fingerprint_of }))
    }

    /// What a half-deleted checkpoint of a job that ended says of its fingerprint.
    async fn lost_fingerprint(&self, number: u64) -> Result<Option<Fingerprint>> {
        if let Some(end) = read_json::<CompleteFile>(&self.control, &layout::complete()?).await? {
            return Ok(Some(end.fingerprint));
        }
        let path = layout::fingerprint(number)?;
        Err(Error::bad_data(format!("a file of the checkpoint is gone: url={}/{path}", self.control.url()))
            .with_hint("restore it from a backup, or begin again with a fresh checkpoint and a fresh output"))
    }

    async fn job_file(&self) -> Result<Option<JobFile>> {
        read_json(&self.control, &layout::job()?).await
    }

    async fn attempts(&self) -> Result<Vec<AttemptFile>> {
        let numbers = self.numbers_in(&layout::attempts_dir()?, ".json").await?;
        let highest = numbers.last().copied().unwrap_or(0);
        let read = stream::iter(numbers).map(|number| self.read_attempt(number)).buffered(CONCURRENCY);
        let mut attempts: Vec<AttemptFile> = read.try_filter_map(async |found| Ok(found)).try_collect().await?;
        // A listing may lag; names that are known are read.
        let mut next = highest + 1;
        while let Some(attempt) = self.read_attempt(next).await? {
            attempts.push(attempt);
            next += 1;
        }
        Ok(attempts)
    }

    /// The file of one attempt.
    pub(crate) async fn read_attempt(&self, number: u64) -> Result<Option<AttemptFile>> {
        let path = layout::attempt(number)?;
        let found: Option<AttemptFile> = read_json(&self.control, &path).await?;
        match found {
            Some(found) if found.attempt != number => {
                Err(misnamed(&format!("{}/{path}", self.control.url()), found.attempt))
            }
            found => Ok(found),
        }
    }

    /// The newest closed list: the highest that a listing shows, or that is there up to the last attempt.
    async fn newest_closed(&self, last_attempt: u64) -> Result<Option<u64>> {
        let highest = self.numbers_in(&layout::closed_dir()?, "").await?.last().copied();
        for number in (highest.map_or(0, |h| h + 1)..=last_attempt).rev() {
            if self.read_closed(number).await?.is_some() {
                return Ok(Some(number));
            }
        }
        Ok(highest)
    }

    pub(crate) async fn read_closed(&self, number: u64) -> Result<Option<ClosedList>> {
        let path = layout::closed(number)?;
        let formats = (merged::FORMAT, merged::FORMAT);
        let found = read_sealed(&self.control, &path, formats, |list: &ClosedList| list.format).await?;
        match found {
            Some(found) if found.attempt != number => {
                Err(misnamed(&format!("{}/{path}", self.control.url()), found.attempt))
            }
            found => Ok(found),
        }
    }

    /// Which recorded fingerprint holds: the newest of an attempt that is still open, else the one that the
    /// closed list names. One that a former owner wrote too late is neither.
    async fn newest_fingerprint(&self, closed: Option<&ClosedList>) -> Result<Option<u64>> {
        let newest = self.numbers_in(&layout::fingerprints_dir()?, ".json").await?.last().copied();
        Ok(match (newest, closed) {
            (Some(newest), Some(closed)) if newest <= closed.attempt => closed.fingerprint,
            (None, Some(closed)) => closed.fingerprint,
            (newest, _) => newest,
        })
    }
}

/// A record file that holds IDs that count.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// The record of one task, by its name.
    Task(String),
    /// A merged record.
    Merged(Box<MergedRecord>),
}

impl Source {
    /// The name of the file, without `.parquet`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Task(name) => name.clone(),
            Self::Merged(merged) => merged.name.to_string(),
        }
    }
}

fn misnamed(url: &str, says: u64) -> Error {
    Error::bad_data(format!("a file of the checkpoint is not what its name says: says={says} url={url}"))
        .with_hint("restore it from a backup, or begin again with a fresh checkpoint and a fresh output")
}

impl Snapshot {
    /// Whether there is nothing of a checkpoint at all.
    pub fn is_empty(&self) -> bool {
        self.job.is_none()
            && self.complete.is_none()
            && self.attempts.is_empty()
            && !self.has_closed
            && self.listing.is_empty()
    }

    /// The job; `None` for a checkpoint that Ray alone has written.
    pub fn job(&self) -> Option<&JobFile> {
        self.job.as_ref()
    }

    /// What must not change; `None` as for [`Snapshot::job`].
    pub fn fingerprint(&self) -> Option<&Fingerprint> {
        self.fingerprint.as_ref()
    }

    /// The attempts, oldest first.
    pub fn attempts(&self) -> &[AttemptFile] {
        &self.attempts
    }

    /// Whether the job is done and only its deletion is left.
    pub fn is_complete(&self) -> bool {
        self.complete.is_some()
    }

    pub(crate) fn last_attempt(&self) -> u64 {
        self.attempts.last().map_or(0, |a| a.attempt)
    }

    pub(crate) fn job_id(&self) -> Option<&JobId> {
        self.job.as_ref().map(|j| &j.job)
    }

    /// The highest attempt that has left any trace: the next one takes a higher number.
    pub(crate) fn highest_attempt(&self) -> u64 {
        let closer = if self.has_closed { self.closed.attempt + 1 } else { 0 };
        let committed = self.listing.committed.iter().filter_map(|(name, _)| match name {
            RecordName::Own(task) => Some((&task.job, task.attempt)),
            RecordName::Merged(merged) => Some((&merged.job, merged.attempt)),
            RecordName::Foreign(_) | RecordName::RayPending(_) => None,
        });
        let ours = committed.chain(self.listing.pending.iter().map(|(task, _)| (&task.job, task.attempt)));
        let ours = ours.filter(|(job, _)| self.job_id() == Some(job)).map(|(_, attempt)| attempt).max();
        let ender = self.complete.as_ref().map_or(0, |end| end.attempt);
        self.last_attempt().max(closer).max(ender).max(ours.unwrap_or(0))
    }

    /// Refuses records of ours whose `job.json` is gone: nothing tells which of them count.
    pub(crate) fn refuse_headless(&self, url: &str) -> Result<()> {
        if self.job.is_some() || self.complete.is_some() {
            return Ok(());
        }
        let ours = |name: &RecordName| matches!(name, RecordName::Own(_) | RecordName::Merged(_));
        let own = self.listing.committed.iter().find(|(name, _)| ours(name));
        let what = match own {
            Some((name, _)) => format!("record={}", name.stem()),
            None if !self.closed.tasks.is_empty() => format!("closed={}", self.closed.attempt),
            None => return Ok(()),
        };
        Err(Error::conflict(format!(
            "the checkpoint has records of a job but its _meta/job.json is gone: {what} url={url}"
        ))
        .with_hint(
            "what counts cannot be known without it: give the --lease-url that the job was run with, restore _meta, or \
             begin again with a fresh checkpoint and output",
        ))
    }

    /// Whether anything binds the job to the fingerprint that it has: something of it counts, or may yet.
    pub(crate) fn may_count(&self) -> bool {
        let ours = |job: &JobId| self.job_id() == Some(job);
        !self.closed.is_empty()
            || self.listing.pending.iter().any(|(task, _)| ours(&task.job))
            || self.listing.committed.iter().any(|(name, _)| match name {
                RecordName::Own(task) => ours(&task.job) && self.counts(name),
                RecordName::Foreign(stem) => self.attempt_of(stem).is_some() && self.counts(name),
                _ => false,
            })
    }

    /// Whether a task of this name counts: listed, or of an attempt that is still open. Tasks of another job of
    /// ours never do: only their own `job.json` could tell. A merged record counts where a list names it.
    pub(crate) fn counts(&self, name: &RecordName) -> bool {
        match name {
            RecordName::Merged(name) => self.closed.merged.iter().any(|merged| merged.name == *name),
            RecordName::Own(task) if self.job_id() == Some(&task.job) => {
                task.attempt > self.closed.attempt || self.closed.counts(task)
            }
            RecordName::Own(_) | RecordName::RayPending(_) => false,
            RecordName::Foreign(stem) if self.closed.records.contains(stem) => true,
            RecordName::Foreign(stem) if self.closed.void.contains(stem) => false,
            RecordName::Foreign(stem) => match self.attempt_of(stem) {
                Some(attempt) => attempt > self.closed.attempt,
                None => !self.has_closed,
            },
        }
    }

    /// The attempt for which another engine ran a task, where its owner named what it ran.
    fn attempt_of(&self, task: &str) -> Option<u64> {
        self.attempts.iter().find(|attempt| attempt.names(task)).map(|attempt| attempt.attempt)
    }

    /// Whether the owner of an attempt named what this task is of.
    pub(crate) fn is_named(&self, task: &str) -> bool {
        self.attempt_of(task).is_some()
    }

    /// Tasks that another engine ran for a closed attempt and that its list does not count: they came later.
    pub(crate) fn too_late(&self) -> impl Iterator<Item = &str> {
        let committed = self.listing.committed.iter().filter_map(|(name, _)| match name {
            RecordName::Foreign(stem) => Some(stem.as_str()),
            _ => None,
        });
        let all = committed.chain(self.listing.ray_pending.iter().map(|(stem, _)| stem.as_str()));
        all.filter(|stem| !self.closed.records.contains(*stem))
            .filter(|stem| self.attempt_of(stem).is_some_and(|attempt| attempt <= self.closed.attempt))
    }

    /// What is in the names of the tasks that another engine ran for attempts up to one.
    pub(crate) fn writes_until(&self, attempt: u64) -> impl Iterator<Item = &str> {
        let over = self.attempts.iter().filter(move |file| file.attempt <= attempt);
        over.flat_map(|file| file.writes.iter().map(String::as_str))
    }

    /// What a closed list says of files. No task of the open attempt is looked at.
    pub(crate) fn verdict<'a>(&'a self, closed: &'a ClosedList) -> Verdict<'a> {
        Verdict { job: self.job_id(), closed, open: None, writes: self.writes_until(closed.attempt).collect() }
    }

    /// Our pending records of attempts that are not closed.
    pub(crate) fn open_pending(&self) -> impl Iterator<Item = &(TaskName, ObjectMeta)> {
        let open = |task: &TaskName| self.job_id() == Some(&task.job) && task.attempt > self.closed.attempt;
        self.listing.pending.iter().filter(move |(task, _)| open(task))
    }

    /// Whether the listing shows a record of this name that counts.
    pub(crate) fn counts_in_listing(&self, name: &RecordName) -> bool {
        self.counts(name) && self.listing.committed.iter().any(|(listed, _)| listed == name)
    }

    /// What merged records cover.
    pub(crate) fn covered(&self) -> Covered<'_> {
        Covered::by(&self.closed.merged)
    }

    /// The record files that hold the IDs that count.
    pub(crate) fn sources(&self) -> Vec<Source> {
        self.sources_of(self.counting())
    }

    /// The record files that hold the IDs of these tasks, and the merged records whole.
    pub(crate) fn sources_of(&self, tasks: Vec<String>) -> Vec<Source> {
        let covered = self.covered();
        let own = tasks.into_iter().filter(|name| !covered.name(name, self.job_id())).map(Source::Task);
        own.chain(self.closed.merged.iter().cloned().map(Box::new).map(Source::Merged)).collect()
    }

    /// The names (without `.parquet`) of every task that counts: those listed, and those of the open attempts
    /// whose records the listing shows.
    pub(crate) fn counting(&self) -> Vec<String> {
        let listed = self.closed.record_names_of(self.job_id());
        let mut names: Vec<String> = listed.iter().cloned().collect();
        for (name, _) in &self.listing.committed {
            let stem = name.stem();
            let is_task = !matches!(name, RecordName::Merged(_));
            if is_task && self.counts(name) && !listed.contains(&stem) {
                names.push(stem);
            }
        }
        names.sort_unstable();
        names
    }
}
