//! Deciding what counts: reads only, writes nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use checkpoint_fs::{StorageExt, StorageRef};
use futures::stream::{self, StreamExt, TryStreamExt};

use super::elsewhere::{Asked, ReadElsewhere, Taken as Read, read_elsewhere};
use super::gather::Gathered;
use super::load::{Loaded, Wanted, class_problem, first_class, load_records};
use super::pending::{is_new, plan_own_pending};
use super::ray::{newcomers, plan_ray_pending};
use super::roll_forward::RollForward;
use super::unrecorded::plan_unrecorded;
use crate::checkpoint::Checkpoint;
use crate::closed::ClosedList;
use crate::compact::{Restored, restore};
use crate::complete::OutputView;
use crate::data::DataReader;
use crate::error::{Error, Result};
use crate::id::{IdClass, IdColumn, IdSetOptions};
use crate::job::Fingerprint;
use crate::layout;
use crate::merged::{MergedRecord, SavedIds};
use crate::names::{JobId, TaskName};
use crate::record::{Damage, DataFile, Record, RecordFacts};
use crate::runtime::Runtime;
use crate::snapshot::{Snapshot, Source};

/// Names that are asked for at a time.
const CONCURRENCY: usize = 32;

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
    pub(crate) ids: Gathered,
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
    /// Records that count and were not read: a saved set has their IDs. Of their rows and data files only the sum of
    /// the rows is known.
    pub(crate) unread: Vec<Source>,
    /// Whether there is a saved set that could not be used.
    pub(crate) saved_is_useless: bool,
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

    /// The names of all tasks that count.
    pub(crate) fn counting<'a>(&'a self, job: Option<&'a JobId>) -> impl Iterator<Item = String> + 'a {
        let own = self.tasks.iter().flat_map(|(attempt, numbers)| numbers.iter().map(|number| (*attempt, *number)));
        let name = |job: &JobId, (attempt, number)| TaskName { job: job.clone(), attempt, number }.to_string();
        let own = own.filter_map(move |task| job.map(|job| name(job, task)));
        own.chain(self.records.iter().cloned())
    }

    /// The names of all tasks of others that are known, whatever is decided of them.
    pub(super) fn foreign<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a str> {
        let pending = snapshot.listing.ray_pending.iter().map(|(stem, _)| stem.as_str());
        let damaged = self.damaged.iter().map(|(file, _)| file.strip_suffix(layout::RECORD).unwrap_or(file));
        self.records.iter().chain(&self.void).map(String::as_str).chain(pending).chain(damaged)
    }

    /// The names of the tasks whose records were not read.
    pub(super) fn unread_names(&self) -> BTreeSet<String> {
        let names = self.unread.iter().map(|source| match source {
            Source::Task(name) => vec![name.clone()],
            Source::Merged(merged) => merged.task_names().collect(),
        });
        names.flatten().collect()
    }

    /// A task that counts and that the newest closed list did not count.
    pub(super) fn newcomer(&self, snapshot: &Snapshot) -> Option<String> {
        let open = self.tasks.iter().rev().filter(|(attempt, _)| **attempt > snapshot.closed.attempt);
        let newest = open.filter_map(|(attempt, numbers)| Some((*attempt, *numbers.last()?))).next();
        let own = snapshot.job_id().zip(newest);
        let own = own.map(|(job, (attempt, number))| TaskName { job: job.clone(), attempt, number }.to_string());
        own.or_else(|| self.records.difference(&snapshot.closed.records).next().cloned())
    }

    /// Whether a task of this name counts.
    pub(crate) fn holds(&self, name: &str, job: Option<&JobId>) -> bool {
        match TaskName::parse(name).filter(|task| job == Some(&task.job)) {
            Some(task) => self.tasks.get(&task.attempt).is_some_and(|numbers| numbers.contains(&task.number)),
            None => self.records.contains(name),
        }
    }

    /// The closed list that says so.
    pub(crate) fn closed_list(
        &self,
        attempt: u64,
        by: u64,
        (merged, saved): (Vec<MergedRecord>, Option<SavedIds>),
        fingerprint: Option<u64>,
    ) -> ClosedList {
        ClosedList {
            format: ClosedList::format_of(&merged),
            attempt,
            by,
            rows: self.rows,
            tasks: self.tasks.iter().map(|(attempt, numbers)| (*attempt, numbers.iter().copied().collect())).collect(),
            records: self.records.clone(),
            void: self.void.difference(&self.records).cloned().collect(),
            merged,
            saved,
            fingerprint,
        }
    }

    /// Counts the records whose IDs are in a saved set, and takes them out of those that are read.
    fn start_from(
        &mut self,
        snapshot: &Snapshot,
        restored: Restored,
        sources: &mut Vec<Source>,
        ids: IdSetOptions,
        runtime: &dyn Runtime,
    ) {
        let Restored { saved, set, sources: unread } = restored;
        self.ids = Gathered::with_saved(ids, set, runtime);
        self.rows += saved.rows;
        self.failed_rows += saved.failed_rows;
        self.output_schema = saved.output_schema;
        let names: HashSet<String> = unread.iter().map(Source::name).collect();
        sources.retain(|source| !names.contains(&source.name()));
        for source in &unread {
            match source {
                Source::Task(name) => self.add(snapshot, name),
                Source::Merged(merged) => merged.task_names().for_each(|name| self.add(snapshot, &name)),
            }
        }
        self.unread = unread;
    }

    /// Takes in what a record says, its IDs having been gathered.
    fn count(&mut self, name: &str, brief: Brief) {
        self.rows += brief.rows;
        if brief.rows > 0 {
            self.rows_of.insert(name.to_owned(), brief.rows);
        }
        self.id_column.get_or_insert(brief.id_column);
        if let Some(facts) = brief.facts {
            self.failed_rows += facts.failed_rows;
            self.data_files.extend(facts.data_files);
            if self.output_schema.is_none() {
                self.output_schema = facts.output_schema;
            }
        }
    }

    /// Counts a record none of whose IDs is there yet.
    pub(super) async fn count_new(&mut self, runtime: &dyn Runtime, name: &str, record: Record) -> Result<()> {
        if let Some(ids) = &record.ids {
            self.ids.insert(runtime, ids).await?;
        }
        self.count(name, Brief::of(record));
        Ok(())
    }
}

