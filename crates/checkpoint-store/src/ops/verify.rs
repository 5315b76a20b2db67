//! Proving the promise: each counting task's data is there and whole, and no ID is missing or doubled.

use std::collections::{BTreeMap, HashMap};

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use checkpoint_fs::{ObjectPath, StorageRef};
use futures::stream::StreamExt;
use serde::Serialize;

use crate::checkpoint::{Checkpoint, Snapshot};
use crate::complete::OutputView;
use crate::data::DataReader;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{ExactIdSet, IdColumn, show_id};
use crate::layout::{self, RecordName};
use crate::names::{TaskName, owner};
use crate::record::Record;
use crate::recovery::{Loaded, Verdict, load_records, sweep_plan};

/// Examples kept of each finding.
const EXAMPLES: usize = 10;

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
    /// Files of this job that do not count: void data and void records.
    pub orphan_files: u64,
    /// Tasks that count and whose record or data is gone or damaged.
    pub lost_tasks: u64,
    /// Tasks that are prepared and not committed; the next run settles them.
    pub pending_tasks: u64,
    /// A few of the findings, in words.
    pub examples: Vec<String>,
}

impl VerifyReport {
    fn note(&mut self, text: String) {
        if self.examples.len() < 4 * EXAMPLES {
            self.examples.push(text);
        }
    }
}

/// Checks a checkpoint against its output. Takes no lease and changes nothing; beside a live writer it sees
/// one moment.
///
/// # Errors
/// `NoCheckpoint`, `Conflict` when the output is not the job's, `Storage`. Damage is a finding, not an error.
pub async fn verify(checkpoint: &Checkpoint, output: &StorageRef, reader: &dyn DataReader) -> Result<VerifyReport> {
    let snapshot = checkpoint.existing().await?;
    if let Some(fingerprint) = snapshot.fingerprint.as_ref().filter(|f| f.output != output.url()) {
        return Err(Error::conflict(format!(
            "this is not the job's output: given={} recorded={}",
            output.url(),
            fingerprint.output
        ))
        .with_hint("give the --output that the job was run with"));
    }
    let view = OutputView::read(output).await?;
    let mut report = VerifyReport::default();
    let counting = snapshot.counting();
    let files = files_by_task(&snapshot, &counting, &view);
    let mut all = ExactIdSet::new();
    let column = snapshot.fingerprint.as_ref().map(|f| f.id_column.clone());
    let mut records = std::pin::pin!(load_records(&checkpoint.storage, counting.clone(), column));
    while let Some(loaded) = records.next().await {
        let (name, loaded) = loaded?;
        let record = match loaded {
            Loaded::Whole(record) => record,
            Loaded::Damaged(what) => {
                report.lost_tasks += 1;
                report.note(format!("damaged record {name}: {what}"));
                continue;
            }
            Loaded::Missing => {
                report.lost_tasks += 1;
                report.note(format!("missing record {name}"));
                continue;
            }
        };
        count_ids(&mut report, &mut all, &name, &record)?;
        let empty = Vec::new();
        let on_disk = files.get(&name).unwrap_or(&empty);
        check_task(&mut report, output, reader, &view, &name, &record, on_disk).await?;
    }
    find_orphans(&mut report, &snapshot, &view)?;
    report.ok =
        report.missing_ids == 0 && report.duplicate_ids == 0 && report.orphan_files == 0 && report.lost_tasks == 0;
    Ok(report)
}

/// Data files in the output by the counting task that owns them.
fn files_by_task(snapshot: &Snapshot, counting: &[String], view: &OutputView) -> HashMap<String, Vec<String>> {
    let known: std::collections::HashSet<&str> = counting.iter().map(String::as_str).collect();
    let pending: std::collections::HashSet<&str> =
        snapshot.listing.ray_pending.iter().map(|(stem, _)| stem.as_str()).collect();
    let mut files: HashMap<String, Vec<String>> = HashMap::new();
    for path in view.files.keys() {
        if path.starts_with(layout::FAILED_DIR) {
            continue;
        }
        let of = match TaskName::of_file(path) {
            Some(task) => Some(task.to_string()),
            None => owner(path, |s| known.get(s).or_else(|| pending.get(s)).copied()).map(str::to_owned),
        };
        if let Some(task) = of.filter(|task| known.contains(task.as_str())) {
            files.entry(task).or_default().push(path.clone());
        }
    }
    files
}

fn count_ids(report: &mut VerifyReport, all: &mut ExactIdSet, name: &str, record: &Record) -> Result<()> {
    let Some(ids) = &record.ids else { return Ok(()) };
    report.committed_ids += ids.len() as u64;
    if let Some(row) = all.first_common(ids)? {
        report.note(format!("ID {} is in two tasks, one of them {name}", show_id(ids.array(), row)));
    }
    let added = all.insert(ids)?;
    report.duplicate_ids += ids.len() as u64 - added;
    Ok(())
}

