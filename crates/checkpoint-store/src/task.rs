//! One task: the pending record before its data, the committed record after it.

use bytes::Bytes;
use checkpoint_fs::{ErrorKind as Fs, ObjectPath, RenameOptions, StorageExt, StorageRef, WriteMode, WriteOutcome};

use crate::checkpoint::create;
use crate::error::{Error, ErrorKind, Result};
use crate::layout;
use crate::lengths::whole;
use crate::record::{self, RecordFacts};

/// A task's record, checked and encoded, and written nowhere yet.
#[derive(Debug)]
#[must_use = "nothing is written before the pending record is"]
pub struct TaskRecord(pub(crate) PreparedTask);

impl TaskRecord {
    /// The size of the encoded record.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.len() as u64
    }
}

/// A task whose pending record is written: its data may be written now, and then it is committed.
#[derive(Debug)]
#[must_use = "a prepared task counts only when it is committed"]
pub struct PreparedTask {
    pub(crate) facts: RecordFacts,
    pub(crate) id_column: String,
    pub(crate) bytes: Bytes,
    pub(crate) pending: ObjectPath,
    pub(crate) committed: ObjectPath,
}

/// How a commit ended.
#[derive(Debug)]
#[must_use = "a task is only committed when this says so"]
pub enum CommitOutcome {
    /// The record is published, and it is ours.
    Committed,
    /// The task is another's: its record exists, or its pending record was taken away. Delete nothing.
    Conflict(Error),
    /// It could not be found out. Delete nothing; the next attempt finds out.
    Unknown(Error),
}

impl PreparedTask {
    pub(crate) fn new(facts: RecordFacts, id_column: &str, bytes: Bytes) -> Result<Self> {
        Ok(Self {
            pending: layout::pending(&facts.task)?,
            committed: layout::committed(&facts.task)?,
            id_column: id_column.to_owned(),
            facts,
            bytes,
        })
    }

    /// The facts that the records carry.
    pub fn facts(&self) -> &RecordFacts {
        &self.facts
    }

    /// Publishes the record without ever replacing one. Answers whether the pending record is still there.
    pub(crate) async fn publish(&self, storage: &StorageRef) -> Result<(CommitOutcome, bool)> {
        if storage.capabilities().atomic_rename {
            let options = RenameOptions::new().mode(WriteMode::IfAbsent).settle(true);
            let outcome = match storage.rename(&self.pending, &self.committed, options).await {
                Ok(outcome) => outcome,
                // Refused by the lease, before anything was done.
                Err(error) if matches!(error.kind(), Fs::Conflict | Fs::Unsupported) => return Err(error.into()),
                Err(error) if error.is_not_found() => return Ok((self.pending_gone(storage, error).await, false)),
                Err(error) => return Ok((self.read_back(storage, Error::from(error)).await, true)),
            };
            return self.settle(storage, outcome).await.map(|o| {
                let left = !matches!(o, CommitOutcome::Committed);
                (o, left)
            });
        }
        let outcome = match create(storage, &self.committed, self.bytes.clone()).await {
            Ok(outcome) => self.settle(storage, outcome).await?,
            // Refused by the lease, before it was sent.
            Err(error) if matches!(error.kind(), Fs::Conflict | Fs::Unsupported) => return Err(error.into()),
            Err(error) => self.read_back(storage, error.into()).await,
        };
        Ok((outcome, true))
    }

    async fn settle(&self, storage: &StorageRef, outcome: WriteOutcome) -> Result<CommitOutcome> {
        Ok(match outcome {
            WriteOutcome::Done(_) => CommitOutcome::Committed,
            WriteOutcome::AlreadyExists => {
                let url = storage.url_of(&self.committed);
                self.read_back(storage, Error::conflict(format!("a record is already there: url={url}"))).await
            }
            WriteOutcome::Unknown(error) => self.read_back(storage, error.into()).await,
        })
    }

    /// The pending record was not there to be renamed, so nothing is in flight: either an earlier try of this
    /// commit published it, or the next owner swept it away.
    async fn pending_gone(&self, storage: &StorageRef, error: checkpoint_fs::Error) -> CommitOutcome {
        match storage.read_optional(&self.committed, whole()).await {
            Ok(None) => CommitOutcome::Conflict(
                Error::conflict(format!(
                    "the pending record of task {} was taken away: url={}",
                    self.facts.task,
                    storage.url_of(&self.pending)
                ))
                .with_hint("nothing was deleted; another job used this checkpoint at the same time"),
            ),
            _ => self.read_back(storage, error.into()).await,
        }
    }

    /// The error for a commit of which nobody knows whether it counts.
    pub(crate) fn doubtful(&self, why: &dyn std::fmt::Display) -> Error {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!("whether task {} was committed cannot be found out: {why}", self.facts.task),
        )
        .with_hint("nothing was deleted; run the same command again, it finds out and goes on")
    }

    /// Settles a doubtful commit by reading the record: only ours carries our token.
    async fn read_back(&self, storage: &StorageRef, doubt: Error) -> CommitOutcome {
        let read = match storage.read_optional(&self.committed, whole()).await {
            Ok(Some(read)) => read,
            // Nothing is there now. The request that was in doubt may still land.
            Ok(None) => return CommitOutcome::Unknown(self.doubtful(&doubt)),
            Err(error) => {
                return CommitOutcome::Unknown(self.doubtful(&format_args!("{doubt}; reading back: {error}")));
            }
        };
        let found = record::decode(read.bytes, Some(&self.id_column)).ok().and_then(|r| r.facts);
        if found.is_some_and(|f| f.write_token == self.facts.write_token) {
            return CommitOutcome::Committed;
        }
        CommitOutcome::Conflict(
            Error::conflict(format!(
                "task {} has a record that this attempt did not write: url={}",
                self.facts.task,
                storage.url_of(&self.committed)
            ))
            .with_hint("nothing was deleted; another job used this checkpoint at the same time"),
        )
    }
}
