//! A merged record and its side file, written and read.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use bytes::Bytes;
use checkpoint_fs::{StorageExt, StorageRef};
use futures::future::try_join;
use serde::{Deserialize, Serialize};

use super::side::{self, TaskFacts};
use crate::error::{Error, Result};
use crate::id::IdColumn;
use crate::layout;
use crate::lengths::whole_of;
use crate::merged::{FORMAT, MergedRecord};
use crate::names::MergedName;
use crate::record::{self, Damage, Decoded, Record};
use crate::recovery::Loaded;

/// What a merged record says of itself in its footer. Its format keeps older programs from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MergedFacts {
    pub(super) format: u32,
    pub(super) merged: MergedName,
    pub(super) tasks: u64,
    pub(super) rows: u64,
    pub(super) write_token: String,
}

/// Encodes a merged record; its side file is encoded apart.
pub(super) fn encode(id_column: &str, ids: &IdColumn, facts: &MergedFacts) -> Result<Bytes> {
    record::encode_with(id_column, ids, facts)
}

/// A merged record and the facts beside it, as they are stored.
#[derive(Debug)]
pub(crate) struct MergedBytes {
    record: Bytes,
    facts: Bytes,
}

/// What a merged record holds.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(super) id_column: String,
    pub(super) data_type: DataType,
    /// All IDs, those of one task after those of the other; none where no task has any.
    pub(super) ids: Option<ArrayRef>,
    pub(super) tasks: Vec<TaskFacts>,
}

impl MergedBytes {
    /// Reads both. Two requests.
    ///
    /// # Errors
    /// `Storage`; damage, also where one of them is gone, is the inner answer.
    pub(crate) async fn read(storage: &StorageRef, merged: &MergedRecord) -> Result<std::result::Result<Self, Damage>> {
        let (record, facts) = (layout::committed(&merged.name.to_string())?, layout::merged_facts(&merged.name)?);
        let record = storage.read_optional(&record, whole_of(Some(merged.bytes)));
        let facts = storage.read_optional(&facts, whole_of(Some(merged.facts.bytes)));
        let (record, facts) = try_join(record, facts).await?;
        Ok(match (record, facts) {
            (Some(record), Some(facts)) => Ok(Self { record: record.bytes, facts: facts.bytes }),
            (None, _) => Err("it is gone, though it counts".to_owned().into()),
            (_, None) => Err("the facts beside it are gone".to_owned().into()),
        })
    }

    /// Decodes both, which must be exactly those that the closed list names.
    pub(crate) fn decode(self, merged: &MergedRecord, id_column: Option<&str>) -> std::result::Result<Whole, Damage> {
        let decoded = decode(self.record, merged, id_column)?;
        let tasks = decode_facts(self.facts, merged)?;
        // The keys go; each task makes its own.
        let ids = decoded.ids.map(|ids| ids.array().clone());
        Ok(Whole { id_column: decoded.id_column, data_type: decoded.data_type, ids, tasks })
    }
}

impl Whole {
    /// The records of its tasks, in order, cut out one by one.
    pub(crate) fn into_records(self) -> impl Iterator<Item = Result<(String, Loaded)>> {
        let Self { id_column, ids, tasks, .. } = self;
        let mut at = 0;
        tasks.into_iter().map(move |task| {
            let rows = usize::try_from(task.rows).unwrap_or(usize::MAX);
            let loaded = cut(&task, &id_column, ids.as_ref(), at, rows);
            at += rows;
            Ok((task.task, loaded?))
        })
    }
}

/// The facts of the tasks that a merged record covers, without its IDs. One request.
///
/// # Errors
/// `Storage`; damage is the inner answer.
pub(super) async fn load_facts(
    storage: &StorageRef,
    merged: &MergedRecord,
) -> Result<std::result::Result<Vec<TaskFacts>, Damage>> {
    let read = storage.read_optional(&layout::merged_facts(&merged.name)?, whole_of(Some(merged.facts.bytes))).await?;
    Ok(match read {
        Some(read) => decode_facts(read.bytes, merged),
        None => Err("the facts beside it are gone".to_owned().into()),
    })
}

/// A record's IDs and the facts of its task, to be merged.
pub(super) fn decode_task(name: &str, bytes: Bytes, id_column: Option<&str>) -> std::result::Result<Whole, Damage> {
    let facts = record::spelled_facts(&bytes)?;
    let decoded = record::decode_task_named(name, bytes, id_column)?;
    let rows = decoded.ids.as_ref().map_or(0, IdColumn::len) as u64;
    let tasks = vec![TaskFacts::new(name.to_owned(), rows, facts.as_deref())?];
    let ids = decoded.ids.map(|ids| ids.array().clone());
    Ok(Whole { id_column: decoded.id_column, data_type: decoded.data_type, ids, tasks })
}

fn decode_facts(bytes: Bytes, merged: &MergedRecord) -> std::result::Result<Vec<TaskFacts>, Damage> {
    let tasks = side::decode(bytes, &merged.facts, &merged.name, &merged.write_token)?;
    let rows: u64 = tasks.iter().map(|task| task.rows).fold(0, u64::saturating_add);
    let known = tasks.len() as u64 == merged.len() && tasks.iter().all(|task| merged.covers(&task.task));
    if !known || rows != merged.rows {
        return Err("the facts beside it are of other tasks than the closed list names".to_owned().into());
    }
    Ok(tasks)
}

fn decode(
    bytes: Bytes,
    merged: &MergedRecord,
    id_column: Option<&str>,
) -> std::result::Result<Decoded<MergedFacts>, Damage> {
    let decoded: Decoded<MergedFacts> = record::decode_with(bytes, id_column, FORMAT)?;
    let Some(facts) = &decoded.facts else { return Err("its facts are gone".to_owned().into()) };
    if facts.merged != merged.name || facts.write_token != merged.write_token {
        return Err("it is not the one that the closed list names".to_owned().into());
    }
    let count = decoded.ids.as_ref().map_or(0, IdColumn::len) as u64;
    if count != merged.rows || facts.rows != count || facts.tasks != merged.len() {
        return Err(format!("it holds {count} IDs and should hold {}", merged.rows).into());
    }
    Ok(decoded)
}

/// The record of one task.
fn cut(task: &TaskFacts, column: &str, ids: Option<&ArrayRef>, at: usize, rows: usize) -> Result<Loaded> {
    let facts = match task.whole() {
        Ok(facts) => facts,
        Err(damage) => return Ok(Loaded::Damaged(damage)),
    };
    let ids = match ids.filter(|_| rows > 0) {
        Some(ids) if at + rows <= ids.len() => {
            let ids = IdColumn::try_new(&ids.slice(at, rows))?;
            Some(ids.map_err(|problem| Error::bad_data(format!("{problem} task={}", task.task)))?)
        }
        _ => None,
    };
    if let Some(facts) = facts.as_ref().filter(|facts| facts.input_rows != task.rows) {
        let what = format!("task {} has {rows} IDs in it and says {}", task.task, facts.input_rows);
        return Ok(Loaded::Damaged(what.into()));
    }
    Ok(Loaded::Whole(Box::new(Record { facts, id_column: column.to_owned(), ids })))
}
