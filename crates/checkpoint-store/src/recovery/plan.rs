//! Deciding what counts: reads only, writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use checkpoint_fs::{ReadOptions, StorageExt, StorageRef};
use futures::stream::StreamExt;

use super::load::{Loaded, class_problem, load_records};
use super::ray::{newcomers, plan_ray_pending};
use crate::checkpoint::{Checkpoint, FORMAT};
use crate::closed::ClosedList;
use crate::complete::OutputView;
use crate::data::DataReader;
use crate::error::{Error, Result};
use crate::id::{ExactIdSet, IdSet};
use crate::job::Fingerprint;
use crate::layout;
use crate::names::TaskName;
use crate::record::{self, DataFile, Record, RecordFacts};
use crate::snapshot::Snapshot;

/// A pending record whose task is proven complete, and will be committed.
#[derive(Debug)]
pub(crate) struct RollForward {
    /// The task.
    pub(crate) name: String,
    /// The bytes of its pending record, to be published as they are.
    pub(crate) bytes: Bytes,
}

/// What counts of the past.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Our tasks that count, by attempt; those to roll forward included.
    pub(crate) tasks: BTreeMap<u64, BTreeSet<u64>>,
    /// Others' records that count, likewise.
    pub(crate) records: BTreeSet<String>,
    /// Others' names that never will.
    pub(crate) void: BTreeSet<String>,
    /// Pending records to commit.
    pub(crate) roll_forward: Vec<RollForward>,
    /// All IDs that count.
    pub(crate) ids: ExactIdSet,
    /// How many rows that is, by the records.
    pub(crate) rows: u64,
    /// The rows of each record, by its name without `.parquet`.
    pub(crate) rows_of: BTreeMap<String, u64>,
    /// Rows that were set aside in tasks that count.
    pub(crate) failed_rows: u64,
    /// The data files of our tasks that count.
    pub(crate) data_files: Vec<DataFile>,
    /// The schema of the output so far, as records spell it.
    pub(crate) output_schema: Option<String>,
    /// Committed records that cannot be read, with what is wrong.
    pub(crate) damaged: Vec<(String, String)>,
    /// The name of the ID column, once known.
    pub(crate) id_column: Option<String>,
}

impl Plan {
    /// An error that names the first damaged record.
    pub(crate) fn refuse_damage(&self, url: &str) -> Result<()> {
        let Some((name, what)) = self.damaged.first() else { return Ok(()) };
        let more = match self.damaged.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        Err(Error::bad_data(format!("a committed record is damaged: {what}: record={url}/{name}{more}")).with_hint(
            format!(
                "if it should have these IDs, check --id-column; else `ckpt recover {url} --output URL --repair` sets \
                 it aside and lets its rows be computed again"
            ),
        ))
    }

    /// The closed list that says so.
    pub(crate) fn closed_list(&self, attempt: u64, by: u64, fingerprint: Option<u64>) -> ClosedList {
        ClosedList {
            format: FORMAT,
            attempt,
            by,
            rows: self.rows,
            tasks: self.tasks.iter().map(|(attempt, numbers)| (*attempt, numbers.iter().copied().collect())).collect(),
            records: self.records.clone(),
            void: self.void.difference(&self.records).cloned().collect(),
            fingerprint,
        }
    }

    pub(super) fn count(&mut self, name: &str, record: &Record) -> Result<Option<String>> {
        if let Some(ids) = &record.ids {
            if self.ids.class().is_some_and(|class| class != ids.class()) {
                return Ok(Some(format!(
                    "its IDs are {} and those of other records {}",
                    ids.class(),
                    self.ids.class().map(ToString::to_string).unwrap_or_default()
                )));
            }
            self.ids.insert(ids)?;
            self.rows += ids.len() as u64;
            self.rows_of.insert(name.to_owned(), ids.len() as u64);
        }
        self.id_column.get_or_insert_with(|| record.id_column.clone());
        if let Some(facts) = &record.facts {
            self.failed_rows += facts.failed_rows;
            self.data_files.extend(facts.data_files.iter().cloned());
            if self.output_schema.is_none() {
                self.output_schema.clone_from(&facts.output_schema);
            }
        }
        Ok(None)
    }
}