/// What is kept of a record: everything but its IDs.
#[derive(Debug)]
struct Brief {
    rows: u64,
    id_column: String,
    facts: Option<RecordFacts>,
}

impl Brief {
    fn of(record: Record) -> Self {
        let rows = record.ids.as_ref().map_or(0, IdColumn::len) as u64;
        Self { rows, id_column: record.id_column, facts: record.facts }
    }
}

impl From<Read> for Brief {
    fn from(read: Read) -> Self {
        Self { rows: read.rows, id_column: read.id_column, facts: read.facts }
    }
}

/// How committed records are read.
#[derive(Debug, Clone, Copy)]
struct Reading<'a> {
    checkpoint: &'a Checkpoint,
    snapshot: &'a Snapshot,
    id_class: Option<&'a str>,
    row_hash: bool,
    elsewhere: Option<&'a ReadElsewhere>,
}

/// A committed record after its IDs were gathered.
#[derive(Debug)]
enum Taken {
    Whole(Brief),
    Damaged(Damage),
    Missing,
}

/// Which IDs records must hold, and how they are gathered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wants<'a> {
    /// The job whose IDs they are; where it is not given, what was recorded says so.
    pub(crate) job: Option<&'a Fingerprint>,
    /// How their set is built, but for what the job says.
    pub(crate) ids: IdSetOptions,
    /// Every record is read, though a saved set may have its IDs.
    pub(crate) reread: bool,
    /// Who may read them.
    pub(crate) elsewhere: Option<&'a ReadElsewhere>,
}

