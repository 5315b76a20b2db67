//! A checkpoint directory, and reading what is in it without owning it.

use bytes::Bytes;
use checkpoint_fs::{ObjectMeta, ObjectPath, ReadOptions, StorageExt, StorageRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::closed::ClosedList;
use crate::complete::CompleteFile;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Fingerprint, JobFile};
use crate::layout::{self, RecordName};
use crate::lease::AttemptFile;
use crate::names::{JobId, TaskName};
use crate::runtime::RuntimeRef;

/// The newest format of `_meta` that this code reads, and the one it writes.
pub(crate) const FORMAT: u32 = 1;

/// A checkpoint directory. Cheap to clone; making one does no I/O.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub(crate) storage: StorageRef,
    pub(crate) control: StorageRef,
    pub(crate) runtime: RuntimeRef,
}

impl Checkpoint {
    /// The checkpoint at the root of a storage.
    pub fn new(storage: StorageRef, runtime: RuntimeRef) -> Self {
        Self { control: storage.clone(), storage, runtime }
    }

    /// Keeps the create-only objects (job, attempts, closed lists) on another storage, for a checkpoint
    /// whose own store has no create-only write. Every later command must be given the same one.
    #[must_use]
    pub fn with_control(mut self, control: StorageRef) -> Self {
        self.control = control;
        self
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        self.storage.url()
    }

    /// The storage that it is in.
    pub fn storage(&self) -> &StorageRef {
        &self.storage
    }

    /// Reads everything that says what counts: the job, attempts, closed lists, and the record names.
    /// Cost: three listings and a read per object of `_meta` outside `pending`.
    ///
    /// # Errors
    /// `Storage`, or `BadData` when a file of `_meta` is damaged or newer than this program.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let job: Option<JobFile> = read_json(&self.control, &layout::job()?).await?;
        let complete: Option<CompleteFile> = read_json(&self.control, &layout::complete()?).await?;
        let attempts = self.attempts().await?;
        // Closed lists before records: a record of a closed attempt that is not listed is void, while one
        // that is listed may already be gone only when a newer list replaced this one.
        let (closed, has_closed) = self.newest_closed(attempts.last().map_or(0, |a| a.attempt)).await?;
        let listing = self.listing().await?;
        let fingerprint = self.fingerprint(job.as_ref()).await?;
        Ok(Snapshot { job, complete, attempts, closed, has_closed, listing, fingerprint })
    }

    /// As [`Checkpoint::snapshot`], and an error when there is nothing.
    ///
    /// # Errors
    /// `NoCheckpoint`, or as there.
    pub async fn existing(&self) -> Result<Snapshot> {
        let snapshot = self.snapshot().await?;
        if snapshot.is_empty() {
            return Err(Error::new(
                ErrorKind::NoCheckpoint,
                format!("there is no checkpoint here: url={}", self.url()),
            )
            .with_hint(
                "check the path; a job that ended well deletes its checkpoint unless --keep-checkpoint is given",
            ));
        }
        Ok(snapshot)
    }

    async fn attempts(&self) -> Result<Vec<AttemptFile>> {
        let dir = layout::attempts_dir()?;
        let mut numbers: Vec<u64> = Vec::new();
        for (path, _) in self.control.list_files(&dir, false).await? {
            numbers.extend(path.name().strip_suffix(".json").and_then(|n| n.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        let mut attempts = Vec::new();
        for number in &numbers {
            attempts.extend(read_json::<AttemptFile>(&self.control, &layout::attempt(*number)?).await?);
        }
        // A listing may lag; names that are known are read.
        let mut next = numbers.last().copied().unwrap_or(0) + 1;
        while let Some(attempt) = read_json::<AttemptFile>(&self.control, &layout::attempt(next)?).await? {
            attempts.push(attempt);
            next += 1;
        }
        Ok(attempts)
    }

    /// The newest closed list: the highest that a listing shows or that exists up to the last attempt.
    pub(crate) async fn newest_closed(&self, last_attempt: u64) -> Result<(ClosedList, bool)> {
        let dir = layout::closed_dir()?;
        let listed = self.control.list_files(&dir, false).await?;
        let highest = listed.iter().filter_map(|(path, _)| path.name().parse::<u64>().ok()).max();
        for number in (highest.unwrap_or(0)..=last_attempt.max(highest.unwrap_or(0))).rev() {
            if let Some(list) = read_json::<ClosedList>(&self.control, &layout::closed(number)?).await? {
                return Ok((list, true));
            }
        }
        Ok((ClosedList::empty(), false))
    }

    pub(crate) async fn listing(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for (path, meta) in self.storage.list_files(&ObjectPath::root(), false).await? {
            let Some(name) = RecordName::parse(path.name()) else { continue };
            match name {
                RecordName::RayPending(task) => listing.ray_pending.push((task, meta)),
                name => listing.committed.push((name, meta)),
            }
        }
        for (path, meta) in self.storage.list_files(&layout::pending_dir()?, false).await? {
            if let Some(task) = path.name().strip_suffix(layout::RECORD).and_then(TaskName::parse) {
                listing.pending.push((task, meta));
            }
        }
        listing.pending.sort_by(|a, b| a.0.cmp(&b.0));
        listing.ray_pending.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(listing)
    }

    /// The fingerprint that holds: the newest that an attempt recorded, else the job's first.
    async fn fingerprint(&self, job: Option<&JobFile>) -> Result<Option<Fingerprint>> {
        let listed = self.control.list_files(&layout::fingerprints_dir()?, false).await?;
        let newest = listed.iter().filter_map(|(path, _)| path.name().strip_suffix(".json")?.parse::<u64>().ok()).max();
        if let Some(newest) = newest
            && let Some(fingerprint) = read_json(&self.control, &layout::fingerprint(newest)?).await?
        {
            return Ok(Some(fingerprint));
        }
        Ok(job.map(|j| j.fingerprint.clone()))
    }
}

/// Record files by what their names say. Names alone; nothing is read yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    pub(crate) committed: Vec<(RecordName, ObjectMeta)>,
    pub(crate) ray_pending: Vec<(String, ObjectMeta)>,
    pub(crate) pending: Vec<(TaskName, ObjectMeta)>,
}

/// What a checkpoint directory held at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) job: Option<JobFile>,
    pub(crate) complete: Option<CompleteFile>,
    pub(crate) attempts: Vec<AttemptFile>,
    pub(crate) closed: ClosedList,
    pub(crate) has_closed: bool,
    pub(crate) listing: Listing,
    pub(crate) fingerprint: Option<Fingerprint>,
}

