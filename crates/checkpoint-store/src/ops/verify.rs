//! Proving the promise: each counting task's data is there and whole, and no ID is missing or doubled.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use checkpoint_fs::StorageRef;
use futures::stream::StreamExt;
use serde::Serialize;

use super::check_task::{Check, OneToOne};
use super::orphans::find_orphans;
use super::recover::check_output;
use crate::checkpoint::Checkpoint;
use crate::complete::{CompleteFile, OutputView};
use crate::data::DataReader;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{IdColumn, IdSetBuilder, IdSetOptions, Repeats, show_id};
use crate::layout;
use crate::names::{TaskName, owner};
use crate::recovery::{Loaded, Wanted, class_problem, first_class, load_records};
use crate::runtime::blocking;
use crate::snapshot::Snapshot;

/// How often a check is begun anew before a checkpoint that keeps changing hands is an error.
const TRIES: usize = 4;
/// Examples kept of each finding.
pub(super) const EXAMPLES: usize = 10;

/// How to verify.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// How the set of the committed IDs is built, in which repeats are found. Whether they are row hashes is what the
    /// job says.
    pub ids: IdSetOptions,
}

/// What `ckpt verify` found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Whether the promise holds.
    pub ok: bool,
    /// IDs that count.
    pub committed_ids: u64,
    /// Rows in the data files of tasks that count.
    pub output_rows: u64,
    /// Committed IDs of one-to-one tasks that the output lacks.
    pub missing_ids: u64,
    /// IDs that belong to two tasks, or are in the output more often than they may be, or not at all known.
    pub duplicate_ids: u64,
    /// Files of a job of ours that do not count: void data, void records, and those of a job that neither this
    /// checkpoint nor a mark knows.
    pub orphan_files: u64,
    /// Tasks that count and whose record or data is gone or damaged.
    pub lost_tasks: u64,
    /// Tasks that are prepared and not committed; the next run settles them.
    pub pending_tasks: u64,
    /// A few of the findings, in words.
    pub examples: Vec<String>,
}

impl VerifyReport {
    pub(super) fn note(&mut self, text: String) {
        if self.examples.len() < 4 * EXAMPLES {
            self.examples.push(text);
        }
    }
}

/// Checks a checkpoint against its output. Takes no lease and changes nothing. Beside a live writer it checks
/// what was committed when it began; when the job ends meanwhile it looks again.
///
/// # Errors
/// `NoCheckpoint`, `Conflict` when the output is not the job's or the checkpoint keeps changing hands, `InvalidConfig`
/// when the IDs do not fit in the memory limit, `Storage`. Damage is a finding, not an error.
pub async fn verify(
    checkpoint: &Checkpoint,
    output: &StorageRef,
    options: VerifyOptions,
    reader: &dyn DataReader,
) -> Result<VerifyReport> {
    for _ in 0..TRIES {
        let before = checkpoint.existing().await?;
        check_output(&before, output)?;
        if let Some(end) = &before.complete {
            return verify_ended(checkpoint, output, end).await;
        }
        if let Some(report) = Box::pin(verify_once(checkpoint, &before, output, &options, reader)).await? {
            return Ok(report);
        }
    }
    Err(Error::conflict(format!("the checkpoint keeps changing hands while it is read: url={}", checkpoint.url()))
        .with_hint("run the same command again"))
}