/// Decides what counts of everything before the open attempt.
///
/// The job in the snapshot tells our own tasks from others'. `job` says which IDs records must hold; where it is
/// not given, what was recorded does. A damaged committed record is reported in the plan, not an error here.
///
/// # Errors
/// `Storage`, and `BadData` from data files that cannot be read for lack of a reader.
pub(crate) async fn plan(
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    job: Option<&Fingerprint>,
    output: Option<(&StorageRef, &OutputView, &dyn DataReader)>,
) -> Result<Plan> {
    let storage = &checkpoint.storage;
    let job = job.or(snapshot.fingerprint.as_ref());
    let id_column = job.map(|f| f.id_column.clone());
    let id_class = job.map(|f| f.id_class.clone());
    let mut plan = Plan { void: snapshot.closed.void.clone(), id_column: id_column.clone(), ..Plan::default() };

    let mut names = snapshot.counting();
    // A committed record that a listing does not show yet is read by the name of its pending twin.
    for (task, _) in &snapshot.listing.pending {
        let name = task.to_string();
        let open = snapshot.job_id() == Some(&task.job) && task.attempt > snapshot.closed.attempt;
        if open && !names.contains(&name) && is_committed(storage, &name).await? {
            names.push(name);
        }
    }
    let newcomers = newcomers(storage, snapshot, &names).await?;
    let counted: BTreeSet<String> = names.iter().chain(&newcomers).cloned().collect();
    plan.count_all(checkpoint, snapshot, names, id_class.as_deref(), Overlap::Counts).await?;
    let overlap = if snapshot.has_closed { Overlap::Void } else { Overlap::Counts };
    plan.count_all(checkpoint, snapshot, newcomers, id_class.as_deref(), overlap).await?;
    plan.damaged.sort();

    let Some((output, view, reader)) = output else { return Ok(plan) };
    plan_own_pending(&mut plan, storage, snapshot, view, &counted).await?;
    plan_ray_pending(&mut plan, storage, snapshot, (output, view, reader), &counted).await?;
    Ok(plan)
}

pub(super) async fn is_committed(storage: &StorageRef, name: &str) -> Result<bool> {
    Ok(storage.stat_optional(&layout::committed(name)?).await?.is_some())
}

/// What a committed record is whose IDs are committed elsewhere already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlap {
    /// It counts all the same: it was settled, or nothing was before it. `verify` finds the doubles.
    Counts,
    /// It is void: a job that was closed went on, while we computed the same rows.
    Void,
}

impl Plan {
    /// Loads committed records and counts them; what cannot be read is kept as damaged.
    async fn count_all(
        &mut self,
        checkpoint: &Checkpoint,
        snapshot: &Snapshot,
        names: Vec<String>,
        id_class: Option<&str>,
        overlap: Overlap,
    ) -> Result<()> {
        let mut loaded = std::pin::pin!(load_records(&checkpoint.storage, names, self.id_column.clone()));
        while let Some(next) = loaded.next().await {
            let (name, loaded) = next?;
            let damage = match &loaded {
                Loaded::Whole(record) if overlap == Overlap::Void && !is_new(self, record)? => {
                    tracing::warn!(record = name, "a record that came late has IDs that are done already; it is void");
                    self.void.insert(name);
                    continue;
                }
                Loaded::Whole(record) => match class_problem(record, id_class) {
                    None => self.count(&name, record)?,
                    problem => problem,
                },
                Loaded::Damaged(damage) => {
                    damage.refuse_newer(&format!("{}/{name}{}", checkpoint.url(), layout::RECORD))?;
                    Some(damage.to_string())
                }
                Loaded::Missing => Some("it is gone, though it counts".to_owned()),
            };
            match damage {
                Some(damage) => self.damaged.push((format!("{name}{}", layout::RECORD), damage)),
                None => self.add(snapshot, &name),
            }
        }
        Ok(())
    }

    /// Takes a name in as counting.
    pub(super) fn add(&mut self, snapshot: &Snapshot, name: &str) {
        match TaskName::parse(name).filter(|task| snapshot.job_id() == Some(&task.job)) {
            Some(task) => drop(self.tasks.entry(task.attempt).or_default().insert(task.number)),
            None => drop(self.records.insert(name.to_owned())),
        }
    }
}

/// Our pending records: complete when every data file that they name is there in its size.
async fn plan_own_pending(
    plan: &mut Plan,
    storage: &StorageRef,
    snapshot: &Snapshot,
    view: &OutputView,
    counted: &BTreeSet<String>,
) -> Result<()> {
    for (task, _) in &snapshot.listing.pending {
        let name = task.to_string();
        let open = snapshot.job_id() == Some(&task.job) && task.attempt > snapshot.closed.attempt;
        if !open || counted.contains(&name) {
            continue;
        }
        let path = layout::pending(&name)?;
        let Some(read) = storage.read_optional(&path, ReadOptions::new()).await? else { continue };
        let column = plan.id_column.clone();
        let record = match record::decode_named(&name, read.bytes.clone(), column.as_deref()) {
            Ok(record) => record,
            // Damaged, it proves nothing.
            Err(damage) => {
                damage.refuse_newer(&storage.url_of(&path))?;
                continue;
            }
        };
        let whole = |facts: &RecordFacts| facts.data_files.iter().all(|f| view.files.get(&f.name) == Some(&f.bytes));
        if record.facts.as_ref().is_some_and(whole) && is_new(plan, &record)? {
            plan.count(&name, &record)?;
            plan.add(snapshot, &name);
            plan.roll_forward.push(RollForward { name, bytes: read.bytes });
        }
    }
    Ok(())
}

/// Whether a pending record is of the job's type and none of its IDs is committed elsewhere.
pub(super) fn is_new(plan: &Plan, record: &Record) -> Result<bool> {
    let Some(ids) = &record.ids else { return Ok(true) };
    if plan.ids.class().is_some_and(|class| class != ids.class()) {
        return Ok(false);
    }
    Ok(plan.ids.first_common(ids)?.is_none())
}
