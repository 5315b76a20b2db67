//! Merged records, as closed lists name them: one file with the IDs of many tasks.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::closed::TaskRanges;
use crate::layout::RecordName;
use crate::names::{JobId, MergedName, TaskName};

/// The newest format of merged records that this code reads, and the one that it writes.
pub(crate) const FORMAT: u32 = 2;

/// A merged record that a closed list names: where the IDs of many tasks are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRecord {
    /// Its name; that of its file without `.parquet`.
    pub name: MergedName,
    /// Carried by this write alone; in the record and in its side file.
    pub write_token: String,
    /// Its IDs.
    pub rows: u64,
    /// The size of its file.
    pub bytes: u64,
    /// The file of the tasks' facts.
    pub facts: SideFile,
    /// Our tasks that it covers, by attempt.
    pub tasks: BTreeMap<u64, TaskRanges>,
    /// The others' records that it covers, without `.parquet`.
    pub records: BTreeSet<String>,
}

/// The file with the facts of the tasks that a merged record covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideFile {
    /// Its size.
    pub bytes: u64,
    /// The CRC-32 of all its bytes, as 8 hex digits.
    pub crc32: String,
}

/// A saved set of the IDs of all records that counted when a list was written. It is a cache: whoever finds that
/// it, or one of its records, is not exactly what is said here reads the records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedIds {
    /// Its name, made as those of merged records are; that of its file without `.ids`.
    pub name: MergedName,
    /// The size of its file.
    pub bytes: u64,
    /// The last eight bytes of its file, the checksum of the others, in hex.
    pub checksum: String,
    /// Rows of its records.
    pub rows: u64,
    /// Rows that were set aside in their tasks.
    pub failed_rows: u64,
    /// The schema of the data so far, as records spell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<String>,
    /// The records whose IDs are in it.
    pub records: Vec<SavedRecord>,
}

/// A record whose IDs are in a saved set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRecord {
    /// Its name without `.parquet`.
    pub name: String,
    /// The size of its file.
    pub bytes: u64,
    /// Its entity tag, where a listing showed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// That of the facts beside a merged record, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts_etag: Option<String>,
}

impl MergedRecord {
    /// How many tasks it covers.
    pub fn len(&self) -> u64 {
        self.tasks.values().map(TaskRanges::len).fold(self.records.len() as u64, u64::saturating_add)
    }

    /// Whether it covers none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.tasks.values().all(TaskRanges::is_empty)
    }

    /// Whether it covers the record of this name (without `.parquet`).
    pub(crate) fn covers(&self, name: &str) -> bool {
        match TaskName::parse(name).filter(|task| task.job == self.name.job) {
            Some(task) => self.tasks.get(&task.attempt).is_some_and(|numbers| numbers.contains(task.number)),
            None => self.records.contains(name),
        }
    }

    /// Whether both cover a task.
    pub(crate) fn shares_tasks_with(&self, other: &Self) -> bool {
        let shared = |(attempt, numbers): (&u64, &TaskRanges)| {
            self.tasks.get(attempt).is_some_and(|own| numbers.iter().any(|number| own.contains(number)))
        };
        other.tasks.iter().any(shared) || !self.records.is_disjoint(&other.records)
    }

    /// The names of the tasks that it covers.
    pub(crate) fn task_names(&self) -> impl Iterator<Item = String> + '_ {
        names_of(&self.name.job, &self.tasks).chain(self.records.iter().cloned())
    }
}

/// The names of tasks of ours.
pub(crate) fn names_of(job: &JobId, tasks: &BTreeMap<u64, TaskRanges>) -> impl Iterator<Item = String> {
    tasks.iter().flat_map(move |(attempt, numbers)| {
        numbers.iter().map(|number| TaskName { job: job.clone(), attempt: *attempt, number }.to_string())
    })
}

/// The tasks whose IDs are in merged records: record files of their own, where they are still there or come
/// late, are litter.
#[derive(Debug, Default)]
pub(crate) struct Covered<'a> {
    tasks: BTreeMap<u64, TaskRanges>,
    records: BTreeSet<&'a str>,
}

impl<'a> Covered<'a> {
    pub(crate) fn by(merged: &'a [MergedRecord]) -> Self {
        let mut numbers: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for (attempt, ranges) in merged.iter().flat_map(|one| &one.tasks) {
            numbers.entry(*attempt).or_default().extend(Vec::<(u64, u64)>::from(ranges.clone()));
        }
        Self {
            tasks: numbers.into_iter().map(|(attempt, ranges)| (attempt, TaskRanges::union(ranges))).collect(),
            records: merged.iter().flat_map(|one| one.records.iter().map(String::as_str)).collect(),
        }
    }

    /// Whether it covers a task of our job.
    pub(crate) fn task(&self, task: &TaskName) -> bool {
        self.tasks.get(&task.attempt).is_some_and(|numbers| numbers.contains(task.number))
    }

    /// Whether it covers a task of the job, or another's, by its name.
    pub(crate) fn name(&self, name: &str, job: Option<&JobId>) -> bool {
        match TaskName::parse(name).filter(|task| job == Some(&task.job)) {
            Some(task) => self.task(&task),
            None => self.records.contains(name),
        }
    }

    /// Whether it covers a file.
    pub(crate) fn file(&self, name: &RecordName, job: Option<&JobId>) -> bool {
        match name {
            RecordName::Own(task) => job == Some(&task.job) && self.task(task),
            RecordName::Foreign(stem) => self.records.contains(stem.as_str()),
            RecordName::Merged(_) | RecordName::RayPending(_) => false,
        }
    }
}
