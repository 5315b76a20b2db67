//! Data of Ray's that its record says nothing of: the record is gone, or holds no ID.

use std::collections::{BTreeMap, HashSet};

use checkpoint_fs::StorageExt;

use super::plan::Plan;
use crate::checkpoint::Checkpoint;
use crate::complete::OutputView;
use crate::error::Result;
use crate::layout;
use crate::names::{TaskName, owner, ray_task, ray_write};
use crate::snapshot::Snapshot;

/// Tasks of writes that the checkpoint knows, of which there is data and no record, each with a file. Those of writes
/// that were named are not among them: whatever has no record there is void.
pub(crate) fn without_record(
    snapshot: &Snapshot,
    view: &OutputView,
    known: &HashSet<&str>,
) -> BTreeMap<String, String> {
    let writes: HashSet<&str> = known.iter().filter_map(|stem| ray_write(stem)).collect();
    let mut found = BTreeMap::new();
    if writes.is_empty() {
        return found;
    }
    for (path, _) in view.all() {
        let file = path.rsplit('/').next().unwrap_or(path);
        if TaskName::of_file(file).is_some() || owner(file, |stem| known.get(stem).copied()).is_some() {
            continue;
        }
        let task = ray_task(file).filter(|task| ray_write(task).is_some_and(|write| writes.contains(write)));
        if let Some(task) = task.filter(|task| !snapshot.is_named(task)) {
            found.entry(task.to_owned()).or_insert_with(|| path.clone());
        }
    }
    found
}

/// Of those, the ones that have none when they are asked for: whoever wrote the data may have been at it.
pub(crate) async fn surely_without(
    checkpoint: &Checkpoint,
    mut tasks: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    let names: Vec<String> = tasks.keys().cloned().collect();
    for name in names {
        // The pending record is there until the committed one is.
        for path in [layout::ray_pending(&name)?, layout::committed(&name)?] {
            if checkpoint.storage.stat_optional(&path).await?.is_some() {
                tasks.remove(&name);
            }
        }
    }
    Ok(tasks)
}

/// Notes both kinds as damage.
///
/// # Errors
/// `Storage`.
pub(super) async fn plan_unrecorded(
    plan: &mut Plan,
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    view: &OutputView,
) -> Result<()> {
    let known: HashSet<&str> = plan.foreign(snapshot).collect();
    let gone = surely_without(checkpoint, without_record(snapshot, view, &known)).await?;
    let unread = plan.unread_names();
    let is_empty = |name: &&str| !plan.rows_of.contains_key(*name) && !unread.contains(*name);
    let empty: HashSet<&str> = plan.records.iter().map(String::as_str).filter(is_empty).collect();
    let mut without_id = BTreeMap::new();
    if !empty.is_empty() {
        for (path, _) in view.all() {
            let file = path.rsplit('/').next().unwrap_or(path);
            if let Some(name) = owner(file, |stem| known.get(stem).copied()).filter(|name| empty.contains(name)) {
                without_id.entry(name.to_owned()).or_insert_with(|| path.clone());
            }
        }
    }
    for (tasks, what) in [(gone, "it is gone"), (without_id, "it has no IDs")] {
        for (name, path) in tasks {
            let what = format!("{what}, and data of its task is in the output ({path})");
            plan.damaged.push((format!("{name}{}", layout::RECORD), what));
        }
    }
    plan.damaged.sort();
    Ok(())
}
