//! Attempts and their leases: one owner at a time, decided by the creation of an object.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use checkpoint_fs::{Guard, ReadOptions, StorageExt, StorageRef, WriteMode, WriteOptions, WriteOutcome};
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoint, FORMAT, parse_json, read_json, to_json};
use crate::error::{Error, ErrorKind, Result};
use crate::layout;
use crate::runtime::{Liveness, ProcessIdentity, RuntimeRef, TaskHandle};

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
}

impl AttemptFile {
    fn describe(&self) -> String {
        format!("attempt {} of process {} on host {}", self.attempt, self.owner.pid, self.owner.host)
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
    /// Whether the owner's process counts as evidence. In a cluster it says nothing about the workers.
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

#[derive(Debug)]
struct Shared {
    runtime: RuntimeRef,
    control: StorageRef,
    options: LeaseOptions,
    state: Mutex<State>,
    /// Held around each renewal, so that the end of the attempt never races with one.
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    file: AttemptFile,
    valid_until: Duration,
    lost: Option<String>,
}

/// The lease of the attempt that this process owns. Dropping it stops all work that asks its guard.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
    _keeper: TaskHandle,
}

impl Lease {
    /// Takes the next attempt, once the one before has ended or is proven dead.
    ///
    /// # Errors
    /// `Conflict` naming the owner while another lives; `InvalidConfig` where the store cannot decide a
    /// race; `OutcomeUnknown`; `Storage`.
    pub(crate) async fn acquire(checkpoint: &Checkpoint, options: LeaseOptions) -> Result<Self> {
        let create_only = checkpoint.control.capabilities().write_if_absent;
        if !create_only && !options.assume_exclusive {
            return Err(no_fencing(checkpoint));
        }
        for _ in 0..32 {
            let snapshot = checkpoint.last_attempt().await?;
            if let Some(last) = &snapshot {
                wait_for_end(checkpoint, last, &options).await?;
            }
            let number = snapshot.map_or(0, |a| a.attempt) + 1;
            if let Some(lease) = Self::create(checkpoint, number, options.clone(), create_only).await? {
                return Ok(lease);
            }
        }
        Err(Error::conflict(format!("other jobs keep taking this checkpoint: url={}", checkpoint.url())))
    }

    /// Tries to create one attempt; `None` when somebody else created it first.
    async fn create(c: &Checkpoint, number: u64, options: LeaseOptions, create_only: bool) -> Result<Option<Self>> {
        let runtime = c.runtime.clone();
        let now = timestamp(&runtime);
        let file = AttemptFile {
            format: FORMAT,
            attempt: number,
            nonce: format!("{:016x}{:016x}", runtime.random(), runtime.random()),
            owner: runtime.identity(),
            lease_seconds: options.duration.as_secs().max(1),
            renewals: 0,
            state: AttemptState::Running,
            started: now.clone(),
            renewed: now,
        };
        let path = layout::attempt(number)?;
        let mode = if create_only { WriteMode::IfAbsent } else { WriteMode::Overwrite };
        let began = runtime.elapsed();
        let bytes = to_json(&file)?;
        let create = || c.control.write(&path, bytes.clone(), WriteOptions::new().mode(mode));
        let mine = match create().await? {
            WriteOutcome::Done(_) => true,
            WriteOutcome::AlreadyExists => false,
            WriteOutcome::Unknown(error) => {
                let found: Option<AttemptFile> = read_json(&c.control, &path).await?;
                match found {
                    Some(found) => found.nonce == file.nonce,
                    None => {
                        return Err(Error::new(
                            ErrorKind::OutcomeUnknown,
                            format!("whether attempt {number} was created cannot be found out: {error}"),
                        )
                        .with_hint("nothing was processed; run the same command again")
                        .with_source(error));
                    }
                }
            }
        };
        if !mine {
            return Ok(None);
        }
        // Some stores accept the condition and ignore it (COS and OSS with versioning): the second create
        // of what is surely there must fail.
        if create_only && !options.assume_exclusive && matches!(create().await?, WriteOutcome::Done(_)) {
            return Err(no_fencing(c));
        }
        live_nonces().insert(file.nonce.clone());
        let valid_until = began + options.duration;
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            control: c.control.clone(),
            options,
            state: Mutex::new(State { file, valid_until, lost: None }),
            renewing: tokio::sync::Mutex::new(()),
        });
        let keeper = runtime.spawn(Box::pin(keep(shared.clone())));
        Ok(Some(Self { shared, _keeper: keeper }))
    }

    /// The number of the attempt.
    pub(crate) fn attempt(&self) -> u64 {
        self.shared.lock().file.attempt
    }

    /// Refuses everything once the lease is lost or about to run out.
    pub(crate) fn guard(&self) -> Guard {
        let shared = self.shared.clone();
        Guard::new(move || shared.remaining())
    }

    /// Whether it still holds.
    ///
    /// # Errors
    /// `Conflict` that says who took over, or that it ran out.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.remaining().map(drop).map_err(Error::from)
    }

    /// Ends the attempt: the lease is free for the next at once.
    pub(crate) async fn end(&self, state: AttemptState) -> Result<()> {
        let _renewing = self.shared.renewing.lock().await;
        self.check()?;
        let file = {
            let mut shared = self.shared.lock();
            shared.file.state = state;
            shared.file.renewed = timestamp(&self.shared.runtime);
            shared.file.clone()
        };
        let options = WriteOptions::new().guard(Some(self.guard()));
        let written = self.shared.control.write(&layout::attempt(file.attempt)?, to_json(&file)?, options).await;
        self.shared.lose("the attempt has ended".to_owned());
        written?.into_result(self.shared.control.url()).map_err(Error::from).map(drop)
    }

    /// Stops renewing for good, so that the attempt's file can be deleted. The lease must still cover what
    /// follows.
    pub(crate) async fn stop_renewing(&self) {
        let _renewing = self.shared.renewing.lock().await;
        let mut state = self.shared.lock();
        state.file.state = AttemptState::Succeeded;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.lose("the attempt was dropped".to_owned());
        live_nonces().remove(&self.shared.lock().file.nonce);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, why: String) {
        self.lock().lost.get_or_insert(why);
    }

    fn remaining(&self) -> checkpoint_fs::Result<Duration> {
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
}

