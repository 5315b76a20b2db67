//! Which record files are merged.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::options::MergePolicy;
use crate::layout::RecordName;
use crate::merged::MergedRecord;
use crate::names::TaskName;
use crate::recovery::Plan;
use crate::snapshot::{Snapshot, Source};

/// A record file that goes into a merged record.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) source: Source,
    /// The size of its file.
    pub(super) bytes: u64,
    /// Whether it must be written anew, alone if need be: it holds IDs that no longer count.
    pub(super) forced: bool,
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Choice {
    /// The files to merge, in the order of their tasks.
    pub(super) parts: Vec<Part>,
    /// Merged records that stay as they are.
    pub(super) kept: Vec<MergedRecord>,
}

/// Where a file comes in the order of tasks: ours by attempt and number, then the others' by name.
type Place = (u64, u64, String);

fn place_of(task: &str) -> Place {
    match TaskName::parse(task) {
        Some(task) => (task.attempt, task.number, String::new()),
        None => (u64::MAX, 0, task.to_owned()),
    }
}

fn place(source: &Source) -> Place {
    match source {
        Source::Task(name) => place_of(name),
        Source::Merged(merged) => merged.task_names().next().map_or((0, 0, String::new()), |task| place_of(&task)),
    }
}

/// The sizes of the record files that a listing shows, by their names without `.parquet`.
pub(super) fn sizes(snapshot: &Snapshot) -> HashMap<String, u64> {
    let files = snapshot.listing.committed.iter();
    files.filter(|(name, _)| !matches!(name, RecordName::RayPending(_))).map(|(n, m)| (n.stem(), m.size)).collect()
}

/// Chooses what to merge of what a plan counts. Tasks that are rolled forward with this very closing are not
/// published yet, and files that the listing lacks are left alone: both have time until the next.
pub(super) fn choose(snapshot: &Snapshot, plan: &Plan, policy: &MergePolicy) -> Choice {
    let shape = policy.shape();
    let mut kept = Vec::new();
    let mut small: BTreeMap<Place, Part> = BTreeMap::new();
    let mut forced: BTreeMap<Place, Part> = BTreeMap::new();
    for merged in &snapshot.closed.merged {
        let counting = counting_of(plan, merged);
        let source = Source::Merged(Box::new(merged.clone()));
        let part = |forced| Part { source: source.clone(), bytes: merged.bytes, forced };
        if counting == 0 {
            continue;
        } else if counting < merged.len() {
            forced.insert(place(&source), part(true));
        } else if merged.rows.saturating_mul(2) >= shape.max_rows
            || merged.len().saturating_mul(2) >= shape.max_tasks
            || merged.bytes >= shape.small_bytes
        {
            kept.push(merged.clone());
        } else {
            small.insert(place(&source), part(false));
        }
    }
    let covered = snapshot.covered();
    let sizes = sizes(snapshot);
    let rolled: HashSet<&str> = plan.roll_forward.iter().map(|task| task.name.as_str()).collect();
    for name in plan.counting(snapshot.job_id()) {
        let Some(bytes) = sizes.get(&name).copied().filter(|bytes| *bytes < shape.small_bytes) else { continue };
        if !covered.name(&name, snapshot.job_id()) && !rolled.contains(name.as_str()) {
            let source = Source::Task(name);
            small.insert(place(&source), Part { source, bytes, forced: false });
        }
    }
    if policy.merges(small.len()) {
        small.append(&mut forced);
        return Choice { parts: small.into_values().collect(), kept };
    }
    kept.extend(small.into_values().filter_map(|part| match part.source {
        Source::Merged(merged) => Some(*merged),
        Source::Task(_) => None,
    }));
    Choice { parts: forced.into_values().collect(), kept }
}

/// How many of the tasks that it covers count.
fn counting_of(plan: &Plan, merged: &MergedRecord) -> u64 {
    let own = merged.tasks.iter().map(|(attempt, numbers)| {
        let counting = plan.tasks.get(attempt);
        numbers.iter().filter(|number| counting.is_some_and(|c| c.contains(number))).count() as u64
    });
    own.sum::<u64>() + merged.records.intersection(&plan.records).count() as u64
}
