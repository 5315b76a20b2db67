//! What must hold once a job is done.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;

use crate::job::Job;
use crate::ledger::Ledger;
use crate::records::{Closed, Task, ids};

/// How the last run of a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The checkpoint is deleted.
    Deleted,
    /// The checkpoint is kept.
    Kept,
}

/// Checks that a job that is done has each input row exactly once in its output, that its output has no
/// file but data files of committed tasks and the mark, and that its checkpoint is gone, or kept and proven
/// by `ckpt verify`.
///
/// # Errors
/// What does not hold.
pub fn audit(job: &Job<'_>, ending: Ending) -> Result<()> {
    let output = job.place.list(&job.output(""))?;
    let records = job.place.list(&job.checkpoint(""))?;
    match ending {
        Ending::Deleted => {
            ensure!(records.is_empty(), "files are left in the checkpoint: {records:?}");
            let marks: Vec<&String> = output.keys().filter(|f| f.starts_with("_CHECKPOINT_COMPLETE-")).collect();
            ensure!(marks.len() == 1, "there should be one mark: {marks:?}");
            let mark: serde_json::Value = serde_json::from_slice(&job.place.existing(&job.output(marks[0]))?)?;
            let named: Result<BTreeSet<String>> = mark["data_files"]
                .as_array()
                .context("the mark names no data files")?
                .iter()
                .map(|file| Ok(file["name"].as_str().context("no name")?.to_owned()))
                .collect();
            let named = named?;
            let found: BTreeSet<String> = output.keys().filter(|f| *f != marks[0]).cloned().collect();
            ensure!(named == found, "the output has {found:?} and the mark names {named:?}");
            check_rows(job, &found)
        }
        Ending::Kept => {
            let counting = counting_files(job)?;
            let found: BTreeSet<String> = output.keys().cloned().collect();
            ensure!(counting == found, "the output has {found:?} and the records name {counting:?}");
            let pending: Vec<&String> = records.keys().filter(|f| f.starts_with("_meta/pending/")).collect();
            ensure!(pending.is_empty(), "pending records are left: {pending:?}");
            check_rows(job, &found)?;
            check_flat(job, &records)?;
            let (ok, said) = job.verify()?;
            ensure!(ok, "verify is not content:\n{said}");
            Ok(())
        }
    }
}

/// Checks that the data files of the tasks that count, by the closed lists and records alone, hold each row
/// exactly once, whatever else lies about. Answers the files of tasks that do not count, by their paths in
/// the job's directory.
///
/// # Errors
/// What does not hold.
pub fn audit_committed(job: &Job<'_>) -> Result<BTreeSet<String>> {
    let records = job.place.list(&job.checkpoint(""))?;
    let counting = counting_files(job)?;
    check_rows(job, &counting)?;
    let output = job.place.list(&job.output(""))?;
    let void_data = output.keys().filter(|file| !counting.contains(*file)).map(|file| format!("output/{file}"));
    let closed = Closed::read(job, &records)?;
    let is_void = |file: &&String| match Task::of(file.rsplit('/').next().unwrap_or(file)) {
        Some(task) if task.attempt <= closed.attempt => !closed.counts(&task),
        Some(_) => file.starts_with("_meta/pending/"),
        None => false,
    };
    let void_records = records.keys().filter(is_void).map(|file| format!("checkpoint/{file}"));
    Ok(void_data.chain(void_records).collect())
}

/// The data files that the counting records name; each must be there in its size.
fn counting_files(job: &Job<'_>) -> Result<BTreeSet<String>> {
    let ledger = Ledger::read(job)?;
    ledger.check_since(&Ledger::default(), job)?;
    Ok(ledger.into_data_files().into_keys().collect())
}

/// A program that knows nothing of closed lists, as a plain Ray, reads every record: it must find each ID once, and
/// nothing but records.
fn check_flat(job: &Job<'_>, records: &BTreeMap<String, u64>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for record in records.keys().filter(|file| !file.contains('/')) {
        let is_record = Task::of(record).is_some() || record.contains("-merged-");
        ensure!(is_record, "no record has this name: {record}");
        for id in ids(job.place.existing(&job.checkpoint(record))?).with_context(|| record.clone())? {
            ensure!(seen.insert(id), "{record} has ID {id}, and so does another record");
        }
    }
    let counting = Ledger::read(job)?.len();
    ensure!(seen.len() == counting, "the records have {} IDs, and {counting} count", seen.len());
    Ok(())
}

fn check_rows(job: &Job<'_>, files: &BTreeSet<String>) -> Result<()> {
    let extension = format!(".{}", job.rows.format.extension());
    for file in files {
        ensure!(Task::of(file).is_some() && file.ends_with(&extension), "this is no data file: {file}");
    }
    let read = |file: &String| Ok((file.clone(), job.place.existing(&job.output(file))?));
    let contents: Result<BTreeMap<String, Bytes>> = files.iter().map(read).collect();
    job.rows.check(&contents?)
}
