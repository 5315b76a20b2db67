//! What a checkpoint says is done, merged records included: read by rules of our own, from the closed list on.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use crate::job::Job;
use crate::records::{Closed, Facts, Task, facts, ids, merged_facts};

/// The IDs that count, each held by one record, and the data files of their tasks.
#[derive(Debug, Default)]
pub struct Ledger {
    ids: BTreeMap<i64, String>,
    data_files: BTreeMap<String, u64>,
}

impl Ledger {
    /// Reads it, from the checkpoint of a job that nobody runs.
    ///
    /// # Errors
    /// A record that counts and is not there or cannot be read; an ID or a data file that two of them hold.
    pub fn read(job: &Job<'_>) -> Result<Self> {
        let files = job.place.list(&job.checkpoint(""))?;
        let closed = Closed::read(job, &files)?;
        let mut ledger = Self::default();
        // What counts by the list, until its IDs are found.
        let mut missing: BTreeSet<(u64, u64)> = closed.counting().collect();
        for merged in &closed.merged {
            let record = format!("{}.parquet", merged.name);
            let held = ids(job.place.existing(&job.checkpoint(&record))?).with_context(|| record.clone())?;
            let beside = merged_facts(job.place.existing(&job.checkpoint(&format!("_meta/merged/{record}")))?)?;
            let rows: u64 = beside.iter().map(|(rows, _)| rows).sum();
            ensure!(rows == held.len() as u64, "{record} has {} IDs, and its tasks {rows}", held.len());
            ledger.add_ids(&record, held)?;
            for (_, facts) in beside {
                let task = Task::of(&facts.task).with_context(|| format!("no task: {}", facts.task))?;
                let counts = missing.remove(&(task.attempt, task.number));
                ensure!(counts, "{record} has {task}, which does not count or is in two merged records");
                ensure!(closed.covers(&task), "{record} has {task}, which the list does not say");
                ledger.add_files(&record, facts)?;
            }
        }
        for record in files.keys().filter(|file| !file.contains('/')) {
            // Merged ones are read by the names that the list gives; a killed process may leave a temporary file.
            let Some(task) = Task::of(record) else { continue };
            let is_closed = task.attempt <= closed.attempt;
            if closed.covers(&task) || (is_closed && !closed.counts(&task)) {
                continue;
            }
            missing.remove(&(task.attempt, task.number));
            let bytes = job.place.existing(&job.checkpoint(record))?;
            let facts = facts(bytes.clone())?;
            ensure!(facts.task == task.to_string(), "{record} is the record of {}", facts.task);
            ledger.add_ids(record, ids(bytes)?)?;
            ledger.add_files(record, facts)?;
        }
        ensure!(missing.is_empty(), "tasks that count, and whose IDs are nowhere: {missing:?}");
        Ok(ledger)
    }

    /// The data files of what counts, with their sizes.
    pub fn into_data_files(self) -> BTreeMap<String, u64> {
        self.data_files
    }

    /// How many IDs count.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Checks that whatever counted before counts now, and that the data of it all is there.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check_since(&self, before: &Self, job: &Job<'_>) -> Result<()> {
        let lost: Vec<_> = before.ids.iter().filter(|(id, _)| !self.ids.contains_key(id)).take(5).collect();
        ensure!(lost.is_empty(), "IDs counted before and do not any more, such as {lost:?}");
        let output = job.place.list(&job.output(""))?;
        let gone: Vec<_> = self.data_files.iter().filter(|(name, bytes)| output.get(*name) != Some(bytes)).collect();
        ensure!(gone.is_empty(), "data of what counts is not there in its size: {gone:?}");
        Ok(())
    }

    fn add_ids(&mut self, record: &str, ids: Vec<i64>) -> Result<()> {
        for id in ids {
            if let Some(other) = self.ids.insert(id, record.to_owned()) {
                anyhow::bail!("two records have ID {id}: {other} and {record}");
            }
        }
        Ok(())
    }

    fn add_files(&mut self, record: &str, facts: Facts) -> Result<()> {
        for (name, bytes) in facts.data_files {
            let before = self.data_files.insert(name.clone(), bytes);
            ensure!(before.is_none(), "{record} names {name}, and so does another record");
        }
        Ok(())
    }
}
