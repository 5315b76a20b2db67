//! Where everything is inside a checkpoint directory.

use checkpoint_fs::ObjectPath;

use crate::error::{Error, Result};
use crate::names::{MergedName, TaskName};

/// The directory that is ours; Ray reads only `*.parquet` directly under the checkpoint.
pub(crate) const META: &str = "_meta";
/// The end of a committed record's name.
pub(crate) const RECORD: &str = ".parquet";
/// The end of a pending record's name, as Ray writes it.
pub(crate) const RAY_PENDING: &str = ".pending.parquet";
/// The end of a saved set's name.
pub(crate) const IDS: &str = ".ids";
/// The folder of rows set aside, in the output.
pub const FAILED_DIR: &str = "_failed";

fn fixed(text: String) -> Result<ObjectPath> {
    ObjectPath::parse(text).map_err(Error::from)
}

pub(crate) fn committed(task: &str) -> Result<ObjectPath> {
    fixed(format!("{task}{RECORD}"))
}

pub(crate) fn pending(task: &str) -> Result<ObjectPath> {
    fixed(format!("{META}/pending/{task}{RECORD}"))
}

pub(crate) fn pending_dir() -> Result<ObjectPath> {
    fixed(format!("{META}/pending"))
}

pub(crate) fn ray_pending(task: &str) -> Result<ObjectPath> {
    fixed(format!("{task}{RAY_PENDING}"))
}

pub(crate) fn meta_dir() -> Result<ObjectPath> {
    fixed(META.to_owned())
}

pub(crate) fn job() -> Result<ObjectPath> {
    fixed(format!("{META}/job.json"))
}

pub(crate) fn attempts_dir() -> Result<ObjectPath> {
    fixed(format!("{META}/attempts"))
}

pub(crate) fn attempt(number: u64) -> Result<ObjectPath> {
    fixed(format!("{META}/attempts/{number}.json"))
}

pub(crate) fn fingerprints_dir() -> Result<ObjectPath> {
    fixed(format!("{META}/fingerprints"))
}

pub(crate) fn fingerprint(attempt: u64) -> Result<ObjectPath> {
    fixed(format!("{META}/fingerprints/{attempt}.json"))
}

pub(crate) fn closed_dir() -> Result<ObjectPath> {
    fixed(format!("{META}/closed"))
}

pub(crate) fn closed(attempt: u64) -> Result<ObjectPath> {
    fixed(format!("{META}/closed/{attempt}"))
}

/// The directory of what is kept beside merged records.
pub(crate) fn merged_dir() -> Result<ObjectPath> {
    fixed(format!("{META}/merged"))
}

/// The facts of the tasks that a merged record covers.
pub(crate) fn merged_facts(name: &MergedName) -> Result<ObjectPath> {
    fixed(format!("{META}/merged/{name}{RECORD}"))
}

/// A saved set of IDs.
pub(crate) fn saved_ids(name: &MergedName) -> Result<ObjectPath> {
    fixed(format!("{META}/merged/{name}{IDS}"))
}

pub(crate) fn complete() -> Result<ObjectPath> {
    fixed(format!("{META}/complete"))
}

pub(crate) fn damaged(name: &str) -> Result<ObjectPath> {
    fixed(format!("{META}/damaged/{name}"))
}

/// The number that a file's name is, before its ending; `None` for what we would not have written so.
pub(crate) fn number(name: &str, ending: &str) -> Option<u64> {
    let text = name.strip_suffix(ending)?;
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// What a file directly in the checkpoint directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordName {
    /// A committed record of one of our jobs.
    Own(TaskName),
    /// A merged record of one of our jobs.
    Merged(MergedName),
    /// A committed record that Ray, or somebody else, wrote; the name without `.parquet`.
    Foreign(String),
    /// A pending record as Ray writes it; the task's name.
    RayPending(String),
}

impl RecordName {
    /// `None` for what is no record: hidden files, names starting with `_`, other endings.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if name.starts_with(['_', '.']) {
            return None;
        }
        if let Some(task) = name.strip_suffix(RAY_PENDING) {
            return (!task.is_empty()).then(|| Self::RayPending(task.to_owned()));
        }
        let stem = name.strip_suffix(RECORD).filter(|s| !s.is_empty())?;
        Some(match (TaskName::parse(stem), MergedName::parse(stem)) {
            (Some(task), _) => Self::Own(task),
            (None, Some(merged)) => Self::Merged(merged),
            (None, None) => Self::Foreign(stem.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_parquet_files_are_records() {
        assert_eq!(RecordName::parse("u_000001.parquet"), Some(RecordName::Foreign("u_000001".into())));
        assert_eq!(RecordName::parse("u_000001.pending.parquet"), Some(RecordName::RayPending("u_000001".into())));
        assert!(matches!(RecordName::parse("abcdefghijklmnop-1-000001.parquet"), Some(RecordName::Own(_))));
        assert!(matches!(RecordName::parse("abcdefghijklmnop-merged-1-000001.parquet"), Some(RecordName::Merged(_))));
        for other in ["_SUCCESS", ".x.parquet", "_x.parquet", "x.crc", ".parquet", "notes.txt"] {
            assert_eq!(RecordName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_number_has_one_spelling() {
        assert_eq!(number("12.json", ".json"), Some(12));
        assert_eq!(number("0", ""), Some(0));
        for other in ["012.json", "+12.json", "12", ".json", "12.json.json", "x.json"] {
            assert_eq!(number(other, ".json"), None, "{other}");
        }
    }
}