/// Renews until the lease is lost or ended.
async fn keep(shared: Arc<Shared>) {
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

async fn renew(shared: &Shared) -> Result<()> {
    let attempt = shared.lock().file.attempt;
    let next: Option<AttemptFile> = read_json(&shared.control, &layout::attempt(attempt + 1)?).await?;
    if let Some(next) = next {
        return Err(Error::conflict(format!("{} took over", next.describe())));
    }
    let began = shared.runtime.elapsed();
    let file = {
        let mut state = shared.lock();
        state.file.renewals += 1;
        state.file.renewed = timestamp(&shared.runtime);
        state.file.clone()
    };
    let left = shared.remaining()?;
    let options = WriteOptions::new().guard(Some(Guard::new(move || Ok(left))));
    let written = shared.control.write(&layout::attempt(attempt)?, to_json(&file)?, options).await?;
    written.into_result(shared.control.url())?;
    shared.lock().valid_until = began + shared.options.duration;
    Ok(())
}

impl Checkpoint {
    /// The highest attempt there is.
    async fn last_attempt(&self) -> Result<Option<AttemptFile>> {
        let listed = self.control.list_files(&layout::attempts_dir()?, false).await?;
        let highest =
            listed.iter().filter_map(|(path, _)| path.name().strip_suffix(".json")?.parse::<u64>().ok()).max();
        let mut number = highest.unwrap_or(0);
        let mut last = None;
        loop {
            if number > 0 {
                match read_json::<AttemptFile>(&self.control, &layout::attempt(number)?).await? {
                    Some(found) => last = Some(found),
                    None if Some(number) == highest => {}
                    None => return Ok(last),
                }
            }
            number += 1;
        }
    }
}

/// Returns once the last attempt has surely ended.
async fn wait_for_end(checkpoint: &Checkpoint, last: &AttemptFile, options: &LeaseOptions) -> Result<()> {
    let held = |what: &str| {
        Error::conflict(format!("the checkpoint is in use by {}{what}: url={}", last.describe(), checkpoint.url()))
            .with_hint("wait for it to end, or stop it; two jobs never work on one checkpoint")
    };
    if last.state != AttemptState::Running {
        return Ok(());
    }
    let me = checkpoint.runtime.identity();
    if last.owner == me {
        return if live_nonces().contains(&last.nonce) { Err(held(" (this process)")) } else { Ok(()) };
    }
    match checkpoint.runtime.liveness(&last.owner) {
        Liveness::Alive => Err(held(", which is running on this host")),
        Liveness::Gone if options.trust_process => {
            tracing::info!(attempt = last.attempt, pid = last.owner.pid, "its process is gone; taking over");
            Ok(())
        }
        _ => watch(checkpoint, last, held).await,
    }
}

/// Watches a lease on our own clock: a renewal means that its owner lives.
async fn watch(c: &Checkpoint, last: &AttemptFile, held: impl Fn(&str) -> Error) -> Result<()> {
    let path = layout::attempt(last.attempt)?;
    let length = Duration::from_secs(last.lease_seconds.clamp(1, 3600));
    tracing::warn!(
        "{} may still be running: watching its lease for {} s before taking over",
        last.describe(),
        length.as_secs()
    );
    let began = c.runtime.elapsed();
    loop {
        let left = length.saturating_sub(c.runtime.elapsed().saturating_sub(began));
        if left.is_zero() {
            return Ok(());
        }
        c.runtime.sleep(left.min(Duration::from_secs(2))).await;
        let Some(read) = c.control.read_optional(&path, ReadOptions::new()).await? else {
            return Err(held(" (its lease was removed while it was watched)"));
        };
        let now: AttemptFile = parse_json(&read.bytes, &c.control.url_of(&path))?;
        if now.state != AttemptState::Running {
            return Ok(());
        }
        if now != *last {
            return Err(held(", which renewed its lease while it was watched"));
        }
    }
}

fn no_fencing(checkpoint: &Checkpoint) -> Error {
    Error::invalid_config(format!(
        "this store has no create-only write that works, so a second job could not be kept out: url={}",
        checkpoint.url()
    ))
    .with_hint("give --lease-url URL on a store that has one, or --assume-exclusive if you are sure that nothing else uses this checkpoint")
}

pub(crate) fn timestamp(runtime: &RuntimeRef) -> String {
    rfc3339(runtime.now())
}

pub(crate) fn rfc3339(time: std::time::SystemTime) -> String {
    jiff::Timestamp::try_from(time).map(|t| format!("{t:.3}")).unwrap_or_default()
}

/// The attempts that live in this process, by nonce.
fn live_nonces() -> MutexGuard<'static, HashSet<String>> {
    static LIVE: OnceLock<Mutex<HashSet<String>>> = OnceLock::new();
    LIVE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}
