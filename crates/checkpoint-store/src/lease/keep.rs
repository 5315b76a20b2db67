//! Keeping a lease: renewals in the background, and the time that is left of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use checkpoint_fs::{Guard, StorageRef, WriteOptions};

use super::{AttemptFile, AttemptState, LeaseOptions, timestamp};
use crate::checkpoint::{read_json, to_json};
use crate::error::{Error, ErrorKind, Result};
use crate::layout;
use crate::runtime::RuntimeRef;

/// What the owner of a lease and its keeper share.
#[derive(Debug)]
pub(super) struct Shared {
    runtime: RuntimeRef,
    pub(super) control: StorageRef,
    options: LeaseOptions,
    state: Mutex<State>,
    /// Whether a create-only write keeps other owners out; else the user has said that there are none.
    create_only: bool,
    /// Held around each renewal, so that the end of the attempt never races with one.
    pub(super) renewing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    file: AttemptFile,
    valid_until: Duration,
    lost: Option<String>,
}

impl Shared {
    /// A lease that was taken by a request sent at `began`; `create_only`, where creating it decided.
    pub(super) fn new(
        runtime: RuntimeRef,
        control: StorageRef,
        options: LeaseOptions,
        file: AttemptFile,
        (began, create_only): (Duration, bool),
    ) -> Self {
        let valid_until = began + options.duration;
        let state = Mutex::new(State { file, valid_until, lost: None });
        Self { runtime, control, options, state, create_only, renewing: tokio::sync::Mutex::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn file(&self) -> AttemptFile {
        self.lock().file.clone()
    }

    /// Sets the state, and gives the file that says so.
    pub(super) fn set_state(&self, state: AttemptState) -> AttemptFile {
        let now = timestamp(&self.runtime);
        let mut shared = self.lock();
        shared.file.state = state;
        shared.file.renewed = now;
        shared.file.clone()
    }

    pub(super) fn add_writes(&self, writes: Vec<String>) {
        let mut shared = self.lock();
        for write in writes {
            if !shared.file.writes.contains(&write) {
                shared.file.writes.push(write);
            }
        }
    }

    pub(super) fn lose(&self, why: String) {
        self.lock().lost.get_or_insert(why);
    }

    /// The time in which a request may still be at work.
    pub(super) fn remaining(&self) -> checkpoint_fs::Result<Duration> {
        let state = self.lock();
        let refuse = |why: &str| {
            checkpoint_fs::Error::new(
                checkpoint_fs::ErrorKind::Conflict,
                format!("attempt {} no longer owns the checkpoint: {why}", state.file.attempt),
            )
            .with_hint("nothing was deleted and nothing of this attempt is half done; run the same command again")
        };
        if let Some(why) = &state.lost {
            return Err(refuse(why));
        }
        let left = state.valid_until.saturating_sub(self.runtime.elapsed()).saturating_sub(self.options.margin);
        if left.is_zero() {
            return Err(refuse(
                "its lease ran out before it could be renewed (the process was stopped, or the store did not answer)",
            ));
        }
        Ok(left)
    }

    /// The same for the work of the attempt, which ends as well when the store turns out not to keep others out.
    pub(super) fn allowed(&self) -> checkpoint_fs::Result<Duration> {
        let left = self.remaining()?;
        if self.create_only && !self.control.capabilities().write_if_absent {
            return Err(checkpoint_fs::Error::unsupported(
                "this store has turned out to have no create-only write that works (versioning was switched on, for \
                 example), so a second job could not be kept out",
            )
            .with_url(self.control.url())
            .with_hint(WITHOUT_CREATE_ONLY));
        }
        Ok(left)
    }
}

/// What to do on a store that cannot decide who owns a checkpoint.
pub(super) const WITHOUT_CREATE_ONLY: &str = "give --lease-url URL on a store that has one, or --assume-exclusive if \
                                              you are sure that nothing else uses this checkpoint";

/// Refuses all work once the lease is lost or about to run out; asked again before every retry.
pub(super) fn guard(shared: &Arc<Shared>) -> Guard {
    let shared = Arc::clone(shared);
    Guard::new(move || shared.allowed())
}

/// The guard of the lease's own file, which can be written as long as the time lasts.
pub(super) fn own_guard(shared: &Arc<Shared>) -> Guard {
    let shared = Arc::clone(shared);
    Guard::new(move || shared.remaining())
}

/// Renews until the lease is lost or ended.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut pause = shared.options.renew_every;
    loop {
        shared.runtime.sleep(pause).await;
        let renewing = shared.renewing.lock().await;
        if shared.remaining().is_err() || shared.lock().file.state != AttemptState::Running {
            return;
        }
        pause = match renew(&shared).await {
            Ok(()) => shared.options.renew_every,
            Err(error) if error.kind() == ErrorKind::Conflict => {
                shared.lose(error.to_string());
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "the lease could not be renewed; trying again");
                shared.options.renew_every.min(Duration::from_secs(1))
            }
        };
        drop(renewing);
    }
}

/// One renewal. It counts from the moment it was sent, and only when the store has said that it is done.
pub(super) async fn renew(shared: &Arc<Shared>) -> Result<()> {
    let attempt = shared.lock().file.attempt;
    let next: Option<AttemptFile> = read_json(&shared.control, &layout::attempt(attempt + 1)?).await?;
    if let Some(next) = next {
        return Err(Error::conflict(format!("{} took over", next.describe())));
    }
    let began = shared.runtime.elapsed();
    let file = {
        let now = timestamp(&shared.runtime);
        let mut state = shared.lock();
        state.file.renewals += 1;
        state.file.renewed = now;
        state.file.clone()
    };
    let options = WriteOptions::new().guard(Some(own_guard(shared)));
    let written = shared.control.write(&layout::attempt(attempt)?, to_json(&file)?, options).await?;
    written.into_result(shared.control.url())?;
    shared.lock().valid_until = began + shared.options.duration;
    Ok(())
}
