//! Attempts and their leases: one owner at a time, decided by the creation of an object.

mod keep;
mod take;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use checkpoint_fs::{Guard, WriteOptions};
use serde::{Deserialize, Serialize};

use self::keep::Shared;
use self::watch::LiveNonce;
use crate::checkpoint::to_json;
use crate::error::{Error, Result};
use crate::layout;
use crate::runtime::{ProcessIdentity, RuntimeRef, TaskHandle};

/// The longest lease: nobody should have to watch a dead one for longer.
const LONGEST: Duration = Duration::from_secs(3600);

/// How an attempt stands, as its owner last wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AttemptState {
    /// At work, or dead without a word.
    Running,
    /// Ended, all rows done.
    Succeeded,
    /// Ended by an error.
    Failed,
    /// Ended because it was asked to.
    Interrupted,
    /// Was there to recover, compact or remove, and has.
    Maintained,
}

/// The file `_meta/attempts/<k>.json`: an attempt, its owner, and its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFile {
    /// The version of the format.
    pub format: u32,
    /// Its number, from 1.
    pub attempt: u64,
    /// Random; tells this owner from any other that tried the same number.
    pub nonce: String,
    /// Who owns it.
    pub owner: ProcessIdentity,
    /// How long it holds after each renewal.
    pub lease_seconds: u64,
    /// How often it was renewed: what a watcher watches.
    pub renewals: u64,
    /// How it stands.
    pub state: AttemptState,
    /// When it began (RFC 3339), for people.
    pub started: String,
    /// When it was last written (RFC 3339), for people; nothing is decided by it.
    pub renewed: String,
    /// What is in the names of the tasks that another engine runs for this attempt, on any machine: the UUIDs of Ray's
    /// writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
}

impl AttemptFile {
    fn describe(&self) -> String {
        format!("attempt {} of process {} on host {}", self.attempt, self.owner.pid, self.owner.host)
    }

    /// Whether a task of another engine, by its name, is of this attempt.
    pub(crate) fn names(&self, task: &str) -> bool {
        self.writes.iter().any(|write| task.contains(write.as_str()))
    }
}

/// How leases are kept. The defaults suit every store; tests shorten them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LeaseOptions {
    /// How long a lease holds after its last renewal.
    pub duration: Duration,
    /// How often it is renewed. Above one second: some stores allow one write per second and object.
    pub renew_every: Duration,
    /// Time before the end of the lease from which nothing is started any more.
    pub margin: Duration,
    /// Whether the owner's process counts as evidence. It never does where the owner named tasks that another engine
    /// runs, since it says nothing about the workers of a cluster.
    pub trust_process: bool,
    /// The user's word that nobody else works on this checkpoint; for stores without a create-only write.
    pub assume_exclusive: bool,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(30),
            renew_every: Duration::from_secs(5),
            margin: Duration::from_secs(3),
            trust_process: true,
            assume_exclusive: false,
        }
    }
}

impl LeaseOptions {
    /// Refuses settings under which a healthy owner would lose its lease, or a watcher could not wait it out.
    fn check(&self) -> Result<()> {
        let rule = if self.renew_every.is_zero() {
            "a lease needs some time between two renewals"
        } else if self.renew_every + self.margin >= self.duration {
            "a lease must outlast the time between two renewals and its margin"
        } else if self.duration > LONGEST {
            "a lease lasts one hour at most"
        } else {
            return Ok(());
        };
        let Self { duration, renew_every, margin, .. } = self;
        Err(Error::invalid_config(format!(
            "{rule}: duration={duration:?} renew_every={renew_every:?} margin={margin:?}"
        ))
        .with_hint("the defaults suit every store"))
    }
}

/// The lease of the attempt that this process owns. Dropping it stops all work that asks its guard.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
    _keeper: TaskHandle,
    _nonce: LiveNonce,
}

impl Lease {
    /// The number of the attempt.
    pub(crate) fn attempt(&self) -> u64 {
        self.shared.file().attempt
    }

    /// What tells it from any other attempt of its number.
    pub(crate) fn nonce(&self) -> String {
        self.shared.file().nonce
    }

    /// Refuses everything once the lease is lost or about to run out, or keeps nobody out.
    pub(crate) fn guard(&self) -> Guard {
        keep::guard(&self.shared)
    }

    /// Whether work may go on under it.
    ///
    /// # Errors
    /// `Conflict` that says who took over, or that it ran out; `InvalidConfig` when the store has turned out to
    /// have no create-only write that works.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.allowed().map(drop).map_err(Error::from)
    }

    /// Whether it has been this attempt's all the time until now.
    ///
    /// # Errors
    /// `Conflict` as for [`Lease::check`].
    pub(crate) fn check_held(&self) -> Result<()> {
        self.shared.remaining().map(drop).map_err(Error::from)
    }

    /// Ends the attempt: the lease is free for the next at once.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost, or was given up: another may have the number by now.
    pub(crate) async fn end(&self, state: AttemptState) -> Result<()> {
        let _renewing = self.shared.renewing.lock().await;
        self.check_held()?;
        let file = self.shared.file();
        if file.state != AttemptState::Running {
            return Err(Error::conflict(format!("{} has given up its lease", file.describe())));
        }
        let file = self.shared.set_state(state);
        let options = WriteOptions::new().guard(Some(keep::own_guard(&self.shared)));
        let written = self.shared.control.write(&layout::attempt(file.attempt)?, to_json(&file)?, options).await;
        self.shared.lose("the attempt has ended".to_owned());
        written?.into_result(self.shared.control.url()).map_err(Error::from).map(drop)
    }

    /// Writes down that tasks of another engine whose names contain one of these are of this attempt, before the first
    /// of them starts. Two requests.
    ///
    /// # Errors
    /// `Conflict` when the lease is lost; `Storage`.
    pub(crate) async fn name_writes(&self, writes: Vec<String>) -> Result<()> {
        let _renewing = self.shared.renewing.lock().await;
        self.check()?;
        self.shared.add_writes(writes);
        keep::renew(&self.shared).await
    }

    /// Whether another engine runs tasks for the attempt.
    pub(crate) fn has_writes(&self) -> bool {
        !self.shared.file().writes.is_empty()
    }

    /// Writes the attempt's file never again, neither to renew the lease nor to [end](Lease::end) it, so that it can
    /// be deleted: the next owner may take the same number at once. The lease must still cover what follows.
    pub(crate) async fn give_up(&self) {
        let _renewing = self.shared.renewing.lock().await;
        self.shared.set_state(AttemptState::Succeeded);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.lose("the attempt was dropped".to_owned());
    }
}

pub(crate) fn timestamp(runtime: &RuntimeRef) -> String {
    rfc3339(runtime.now())
}

pub(crate) fn rfc3339(time: std::time::SystemTime) -> String {
    jiff::Timestamp::try_from(time).map(|t| format!("{t:.3}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_that_cannot_be_kept_are_refused() {
        let seconds = Duration::from_secs;
        let of = |duration, renew_every, margin| LeaseOptions { duration, renew_every, margin, ..Default::default() };
        assert!(LeaseOptions::default().check().is_ok());
        assert!(of(seconds(3600), seconds(60), seconds(9)).check().is_ok());
        for bad in [
            of(seconds(3601), seconds(60), seconds(9)),
            of(seconds(8), seconds(5), seconds(3)),
            of(seconds(8), seconds(0), seconds(3)),
        ] {
            assert_eq!(bad.check().unwrap_err().kind(), crate::ErrorKind::InvalidConfig, "{bad:?}");
        }
    }
}
