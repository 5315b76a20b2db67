//! What an effect is for, told from the URL that it changes.

use std::fmt;
use std::str::FromStr;

use anyhow::anyhow;
use checkpoint_testkit::{EffectPoint, Operation};

/// The step of the protocol that an effect belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectKind {
    /// An attempt is created, renewed or ended.
    Lease,
    /// The job, a fingerprint, or anything else of `_meta` is written.
    Meta,
    /// A merged record, the facts beside it or the saved set of IDs is written.
    Merge,
    /// A closed list is created.
    Closing,
    /// A pending record is written.
    Pending,
    /// A data file is written.
    Data,
    /// A committed record is published, by the task's owner or in a roll-forward.
    Commit,
    /// `_meta/complete` is created.
    Complete,
    /// The mark in the output is written.
    Mark,
    /// Something is deleted.
    Delete,
}

impl EffectKind {
    const ALL: [(EffectKind, &'static str); 10] = [
        (EffectKind::Lease, "lease"),
        (EffectKind::Meta, "meta"),
        (EffectKind::Merge, "merge"),
        (EffectKind::Closing, "closing"),
        (EffectKind::Pending, "pending"),
        (EffectKind::Data, "data"),
        (EffectKind::Commit, "commit"),
        (EffectKind::Complete, "complete"),
        (EffectKind::Mark, "mark"),
        (EffectKind::Delete, "delete"),
    ];

    /// The kind of an effect of a job whose directories are called `output` and `checkpoint`.
    pub fn of(point: &EffectPoint) -> Self {
        let within = |dir: &str| point.url.contains(dir);
        if point.operation == Operation::Delete {
            Self::Delete
        } else if within("/output/_CHECKPOINT_COMPLETE-") {
            Self::Mark
        } else if within("/output/") {
            Self::Data
        } else if within("/checkpoint/_meta/pending/") {
            Self::Pending
        } else if within("/checkpoint/_meta/attempts/") {
            Self::Lease
        } else if within("/checkpoint/_meta/merged/") || point.url.contains("-merged-") {
            Self::Merge
        } else if within("/checkpoint/_meta/closed/") {
            Self::Closing
        } else if point.url.ends_with("/checkpoint/_meta/complete") {
            Self::Complete
        } else if within("/checkpoint/_meta/") {
            Self::Meta
        } else {
            Self::Commit
        }
    }
}

impl fmt::Display for EffectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for EffectKind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind);
        found.ok_or_else(|| anyhow!("no kind of effect: {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for (kind, name) in EffectKind::ALL {
            assert_eq!(kind.to_string(), name);
            assert_eq!(name.parse::<EffectKind>().expect("a name"), kind);
        }
        assert!("datum".parse::<EffectKind>().is_err());
    }
}