async fn check_task(
    report: &mut VerifyReport,
    output: &StorageRef,
    reader: &dyn DataReader,
    view: &OutputView,
    name: &str,
    record: &Record,
    on_disk: &[String],
) -> Result<()> {
    let mut lost = Vec::new();
    let (data, failed_rows, one_to_one) = match &record.facts {
        Some(facts) => {
            for file in &facts.data_files {
                match view.files.get(&file.name) {
                    None => lost.push(format!("data file {} is gone", file.name)),
                    Some(size) if *size != file.bytes => {
                        lost.push(format!("data file {} has {size} bytes and should have {}", file.name, file.bytes));
                    }
                    Some(_) => {}
                }
            }
            let listed: Vec<&String> = facts.data_files.iter().map(|f| &f.name).collect();
            for extra in on_disk.iter().filter(|f| !listed.contains(f)) {
                report.orphan_files += 1;
                report.note(format!("file {extra} belongs to task {name}, which does not know it"));
            }
            let data: Vec<String> =
                listed.into_iter().filter(|f| !f.starts_with(layout::FAILED_DIR)).cloned().collect();
            (data, facts.failed_rows, facts.output_rows + facts.failed_rows == facts.input_rows)
        }
        None => {
            if on_disk.is_empty() && record.ids.is_some() {
                lost.push("it has no data file".to_owned());
            }
            (on_disk.to_vec(), 0, true)
        }
    };
    if lost.is_empty() {
        match read_ids(output, reader, &data, &record.id_field()).await {
            Ok(found) => compare_ids(report, name, record, &found, failed_rows, one_to_one),
            Err(error) if error.kind() == ErrorKind::Storage => return Err(error),
            Err(error) => lost.push(error.to_string()),
        }
    }
    if let Some(first) = lost.first() {
        report.lost_tasks += 1;
        report.note(format!("task {name}: {first}"));
    }
    Ok(())
}

async fn read_ids(output: &StorageRef, reader: &dyn DataReader, files: &[String], id: &Field) -> Result<Vec<IdColumn>> {
    let mut found = Vec::new();
    for file in files {
        let path = ObjectPath::parse(file.as_str())?;
        let mut pieces = reader.ids(output, &path, id).await?;
        while let Some(piece) = pieces.next().await {
            let piece: ArrayRef = piece?;
            if piece.is_empty() {
                continue;
            }
            found.push(IdColumn::try_new(&piece)?.map_err(|p| Error::bad_data(format!("{p} file={file}")))?);
        }
    }
    Ok(found)
}

fn compare_ids(
    report: &mut VerifyReport,
    task: &str,
    record: &Record,
    found: &[IdColumn],
    failed_rows: u64,
    one_to_one: bool,
) {
    let mut wanted: HashMap<Vec<u8>, (usize, u64)> = HashMap::new();
    if let Some(ids) = &record.ids {
        wanted.extend(ids.canonical_keys().enumerate().map(|(row, key)| (key, (row, 0))));
    }
    let class = record.ids.as_ref().map(|ids| ids.class().to_string());
    for piece in found {
        report.output_rows += piece.len() as u64;
        let same_class = class.as_ref().is_none_or(|c| *c == piece.class().to_string());
        for (row, key) in piece.canonical_keys().enumerate() {
            match wanted.get_mut(&key).filter(|_| same_class) {
                Some((_, times)) => {
                    *times += 1;
                    if one_to_one && *times > 1 {
                        report.duplicate_ids += 1;
                        report
                            .note(format!("ID {} is twice in the output of task {task}", show_id(piece.array(), row)));
                    }
                }
                None => {
                    report.duplicate_ids += 1;
                    report.note(format!(
                        "ID {} is in the output of task {task} and not in its record",
                        show_id(piece.array(), row)
                    ));
                }
            }
        }
    }
    if !one_to_one {
        return;
    }
    let absent: Vec<usize> = wanted.values().filter(|(_, times)| *times == 0).map(|(row, _)| *row).collect();
    let missing = (absent.len() as u64).saturating_sub(failed_rows);
    report.missing_ids += missing;
    if let (true, Some(row), Some(ids)) = (missing > 0, absent.iter().min(), &record.ids) {
        report.note(format!("ID {} of task {task} is not in the output", show_id(ids.array(), *row)));
    }
}

/// Void data and void records, and what an open attempt has prepared.
fn find_orphans(report: &mut VerifyReport, snapshot: &Snapshot, view: &OutputView) -> Result<()> {
    let verdict = Verdict { job: snapshot.job_id(), closed: &snapshot.closed, open: None };
    let sweep = sweep_plan(&verdict, &snapshot.listing, view)?;
    for path in sweep.data.iter() {
        report.orphan_files += 1;
        report.note(format!("void data file {path}"));
    }
    let committed: BTreeMap<String, ()> =
        snapshot.listing.committed.iter().map(|(name, _)| (name.stem(), ())).collect();
    // The pending twin of a record that counts is litter and no harm: not a finding.
    for path in &sweep.records {
        let stem = path.name().trim_end_matches(layout::RECORD).trim_end_matches(".pending");
        if sweep.tasks.contains(stem) {
            report.orphan_files += 1;
            report.note(format!("void record {path}"));
        }
    }
    let open: Vec<String> = snapshot
        .listing
        .pending
        .iter()
        .filter(|(task, _)| snapshot.job_id() == Some(&task.job) && task.attempt > snapshot.closed.attempt)
        .map(|(task, _)| task.to_string())
        .chain(
            snapshot.listing.ray_pending.iter().map(|(s, _)| s.clone()).filter(|s| !snapshot.closed.void.contains(s)),
        )
        .filter(|name| !committed.contains_key(name))
        .collect();
    report.pending_tasks = open.len() as u64;
    for path in view.files.keys() {
        let file = path.rsplit('/').next().unwrap_or(path);
        let Some(task) = TaskName::of_file(file).filter(|t| snapshot.job_id() == Some(&t.job)) else { continue };
        let name = task.to_string();
        let unsettled = task.attempt > snapshot.closed.attempt
            && !open.contains(&name)
            && !snapshot.counts_in_listing(&RecordName::Own(task));
        if unsettled {
            report.orphan_files += 1;
            report.note(format!("data file {path} has no record"));
        }
    }
    Ok(())
}