impl Snapshot {
    /// Whether there is nothing of a checkpoint at all.
    pub fn is_empty(&self) -> bool {
        self.job.is_none()
            && self.complete.is_none()
            && self.attempts.is_empty()
            && self.listing.committed.is_empty()
            && self.listing.ray_pending.is_empty()
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

    /// Whether a record of this name counts: listed, or of an attempt that is still open.
    pub(crate) fn counts(&self, name: &RecordName) -> bool {
        match name {
            RecordName::Own(task) if self.job_id() == Some(&task.job) => {
                if task.attempt <= self.closed.attempt {
                    self.closed.counts(task)
                } else {
                    true
                }
            }
            RecordName::Own(task) => self.foreign_counts(&task.to_string()),
            RecordName::Foreign(stem) => self.foreign_counts(stem),
            RecordName::RayPending(_) => false,
        }
    }

    /// Whether the listing shows a record of this name that counts.
    pub(crate) fn counts_in_listing(&self, name: &RecordName) -> bool {
        self.counts(name) && self.listing.committed.iter().any(|(listed, _)| listed == name)
    }

    fn foreign_counts(&self, stem: &str) -> bool {
        self.closed.records.contains(stem) || (!self.has_closed && !self.closed.void.contains(stem))
    }

    /// The names (without `.parquet`) of every record that counts: those listed, and those of the open
    /// attempts that the listing shows.
    pub(crate) fn counting(&self) -> Vec<String> {
        let listed = self.closed.record_names_of(self.job_id());
        let mut names: Vec<String> = listed.iter().cloned().collect();
        for (name, _) in &self.listing.committed {
            let stem = name.stem();
            if self.counts(name) && !listed.contains(&stem) {
                names.push(stem);
            }
        }
        names.sort_unstable();
        names
    }
}

impl RecordName {
    /// The name without `.parquet`.
    pub(crate) fn stem(&self) -> String {
        match self {
            Self::Own(task) => task.to_string(),
            Self::Foreign(stem) | Self::RayPending(stem) => stem.clone(),
        }
    }
}

/// Reads a JSON file of `_meta`; `None` where there is none.
pub(crate) async fn read_json<T: DeserializeOwned>(storage: &StorageRef, path: &ObjectPath) -> Result<Option<T>> {
    let Some(read) = storage.read_optional(path, ReadOptions::new()).await? else { return Ok(None) };
    parse_json(&read.bytes, &storage.url_of(path)).map(Some)
}

pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8], url: &str) -> Result<T> {
    #[derive(serde::Deserialize)]
    struct Version {
        #[serde(default)]
        format: u32,
    }
    let damaged = |e: serde_json::Error| {
        Error::bad_data(format!("a file of the checkpoint is damaged: {e} url={url}"))
            .with_hint("restore it from a backup, or begin again with a fresh checkpoint and a fresh output")
    };
    let version: Version = serde_json::from_slice(bytes).map_err(damaged)?;
    if version.format > FORMAT {
        return Err(Error::bad_data(format!(
            "the checkpoint has format {}, newer than this program reads ({FORMAT}): url={url}",
            version.format
        ))
        .with_hint("use the version of ckpt that wrote it, or a newer one"));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<Bytes> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::bad_data("a file of the checkpoint cannot be written as JSON").with_source(e))?;
    bytes.push(b'\n');
    Ok(bytes.into())
}
