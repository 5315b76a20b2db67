//! Counting what is done, right beside a live writer.

use std::collections::HashSet;

use arrow::array::Array;
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::id::IdColumn;
use crate::layout::RecordName;
use crate::lease::{AttemptFile, AttemptState, rfc3339};
use crate::merged::Covered;
use crate::names::MergedName;
use crate::record::{Damage, Record};
use crate::recovery::{Loaded, Wanted, class_problem, load_records};
use crate::snapshot::{Snapshot, Source};

/// How often a count is made before a checkpoint that keeps changing is an error.
const TRIES: usize = 4;

/// What `ckpt status` shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Where the checkpoint is.
    pub checkpoint: String,
    /// The ID column; `None` while nothing tells.
    pub id_column: Option<String>,
    /// The Arrow type of the IDs.
    pub id_type: Option<String>,
    /// Rows that are done.
    pub committed_rows: u64,
    /// Tasks that are done.
    pub committed_tasks: u64,
    /// Rows of tasks that are prepared and not committed.
    pub pending_rows: u64,
    /// Those tasks.
    pub pending_tasks: u64,
    /// Tasks of closed attempts that left records and do not count.
    pub void_tasks: u64,
    /// Attempts so far.
    pub attempts: u64,
    /// The one that owns the checkpoint, or owned it last.
    pub last_attempt: Option<LastAttempt>,
    /// Whether the job is done and the checkpoint being deleted.
    pub complete: bool,
    /// Bytes of the committed records.
    pub bytes: u64,
    /// Bytes of record per ID; `None` without IDs.
    pub bytes_per_id: Option<f64>,
    /// When the newest record was written, by the store's clock (RFC 3339).
    pub last_commit: Option<String>,
}

/// Who works on the checkpoint, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LastAttempt {
    /// Its number, from 1.
    pub attempt: u64,
    /// How it stands. One that was killed goes on saying `running`, and is renewed no more.
    pub state: AttemptState,
    /// The host of its process.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// When it began, by its own clock (RFC 3339).
    pub started: String,
    /// When its lease was last renewed, by its own clock (RFC 3339).
    pub renewed: String,
}

impl LastAttempt {
    fn of(file: &AttemptFile) -> Self {
        Self {
            attempt: file.attempt,
            state: file.state,
            host: file.owner.host.clone(),
            pid: file.owner.pid,
            started: file.started.clone(),
            renewed: file.renewed.clone(),
        }
    }
}

/// Counts. Reads the records of attempts that are still open, and the pending ones. When the checkpoint changes
/// hands meanwhile it counts again.
///
/// # Errors
/// `NoCheckpoint`, `BadData` naming a damaged record, `Storage`.
pub async fn status(checkpoint: &Checkpoint) -> Result<Status> {
    for _ in 1..TRIES {
        match count(checkpoint).await {
            Err(error) if error.kind() == ErrorKind::Storage && changed_since(&error) => {}
            counted => return counted,
        }
    }
    count(checkpoint).await
}

async fn count(checkpoint: &Checkpoint) -> Result<Status> {
    let snapshot = checkpoint.existing().await?;
    let counting = snapshot.counting();
    let listed = snapshot.closed.record_names_of(snapshot.job_id());
    let covered = snapshot.covered();
    let open = counting.iter().filter(|n| !listed.contains(*n)).cloned().map(Source::Task).collect();
    let end = snapshot.complete.as_ref().filter(|end| !end.removed);
    let fingerprint = snapshot.fingerprint.as_ref().or(end.map(|end| &end.fingerprint));
    let mut status = Status {
        checkpoint: checkpoint.url().to_owned(),
        id_column: fingerprint.map(|f| f.id_column.clone()),
        id_type: fingerprint.map(|f| f.id_type.clone()),
        committed_rows: snapshot.closed.rows,
        committed_tasks: counting.len() as u64,
        pending_rows: 0,
        pending_tasks: 0,
        void_tasks: 0,
        attempts: snapshot.attempts.len() as u64,
        last_attempt: snapshot.attempts.last().map(LastAttempt::of),
        complete: snapshot.complete.is_some(),
        bytes: 0,
        bytes_per_id: None,
        last_commit: None,
    };
    count_files(&snapshot, &covered, &mut status);
    if let Some(end) = &snapshot.complete {
        // The records are being deleted; what they held is said by the end, where the job came to it.
        status.committed_rows = if end.removed { snapshot.closed.rows } else { end.rows };
        return Ok(status);
    }
    let facts = |record: &Record| {
        let ids = record.ids.as_ref()?;
        Some((ids.len() as u64, ids.array().data_type().to_string(), record.id_column.clone()))
    };
    let mut records = std::pin::pin!(whole_records(checkpoint, &snapshot, open, move |record| facts(&record)));
    while let Some(record) = records.next().await {
        let (_, (rows, id_type, id_column)) = record?;
        status.committed_rows += rows;
        status.id_type.get_or_insert(id_type);
        status.id_column.get_or_insert(id_column);
    }
    count_pending(checkpoint, &snapshot, &mut status).await?;
    if status.committed_rows > 0 {
        status.bytes_per_id = Some(status.bytes as f64 / status.committed_rows as f64);
    }
    Ok(status)
}

