//! Our own pending records: which tasks were finished and not committed.

use std::collections::BTreeSet;

use bytes::Bytes;
use checkpoint_fs::{ObjectPath, StorageExt};
use futures::stream::StreamExt;

use super::load::{Loaded, Wanted, load_records};
use super::plan::Plan;
use super::roll_forward::RollForward;
use crate::checkpoint::Checkpoint;
use crate::complete::OutputView;
use crate::error::Result;
use crate::layout;
use crate::record::{Record, RecordFacts};
use crate::snapshot::Snapshot;

/// Our pending records: complete when every data file that they name is there in its size.
pub(super) async fn plan_own_pending(
    plan: &mut Plan,
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    view: &OutputView,
    counted: &BTreeSet<String>,
) -> Result<()> {
    let open = snapshot.open_pending().filter(|(task, _)| !counted.contains(&task.to_string()));
    let wanted = open.map(|(task, meta)| Wanted::pending(task, meta)).collect::<Result<Vec<_>>>()?;
    let whole = |_: &str, loaded: Loaded, bytes: &Bytes| Ok((loaded, bytes.clone()));
    let mut loaded = std::pin::pin!(load_records(checkpoint, wanted, plan.id_column.clone(), whole));
    while let Some(next) = loaded.next().await {
        let (name, (loaded, bytes)) = next?;
        let record = match loaded {
            Loaded::Whole(record) => record,
            // Damaged, it proves nothing.
            Loaded::Damaged(damage) => {
                damage.refuse_newer(&checkpoint.storage.url_of(&layout::pending(&name)?))?;
                continue;
            }
            Loaded::Missing => continue,
        };
        let whole = |facts: &&RecordFacts| facts.data_files.iter().all(|f| view.files.get(&f.name) == Some(&f.bytes));
        let Some(facts) = record.facts.as_ref().filter(whole) else { continue };
        let data = facts.data_files.iter().map(|file| ObjectPath::parse(file.name.as_str()));
        let data = data.collect::<checkpoint_fs::Result<_>>()?;
        if is_new(plan, &record)? {
            plan.count_new(checkpoint.runtime.as_ref(), &name, *record).await?;
            plan.add(snapshot, &name);
            plan.roll_forward.push(RollForward { name, bytes, data });
        }
    }
    Ok(())
}

/// Whether a record is of the job's type and none of its IDs is committed elsewhere.
pub(super) fn is_new(plan: &Plan, record: &Record) -> Result<bool> {
    let Some(ids) = &record.ids else { return Ok(true) };
    if plan.ids.class().is_some_and(|class| class != ids.class()) {
        return Ok(false);
    }
    Ok(plan.ids.first_common(ids)?.is_none())
}
