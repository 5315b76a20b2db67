//! Task names and records, read by rules of our own: nothing here calls the product.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int64Type, UInt64Type};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::job::Job;

/// A task's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task {
    pub(crate) job: String,
    pub(crate) attempt: u64,
    pub(crate) number: u64,
}

impl Task {
    /// The task that a file name begins with, `<job>-<attempt>-<number>`.
    pub(crate) fn of(file: &str) -> Option<Self> {
        let mut parts = file.splitn(3, '-');
        let (job, attempt, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number = rest[..digits].parse().ok()?;
        (job.len() == 16).then_some(Self { job: job.to_owned(), attempt: attempt.parse().ok()?, number })
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{:06}", self.job, self.attempt, self.number)
    }
}

/// What a record says of its task.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The task's name.
    pub(crate) task: String,
    /// Its data files, with their sizes.
    pub(crate) data_files: BTreeMap<String, u64>,
}

/// Reads the facts in a record's metadata.
pub(crate) fn facts(record: Bytes) -> Result<Facts> {
    let reader = SerializedFileReader::new(record)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata().context("no metadata")?;
    let facts = metadata.iter().find(|entry| entry.key == "checkpoint.record").context("no facts")?;
    parse(facts.value.as_deref().context("no value")?)
}

fn parse(facts: &str) -> Result<Facts> {
    let facts: serde_json::Value = serde_json::from_str(facts)?;
    let files = facts["data_files"].as_array().context("no data files")?;
    let file = |file: &serde_json::Value| {
        Ok((file["name"].as_str().context("no name")?.to_owned(), file["bytes"].as_u64().context("no size")?))
    };
    let data_files: Result<_> = files.iter().map(file).collect();
    Ok(Facts { task: facts["task"].as_str().context("no task")?.to_owned(), data_files: data_files? })
}

/// The IDs of a record, merged or of a task: all that a plain reader of Parquet sees in it.
pub(crate) fn ids(record: Bytes) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(record)?.build()? {
        let batch = batch?;
        let [column] = batch.columns() else { anyhow::bail!("a record has one column, and not {:?}", batch.schema()) };
        let column = column.as_primitive_opt::<Int64Type>().context("the IDs are no int64")?;
        ensure!(column.null_count() == 0, "there are nulls");
        ids.extend(column.values());
    }
    Ok(ids)
}

/// The tasks of a merged record, in the order of its IDs, from the file beside it: how many IDs each has, and its facts.
pub(crate) fn merged_facts(beside: Bytes) -> Result<Vec<(u64, Facts)>> {
    let mut tasks = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(beside)?.build()? {
        let batch = batch?;
        let column = |name| batch.column_by_name(name).with_context(|| format!("no column {name}"));
        let names = column("task")?.as_string_opt::<i32>().context("names are text")?;
        let rows = column("rows")?.as_primitive_opt::<UInt64Type>().context("rows are numbers")?;
        let facts = column("facts")?.as_string_opt::<i32>().context("facts are text")?;
        for row in 0..batch.num_rows() {
            let facts = parse(facts.value(row))?;
            ensure!(facts.task == names.value(row), "the facts of {} are called {}", facts.task, names.value(row));
            tasks.push((rows.value(row), facts));
        }
    }
    Ok(tasks)
}

/// A merged record that a closed list names.
#[derive(Debug)]
pub(crate) struct Merged {
    /// Its name.
    pub(crate) name: String,
    tasks: Ranges,
}

/// Ranges of task numbers, by attempt.
type Ranges = BTreeMap<u64, Vec<(u64, u64)>>;

fn holds(ranges: &Ranges, task: &Task) -> bool {
    let ranges = ranges.get(&task.attempt).map(Vec::as_slice).unwrap_or_default();
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&task.number))
}

/// What the newest closed list says.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// The last attempt that is closed; 0 when none is.
    pub(crate) attempt: u64,
    /// The merged records that it names.
    pub(crate) merged: Vec<Merged>,
    tasks: Ranges,
}

impl Closed {
    /// Reads it.
    pub(crate) fn read(job: &Job<'_>, files: &BTreeMap<String, u64>) -> Result<Self> {
        let number = |name: &String| name.strip_prefix("_meta/closed/")?.parse::<u64>().ok();
        let Some(newest) = files.keys().filter_map(number).max() else { return Ok(Self::default()) };
        let bytes = job.place.existing(&job.checkpoint(&format!("_meta/closed/{newest}")))?;
        let list: serde_json::Value = serde_json::from_slice(&bytes)?;
        let tasks = serde_json::from_value(list["tasks"].clone())?;
        let merged = list["merged"].as_array().into_iter().flatten().map(|one| {
            let name = one["name"].as_str().context("no name")?.to_owned();
            Ok(Merged { name, tasks: serde_json::from_value(one["tasks"].clone())? })
        });
        let merged: Result<_> = merged.collect();
        Ok(Self { attempt: list["attempt"].as_u64().context("no attempt")?, merged: merged?, tasks })
    }

    /// Whether a task of a closed attempt counts.
    pub(crate) fn counts(&self, task: &Task) -> bool {
        holds(&self.tasks, task)
    }

    /// Whether a merged record has the IDs of a task.
    pub(crate) fn covers(&self, task: &Task) -> bool {
        self.merged.iter().any(|merged| holds(&merged.tasks, task))
    }

    /// Every task that counts, as attempt and number.
    pub(crate) fn counting(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ranges = self.tasks.iter().flat_map(|(attempt, ranges)| ranges.iter().map(move |range| (*attempt, *range)));
        ranges.flat_map(|(attempt, (first, last))| (first..=last).map(move |number| (attempt, number)))
    }
}
