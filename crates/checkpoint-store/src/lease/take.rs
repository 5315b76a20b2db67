//! Taking a lease: the creation of the next attempt's file decides.

use std::sync::Arc;

use bytes::Bytes;
use checkpoint_fs::{CreateDirOptions, ObjectPath, StorageExt, WriteMode, WriteOptions, WriteOutcome};

use super::keep::{Shared, WITHOUT_CREATE_ONLY, keep};
use super::watch::{LiveNonce, Waited, wait_for_end};
use super::{AttemptFile, AttemptState, Lease, LeaseOptions, timestamp};
use crate::checkpoint::{Checkpoint, FORMAT, to_json};
use crate::error::{Error, ErrorKind, Result};
use crate::layout;

/// How often a take is begun anew because somebody else was faster.
const TRIES: usize = 32;
/// How often the second create is tried when its outcome is unknown.
const PROBES: usize = 3;

impl Lease {
    /// Takes the next attempt, once the one before has ended or is proven dead. Its number is above `floor`
    /// and above every attempt that can be found, so that no name is ever made twice.
    ///
    /// What was read of the checkpoint before is stale then: it may have been finished, deleted and begun
    /// again meanwhile. Whoever takes a lease looks again.
    ///
    /// # Errors
    /// `Conflict` naming the owner while another lives; `InvalidConfig` where the store cannot decide a
    /// race; `OutcomeUnknown`; `Storage`.
    pub(crate) async fn acquire(checkpoint: &Checkpoint, options: LeaseOptions, floor: u64) -> Result<Self> {
        options.check()?;
        for _ in 0..TRIES {
            // Looked at each time: an answer may have shown meanwhile that it does not work after all.
            let create_only = checkpoint.control.capabilities().write_if_absent;
            if !create_only && !options.assume_exclusive {
                // A store that cannot be written to at all says so better itself.
                checkpoint.control.create_dir(&layout::attempts_dir()?, CreateDirOptions::new()).await?;
                return Err(no_fencing(checkpoint));
            }
            let last = checkpoint.last_attempt().await?;
            if let Some(last) = &last
                && matches!(wait_for_end(checkpoint, last, &options).await?, Waited::Vanished)
            {
                continue;
            }
            let number = last.map_or(0, |a| a.attempt).max(floor) + 1;
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
        // Known as alive before the file is there: who finds it in this very process must not take it for dead.
        let nonce = LiveNonce::new(format!("{:016x}{:016x}", runtime.random(), runtime.random()));
        let length = options.duration;
        let file = AttemptFile {
            format: FORMAT,
            attempt: number,
            nonce: nonce.as_str().to_owned(),
            owner: runtime.identity(),
            // Rounded up: a watcher must not give up before the owner does.
            lease_seconds: length.as_secs() + u64::from(length.subsec_nanos() > 0),
            renewals: 0,
            state: AttemptState::Running,
            started: now.clone(),
            renewed: now,
            writes: Vec::new(),
        };
        let path = layout::attempt(number)?;
        let mode = if create_only { WriteMode::IfAbsent } else { WriteMode::Overwrite };
        let began = runtime.elapsed();
        let bytes = to_json(&file)?;
        let mine = match write(c, &path, &bytes, mode).await? {
            WriteOutcome::Done(_) => true,
            WriteOutcome::AlreadyExists => false,
            WriteOutcome::Unknown(error) => match c.read_attempt(number).await? {
                Some(found) => found.nonce == file.nonce,
                None => return Err(unknown(number, error)),
            },
        };
        if !mine {
            return Ok(None);
        }
        let create_only = create_only && !options.assume_exclusive;
        if create_only {
            second_create(c, &path, &bytes, &file).await?;
        }
        let shared = Arc::new(Shared::new(runtime.clone(), c.control.clone(), options, file, (began, create_only)));
        let keeper = runtime.spawn(Box::pin(keep(shared.clone())));
        Ok(Some(Self { shared, _keeper: keeper, _nonce: nonce }))
    }
}

async fn write(c: &Checkpoint, path: &ObjectPath, bytes: &Bytes, mode: WriteMode) -> Result<WriteOutcome> {
    Ok(c.control.write(path, bytes.clone(), WriteOptions::new().mode(mode)).await?)
}

/// Some stores accept the condition and ignore it (COS and OSS with versioning): the second create of what
/// is surely there must fail.
async fn second_create(c: &Checkpoint, path: &ObjectPath, bytes: &Bytes, file: &AttemptFile) -> Result<()> {
    let mut doubt = None;
    for _ in 0..PROBES {
        // The first create may have shown it already.
        let is_gone = || !c.control.capabilities().write_if_absent;
        let outcome = if is_gone() { None } else { Some(write(c, path, bytes, WriteMode::IfAbsent).await?) };
        match outcome {
            Some(WriteOutcome::AlreadyExists) => return Ok(()),
            Some(WriteOutcome::Unknown(error)) if !is_gone() => doubt = Some(error),
            None | Some(WriteOutcome::Done(_) | WriteOutcome::Unknown(_)) => {
                let ended = AttemptFile { state: AttemptState::Failed, ..file.clone() };
                // So that a run with --assume-exclusive has nothing to wait for.
                let _ = write(c, path, &to_json(&ended)?, WriteMode::Overwrite).await?;
                return Err(no_fencing(c));
            }
        }
    }
    match doubt {
        Some(error) => Err(unknown(file.attempt, error)),
        None => Ok(()),
    }
}

impl Checkpoint {
    /// The highest attempt there is. A listing may lag, so names that follow are read.
    async fn last_attempt(&self) -> Result<Option<AttemptFile>> {
        let mut numbers = self.numbers_in(&layout::attempts_dir()?, ".json").await?;
        let mut last = None;
        while let Some(number) = numbers.pop() {
            last = self.read_attempt(number).await?;
            if last.is_some() {
                break;
            }
        }
        let mut next = last.as_ref().map_or(0, |a| a.attempt) + 1;
        while let Some(found) = self.read_attempt(next).await? {
            last = Some(found);
            next += 1;
        }
        Ok(last)
    }

    /// The numbers that name files of a directory, in order; other names are not ours.
    pub(crate) async fn numbers_in(&self, dir: &ObjectPath, ending: &str) -> Result<Vec<u64>> {
        let listed = self.control.list_files(dir, false).await?;
        let mut numbers: Vec<u64> = listed.iter().filter_map(|(path, _)| layout::number(path.name(), ending)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn unknown(attempt: u64, error: checkpoint_fs::Error) -> Error {
    Error::new(ErrorKind::OutcomeUnknown, format!("whether attempt {attempt} was created cannot be found out: {error}"))
        .with_hint("nothing was processed; run the same command again")
        .with_source(error)
}

fn no_fencing(checkpoint: &Checkpoint) -> Error {
    Error::invalid_config(format!(
        "this store has no create-only write that works, so a second job could not be kept out: url={}",
        checkpoint.control.url()
    ))
    .with_hint(WITHOUT_CREATE_ONLY)
}
