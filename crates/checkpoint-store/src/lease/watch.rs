//! Whether the attempt before has ended: by its word, by its process, or by watching its lease.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::{AttemptFile, AttemptState, LONGEST, LeaseOptions};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::runtime::Liveness;

/// How often a watched lease is read.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How waiting for another attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// It has ended, or is proven dead.
    Ended,
    /// Its file was removed: its owner ended the job and deleted the checkpoint. Everything is to be looked
    /// at anew.
    Vanished,
}

/// Returns once the last attempt has surely ended.
pub(super) async fn wait_for_end(c: &Checkpoint, last: &AttemptFile, options: &LeaseOptions) -> Result<Waited> {
    let held = |what: &str| {
        Error::conflict(format!("the checkpoint is in use by {}{what}: url={}", last.describe(), c.url()))
            .with_hint("wait for it to end, or stop it; two jobs never work on one checkpoint")
    };
    if last.state != AttemptState::Running {
        return Ok(Waited::Ended);
    }
    if LiveNonce::is_alive(&last.nonce) {
        return Err(held(" (this process)"));
    }
    // That the process is gone which led a cluster says nothing of those that work there.
    if options.trust_process && last.writes.is_empty() {
        let me = c.runtime.identity();
        // Without the start of a process, an equal ID may be another process of another machine.
        if last.owner == me && me.start_ticks.is_some() {
            return Ok(Waited::Ended);
        }
        match c.runtime.liveness(&last.owner) {
            Liveness::Alive => return Err(held(", which is running on this host")),
            Liveness::Gone => {
                tracing::info!(attempt = last.attempt, pid = last.owner.pid, "its process is gone; taking over");
                return Ok(Waited::Ended);
            }
            Liveness::Unknown => {}
        }
    }
    watch(c, last, held).await
}

/// Watches a lease on our own clock: a renewal means that its owner lives. The last look comes after the
/// lease's full length.
async fn watch(c: &Checkpoint, last: &AttemptFile, held: impl Fn(&str) -> Error) -> Result<Waited> {
    let length = Duration::from_secs(last.lease_seconds.max(1)).min(LONGEST);
    tracing::warn!(
        "{} may still be running: watching its lease for {} s before taking over",
        last.describe(),
        length.as_secs()
    );
    let began = c.runtime.elapsed();
    loop {
        let left = length.saturating_sub(c.runtime.elapsed().saturating_sub(began));
        if left.is_zero() {
            return Ok(Waited::Ended);
        }
        c.runtime.sleep(left.min(LOOK_EVERY)).await;
        let Some(now) = c.read_attempt(last.attempt).await? else { return Ok(Waited::Vanished) };
        if now.state != AttemptState::Running {
            return Ok(Waited::Ended);
        }
        if now != *last {
            return Err(held(", which renewed its lease while it was watched"));
        }
    }
}

/// The mark of an attempt that lives in this process, for as long as this value does.
#[derive(Debug)]
pub(super) struct LiveNonce(String);

impl LiveNonce {
    pub(super) fn new(nonce: String) -> Self {
        alive().insert(nonce.clone());
        Self(nonce)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn is_alive(nonce: &str) -> bool {
        alive().contains(nonce)
    }
}

impl Drop for LiveNonce {
    fn drop(&mut self) {
        alive().remove(&self.0);
    }
}

fn alive() -> MutexGuard<'static, HashSet<String>> {
    static ALIVE: OnceLock<Mutex<HashSet<String>>> = OnceLock::new();
    ALIVE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}
