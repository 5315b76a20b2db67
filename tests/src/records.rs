//! Task names and records, read by rules of our own: nothing here calls the product.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bytes::Bytes;
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
    let facts: serde_json::Value = serde_json::from_str(facts.value.as_deref().context("no value")?)?;
    let files = facts["data_files"].as_array().context("no data files")?;
    let file = |file: &serde_json::Value| {
        Ok((file["name"].as_str().context("no name")?.to_owned(), file["bytes"].as_u64().context("no size")?))
    };
    let data_files: Result<_> = files.iter().map(file).collect();
    Ok(Facts { task: facts["task"].as_str().context("no task")?.to_owned(), data_files: data_files? })
}

/// What the newest closed list says.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// The last attempt that is closed; 0 when none is.
    pub(crate) attempt: u64,
    tasks: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl Closed {
    /// Reads it.
    pub(crate) fn read(job: &Job<'_>, files: &BTreeMap<String, u64>) -> Result<Self> {
        let number = |name: &String| name.strip_prefix("_meta/closed/")?.parse::<u64>().ok();
        let Some(newest) = files.keys().filter_map(number).max() else { return Ok(Self::default()) };
        let bytes = job.place.existing(&job.checkpoint(&format!("_meta/closed/{newest}")))?;
        let list: serde_json::Value = serde_json::from_slice(&bytes)?;
        let tasks = serde_json::from_value(list["tasks"].clone())?;
        Ok(Self { attempt: list["attempt"].as_u64().context("no attempt")?, tasks })
    }

    /// Whether a task of a closed attempt counts.
    pub(crate) fn counts(&self, task: &Task) -> bool {
        let ranges = self.tasks.get(&task.attempt).map(Vec::as_slice).unwrap_or_default();
        ranges.iter().any(|(first, last)| (*first..=*last).contains(&task.number))
    }
}
