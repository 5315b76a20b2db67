//! Settling the past at the start of an attempt: plan, close, sweep.

use std::collections::BTreeSet;

use checkpoint_fs::{ReadOptions, StorageExt, StorageRef, WriteOptions};

use super::close::apply;
use super::plan::{Plan, Wants, plan};
use super::ray::without_data;
use super::sweep::{Sweep, Verdict, sweep_plan};
use crate::checkpoint::Checkpoint;
use crate::closed::ClosedList;
use crate::complete::OutputView;
use crate::data::DataReader;
use crate::error::{Error, Result};
use crate::layout;
use crate::names::TaskName;
use crate::snapshot::Snapshot;

/// How often a plan is made anew because another closed list is there.
const TRIES: usize = 8;

/// What to do about committed records that cannot be read, and tasks whose data is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Stop, and name them.
    Refuse,
    /// Set the records aside and void the tasks, so that their rows are computed again.
    Repair,
}

/// What recovery did at the start of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Tasks that were finished but not committed, and now are.
    pub rolled_forward: u64,
    /// Tasks that do not count, whose remains were removed.
    pub voided: u64,
    /// Data files removed with them.
    pub deleted_files: u64,
}

/// The past, settled.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) closed: ClosedList,
    pub(crate) plan: Plan,
    pub(crate) recovery: RecoveryReport,
    /// Tasks that counted and were voided by a repair.
    pub(crate) repaired: BTreeSet<String>,
}

/// Decides what counts of everything before `attempt`, writes it down, and deletes what does not.
/// `fingerprint` is the attempt that recorded the fingerprint which held until now; `wants` says
/// what records must hold the IDs of.
///
/// # Errors
/// `BadData` for a damaged committed record unless it is to be repaired; `Conflict` when the lease is lost;
/// `OutcomeUnknown`; `Storage`.
pub(crate) async fn settle(
    checkpoint: &Checkpoint,
    output: &StorageRef,
    attempt: u64,
    fingerprint: Option<u64>,
    wants: Wants<'_>,
    reader: &dyn DataReader,
    damage: Damage,
) -> Result<Settled> {
    for _ in 0..TRIES {
        let snapshot = checkpoint.snapshot().await?;
        let view = OutputView::read(output).await?;
        let mut plan = plan(checkpoint, &snapshot, wants.clone(), Some((output, &view, reader))).await?;
        let repaired = match damage {
            Damage::Refuse => {
                plan.refuse_damage(checkpoint.url())?;
                BTreeSet::new()
            }
            Damage::Repair => repair(checkpoint, &mut plan, &snapshot, output, &view, reader).await?,
        };
        if damage == Damage::Repair {
            set_aside(checkpoint, &plan).await?;
        }
        let list = plan.closed_list(attempt - 1, attempt, fingerprint);
        let Some(closed) = apply(checkpoint, &plan, list).await? else { continue };
        let listing = checkpoint.listing().await?;
        let verdict = Verdict { job: snapshot.job_id(), closed: &closed, open: None };
        let sweep = sweep_plan(&verdict, &listing, &view)?;
        let recovery = report(&plan, &sweep);
        sweep.run(&checkpoint.storage, output).await?;
        return Ok(Settled { closed, plan, recovery, repaired });
    }
    Err(Error::conflict(format!("other jobs keep closing this checkpoint: url={}", checkpoint.url())))
}

/// What a settled past would be, without an effect: the plan, and what would be swept.
pub(crate) async fn foresee(
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    wants: Wants<'_>,
    output: &StorageRef,
    reader: &dyn DataReader,
    damage: Damage,
) -> Result<(Plan, RecoveryReport, BTreeSet<String>)> {
    let view = OutputView::read(output).await?;
    let mut plan = plan(checkpoint, snapshot, wants, Some((output, &view, reader))).await?;
    let repaired = match damage {
        Damage::Refuse => {
            plan.refuse_damage(checkpoint.url())?;
            BTreeSet::new()
        }
        Damage::Repair => repair(checkpoint, &mut plan, snapshot, output, &view, reader).await?,
    };
    let closed = plan.closed_list(snapshot.highest_attempt(), snapshot.highest_attempt() + 1, None);
    let verdict = Verdict { job: snapshot.job_id(), closed: &closed, open: None };
    let sweep = sweep_plan(&verdict, &snapshot.listing, &view)?;
    let recovery = report(&plan, &sweep);
    Ok((plan, recovery, repaired))
}

fn report(plan: &Plan, sweep: &Sweep) -> RecoveryReport {
    RecoveryReport {
        rolled_forward: plan.roll_forward.len() as u64,
        voided: sweep.tasks.len() as u64,
        deleted_files: sweep.data.len() as u64,
    }
}

/// Takes out of the plan what cannot be kept: tasks with a damaged record, and tasks whose data is gone.
async fn repair(
    checkpoint: &Checkpoint,
    plan: &mut Plan,
    snapshot: &Snapshot,
    output: &StorageRef,
    view: &OutputView,
    reader: &dyn DataReader,
) -> Result<BTreeSet<String>> {
    let mut gone: BTreeSet<String> =
        plan.damaged.iter().map(|(file, _)| file.strip_suffix(layout::RECORD).unwrap_or(file).to_owned()).collect();
    for file in &plan.data_files {
        if view.files.get(&file.name) != Some(&file.bytes) {
            let name = file.name.rsplit('/').next().unwrap_or(&file.name);
            gone.extend(TaskName::of_file(name).map(|task| task.to_string()));
        }
    }
    gone.extend(without_data(checkpoint, &snapshot.listing, plan, output, view, reader).await?);
    for name in &gone {
        match TaskName::parse(name).filter(|task| snapshot.job_id() == Some(&task.job)) {
            Some(task) => drop(plan.tasks.entry(task.attempt).or_default().remove(&task.number)),
            None => {
                plan.records.remove(name);
                plan.void.insert(name.clone());
            }
        }
        plan.roll_forward.retain(|task| task.name != *name);
        plan.rows = plan.rows.saturating_sub(plan.rows_of.get(name).copied().unwrap_or(0));
    }
    Ok(gone)
}

/// Keeps a copy of each damaged record where nothing reads it; the sweep deletes the record itself.
async fn set_aside(checkpoint: &Checkpoint, plan: &Plan) -> Result<()> {
    for (file, _) in &plan.damaged {
        let name = file.strip_suffix(layout::RECORD).unwrap_or(file);
        let read = checkpoint.storage.read_optional(&layout::committed(name)?, ReadOptions::new()).await?;
        if let Some(read) = read {
            let written = checkpoint.storage.write(&layout::damaged(file)?, read.bytes, WriteOptions::new()).await?;
            written.into_result(checkpoint.url())?;
        }
    }
    Ok(())
}