fn count_files(snapshot: &Snapshot, covered: &Covered<'_>, status: &mut Status) {
    let mut newest = None;
    for (name, meta) in &snapshot.listing.committed {
        if covered.file(name, snapshot.job_id()) {
            // Merged; it goes with the next sweep.
        } else if snapshot.counts(name) {
            status.bytes += meta.size;
            newest = newest.max(meta.last_modified);
        } else if matches!(name, RecordName::Own(_)) || snapshot.closed.void.contains(&name.stem()) {
            status.void_tasks += 1;
        }
    }
    status.last_commit = newest.map(rfc3339);
}

async fn count_pending(checkpoint: &Checkpoint, snapshot: &Snapshot, status: &mut Status) -> Result<()> {
    let committed: std::collections::HashSet<String> =
        snapshot.listing.committed.iter().map(|(name, _)| name.stem()).collect();
    let mut open = Vec::new();
    for (task, meta) in &snapshot.listing.pending {
        let void = snapshot.job_id() == Some(&task.job) && task.attempt <= snapshot.closed.attempt;
        match committed.contains(&task.to_string()) {
            true => {}
            false if void => status.void_tasks += 1,
            false => open.push(Wanted::pending(task, meta)?),
        }
    }
    for (stem, meta) in &snapshot.listing.ray_pending {
        match committed.contains(stem) {
            true => {}
            false if snapshot.closed.void.contains(stem) => status.void_tasks += 1,
            false => open.push(Wanted::ray_pending(stem, meta)?),
        }
    }
    let rows = |_: &str, loaded: Loaded, _: &Bytes| {
        Ok(match loaded {
            Loaded::Whole(record) => Some(record.ids.map_or(0, |ids| ids.len() as u64)),
            Loaded::Damaged(_) => Some(0),
            Loaded::Missing => None,
        })
    };
    let mut pending = std::pin::pin!(load_records(checkpoint, open, status.id_column.clone(), rows));
    while let Some(found) = pending.next().await {
        if let (_, Some(rows)) = found? {
            status.pending_tasks += 1;
            status.pending_rows += rows;
        }
    }
    Ok(())
}

/// All IDs that count, a task at a time, in no particular order. When a compaction falls into it, it goes on with
/// the merged records, and no task comes twice.
///
/// # Errors
/// `NoCheckpoint`, also when the job is done and its checkpoint being deleted. In the stream: `BadData` naming a
/// record that is damaged or gone, and `Storage`, also when the checkpoint keeps changing while it is read.
pub async fn committed_ids(checkpoint: &Checkpoint) -> Result<impl Stream<Item = Result<IdColumn>> + Send + use<>> {
    let reading = Reading {
        records: counting_records(checkpoint).await?,
        checkpoint: checkpoint.clone(),
        seen: HashSet::new(),
        looks: 1,
    };
    Ok(stream::try_unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Ok(next.map(|ids| (ids, reading)))
    }))
}

