//! Sweeping: deleting what is void, and nothing else.

use std::collections::BTreeSet;

use checkpoint_fs::{DeleteOptions, ObjectPath, StorageExt, StorageRef};

use crate::checkpoint::Checkpoint;
use crate::closed::ClosedList;
use crate::complete::OutputView;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::{self, RecordName};
use crate::listing::Listing;
use crate::merged::Covered;
use crate::names::{JobId, MergedName, TaskName, owner, ray_task, ray_write};

/// What is void, file by file.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Data files, in the output.
    pub(crate) data: BTreeSet<ObjectPath>,
    /// Records, in the checkpoint: void ones, and pending records that have served.
    pub(crate) records: BTreeSet<ObjectPath>,
    /// The tasks that they are of and that do not count.
    pub(crate) tasks: BTreeSet<String>,
}

/// Which of a job's tasks count, and which of its attempts are settled.
#[derive(Debug)]
pub(crate) struct Verdict<'a> {
    pub(crate) job: Option<&'a JobId>,
    pub(crate) closed: &'a ClosedList,
    /// The open attempt and the tasks of it that are committed; everything else of it is void. Only given
    /// when none of its tasks is in flight.
    pub(crate) open: Option<(u64, &'a BTreeSet<u64>)>,
    /// What is in the names of the tasks that another engine ran for attempts that are settled.
    pub(crate) writes: Vec<&'a str>,
}

impl Verdict<'_> {
    /// `Some(true)`: counts. `Some(false)`: void. `None`: not ours to say (another job, or still open).
    fn own(&self, task: &TaskName) -> Option<bool> {
        if self.job != Some(&task.job) {
            return None;
        }
        if task.attempt <= self.closed.attempt {
            return Some(self.closed.counts(task));
        }
        let (attempt, committed) = self.open?;
        (task.attempt == attempt).then(|| committed.contains(&task.number))
    }

    /// The same for a name as Ray spells it, which may be one of ours all the same.
    fn any(&self, stem: &str) -> Option<bool> {
        match TaskName::parse(stem).filter(|task| self.job == Some(&task.job)) {
            Some(task) => self.own(&task),
            None => self.foreign(stem),
        }
    }

    /// The files beside merged records whose record is void, and saved sets that are not the list's.
    ///
    /// # Errors
    /// `Storage`. One listing.
    pub(crate) async fn stale_facts(&self, checkpoint: &Checkpoint) -> Result<Vec<ObjectPath>> {
        let files = checkpoint.storage.list_files(&layout::merged_dir()?, false).await?.into_iter();
        let named = |name: &MergedName| self.closed.saved.as_ref().is_some_and(|saved| saved.name == *name);
        let void = |path: &ObjectPath| match path.name().strip_suffix(layout::IDS).and_then(MergedName::parse) {
            Some(name) => !named(&name) && self.merged(&name) == Some(false),
            None => {
                let name = path.name().strip_suffix(layout::RECORD).and_then(MergedName::parse);
                name.is_some_and(|name| self.merged(&name) == Some(false))
            }
        };
        Ok(files.map(|(path, _)| path).filter(void).collect())
    }

    /// The same for a merged record. One of an attempt that has not written its list yet is not ours to say.
    fn merged(&self, name: &MergedName) -> Option<bool> {
        if self.closed.merged.iter().any(|merged| merged.name == *name) {
            return Some(true);
        }
        (self.job == Some(&name.job) && name.attempt <= self.closed.by).then_some(false)
    }

    fn foreign(&self, stem: &str) -> Option<bool> {
        if self.closed.records.contains(stem) {
            return Some(true);
        }
        (self.closed.void.contains(stem) || self.is_over(stem)).then_some(false)
    }

    /// Whether a task is of a write that is over: it is void unless a list counts it.
    fn is_over(&self, task: &str) -> bool {
        self.writes.iter().any(|write| task.contains(write))
    }

    /// Whether a task that nobody knows is void by its name: its write is over, and all tasks that are known of the
    /// write are named as it is. Else it may be one of those, under a name that its files do not begin with.
    fn is_without_record(&self, task: &str, known: &BTreeSet<&str>) -> bool {
        let form = ray_write(task);
        let is_alike = |write: &str| known.iter().all(|name| !name.contains(write) || ray_write(name) == form);
        self.writes.iter().find(|write| task.contains(**write)).is_some_and(|write| is_alike(write))
    }
}

