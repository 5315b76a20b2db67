//! Counting, after a kill, which row of the closing table each task is in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, ensure};

use crate::job::Job;
use crate::records::{Closed, Task, facts};

/// A row of the closing table, or how a task stands that was closed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// Committed, its pending record still there.
    CommittedWithTwin,
    /// Committed.
    Committed,
    /// Pending, every data file there.
    PendingComplete,
    /// Pending, the data partial or missing.
    PendingIncomplete,
    /// Data without any record.
    DataOnly,
    /// Of a closed attempt, and counts.
    SettledCounts,
    /// Of a closed attempt, void, and not swept yet.
    SettledVoid,
    /// Of a job that is marked complete: its records may be half deleted.
    Ended,
}

impl Row {
    /// The rows of the closing table, in its order.
    pub const TABLE: [Row; 5] =
        [Row::CommittedWithTwin, Row::Committed, Row::PendingComplete, Row::PendingIncomplete, Row::DataOnly];

    fn describe(self) -> &'static str {
        match self {
            Row::CommittedWithTwin => "committed, with its pending twin",
            Row::Committed => "committed",
            Row::PendingComplete => "pending, data complete",
            Row::PendingIncomplete => "pending, data partial or missing",
            Row::DataOnly => "data and no record",
            Row::SettledCounts => "(closed before, counts)",
            Row::SettledVoid => "(closed before, void, not swept yet)",
            Row::Ended => "(job complete, deletion under way)",
        }
    }
}

/// What a job had on disk at one moment.
#[derive(Debug)]
pub struct Census {
    /// Each task that has left a trace, by name.
    pub tasks: BTreeMap<String, Row>,
    /// Rows committed and counting so far, as a number of tasks.
    pub counting: usize,
    /// Whether `_meta/complete` or the mark is there.
    pub complete: bool,
}

impl Census {
    /// Looks at the checkpoint and the output of a job that nobody runs.
    ///
    /// # Errors
    /// When something cannot be read, or lies where nothing of a job can.
    pub fn take(job: &Job<'_>) -> Result<Self> {
        let records = job.place.list(&job.checkpoint(""))?;
        let output = job.place.list(&job.output(""))?;
        let complete = is_complete(&records, &output);
        let closed = Closed::read(job, &records)?;
        let committed: BTreeSet<Task> =
            records.keys().filter(|f| !f.contains('/')).filter_map(|f| Task::of(f)).collect();
        let pending: BTreeSet<Task> =
            records.keys().filter_map(|f| f.strip_prefix("_meta/pending/")).filter_map(Task::of).collect();
        let data: BTreeSet<Task> = output.keys().filter_map(|f| Task::of(f)).collect();
        let mut tasks = BTreeMap::new();
        for task in committed.iter().chain(&pending).chain(&data) {
            let row = if complete {
                Row::Ended
            } else if task.attempt <= closed.attempt {
                if closed.counts(task) { Row::SettledCounts } else { Row::SettledVoid }
            } else if committed.contains(task) {
                if pending.contains(task) { Row::CommittedWithTwin } else { Row::Committed }
            } else if pending.contains(task) {
                let record = job.place.existing(&job.checkpoint(&format!("_meta/pending/{task}.parquet")))?;
                let facts = facts(record)?;
                let whole = facts.task == task.to_string()
                    && facts.data_files.iter().all(|(name, bytes)| output.get(name) == Some(bytes));
                if whole { Row::PendingComplete } else { Row::PendingIncomplete }
            } else {
                Row::DataOnly
            };
            tasks.insert(task.to_string(), row);
        }
        let counts = |row: &&Row| matches!(row, Row::CommittedWithTwin | Row::Committed | Row::SettledCounts);
        let counting = tasks.values().filter(counts).count();
        if !complete {
            // What makes the promise hold: a record comes before its data and leaves after it.
            let lost =
                committed.iter().find(|task| !data.contains(task) && tasks[&task.to_string()] != Row::SettledVoid);
            ensure!(lost.is_none(), "a committed record without its data: {lost:?}");
        }
        Ok(Self { tasks, counting, complete })
    }
}

/// Whether `_meta/complete` or the mark is there.
pub(crate) fn is_complete(checkpoint: &BTreeMap<String, u64>, output: &BTreeMap<String, u64>) -> bool {
    checkpoint.contains_key("_meta/complete") || output.keys().any(|file| file.starts_with("_CHECKPOINT_COMPLETE-"))
}

/// How often each row occurred.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    rows: BTreeMap<Row, u64>,
    /// Kills so far.
    pub kills: u64,
    /// Kills between the first pending record and the last commit.
    pub in_window: u64,
    /// Kills of a run that had taken over and not yet prepared a task of its own.
    pub in_recovery: u64,
    /// Kills after `complete` was written.
    pub in_deletion: u64,
}

impl Tally {
    /// Adds what a kill left.
    pub fn add(&mut self, census: &Census) {
        for row in census.tasks.values() {
            *self.rows.entry(*row).or_default() += 1;
        }
    }

    /// Whether three quarters of the kills hit between the first pending record and the last commit.
    pub fn hits_often(&self) -> bool {
        self.in_window * 4 >= self.kills * 3
    }

    /// How often a row occurred.
    pub fn of(&self, row: Row) -> u64 {
        self.rows.get(&row).copied().unwrap_or(0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} kills: {} between the first pending record and the last commit, {} in recovery, {} in the deletion",
            self.kills, self.in_window, self.in_recovery, self.in_deletion
        )?;
        for row in Row::TABLE.into_iter().chain([Row::SettledCounts, Row::SettledVoid, Row::Ended]) {
            writeln!(f, "  {:>6}  {}", self.of(row), row.describe())?;
        }
        Ok(())
    }
}
