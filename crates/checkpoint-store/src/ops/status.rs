//! Counting what is done, right beside a live writer.

use arrow::array::Array;
use checkpoint_fs::ReadOptions;
use checkpoint_fs::StorageExt;
use futures::stream::{Stream, StreamExt};
use serde::Serialize;

use crate::checkpoint::{Checkpoint, Snapshot};
use crate::error::{Error, Result};
use crate::id::IdColumn;
use crate::layout::{self, RecordName};
use crate::lease::rfc3339;
use crate::record;
use crate::recovery::{Loaded, load_records};

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
    /// Whether the job is done and the checkpoint being deleted.
    pub complete: bool,
    /// Bytes of the committed records.
    pub bytes: u64,
    /// Bytes of record per ID; `None` without IDs.
    pub bytes_per_id: Option<f64>,
    /// When the newest record was written, by the store's clock (RFC 3339).
    pub last_commit: Option<String>,
}

/// Counts. Reads the records of attempts that are still open, and the pending ones.
///
/// # Errors
/// `NoCheckpoint`, `BadData` naming a damaged record, `Storage`.
pub async fn status(checkpoint: &Checkpoint) -> Result<Status> {
    let snapshot = checkpoint.existing().await?;
    let counting = snapshot.counting();
    let listed = snapshot.closed.record_names_of(snapshot.job_id());
    let open: Vec<String> = counting.iter().filter(|n| !listed.contains(*n)).cloned().collect();
    let mut status = Status {
        checkpoint: checkpoint.url().to_owned(),
        id_column: snapshot.fingerprint.as_ref().map(|f| f.id_column.clone()),
        id_type: snapshot.fingerprint.as_ref().map(|f| f.id_type.clone()),
        committed_rows: snapshot.closed.rows,
        committed_tasks: counting.len() as u64,
        pending_rows: 0,
        pending_tasks: 0,
        void_tasks: 0,
        attempts: snapshot.attempts.len() as u64,
        complete: snapshot.complete.is_some(),
        bytes: 0,
        bytes_per_id: None,
        last_commit: None,
    };
    let mut ids = std::pin::pin!(whole_records(checkpoint, open, status.id_column.clone()));
    while let Some(record) = ids.next().await {
        let (_, column, ids) = record?;
        status.committed_rows += ids.len() as u64;
        status.id_type.get_or_insert_with(|| ids.array().data_type().to_string());
        status.id_column.get_or_insert(column);
    }
    count_files(&snapshot, &mut status);
    count_pending(checkpoint, &snapshot, &mut status).await?;
    if status.committed_rows > 0 {
        status.bytes_per_id = Some(status.bytes as f64 / status.committed_rows as f64);
    }
    Ok(status)
}

fn count_files(snapshot: &Snapshot, status: &mut Status) {
    let mut newest = None;
    for (name, meta) in &snapshot.listing.committed {
        if snapshot.counts(name) {
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
    let own = snapshot.listing.pending.iter().map(|(task, _)| {
        let void = snapshot.job_id() == Some(&task.job) && task.attempt <= snapshot.closed.attempt;
        (task.to_string(), layout::pending(&task.to_string()), void)
    });
    let rays = snapshot
        .listing
        .ray_pending
        .iter()
        .map(|(stem, _)| (stem.clone(), layout::ray_pending(stem), snapshot.closed.void.contains(stem)));
    for (name, path, void) in own.chain(rays) {
        if committed.contains(&name) {
            continue;
        }
        if void {
            status.void_tasks += 1;
            continue;
        }
        let Some(read) = checkpoint.storage.read_optional(&path?, ReadOptions::new()).await? else { continue };
        status.pending_tasks += 1;
        if let Ok(record) = record::decode(read.bytes, status.id_column.as_deref()) {
            status.pending_rows += record.ids.map_or(0, |ids| ids.len()) as u64;
        }
    }
    Ok(())
}

/// All IDs that count, a record at a time, in no particular order.
///
/// # Errors
/// `NoCheckpoint`; in the stream `BadData` naming a damaged record, and `Storage`.
pub async fn committed_ids(checkpoint: &Checkpoint) -> Result<impl Stream<Item = Result<IdColumn>> + Send + use<>> {
    let snapshot = checkpoint.existing().await?;
    let column = snapshot.fingerprint.as_ref().map(|f| f.id_column.clone());
    Ok(whole_records(checkpoint, snapshot.counting(), column).map(|record| record.map(|(_, _, ids)| ids)))
}

/// Loads records that must be whole; one that has gone meanwhile was merged or swept and is passed over.
fn whole_records(
    checkpoint: &Checkpoint,
    names: Vec<String>,
    id_column: Option<String>,
) -> impl Stream<Item = Result<(String, String, IdColumn)>> + Send + use<> {
    let url = checkpoint.url().to_owned();
    load_records(&checkpoint.storage, names, id_column).filter_map(move |loaded| {
        let url = url.clone();
        async move {
            match loaded {
                Ok((name, Loaded::Whole(record))) => {
                    let record = *record;
                    record.ids.map(|ids| Ok((name, record.id_column, ids)))
                }
                Ok((_, Loaded::Missing)) => None,
                Ok((name, Loaded::Damaged(what))) => Some(Err(Error::bad_data(format!(
                    "a committed record is damaged: {what}: record={url}/{name}{}",
                    layout::RECORD
                ))
                .with_hint("`ckpt recover` with --repair sets it aside and lets its rows be computed again"))),
                Err(error) => Some(Err(error)),
            }
        }
    })
}