/// The records that count, one by one.
async fn counting_records(checkpoint: &Checkpoint) -> Result<BoxStream<'static, Result<(String, IdColumn)>>> {
    let snapshot = checkpoint.existing().await?;
    if snapshot.complete.is_some() {
        return Err(Error::new(
            ErrorKind::NoCheckpoint,
            format!("the job has ended and its checkpoint is being deleted: url={}", checkpoint.url()),
        )
        .with_hint("its IDs are those of its input; run the job or `ckpt rm` once more to finish the deletion"));
    }
    Ok(whole_records(checkpoint, &snapshot, snapshot.sources(), |record| record.ids).boxed())
}

/// The reading of all IDs, which looks again when the checkpoint was changed under it.
struct Reading {
    checkpoint: Checkpoint,
    records: BoxStream<'static, Result<(String, IdColumn)>>,
    seen: HashSet<String>,
    looks: usize,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<IdColumn>> {
        loop {
            match self.records.next().await {
                Some(Ok((name, ids))) => {
                    if self.seen.insert(name) {
                        return Ok(Some(ids));
                    }
                }
                Some(Err(error)) if self.looks < TRIES && changed_since(&error) => {
                    self.looks += 1;
                    self.records = counting_records(&self.checkpoint).await?;
                }
                Some(Err(error)) => return Err(error),
                None => return Ok(None),
            }
        }
    }
}

/// Loads records that must be whole and there, with IDs of the job's class, and takes from each what is wanted.
fn whole_records<T, F>(
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    sources: Vec<Source>,
    take: F,
) -> impl Stream<Item = Result<(String, T)>> + Send + use<T, F>
where
    T: Send + 'static,
    F: Fn(Record) -> Option<T> + Send + Sync + 'static,
{
    let job = snapshot.fingerprint.as_ref();
    let id_column = job.map(|f| f.id_column.clone());
    let id_class = job.and_then(|f| f.known_class()).map(str::to_owned);
    let taken = move |_: &str, loaded: Loaded, _: &Bytes| {
        Ok(match loaded {
            Loaded::Whole(record) => match class_problem(&record, id_class.as_deref()) {
                Some(problem) => Err(Some(problem.into())),
                None => Ok(take(*record)),
            },
            Loaded::Damaged(damage) => Err(Some(damage)),
            Loaded::Missing => Err(None),
        })
    };
    let wanted = Wanted::committed(sources, &snapshot.listing);
    let loaded = wanted.map(|wanted| load_records(checkpoint, wanted, id_column, taken));
    let checkpoint = checkpoint.clone();
    stream::iter([loaded]).try_flatten().filter_map(move |loaded| {
        let checkpoint = checkpoint.clone();
        async move {
            match loaded {
                Ok((name, Ok(taken))) => taken.map(|taken| Ok((name, taken))),
                Ok((name, Err(None))) => Some(Err(gone(&checkpoint, &name).await)),
                Ok((name, Err(Some(damage)))) => Some(Err(damaged_or_gone(&checkpoint, &name, &damage).await)),
                Err(error) => Some(Err(error)),
            }
        }
    })
}

/// A record that is damaged; a merged one may as well have been replaced while it and the facts beside it were read.
async fn damaged_or_gone(checkpoint: &Checkpoint, name: &str, damage: &Damage) -> Error {
    match gone(checkpoint, name).await {
        error if MergedName::parse(name).is_some() && error.kind() == ErrorKind::Storage => error,
        _ => checkpoint.damaged_record(name, damage),
    }
}

/// A record that counted and is not there: swept or deleted by an owner meanwhile, or lost.
async fn gone(checkpoint: &Checkpoint, name: &str) -> Error {
    let record = checkpoint.record_url(name);
    let counts = match checkpoint.snapshot().await {
        Ok(now) => now.complete.is_none() && now.sources().iter().any(|source| source.name() == name),
        Err(error) => return error,
    };
    if counts {
        Error::bad_data(format!("a committed record is gone, though it counts: record={record}"))
            .with_hint("`ckpt recover` with --repair lets its rows be computed again")
    } else {
        Error::new(ErrorKind::Storage, format!("the checkpoint was changed while it was read: record={record}"))
            .with_hint("run the same command again")
            .with_source(Changed)
    }
}

/// The cause of an error that is gone when everything is read again.
#[derive(Debug)]
struct Changed;

impl std::fmt::Display for Changed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a record that counted no longer does")
    }
}

impl std::error::Error for Changed {}

fn changed_since(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Changed>())
}
