//! Deciding what counts: reads only, writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::ArrayRef;
use bytes::Bytes;
use checkpoint_fs::{ObjectPath, ReadOptions, StorageExt, StorageRef};
use futures::stream::StreamExt;

use super::load::{Loaded, load_records};
use crate::checkpoint::{Checkpoint, FORMAT, Snapshot};
use crate::closed::ClosedList;
use crate::complete::OutputView;
use crate::data::DataReader;
use crate::error::{Error, Result};
use crate::id::{ExactIdSet, IdColumn, IdSet};
use crate::layout::{self, RecordName};
use crate::names::{TaskName, owner};
use crate::record::{self, DataFile, Record, RecordFacts};

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
    /// Whether anything counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.values().all(BTreeSet::is_empty) && self.records.is_empty()
    }

    /// An error that names the first damaged record.
    pub(crate) fn refuse_damage(&self, url: &str) -> Result<()> {
        let Some((name, what)) = self.damaged.first() else { return Ok(()) };
        let more = match self.damaged.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        Err(Error::bad_data(format!("a committed record is damaged: {what}: record={url}/{name}{more}")).with_hint(
            format!("`ckpt recover {url} --output URL --repair` sets it aside and lets its rows be computed again"),
        ))
    }

    /// The closed list that says so.
    pub(crate) fn closed_list(&self, attempt: u64, by: u64) -> ClosedList {
        ClosedList {
            format: FORMAT,
            attempt,
            by,
            rows: self.rows,
            tasks: self.tasks.iter().map(|(attempt, numbers)| (*attempt, numbers.iter().copied().collect())).collect(),
            records: self.records.clone(),
            void: self.void.difference(&self.records).cloned().collect(),
        }
    }

    fn count(&mut self, name: &str, record: &Record) -> Result<Option<String>> {
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
/// `job` in the snapshot tells our own tasks from others'; `id_column` and `id_class` are what records must
/// hold when they are known. A damaged committed record is reported in the plan, not an error here.
///
/// # Errors
/// `Storage`, and `BadData` from data files that cannot be read for lack of a reader.
pub(crate) async fn plan(
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    output: Option<(&StorageRef, &OutputView, &dyn DataReader)>,
) -> Result<Plan> {
    let storage = &checkpoint.storage;
    let id_column = snapshot.fingerprint.as_ref().map(|f| f.id_column.clone());
    let id_class = snapshot.fingerprint.as_ref().map(|f| f.id_class.clone());
    let mut plan = Plan { void: snapshot.closed.void.clone(), id_column: id_column.clone(), ..Plan::default() };

    let mut names = snapshot.counting();
    // Records of others appear without an attempt: those present now are taken in with this closing.
    for (name, _) in &snapshot.listing.committed {
        let stem = name.stem();
        let others = match name {
            RecordName::Foreign(_) => true,
            RecordName::Own(task) => snapshot.job_id() != Some(&task.job),
            RecordName::RayPending(_) => false,
        };
        if others && !plan.void.contains(&stem) && !names.contains(&stem) {
            names.push(stem);
        }
    }
    // A committed record that a listing does not show yet is read by the name of its pending twin.
    for (task, _) in &snapshot.listing.pending {
        let name = task.to_string();
        if snapshot.job_id() == Some(&task.job)
            && task.attempt > snapshot.closed.attempt
            && !names.contains(&name)
            && storage.stat_optional(&layout::committed(&name)?).await?.is_some()
        {
            names.push(name);
        }
    }
    for (stem, _) in &snapshot.listing.ray_pending {
        if !plan.void.contains(stem)
            && !names.contains(stem)
            && storage.stat_optional(&layout::committed(stem)?).await?.is_some()
        {
            names.push(stem.clone());
        }
    }

    let counted: BTreeSet<String> = names.iter().cloned().collect();
    let mut loaded = std::pin::pin!(load_records(storage, names, id_column.clone()));
    while let Some(next) = loaded.next().await {
        let (name, loaded) = next?;
        let damage = match &loaded {
            Loaded::Whole(record) => match class_problem(record, id_class.as_deref()) {
                None => plan.count(&name, record)?,
                problem => problem,
            },
            Loaded::Damaged(damage) => Some(damage.clone()),
            Loaded::Missing => Some("it is gone, though a closed list counts it".to_owned()),
        };
        match damage {
            Some(damage) => plan.damaged.push((format!("{name}{}", layout::RECORD), damage)),
            None => plan.add(snapshot, &name),
        }
    }
    plan.damaged.sort();

    let Some((output, view, reader)) = output else { return Ok(plan) };
    plan_own_pending(&mut plan, storage, snapshot, view, &counted).await?;
    plan_ray_pending(&mut plan, storage, snapshot, (output, view, reader), &counted).await?;
    Ok(plan)
}

fn class_problem(record: &Record, wanted: Option<&str>) -> Option<String> {
    let (ids, wanted) = (record.ids.as_ref()?, wanted?);
    let class = ids.class().to_string();
    (class != wanted).then(|| format!("its IDs are {class} and the job's are {wanted}"))
}

impl Plan {
    /// Takes a name in as counting.
    fn add(&mut self, snapshot: &Snapshot, name: &str) {
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
        let Some(read) = storage.read_optional(&layout::pending(&name)?, ReadOptions::new()).await? else { continue };
        let column = plan.id_column.clone();
        let Ok(record) = record::decode(read.bytes.clone(), column.as_deref()) else { continue };
        let whole = |facts: &RecordFacts| {
            facts.task == name && facts.data_files.iter().all(|f| view.files.get(&f.name) == Some(&f.bytes))
        };
        if record.facts.as_ref().is_some_and(whole) && is_new(plan, &record)? {
            plan.count(&name, &record)?;
            plan.add(snapshot, &name);
            plan.roll_forward.push(RollForward { name, bytes: read.bytes });
        }
    }
    Ok(())
}

/// Ray's pending records: complete when the IDs in the task's data files are the record's, as multisets.
async fn plan_ray_pending(
    plan: &mut Plan,
    storage: &StorageRef,
    snapshot: &Snapshot,
    (output, view, reader): (&StorageRef, &OutputView, &dyn DataReader),
    counted: &BTreeSet<String>,
) -> Result<()> {
    let known: BTreeSet<&str> = counted
        .iter()
        .map(String::as_str)
        .chain(snapshot.listing.ray_pending.iter().map(|(stem, _)| stem.as_str()))
        .chain(snapshot.closed.void.iter().map(String::as_str))
        .collect();
    for (stem, _) in &snapshot.listing.ray_pending {
        if counted.contains(stem) || plan.void.contains(stem) {
            continue;
        }
        let column = plan.id_column.clone();
        let read = storage.read_optional(&layout::ray_pending(stem)?, ReadOptions::new()).await?;
        let record = read.as_ref().and_then(|r| record::decode(r.bytes.clone(), column.as_deref()).ok());
        let complete = match &record {
            Some(record) if is_new(plan, record)? => {
                let files: Vec<ObjectPath> = view
                    .files
                    .keys()
                    .filter(|file| owner(file, |s| known.get(s).copied()) == Some(stem))
                    .map(|file| ObjectPath::parse(file.as_str()))
                    .collect::<checkpoint_fs::Result<_>>()?;
                data_matches(output, reader, &files, record).await?
            }
            _ => false,
        };
        match (complete, record, read) {
            (true, Some(record), Some(read)) => {
                plan.count(stem, &record)?;
                plan.add(snapshot, stem);
                plan.roll_forward.push(RollForward { name: stem.clone(), bytes: read.bytes });
            }
            _ => drop(plan.void.insert(stem.clone())),
        }
    }
    Ok(())
}

/// Whether a pending record is of the job's type and none of its IDs is committed elsewhere.
fn is_new(plan: &Plan, record: &Record) -> Result<bool> {
    let Some(ids) = &record.ids else { return Ok(true) };
    if plan.ids.class().is_some_and(|class| class != ids.class()) {
        return Ok(false);
    }
    Ok(plan.ids.first_common(ids)?.is_none())
}

/// Whether the data files hold exactly the record's IDs. A file that cannot be read proves nothing.
async fn data_matches(
    output: &StorageRef,
    reader: &dyn DataReader,
    files: &[ObjectPath],
    record: &Record,
) -> Result<bool> {
    let mut found: Vec<IdColumn> = Vec::new();
    for file in files {
        let mut pieces = match reader.ids(output, file, &record.id_field()).await {
            Ok(pieces) => pieces,
            Err(error) if error.kind() == crate::ErrorKind::Storage => return Err(error),
            Err(_) => return Ok(false),
        };
        while let Some(piece) = pieces.next().await {
            let piece: ArrayRef = match piece {
                Ok(piece) => piece,
                Err(error) if error.kind() == crate::ErrorKind::Storage => return Err(error),
                Err(_) => return Ok(false),
            };
            match IdColumn::try_new(&piece) {
                Ok(Ok(ids)) => found.push(ids),
                _ => return Ok(false),
            }
        }
    }
    if found.iter().any(|piece| record.ids.as_ref().is_none_or(|ids| ids.class() != piece.class())) {
        return Ok(false);
    }
    let sorted = |columns: &mut dyn Iterator<Item = &IdColumn>| {
        let mut keys: Vec<Vec<u8>> = columns.flat_map(IdColumn::canonical_keys).collect();
        keys.sort_unstable();
        keys
    };
    Ok(sorted(&mut record.ids.iter()) == sorted(&mut found.iter()))
}