/// Finds what is void in two listings.
///
/// # Errors
/// `InvalidConfig` for a name that no path can hold, which cannot come out of a listing.
pub(crate) fn sweep_plan(verdict: &Verdict<'_>, listing: &Listing, output: &OutputView) -> Result<Sweep> {
    let mut sweep = Sweep::default();
    let void = |sweep: &mut Sweep, task: String| {
        sweep.tasks.insert(task);
    };
    let covered = Covered::by(&verdict.closed.merged);
    for (name, _) in &listing.committed {
        let says = match name {
            RecordName::Own(task) if verdict.job == Some(&task.job) => verdict.own(task),
            RecordName::Merged(merged) => {
                if verdict.merged(merged) == Some(false) {
                    sweep.records.insert(layout::committed(&name.stem())?);
                }
                continue;
            }
            other => verdict.foreign(&other.stem()),
        };
        // Its IDs are in a merged record: it is litter, and its task counts.
        if covered.file(name, verdict.job) {
            sweep.records.insert(layout::committed(&name.stem())?);
        }
        if says == Some(false) {
            void(&mut sweep, name.stem());
            sweep.records.insert(layout::committed(&name.stem())?);
        }
    }
    for (task, _) in &listing.pending {
        if let Some(counts) = verdict.own(task) {
            sweep.records.insert(layout::pending(&task.to_string())?);
            if !counts {
                void(&mut sweep, task.to_string());
            }
        }
    }
    for (stem, _) in &listing.ray_pending {
        if let Some(counts) = verdict.any(stem) {
            sweep.records.insert(layout::ray_pending(stem)?);
            if !counts {
                void(&mut sweep, stem.clone());
            }
        }
    }
    // A name that nothing is decided of owns its files too, so that no shorter void name claims them.
    let undecided = listing.committed.iter().filter_map(|(name, _)| match name {
        RecordName::Foreign(stem) => Some(stem),
        _ => None,
    });
    let undecided = undecided.chain(listing.ray_pending.iter().map(|(stem, _)| stem));
    let mut known: BTreeSet<&str> = undecided.map(String::as_str).collect();
    known.extend(verdict.closed.records.iter().chain(&verdict.closed.void).map(String::as_str));
    let nested = output.nested.keys().map(|path| (path, true));
    for (path, is_nested) in output.files.keys().map(|path| (path, false)).chain(nested) {
        let file = path.rsplit('/').next().unwrap_or(path);
        if let Some(task) = TaskName::of_file(file) {
            if !is_nested && verdict.own(&task) == Some(false) {
                void(&mut sweep, task.to_string());
                sweep.data.insert(ObjectPath::parse(path.as_str())?);
            }
        } else if let Some(stem) = owner(file, |s| known.get(s).copied()) {
            if verdict.foreign(stem) == Some(false) {
                void(&mut sweep, stem.to_owned());
                sweep.data.insert(ObjectPath::parse(path.as_str())?);
            }
        } else if ray_task(file).is_some_and(|task| verdict.is_without_record(task, &known)) {
            // Its record is gone, or came to nothing.
            sweep.data.insert(ObjectPath::parse(path.as_str())?);
        }
    }
    Ok(sweep)
}

impl Sweep {
    /// Deletes it: the data first, so that a record that is still there still tells what is left.
    ///
    /// # Errors
    /// `Storage`, naming the first file that could not be deleted.
    pub(crate) async fn run(self, checkpoint: &StorageRef, output: Option<&StorageRef>) -> Result<u64> {
        let count = self.data.len() as u64;
        if let Some(output) = output {
            delete_all(output, self.data.into_iter().collect()).await?;
        }
        delete_all(checkpoint, self.records.into_iter().collect()).await?;
        Ok(count)
    }
}

/// Deletes many files; a missing one is no failure.
pub(crate) async fn delete_all(storage: &StorageRef, paths: Vec<ObjectPath>) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    match failures.into_iter().next() {
        None => Ok(()),
        Some(failure) => Err(Error::new(ErrorKind::Storage, format!("a file could not be deleted: {}", failure.error))
            .with_source(failure.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use checkpoint_fs::ObjectMeta;

    fn view(files: &[&str]) -> OutputView {
        OutputView { files: files.iter().map(|f| ((*f).to_owned(), 1)).collect(), ..OutputView::default() }
    }

    #[test]
    fn void_data_is_swept_and_nothing_else() {
        let job = JobId::parse("abcdefghijklmnop").unwrap();
        let mut closed = ClosedList::empty();
        closed.attempt = 1;
        closed.tasks.insert(1, [1, 3].into_iter().collect());
        closed.records.insert("x_1000000".into());
        closed.void.insert("x_100000".into());
        let output = view(&[
            "abcdefghijklmnop-1-000001.parquet",
            "abcdefghijklmnop-1-000002.parquet",
            "_failed/abcdefghijklmnop-1-000002.jsonl",
            "abcdefghijklmnop-2-000001.parquet",
            "bbcdefghijklmnop-1-000002.parquet",
            "x_100000-0.parquet",
            "x_1000000-0.parquet",
            "x_1000001-0.parquet",
            "x_100000-late-0.parquet",
            "notes.txt",
        ]);
        let mut listing = Listing::default();
        listing.ray_pending.push(("x_1000000".into(), ObjectMeta::new(1)));
        listing.ray_pending.push(("abcdefghijklmnop-1-000003".into(), ObjectMeta::new(1)));
        listing.committed.push((RecordName::Foreign("x_100000-late".into()), ObjectMeta::new(1)));
        let verdict = Verdict { job: Some(&job), closed: &closed, open: None, writes: Vec::new() };
        let sweep = sweep_plan(&verdict, &listing, &output).unwrap();
        let data: Vec<&str> = sweep.data.iter().map(ObjectPath::as_str).collect();
        assert_eq!(
            data,
            ["_failed/abcdefghijklmnop-1-000002.jsonl", "abcdefghijklmnop-1-000002.parquet", "x_100000-0.parquet"]
        );
        let records: Vec<&str> = sweep.records.iter().map(ObjectPath::as_str).collect();
        assert_eq!(
            records,
            ["abcdefghijklmnop-1-000003.pending.parquet", "x_1000000.pending.parquet"],
            "the pending twin of a committed record is litter, whoever wrote either"
        );
        assert_eq!(sweep.tasks.len(), 2);
    }
}
