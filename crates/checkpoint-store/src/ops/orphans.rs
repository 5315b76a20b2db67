//! What lies about and does not count: void data, void records, and data without a record.

use std::collections::HashSet;

use checkpoint_fs::{ObjectPath, StorageExt, StorageRef};

use super::verify::VerifyReport;
use crate::checkpoint::Checkpoint;
use crate::complete::OutputView;
use crate::error::Result;
use crate::layout::{self, RecordName};
use crate::names::{MergedName, TaskName};
use crate::recovery::{surely_without, sweep_plan, without_record};
use crate::snapshot::Snapshot;

/// What was found, in words, and the tasks that are not settled yet.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    found: Vec<String>,
    pending: u64,
}

impl Orphans {
    pub(super) fn report(self, report: &mut VerifyReport) {
        report.orphan_files += self.found.len() as u64;
        report.pending_tasks = self.pending;
        for text in self.found {
            report.note(text);
        }
    }
}

/// Finds them in an output that was listed before the snapshot was taken. What an owner sweeps away meanwhile
/// is none: each is looked for once more by its name.
pub(super) async fn find_orphans(
    checkpoint: &Checkpoint,
    output: &StorageRef,
    snapshot: &Snapshot,
    view: &OutputView,
) -> Result<Orphans> {
    let verdict = snapshot.verdict(&snapshot.closed);
    let sweep = sweep_plan(&verdict, &snapshot.listing, view)?;
    let mut records: Vec<(ObjectPath, String)> = Vec::new();
    let mut data: Vec<(ObjectPath, String)> =
        sweep.data.iter().map(|path| (path.clone(), format!("void data file {path}"))).collect();
    // The pending twin of a record that counts is litter and no harm: not a finding.
    // Nor is the record of a task that a merged record covers.
    let is_void = |stem: &str| sweep.tasks.contains(stem) || MergedName::parse(stem).is_some();
    for path in sweep.records.iter().filter(|path| is_void(stem_of(path))) {
        records.push((path.clone(), format!("void record {path}")));
    }
    for (name, _) in &snapshot.listing.committed {
        let (RecordName::Own(TaskName { job, .. }) | RecordName::Merged(MergedName { job, .. })) = name else {
            continue;
        };
        if snapshot.job_id() != Some(job) {
            records.push((layout::committed(&name.stem())?, format!("record {} is another job's", name.stem())));
        }
    }
    let open = open_tasks(snapshot);
    for path in view.files.keys() {
        let file = path.rsplit('/').next().unwrap_or(path);
        let Some(task) = TaskName::of_file(file) else { continue };
        if snapshot.job_id() == Some(&task.job) {
            let unsettled = task.attempt > snapshot.closed.attempt
                && !open.contains(&task.to_string())
                && !snapshot.counts_in_listing(&RecordName::Own(task));
            if unsettled {
                data.push((ObjectPath::parse(path.as_str())?, format!("data file {path} has no record")));
            }
        } else if snapshot.job.as_ref().is_some_and(|job| !job.append) && !is_marked(view, &task) {
            data.push((ObjectPath::parse(path.as_str())?, format!("data file {path} is another job's")));
        }
    }
    let known: HashSet<&str> = foreign(snapshot).collect();
    for (_, path) in surely_without(checkpoint, without_record(snapshot, view, &known)).await? {
        data.push((ObjectPath::parse(path.as_str())?, format!("data file {path} has no record")));
    }
    let mut orphans = Orphans { pending: open.len() as u64, ..Orphans::default() };
    for (storage, candidates) in [(output, data), (&checkpoint.storage, records)] {
        for (path, what) in candidates {
            if storage.stat_optional(&path).await?.is_some() {
                orphans.found.push(what);
            }
        }
    }
    orphans.found.sort();
    Ok(orphans)
}

/// The names of all tasks of others that the checkpoint knows.
fn foreign(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    let committed = snapshot.listing.committed.iter().filter_map(|(name, _)| match name {
        RecordName::Foreign(stem) => Some(stem),
        _ => None,
    });
    let pending = snapshot.listing.ray_pending.iter().map(|(stem, _)| stem);
    let closed = snapshot.closed.records.iter().chain(&snapshot.closed.void);
    committed.chain(pending).chain(closed).map(String::as_str)
}

fn stem_of(record: &ObjectPath) -> &str {
    let name = record.name();
    name.strip_suffix(layout::RAY_PENDING).or_else(|| name.strip_suffix(layout::RECORD)).unwrap_or(name)
}

fn is_marked(view: &OutputView, task: &TaskName) -> bool {
    view.marks.iter().any(|mark| mark.job == task.job)
}

/// Tasks that are prepared, not committed and not closed.
fn open_tasks(snapshot: &Snapshot) -> HashSet<String> {
    let committed: HashSet<String> = snapshot.listing.committed.iter().map(|(name, _)| name.stem()).collect();
    let own = snapshot.listing.pending.iter();
    let own = own.filter(|(t, _)| snapshot.job_id() == Some(&t.job) && t.attempt > snapshot.closed.attempt);
    let rays = snapshot.listing.ray_pending.iter().filter(|(stem, _)| !snapshot.closed.void.contains(stem));
    let names = own.map(|(task, _)| task.to_string()).chain(rays.map(|(stem, _)| stem.clone()));
    names.filter(|name| !committed.contains(name)).collect()
}
