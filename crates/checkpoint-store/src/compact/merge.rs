//! Merging: reading small records, and writing them together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::compute::concat;
use bytes::Bytes;
use checkpoint_fs::{ObjectPath, StorageExt, StorageRef, WriteOutcome};
use futures::future::try_join_all;

use super::choose::{Part, choose, sizes};
use super::file::{self, MergedBytes, MergedFacts, Whole, decode_task};
use super::options::{MergeOptions, MergePolicy};
use super::side::{self, TaskFacts};
use crate::checkpoint::{Checkpoint, create};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{IdClass, IdColumn};
use crate::layout;
use crate::lengths::{checked, whole};
use crate::merged::{FORMAT, MergedRecord, SideFile};
use crate::names::{JobId, MergedName, TaskName};
use crate::record::Damage;
use crate::recovery::Plan;
use crate::runtime::blocking;
use crate::snapshot::{Snapshot, Source};

/// Records that are read at a time, and their bytes.
const BATCH: usize = 32;
const BATCH_BYTES: u64 = 64 << 20;

/// What a checkpoint's records were before a closing and are after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Record files.
    pub(crate) records: u64,
    /// Their bytes, and those of the facts beside them.
    pub(crate) bytes: u64,
}

/// What a merging came to.
#[derive(Debug, Default)]
pub(crate) struct Merging {
    /// The merged records that the next closed list names.
    pub(crate) merged: Vec<MergedRecord>,
    /// Whether any was written.
    pub(crate) wrote: bool,
    pub(crate) before: Sizes,
    pub(crate) after: Sizes,
}

/// The names that an attempt gives to merged records; none is used twice.
#[derive(Debug)]
pub(crate) struct MergedNames {
    attempt: u64,
    next: u64,
}

impl MergedNames {
    pub(crate) fn of(attempt: u64) -> Self {
        Self { attempt, next: 1 }
    }

    pub(super) fn take(&mut self, job: &JobId) -> MergedName {
        let name = MergedName { job: job.clone(), attempt: self.attempt, number: self.next };
        self.next += 1;
        name
    }
}

/// Writes merged records for what a plan counts, where the policy says so. Nothing counts by them until a closed
/// list names them. Memory: the IDs of one merged record for each type of ID, twice.
///
/// # Errors
/// `Conflict` when the lease is lost; `BadData` when a record is not what it was when the plan was made;
/// `OutcomeUnknown`; `Storage`.
pub(crate) async fn merge(
    c: &Checkpoint,
    snapshot: &Snapshot,
    plan: &Plan,
    policy: &MergePolicy,
    names: &mut MergedNames,
) -> Result<Merging> {
    let before = measure(snapshot, plan, &snapshot.closed.merged);
    // Without a job nothing tells its names from others'.
    let Some(job) = snapshot.job_id() else {
        return Ok(Merging { merged: Vec::new(), wrote: false, before, after: before });
    };
    let choice = choose(snapshot, plan, policy);
    let mut merger = Merger {
        c,
        plan,
        job,
        shape: policy.shape(),
        names,
        groups: BTreeMap::new(),
        merged: choice.kept,
        wrote: false,
    };
    for batch in batches(choice.parts) {
        let pieces = try_join_all(batch.into_iter().map(|part| merger.read(part))).await?;
        for piece in pieces {
            Box::pin(merger.add(piece)).await?;
        }
    }
    for group in std::mem::take(&mut merger.groups).into_values() {
        Box::pin(merger.flush(group)).await?;
    }
    let wrote = merger.wrote;
    let mut merged = merger.merged;
    merged.sort_by(|a, b| a.name.cmp(&b.name));
    let after = measure(snapshot, plan, &merged);
    Ok(Merging { merged, wrote, before, after })
}

/// Merged parts alone, for they are large.
fn batches(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut batches: Vec<Vec<Part>> = Vec::new();
    let (mut bytes, mut open) = (0, false);
    for part in parts {
        let alone = matches!(part.source, Source::Merged(_));
        bytes += part.bytes;
        match batches.last_mut().filter(|last| open && !alone && last.len() < BATCH && bytes <= BATCH_BYTES) {
            Some(last) => last.push(part),
            None => {
                bytes = part.bytes;
                batches.push(vec![part]);
            }
        }
        open = !alone;
    }
    batches
}

