//! The end of a job: `complete` in the checkpoint, and the mark that stays in the output.

use checkpoint_fs::{Entry, ListOptions, ObjectPath, StorageExt, StorageRef};
use futures::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};

use crate::checkpoint::read_json;
use crate::closed::ClosedList;
use crate::error::{Error, Result};
use crate::job::Fingerprint;
use crate::names::{JobId, TaskName};
use crate::record::DataFile;

/// Directories that are listed at a time.
const CONCURRENCY: usize = 16;
/// How the mark's name begins; the job's ID follows.
const MARK_PREFIX: &str = "_CHECKPOINT_COMPLETE-";

/// The file `_meta/complete`, and word for word the mark in the output: what was done, so that it can be
/// told from a job that has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteFile {
    /// The version of the format.
    pub format: u32,
    /// The job.
    pub job: JobId,
    /// The attempt that ended it.
    #[serde(default)]
    pub attempt: u64,
    /// Whether the checkpoint is being removed by the user's wish, the job done or not.
    #[serde(default)]
    pub removed: bool,
    /// Where the checkpoint was.
    pub checkpoint: String,
    /// When it ended (RFC 3339), for people.
    pub finished: String,
    /// Input rows that are done.
    pub rows: u64,
    /// What the job was.
    pub fingerprint: Fingerprint,
    /// All its data files.
    pub data_files: Vec<DataFile>,
    /// What was in the names of the tasks that another engine ran for its attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
}

impl CompleteFile {
    /// Whether this end holds for the checkpoint that it lies in. One that a former owner wrote too late does
    /// not: an attempt that is closed has nothing to end any more, and a job cannot end another.
    pub(crate) fn holds(&self, job: Option<&JobId>, closed: Option<&ClosedList>) -> bool {
        job.is_none_or(|job| *job == self.job) && closed.is_none_or(|closed| closed.attempt < self.attempt)
    }
}

/// The mark's name in the output.
pub(crate) fn mark_path(job: &JobId) -> Result<ObjectPath> {
    Ok(ObjectPath::parse(format!("{MARK_PREFIX}{job}.json"))?)
}

/// The marks of jobs that ended in this output: a listing, and a read per mark.
pub(crate) async fn marks_in(output: &StorageRef) -> Result<Vec<CompleteFile>> {
    let mut marks = Vec::new();
    for (path, _) in output.list_files(&ObjectPath::root(), false).await? {
        if path.as_str().starts_with(MARK_PREFIX) {
            marks.extend(read_json::<CompleteFile>(output, &path).await?);
        }
    }
    Ok(marks)
}

/// Whether a directory is of a column's value.
fn is_of_column(name: &str) -> bool {
    name.split_once('=').is_some_and(|(column, _)| !column.is_empty() && !column.starts_with(['_', '.']))
}

/// What an output directory holds that concerns checkpoints.
#[derive(Debug, Default)]
pub(crate) struct OutputView {
    /// The marks of jobs that ended here.
    pub(crate) marks: Vec<CompleteFile>,
    /// Every file at the top and in `_failed`, by its path in the output, with its size.
    pub(crate) files: std::collections::HashMap<String, u64>,
    /// The files in directories of the values of columns, `<column>=<value>`, which Ray makes. None of ours are there.
    pub(crate) nested: std::collections::HashMap<String, u64>,
}

impl OutputView {
    /// Reads it: two listings, one for each directory of a column's value at the top, and a read per mark.
    pub(crate) async fn read(output: &StorageRef) -> Result<Self> {
        let mut view = Self::default();
        let mut columns = Vec::new();
        let mut top = output.list(&ObjectPath::root(), ListOptions::new().fresh(true));
        while let Some(entry) = top.next().await {
            match entry? {
                Entry::File { path, meta } => drop(view.files.insert(path.as_str().to_owned(), meta.size)),
                Entry::Dir { path } if is_of_column(path.name()) => columns.push(path),
                Entry::Dir { .. } => {}
            }
        }
        drop(top);
        let failed = ObjectPath::parse(crate::layout::FAILED_DIR)?;
        for (path, meta) in output.list_files(&failed, false).await? {
            view.files.insert(path.as_str().to_owned(), meta.size);
        }
        let below = columns.into_iter().map(|dir| async move { output.list_files(&dir, true).await });
        let mut below = stream::iter(below).buffer_unordered(CONCURRENCY);
        while let Some(files) = below.next().await {
            for (path, meta) in files? {
                let path = path.as_str();
                if path.rsplit_once('/').is_some_and(|(dirs, _)| dirs.split('/').all(is_of_column)) {
                    view.nested.insert(path.to_owned(), meta.size);
                }
            }
        }
        drop(below);
        for name in view.files.keys().filter(|n| n.starts_with(MARK_PREFIX)) {
            view.marks.extend(read_json::<CompleteFile>(output, &ObjectPath::parse(name.as_str())?).await?);
        }
        Ok(view)
    }

