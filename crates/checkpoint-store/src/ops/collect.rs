//! Finding checkpoints under a prefix, with their age.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use checkpoint_fs::{Entry, ListOptions, ObjectPath, StorageRef};
use futures::stream::TryStreamExt;

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::lease::AttemptState;
use crate::runtime::RuntimeRef;

/// A checkpoint that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Where it is, relative to the prefix; the root when the prefix itself is one.
    pub path: ObjectPath,
    /// Whether its job ended well (kept, or half deleted).
    pub finished: bool,
    /// Whether an attempt is marked as running and its lease was renewed within three lengths of it.
    pub running: bool,
    /// Time since anything in it was last written, by the store's clock against this machine's.
    pub idle: Duration,
    /// Objects in it.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Default)]
struct Seen {
    marked: bool,
    newest: Option<SystemTime>,
    objects: u64,
    bytes: u64,
}

/// Finds every directory below (or at) the storage's root that is one of our checkpoints: one with a
/// `_meta/job.json`, an attempt, or a `_meta/complete`. One recursive listing, and a few reads for each.
///
/// # Errors
/// `Storage`, or `BadData` for a damaged file of a `_meta`.
pub async fn find_checkpoints(
    prefix: &StorageRef,
    open: impl Fn(&ObjectPath) -> StorageRef,
    runtime: &RuntimeRef,
) -> Result<Vec<Found>> {
    let mut seen: BTreeMap<ObjectPath, Seen> = BTreeMap::new();
    let mut loose: Vec<(ObjectPath, u64, Option<SystemTime>)> = Vec::new();
    let mut entries = prefix.list(&ObjectPath::root(), ListOptions::new().recursive(true).fresh(true));
    while let Some(entry) = entries.try_next().await? {
        let Entry::File { path, meta } = entry else { continue };
        let text = path.as_str();
        let Some((dir, below)) = split_at_meta(text) else {
            loose.push((path, meta.size, meta.last_modified));
            continue;
        };
        let dir = ObjectPath::parse(dir)?;
        let one = seen.entry(dir).or_default();
        one.marked |= below == "job.json" || below == "complete" || below.starts_with("attempts/");
        one.objects += 1;
        one.bytes += meta.size;
        one.newest = one.newest.max(meta.last_modified);
    }
    for (path, size, modified) in loose {
        if let Some(one) = path.parent().and_then(|dir| seen.get_mut(&dir)) {
            one.objects += 1;
            one.bytes += size;
            one.newest = one.newest.max(modified);
        }
    }
    let mut found = Vec::new();
    for (path, one) in seen.into_iter().filter(|(_, one)| one.marked) {
        let snapshot = Checkpoint::new(open(&path), runtime.clone()).snapshot().await?;
        let idle = one.newest.and_then(|newest| runtime.now().duration_since(newest).ok()).unwrap_or_default();
        let last = snapshot.attempts.last();
        let lease = Duration::from_secs(last.map_or(0, |a| a.lease_seconds));
        found.push(Found {
            path,
            finished: snapshot.complete.is_some() || last.is_some_and(|a| a.state == AttemptState::Succeeded),
            running: last.is_some_and(|a| a.state == AttemptState::Running) && idle < lease * 3,
            idle,
            objects: one.objects,
            bytes: one.bytes,
        });
    }
    Ok(found)
}

/// The checkpoint's directory and what follows `_meta/`, for a path inside a `_meta` directory.
fn split_at_meta(path: &str) -> Option<(&str, &str)> {
    if let Some(below) = path.strip_prefix("_meta/") {
        return Some(("", below));
    }
    path.split_once("/_meta/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_only_ends_in_meta_is_none() {
        assert_eq!(split_at_meta("_meta/job.json"), Some(("", "job.json")));
        assert_eq!(split_at_meta("a/_meta/attempts/1.json"), Some(("a", "attempts/1.json")));
        assert_eq!(split_at_meta("day_meta/a/_meta/job.json"), Some(("day_meta/a", "job.json")));
        assert_eq!(split_at_meta("day_meta/a/x.parquet"), None);
    }
}