/// Decides what counts of everything before the open attempt.
///
/// The job in the snapshot tells our own tasks from others'. A damaged committed record is reported in the plan,
/// not an error here.
///
/// # Errors
/// `Storage`, and `BadData` from data files that cannot be read for lack of a reader.
pub(crate) async fn plan(
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    wants: Wants<'_>,
    output: Option<(&StorageRef, &OutputView, &dyn DataReader)>,
) -> Result<Plan> {
    let storage = &checkpoint.storage;
    let runtime = checkpoint.runtime.as_ref();
    let job = wants.job.or(snapshot.fingerprint.as_ref());
    let id_column = job.map(|f| f.id_column.clone());
    let id_class = job.and_then(|f| f.known_class()).map(str::to_owned);
    let row_hash = job.is_some_and(|f| f.row_hash);
    let ids = IdSetOptions { row_hash, ..wants.ids };
    let elsewhere = wants.elsewhere.filter(|_| !wants.reread);
    let mut plan = Plan {
        void: snapshot.closed.void.iter().cloned().chain(snapshot.too_late().map(str::to_owned)).collect(),
        id_column: id_column.clone(),
        ids: Gathered::new(ids.clone(), runtime),
        ..Plan::default()
    };

    let mut names = snapshot.counting();
    let mut sources = snapshot.sources();
    if !wants.reread {
        match restore(checkpoint, snapshot, &sources, id_class.as_deref(), &ids).await? {
            Some(restored) => plan.start_from(snapshot, restored, &mut sources, ids, runtime),
            None => plan.saved_is_useless = snapshot.closed.saved.is_some(),
        }
    }
    // A committed record that a listing does not show yet is read by the name of its pending twin.
    let known: HashSet<&str> = names.iter().map(String::as_str).collect();
    let open = snapshot.open_pending().map(|(task, _)| task.to_string());
    let twins: Vec<String> = open.filter(|name| !known.contains(name.as_str())).collect();
    for twin in those_committed(storage, twins).await? {
        sources.push(Source::Task(twin.clone()));
        names.push(twin);
    }
    let newcomers = newcomers(storage, snapshot, &names, &plan.void).await?;
    let counted: BTreeSet<String> = names.iter().chain(&newcomers).cloned().collect();
    let how = Reading { checkpoint, snapshot, id_class: id_class.as_deref(), row_hash, elsewhere };
    plan.count_all(&how, sources).await?;
    let newcomers = newcomers.into_iter().map(Source::Task).collect();
    if snapshot.has_closed {
        plan.ids.freeze(runtime).await?;
        plan.count_late(checkpoint, snapshot, newcomers, id_class.as_deref()).await?;
    } else {
        plan.count_all(&how, newcomers).await?;
        plan.ids.freeze(runtime).await?;
    }
    plan.damaged.sort();

    let Some((output, view, reader)) = output else { return Ok(plan) };
    plan_own_pending(&mut plan, checkpoint, snapshot, view, &counted).await?;
    plan_ray_pending(&mut plan, checkpoint, snapshot, (output, view, reader), &counted).await?;
    plan_unrecorded(&mut plan, checkpoint, snapshot, view).await?;
    Ok(plan)
}

/// Those of the names that have a committed record, by asking for each.
pub(super) async fn those_committed(storage: &StorageRef, names: Vec<String>) -> Result<Vec<String>> {
    let asked = stream::iter(names).map(async |name: String| {
        let found = storage.stat_optional(&layout::committed(&name)?).await?;
        Ok::<_, Error>(found.map(|_| name))
    });
    asked.buffered(CONCURRENCY).try_filter_map(async |found| Ok(found)).try_collect().await
}