fn measure(snapshot: &Snapshot, plan: &Plan, merged: &[MergedRecord]) -> Sizes {
    let covered = crate::merged::Covered::by(merged);
    let listed = sizes(snapshot);
    let rolled = |name: &str| plan.roll_forward.iter().find(|task| task.name == name).map(|t| t.bytes.len() as u64);
    let mut sizes = Sizes::default();
    for name in plan.counting(snapshot.job_id()).filter(|name| !covered.name(name, snapshot.job_id())) {
        sizes.records += 1;
        sizes.bytes += listed.get(&name).copied().or_else(|| rolled(&name)).unwrap_or(0);
    }
    for one in merged {
        sizes.records += 1;
        sizes.bytes += one.bytes + one.facts.bytes;
    }
    sizes
}

/// What a part holds that counts.
#[derive(Debug)]
struct Piece {
    part: Part,
    id_column: String,
    ids: ArrayRef,
    tasks: Vec<TaskFacts>,
}

/// Pieces of one type that become a merged record.
#[derive(Debug, Default)]
struct Group {
    pieces: Vec<Piece>,
    rows: u64,
    bytes: u64,
    tasks: u64,
}

struct Merger<'a> {
    c: &'a Checkpoint,
    plan: &'a Plan,
    job: &'a JobId,
    shape: MergeOptions,
    names: &'a mut MergedNames,
    /// By the type of the IDs, as it is spelled.
    groups: BTreeMap<String, Group>,
    merged: Vec<MergedRecord>,
    wrote: bool,
}

impl Merger<'_> {
    async fn read(&self, part: Part) -> Result<Piece> {
        let storage = &self.c.storage;
        let column = self.plan.id_column.clone();
        let gone = || Damage::from("it is gone, though it counts".to_owned());
        let whole = match &part.source {
            Source::Task(name) => match storage.read_optional(&layout::committed(name)?, whole()).await? {
                None => Err(gone()),
                Some(read) => {
                    let name = name.clone();
                    let decode = move || Ok(decode_task(&name, read.bytes, column.as_deref()));
                    blocking(self.c.runtime.as_ref(), decode).await?
                }
            },
            Source::Merged(merged) => match MergedBytes::read(storage, merged).await? {
                Err(damage) => Err(damage),
                Ok(bytes) => {
                    let merged = merged.clone();
                    let decode = move || Ok(bytes.decode(&merged, column.as_deref()));
                    blocking(self.c.runtime.as_ref(), decode).await?
                }
            },
        };
        let Whole { id_column, data_type, ids, tasks } =
            whole.map_err(|damage| self.c.damaged_record(&part.source.name(), &damage))?;
        let ids = ids.unwrap_or_else(|| new_empty_array(&data_type));
        let (ids, tasks) = if part.forced { self.what_counts(ids, tasks)? } else { (ids, tasks) };
        Ok(Piece { part, id_column, ids, tasks })
    }

    /// Leaves out the tasks that do not count any more.
    fn what_counts(&self, ids: ArrayRef, tasks: Vec<TaskFacts>) -> Result<(ArrayRef, Vec<TaskFacts>)> {
        let (mut kept, mut slices, mut at) = (Vec::new(), vec![ids.slice(0, 0)], 0);
        for task in tasks {
            let rows = usize::try_from(task.rows).unwrap_or(usize::MAX);
            if self.plan.holds(&task.task, Some(self.job)) {
                slices.push(ids.slice(at, rows));
                kept.push(task);
            }
            at += rows;
        }
        Ok((join(&slices)?, kept))
    }

    async fn add(&mut self, piece: Piece) -> Result<()> {
        // A record without rows whose column has no type that an ID can have.
        if IdClass::of(piece.ids.data_type()).is_err() {
            return Ok(());
        }
        let key = piece.ids.data_type().to_string();
        let (rows, tasks) = (piece.ids.len() as u64, piece.tasks.len() as u64);
        let bytes = piece.ids.to_data().get_slice_memory_size().unwrap_or_default() as u64;
        let fits = |group: &Group| {
            group.rows + rows <= self.shape.max_rows
                && group.bytes + bytes <= self.shape.max_bytes
                && group.tasks + tasks <= self.shape.max_tasks
        };
        if self.groups.get(&key).is_some_and(|group| !fits(group))
            && let Some(full) = self.groups.remove(&key)
        {
            self.flush(full).await?;
        }
        let group = self.groups.entry(key).or_default();
        group.rows += rows;
        group.bytes += bytes;
        group.tasks += tasks;
        group.pieces.push(piece);
        Ok(())
    }

    /// Writes a group, unless it is one file that may stay as it is.
    async fn flush(&mut self, group: Group) -> Result<()> {
        if let [piece] = group.pieces.as_slice()
            && !piece.part.forced
        {
            if let Source::Merged(merged) = &piece.part.source {
                self.merged.push((**merged).clone());
            }
            return Ok(());
        }
        let Some(id_column) = group.pieces.first().map(|piece| piece.id_column.clone()) else { return Ok(()) };
        let name = self.names.take(self.job);
        let mut arrays = Vec::with_capacity(group.pieces.len());
        let mut tasks = Vec::new();
        for piece in group.pieces {
            arrays.push(piece.ids);
            tasks.extend(piece.tasks);
        }
        let runtime = &self.c.runtime;
        let write_token = format!("{:016x}{:016x}", runtime.random(), runtime.random());
        let encode = {
            let (name, write_token) = (name.clone(), write_token.clone());
            move || encode(&id_column, &arrays, tasks, &name, &write_token)
        };
        let Encoded { record, beside, side, rows, tasks } = blocking(runtime.as_ref(), encode).await?;
        let what = format!("the merged record {name}");
        let (record, beside) = (checked(record, &what)?, checked(beside, &what)?);
        let size = record.len() as u64;
        create_new(&self.c.storage, &layout::merged_facts(&name)?, beside).await?;
        create_new(&self.c.storage, &layout::committed(&name.to_string())?, record).await?;
        let (mut own, mut records) = (BTreeMap::<u64, BTreeSet<u64>>::new(), BTreeSet::new());
        for task in tasks {
            match TaskName::parse(&task.task).filter(|name| name.job == *self.job) {
                Some(name) => drop(own.entry(name.attempt).or_default().insert(name.number)),
                None => drop(records.insert(task.task)),
            }
        }
        self.wrote = true;
        self.merged.push(MergedRecord {
            name,
            write_token,
            rows,
            bytes: size,
            facts: side,
            tasks: own.into_iter().map(|(attempt, numbers)| (attempt, numbers.into_iter().collect())).collect(),
            records,
        });
        Ok(())
    }
}

