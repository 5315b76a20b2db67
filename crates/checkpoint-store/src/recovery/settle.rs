//! Settling the past at the start of an attempt: plan, close, sweep.

use std::collections::BTreeSet;

use checkpoint_fs::{StorageExt, StorageRef, WriteOptions};

use super::close::apply;
use super::plan::{Plan, Wants, plan};
use super::ray::without_data;
use super::sweep::{Sweep, sweep_plan};
use crate::checkpoint::Checkpoint;
use crate::closed::ClosedList;
use crate::compact::{MergePolicy, MergedNames, Sizes, keep_ids, merge};
use crate::complete::OutputView;
use crate::data::DataReader;
use crate::error::{Error, Result};
use crate::layout::{self, RECORD};
use crate::lengths::whole;
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
    /// What is in the names of the tasks that another engine ran for the attempts that are closed.
    pub(crate) writes: Vec<String>,
    /// The records before the closing, and after it.
    pub(crate) before: Sizes,
    pub(crate) after: Sizes,
}

/// How the past is settled.
#[derive(Debug)]
pub(crate) struct Settling<'a> {
    /// The attempt that settles it.
    pub(crate) attempt: u64,
    /// The attempt that recorded the fingerprint which held until now.
    pub(crate) fingerprint: Option<u64>,
    /// What records must hold the IDs of.
    pub(crate) wants: Wants<'a>,
    /// Reads data back.
    pub(crate) reader: &'a dyn DataReader,
    /// What to do about damage.
    pub(crate) damage: Damage,
    /// Whether to merge records.
    pub(crate) merge: MergePolicy,
}

/// Decides what counts of everything before an attempt, writes it down, and deletes what does not. Without an
/// output no task may be pending, and void data stays for the next start.
///
/// # Errors
/// `BadData` for a damaged committed record unless it is to be repaired; `Conflict` when the lease is lost;
/// `OutcomeUnknown`; `Storage`.
pub(crate) async fn settle(
    checkpoint: &Checkpoint,
    output: Option<&StorageRef>,
    how: &Settling<'_>,
) -> Result<Settled> {
    let Settling { attempt, fingerprint, wants, reader, damage, merge: policy } = how;
    let mut names = MergedNames::of(*attempt);
    for _ in 0..TRIES {
        let snapshot = checkpoint.snapshot().await?;
        let view = match output {
            Some(output) => OutputView::read(output).await?,
            None => OutputView::default(),
        };
        let looked = output.map(|output| (output, &view, *reader));
        let wants = Wants { reread: *damage == Damage::Repair, ..wants.clone() };
        let mut plan = plan(checkpoint, &snapshot, wants, looked).await?;
        if output.is_none() {
            refuse_undecided(&snapshot, &plan, checkpoint.url())?;
        }
        let repaired = match (damage, output) {
            (Damage::Repair, Some(output)) => {
                let repaired = repair(checkpoint, &mut plan, &snapshot, output, &view, *reader).await?;
                set_aside(checkpoint, &snapshot, &plan).await?;
                repaired
            }
            _ => {
                plan.refuse_damage(checkpoint.url())?;
                BTreeSet::new()
            }
        };
        let merging = Box::pin(merge(checkpoint, &snapshot, &plan, policy, &mut names)).await?;
        // After a repair the IDs that were gathered are more than those that count.
        let anew = repaired.is_empty() && (merging.wrote || matches!(policy, MergePolicy::Always(_)));
        let saved = keep_ids(checkpoint, &snapshot, &mut plan, &merging.merged, &mut names, anew).await?;
        let list = plan.closed_list(attempt - 1, *attempt, (merging.merged, saved), *fingerprint);
        let Some(closed) = apply(checkpoint, output, &snapshot, &plan, list).await? else { continue };
        let listing = checkpoint.listing().await?;
        let verdict = snapshot.verdict(&closed);
        let mut sweep = sweep_plan(&verdict, &listing, &view)?;
        let recovery = report(&plan, &sweep);
        sweep.records.extend(verdict.stale_facts(checkpoint).await?);
        sweep.run(&checkpoint.storage, output).await?;
        let writes = snapshot.writes_until(closed.attempt).map(str::to_owned).collect();
        return Ok(Settled { closed, plan, recovery, repaired, writes, before: merging.before, after: merging.after });
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
    let wants = Wants { reread: damage == Damage::Repair, ..wants };
    let mut plan = plan(checkpoint, snapshot, wants, Some((output, &view, reader))).await?;
    let repaired = match damage {
        Damage::Refuse => {
            plan.refuse_damage(checkpoint.url())?;
            BTreeSet::new()
        }
        Damage::Repair => repair(checkpoint, &mut plan, snapshot, output, &view, reader).await?,
    };
    let merged = snapshot.closed.merged.clone();
    let closed = plan.closed_list(snapshot.highest_attempt(), snapshot.highest_attempt() + 1, (merged, None), None);
    let verdict = snapshot.verdict(&closed);
    let sweep = sweep_plan(&verdict, &snapshot.listing, &view)?;
    let recovery = report(&plan, &sweep);
    Ok((plan, recovery, repaired))
}

/// Without the output nothing tells whether a task that is pending is whole.
fn refuse_undecided(snapshot: &Snapshot, plan: &Plan, url: &str) -> Result<()> {
    let job = snapshot.job_id();
    let open = |task: &TaskName| job == Some(&task.job) && task.attempt > snapshot.closed.attempt;
    let own = snapshot.listing.pending.iter().filter(|(task, _)| open(task)).map(|(task, _)| task.to_string());
    let rays = snapshot.listing.ray_pending.iter().map(|(stem, _)| stem.clone());
    let rays = rays.filter(|stem| !plan.void.contains(stem));
    match own.chain(rays).find(|name| !plan.holds(name, job)) {
        None => Ok(()),
        Some(task) => Err(Error::invalid_config(format!(
            "a task is pending, and without the output nothing tells whether it is done: task={task} url={url}"
        ))
        .with_hint("give the output, or run the job or `ckpt recover` first")),
    }
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
    let mut gone = BTreeSet::new();
    for (file, _) in &plan.damaged {
        let name = file.strip_suffix(layout::RECORD).unwrap_or(file);
        match snapshot.closed.merged.iter().find(|merged| merged.name.to_string() == name) {
            Some(merged) => gone.extend(merged.task_names()),
            None => drop(gone.insert(name.to_owned())),
        }
    }
    for file in &plan.data_files {
        if view.files.get(&file.name) != Some(&file.bytes) {
            let name = file.name.rsplit('/').next().unwrap_or(&file.name);
            gone.extend(TaskName::of_file(name).map(|task| task.to_string()));
        }
    }
    gone.extend(without_data(checkpoint, snapshot, plan, output, view, reader).await?);
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
async fn set_aside(checkpoint: &Checkpoint, snapshot: &Snapshot, plan: &Plan) -> Result<()> {
    for (file, _) in &plan.damaged {
        let name = file.strip_suffix(layout::RECORD).unwrap_or(file);
        let mut copies = vec![(layout::committed(name)?, layout::damaged(file)?)];
        let merged = snapshot.closed.merged.iter().find(|merged| merged.name.to_string() == name);
        if let Some(merged) = merged {
            copies.push((layout::merged_facts(&merged.name)?, layout::damaged(&format!("{name}.facts{RECORD}"))?));
        }
        for (from, to) in copies {
            let Some(read) = checkpoint.storage.read_optional(&from, whole()).await? else { continue };
            let written = checkpoint.storage.write(&to, read.bytes, WriteOptions::new()).await?;
            written.into_result(checkpoint.url())?;
        }
    }
    Ok(())
}