/// One pass; `None` when the job ended meanwhile.
///
/// A task's pending record comes before its data, and the committed record after it. So the tasks are those
/// that were committed before the output was listed, and what the output shows must be known by the records
/// that are there after it.
async fn verify_once(
    checkpoint: &Checkpoint,
    before: &Snapshot,
    output: &StorageRef,
    options: &VerifyOptions,
    reader: &dyn DataReader,
) -> Result<Option<VerifyReport>> {
    let view = OutputView::read(output).await?;
    let after = checkpoint.snapshot().await?;
    if after.complete.is_some() || after.job_id() != before.job_id() {
        return Ok(None);
    }
    let mut check = Check { report: VerifyReport::default(), lost: Vec::new(), one_to_one: OneToOne::default() };
    let counting = before.counting();
    let files = files_by_task(before, &counting, &view);
    let column = before.fingerprint.as_ref().map(|f| f.id_column.clone());
    let wanted = Wanted::committed(before.sources(), &before.listing)?;
    let class = match &before.fingerprint {
        Some(fingerprint) => fingerprint.known_class().map(str::to_owned),
        None => first_class(checkpoint, &wanted, column.as_deref()).await?.map(|class| class.to_string()),
    };
    let row_hash = before.fingerprint.as_ref().is_some_and(|f| f.row_hash);
    let ids = Arc::new(IdSetBuilder::new(IdSetOptions { row_hash, ..options.ids.clone() }));
    let take = {
        let (ids, class) = (ids.clone(), class.clone());
        move |_: &str, loaded: Loaded, _: &Bytes| take(&ids, class.as_deref(), loaded)
    };
    let mut records = Box::pin(load_records(checkpoint, wanted.clone(), column.clone(), take));
    while let Some(loaded) = records.next().await {
        let (name, loaded) = loaded?;
        let record = match loaded {
            Loaded::Whole(record) => record,
            Loaded::Damaged(damage) => {
                damage.refuse_newer(&format!("{}/{name}{}", checkpoint.url(), layout::RECORD))?;
                check.lost_record(before, &name, &format!("damaged record {name}: {damage}"));
                continue;
            }
            Loaded::Missing => {
                check.lost_record(before, &name, &format!("missing record {name}"));
                continue;
            }
        };
        check.report.committed_ids += record.ids.as_ref().map_or(0, IdColumn::len) as u64;
        let empty = Vec::new();
        let on_disk = files.get(&name).unwrap_or(&empty);
        check.task(output, reader, &view, &name, &record, on_disk).await?;
    }
    drop(records);
    let Some(ids) = Arc::into_inner(ids) else {
        return Err(Error::bad_data("IDs are compared while others are still loaded"));
    };
    let repeats = blocking(checkpoint.runtime.as_ref(), move || ids.repeats()).await?;
    report_repeats(checkpoint, wanted, column, repeats, &mut check.report).await?;
    let mut report = check.report;
    check.one_to_one.report(&mut report);
    if !check.lost.is_empty() && !count_lost(checkpoint, before, check.lost, &mut report).await? {
        return Ok(None);
    }
    find_orphans(checkpoint, output, &after, &view).await?.report(&mut report);
    report.ok =
        report.missing_ids == 0 && report.duplicate_ids == 0 && report.orphan_files == 0 && report.lost_tasks == 0;
    Ok(Some(report))
}

/// Counts what was lost, unless it no longer counts: a repair or the end of the job fell into the check.
async fn count_lost(
    checkpoint: &Checkpoint,
    before: &Snapshot,
    lost: Vec<(String, String)>,
    report: &mut VerifyReport,
) -> Result<bool> {
    let now = checkpoint.snapshot().await?;
    if now.complete.is_some() || now.job_id() != before.job_id() {
        return Ok(false);
    }
    // A compaction fell into the check: what was read has other files now.
    if now.closed.attempt != before.closed.attempt && now.closed.merged != before.closed.merged {
        return Ok(false);
    }
    // A record of an open attempt that is gone is in no list any more, and lost all the same.
    let was_listed: HashSet<String> = before.closed.record_names_of(before.job_id());
    let counts: HashSet<String> = now.counting().into_iter().collect();
    for (name, what) in lost {
        if counts.contains(&name) || (!was_listed.contains(&name) && now.closed.attempt == before.closed.attempt) {
            report.lost_tasks += 1;
            if report.examples.last() != Some(&what) {
                report.note(what);
            }
        }
    }
    Ok(true)
}

