//! How far a compaction had come when it was killed, told from what it left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result};

use crate::job::Job;
use crate::records::{Closed, Task};

/// How far it had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MergeState {
    /// It has merged nothing yet.
    Untouched,
    /// The facts are there, and the merged record is not.
    FactsAlone,
    /// A merged record is there, and no closed list names it.
    Unlisted,
    /// The saved set of IDs is there too, and no closed list names it.
    SavedUnlisted,
    /// The list names the merged record, and all of its parts are still there.
    Listed,
    /// Some of the parts are deleted.
    PartlySwept,
    /// All of them are, or there were none.
    Swept,
}

impl MergeState {
    /// Every state, in the order in which a compaction passes through them.
    pub const ALL: [MergeState; 7] = [
        MergeState::Untouched,
        MergeState::FactsAlone,
        MergeState::Unlisted,
        MergeState::SavedUnlisted,
        MergeState::Listed,
        MergeState::PartlySwept,
        MergeState::Swept,
    ];

    fn describe(self) -> &'static str {
        match self {
            MergeState::Untouched => "nothing merged yet",
            MergeState::FactsAlone => "facts without their merged record",
            MergeState::Unlisted => "a merged record that no list names",
            MergeState::SavedUnlisted => "a saved set that no list names",
            MergeState::Listed => "listed, all parts there",
            MergeState::PartlySwept => "listed, parts half deleted",
            MergeState::Swept => "listed, parts gone",
        }
    }

    /// Tells it from the checkpoint of a job that nobody runs, and from its files before the compaction.
    ///
    /// # Errors
    /// When something cannot be read.
    pub fn tell(job: &Job<'_>, before: &BTreeMap<String, u64>) -> Result<Self> {
        let files = job.place.list(&job.checkpoint(""))?;
        if newest_list(&files) == newest_list(before) {
            let is_new = |file: &&String| !before.contains_key(*file);
            let new: Vec<&String> = files.keys().filter(is_new).collect();
            let beside = |ending| {
                let is_beside = move |file: &&&String| file.starts_with("_meta/merged/") && file.ends_with(ending);
                new.iter().any(|file| is_beside(&file))
            };
            return Ok(if beside(".ids") {
                MergeState::SavedUnlisted
            } else if new.iter().any(|file| !file.contains('/') && file.contains("-merged-")) {
                MergeState::Unlisted
            } else if beside(".parquet") {
                MergeState::FactsAlone
            } else {
                MergeState::Untouched
            });
        }
        let closed = Closed::read(job, &files)?;
        let parts = |files: &BTreeMap<String, u64>| -> BTreeSet<Task> {
            let tasks = files.keys().filter(|file| !file.contains('/')).filter_map(|file| Task::of(file));
            tasks.filter(|task| closed.covers(task)).collect()
        };
        let (left, had) = (parts(&files), parts(before));
        Ok(if left.is_empty() {
            MergeState::Swept
        } else if left.len() < had.len() {
            MergeState::PartlySwept
        } else {
            MergeState::Listed
        })
    }
}

fn newest_list(files: &BTreeMap<String, u64>) -> Option<u64> {
    files.keys().filter_map(|file| file.strip_prefix("_meta/closed/")?.parse().ok()).max()
}

/// How often kills hit each state.
#[derive(Debug, Default, Clone)]
pub struct MergeTally {
    states: BTreeMap<MergeState, u64>,
    /// Kills of `ckpt compact`.
    pub of_compact: u64,
    /// Kills of a run while it started, and merged records before anything else.
    pub of_starts: u64,
    /// Kills of a run later, while it worked on top of merged records.
    pub of_work: u64,
    /// Kills that found files of an earlier killed compaction.
    pub in_a_row: u64,
}

impl MergeTally {
    /// Adds what a kill left.
    pub fn add(&mut self, state: MergeState) {
        *self.states.entry(state).or_default() += 1;
    }

    /// Kills of compactions so far.
    pub fn kills(&self) -> u64 {
        self.of_compact + self.of_starts
    }

    /// Checks that kills hit every state.
    ///
    /// # Errors
    /// Those that hardly occurred.
    pub fn check_all_hit(&self) -> Result<()> {
        let rare = MergeState::ALL.into_iter().find(|state| self.states.get(state).copied().unwrap_or(0) < 3);
        rare.is_none().then_some(()).with_context(|| format!("{rare:?} hardly occurred:\n{self}"))
    }
}

impl fmt::Display for MergeTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} kills of `ckpt compact` and {} of starts that merge, {} of them after another; {} of runs after those",
            self.of_compact, self.of_starts, self.in_a_row, self.of_work
        )?;
        for state in MergeState::ALL {
            writeln!(f, "  {:>6}  {}", self.states.get(&state).copied().unwrap_or(0), state.describe())?;
        }
        Ok(())
    }
}