    /// Every file that Ray may have written.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.files.iter().chain(&self.nested)
    }

    /// The size of a file.
    pub(crate) fn size_of(&self, path: &str) -> Option<u64> {
        self.files.get(path).or_else(|| self.nested.get(path)).copied()
    }

    /// The jobs whose data files are here, each with its first file as an example.
    pub(crate) fn jobs(&self) -> std::collections::BTreeMap<JobId, String> {
        let mut jobs: std::collections::BTreeMap<JobId, &String> = std::collections::BTreeMap::new();
        for name in self.files.keys() {
            let file = name.rsplit('/').next().unwrap_or(name);
            if let Some(task) = TaskName::of_file(file) {
                let example = jobs.entry(task.job).or_insert(name);
                *example = name.min(example);
            }
        }
        jobs.into_iter().map(|(job, example)| (job, example.clone())).collect()
    }
}

/// What a run without a checkpoint finds in its output.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing that concerns it.
    Fresh,
    /// The same job ended here and nothing has changed since.
    Complete(Box<CompleteFile>),
}

/// Decides whether a job without a checkpoint may begin on this output.
///
/// # Errors
/// `Conflict` when the output holds data of a job whose checkpoint is gone: going on would double rows.
pub(crate) fn judge(view: &OutputView, checkpoint: &str, now: &Fingerprint, known: &[JobId]) -> Result<Found> {
    let mut reasons = Vec::new();
    for mark in view.marks.iter().filter(|m| !m.removed) {
        if mark.checkpoint != checkpoint {
            reasons.push(format!("job {} ended here with another checkpoint: {}", mark.job, mark.checkpoint));
            continue;
        }
        let changes = changes_since(mark, now, view);
        if changes.is_empty() {
            return Ok(Found::Complete(Box::new(mark.clone())));
        }
        reasons.extend(changes.into_iter().take(8).map(|c| format!("since job {} ended here: {c}", mark.job)));
    }
    let marked = |job: &JobId| view.marks.iter().any(|m| !m.removed && m.job == *job);
    for (job, example) in view.jobs().into_iter().filter(|(job, _)| !known.contains(job) && !marked(job)) {
        reasons.push(format!("data of job {job} is here, without its checkpoint: {example}"));
    }
    if reasons.is_empty() {
        return Ok(Found::Fresh);
    }
    Err(Error::conflict(format!(
        "the output holds data of a job that this checkpoint does not know: {}: output={}",
        reasons.join("; "),
        now.output
    ))
    .with_hint(
        "going on would write rows again that are already there: write to another --output, or pass --append to add \
         to it all the same",
    ))
}

fn changes_since(mark: &CompleteFile, now: &Fingerprint, view: &OutputView) -> Vec<String> {
    let difference = mark.fingerprint.difference(now);
    let mut lines: Vec<String> = difference.lines().map(str::to_owned).collect();
    // After the end a changed or an added file means new work, with an ID column too.
    if !now.row_hash {
        let strict = |f: &Fingerprint| Fingerprint { row_hash: true, ..f.clone() };
        for line in strict(&mark.fingerprint).difference(&strict(now)).read {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    if now.inputs_unknown || mark.fingerprint.inputs_unknown {
        lines.push("nobody knows which files are read".to_owned());
    }
    for file in &mark.data_files {
        match view.size_of(&file.name) {
            None => lines.push(format!("data file gone: {}", file.name)),
            Some(size) if size != file.bytes => lines.push(format!("data file changed: {}", file.name)),
            Some(_) => {}
        }
    }
    lines
}