/// A job that has ended, whose deletion is under way: the end says what must be there.
async fn verify_ended(checkpoint: &Checkpoint, output: &StorageRef, end: &CompleteFile) -> Result<VerifyReport> {
    if end.removed {
        return Err(Error::new(
            ErrorKind::NoCheckpoint,
            format!("the checkpoint is being removed: url={}", checkpoint.url()),
        )
        .with_hint("`ckpt rm` finishes it"));
    }
    let view = OutputView::read(output).await?;
    let mut report = VerifyReport { committed_ids: end.rows, ..VerifyReport::default() };
    for file in &end.data_files {
        match view.size_of(&file.name) {
            Some(size) if size == file.bytes => {
                report.output_rows += if file.name.starts_with(layout::FAILED_DIR) { 0 } else { file.rows };
            }
            found => {
                report.lost_tasks += 1;
                report.note(format!("data file {}: has {found:?} bytes and should have {}", file.name, file.bytes));
            }
        }
    }
    report.ok = report.lost_tasks == 0;
    Ok(report)
}

/// Data files in the output by the counting task that owns them.
fn files_by_task(snapshot: &Snapshot, counting: &[String], view: &OutputView) -> HashMap<String, Vec<String>> {
    let known: std::collections::HashSet<&str> = counting.iter().map(String::as_str).collect();
    let pending: std::collections::HashSet<&str> =
        snapshot.listing.ray_pending.iter().map(|(stem, _)| stem.as_str()).collect();
    let mut files: HashMap<String, Vec<String>> = HashMap::new();
    for (path, _) in view.all() {
        if path.starts_with(layout::FAILED_DIR) {
            continue;
        }
        let file = path.rsplit('/').next().unwrap_or(path);
        let of = match TaskName::of_file(file) {
            // Ours are at the top.
            Some(task) => (file == path).then(|| task.to_string()),
            None => owner(file, |s| known.get(s).or_else(|| pending.get(s)).copied()).map(str::to_owned),
        };
        if let Some(task) = of.filter(|task| known.contains(task.as_str())) {
            files.entry(task).or_default().push(path.clone());
        }
    }
    files
}

/// Takes the IDs of a record in, where they are of the class that all are of.
fn take(ids: &IdSetBuilder, class: Option<&str>, loaded: Loaded) -> Result<Loaded> {
    if let Loaded::Whole(record) = &loaded {
        if let Some(problem) = class_problem(record, class) {
            return Ok(Loaded::Damaged(problem.into()));
        }
        if let Some(column) = &record.ids {
            ids.push(column)?;
        }
    }
    Ok(loaded)
}

/// Counts IDs that are there more than once, and reads the records again to name a few of them.
async fn report_repeats(
    checkpoint: &Checkpoint,
    wanted: Vec<Wanted>,
    id_column: Option<String>,
    repeats: Repeats,
    report: &mut VerifyReport,
) -> Result<()> {
    if repeats.is_empty() {
        return Ok(());
    }
    report.duplicate_ids += repeats.count();
    let find = move |_: &str, loaded: Loaded, _: &Bytes| {
        let Loaded::Whole(record) = loaded else { return Ok(Vec::new()) };
        let Some(ids) = record.ids else { return Ok(Vec::new()) };
        // Of another class they were not counted.
        let rows = repeats.find(&ids).unwrap_or_default();
        Ok(rows.into_iter().map(|row| show_id(ids.array(), row)).collect())
    };
    let mut tasks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut records = std::pin::pin!(load_records(checkpoint, wanted, id_column, find));
    while let Some(found) = records.next().await {
        let (name, found) = found?;
        for id in found {
            tasks.entry(id).or_default().push(name.clone());
        }
    }
    for (id, tasks) in tasks {
        report.note(match tasks.as_slice() {
            [one, other] if one == other => format!("ID {id} is twice in the record of task {one}"),
            [one, other] => format!("ID {id} is in two tasks, {one} and {other}"),
            several => format!("ID {id} is in {} records: {}", several.len(), several.join(", ")),
        });
    }
    Ok(())
}