impl Plan {
    /// Loads committed records and counts them, whatever their IDs; what cannot be read is kept as damaged. They
    /// were settled before, or nothing was before them; `verify` finds the doubles.
    async fn count_all(&mut self, how: &Reading<'_>, mut sources: Vec<Source>) -> Result<()> {
        let Reading { checkpoint, snapshot, id_class, row_hash, elsewhere } = *how;
        let others = match (id_class, self.ids.class()) {
            (None, None) => {
                let wanted = Wanted::committed(sources.clone(), &snapshot.listing)?;
                first_class(checkpoint, &wanted, self.id_column.as_deref()).await?
            }
            (_, others) => others.cloned(),
        };
        if let Some(elsewhere) = elsewhere {
            let class = id_class.map(str::to_owned).or_else(|| others.as_ref().map(ToString::to_string));
            let hash_key = self.ids.hash_key();
            let asked = Asked { id_column: self.id_column.clone(), id_class: class, row_hash, hash_key };
            let (listing, builder) = (&snapshot.listing, self.ids.builder());
            for read in read_elsewhere(elsewhere, &asked, &mut sources, listing, &builder).await {
                self.add(snapshot, &read.name);
                self.count(&read.name.clone(), read.into());
            }
        }
        let wanted = Wanted::committed(sources, &snapshot.listing)?;
        let builder = self.ids.builder();
        let id_class = id_class.map(str::to_owned);
        let take = move |_: &str, loaded: Loaded, _: &Bytes| {
            let record = match loaded {
                Loaded::Whole(record) => record,
                Loaded::Damaged(damage) => return Ok(Taken::Damaged(damage)),
                Loaded::Missing => return Ok(Taken::Missing),
            };
            if let Some(problem) = class_problem(&record, id_class.as_deref()).or_else(|| differs(&record, &others)) {
                return Ok(Taken::Damaged(problem.into()));
            }
            if let Some(ids) = &record.ids {
                builder.push(ids)?;
            }
            Ok(Taken::Whole(Brief::of(*record)))
        };
        let mut taken = std::pin::pin!(load_records(checkpoint, wanted, self.id_column.clone(), take));
        while let Some(next) = taken.next().await {
            match next? {
                (name, Taken::Whole(brief)) => {
                    self.count(&name, brief);
                    self.add(snapshot, &name);
                }
                (name, Taken::Damaged(damage)) => self.damage(checkpoint, &name, &damage)?,
                (name, Taken::Missing) => self.missing(&name),
            }
        }
        Ok(())
    }

    /// Loads records that came after a closing and counts those that have no ID which is done already: a job that
    /// was closed went on, while we computed the same rows.
    async fn count_late(
        &mut self,
        checkpoint: &Checkpoint,
        snapshot: &Snapshot,
        sources: Vec<Source>,
        id_class: Option<&str>,
    ) -> Result<()> {
        let wanted = Wanted::committed(sources, &snapshot.listing)?;
        let whole = |_: &str, loaded: Loaded, _: &Bytes| Ok(loaded);
        let mut loaded = std::pin::pin!(load_records(checkpoint, wanted, self.id_column.clone(), whole));
        while let Some(next) = loaded.next().await {
            match next? {
                (name, Loaded::Whole(record)) => {
                    if !is_new(self, &record)? {
                        tracing::warn!(
                            record = name,
                            "a record that came late has IDs that are done already; it is void"
                        );
                        self.void.insert(name);
                    } else if let Some(problem) = class_problem(&record, id_class) {
                        self.damage(checkpoint, &name, &problem.into())?;
                    } else {
                        self.count_new(checkpoint.runtime.as_ref(), &name, *record).await?;
                        self.add(snapshot, &name);
                    }
                }
                (name, Loaded::Damaged(damage)) => self.damage(checkpoint, &name, &damage)?,
                (name, Loaded::Missing) => self.missing(&name),
            }
        }
        Ok(())
    }

    fn damage(&mut self, checkpoint: &Checkpoint, name: &str, damage: &Damage) -> Result<()> {
        damage.refuse_newer(&format!("{}/{name}{}", checkpoint.url(), layout::RECORD))?;
        self.damaged.push((format!("{name}{}", layout::RECORD), damage.to_string()));
        Ok(())
    }

    fn missing(&mut self, name: &str) {
        self.damaged.push((format!("{name}{}", layout::RECORD), "it is gone, though it counts".to_owned()));
    }

    /// Takes a name in as counting.
    pub(super) fn add(&mut self, snapshot: &Snapshot, name: &str) {
        match TaskName::parse(name).filter(|task| snapshot.job_id() == Some(&task.job)) {
            Some(task) => drop(self.tasks.entry(task.attempt).or_default().insert(task.number)),
            None => drop(self.records.insert(name.to_owned())),
        }
    }
}

/// What is wrong with a record whose IDs are of another class than those of other records.
fn differs(record: &Record, others: &Option<IdClass>) -> Option<String> {
    let (ids, others) = (record.ids.as_ref()?, others.as_ref()?);
    (ids.class() != others).then(|| format!("its IDs are {} and those of other records {others}", ids.class()))
}