/// A merged record and its side file, to be written.
struct Encoded {
    record: Bytes,
    beside: Bytes,
    side: SideFile,
    rows: u64,
    tasks: Vec<TaskFacts>,
}

fn encode(
    id_column: &str,
    arrays: &[ArrayRef],
    tasks: Vec<TaskFacts>,
    name: &MergedName,
    write_token: &str,
) -> Result<Encoded> {
    let ids = IdColumn::checked(&join(arrays)?)?;
    let rows = ids.len() as u64;
    let facts = MergedFacts {
        format: FORMAT,
        merged: name.clone(),
        tasks: tasks.len() as u64,
        rows,
        write_token: write_token.to_owned(),
    };
    let record = file::encode(id_column, &ids, &facts)?;
    let (beside, side) = side::encode(name, write_token, &tasks)?;
    Ok(Encoded { record, beside, side, rows, tasks })
}

fn join(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let arrays: Vec<&dyn Array> = arrays.iter().map(Arc::as_ref).collect();
    concat(&arrays).map_err(|e| Error::bad_data(format!("records cannot be merged: {e}")))
}

/// Writes a file under a name that nothing else has.
pub(super) async fn create_new(storage: &StorageRef, path: &ObjectPath, bytes: Bytes) -> Result<()> {
    match create(storage, path, bytes).await? {
        WriteOutcome::Done(_) => Ok(()),
        WriteOutcome::AlreadyExists => Err(Error::conflict(format!(
            "a file of another is there under the number of this attempt: url={}",
            storage.url_of(path)
        ))
        .with_hint("nothing was deleted; run the same command again")),
        WriteOutcome::Unknown(error) => Err(Error::new(
            ErrorKind::OutcomeUnknown,
            format!("whether a merged record was written cannot be found out: {error}"),
        )
        .with_hint("nothing was deleted; run the same command again")
        .with_source(error)),
    }
}
