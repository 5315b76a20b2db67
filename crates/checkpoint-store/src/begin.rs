//! The beginning of an attempt: taking the lease, closing the past, loading what is done.

use std::sync::Arc;

use checkpoint_fs::{StorageRef, WriteOutcome};

use crate::attempt::{Attempt, Ready};
use crate::checkpoint::{Checkpoint, FORMAT, create, read_json, to_json};
use crate::compact::{MergeOptions, MergePolicy, after_merging};
use crate::complete::{Found, OutputView, judge};
use crate::data::DataReader;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::FencedStorage;
use crate::id::IdSetOptions;
use crate::job::{Fingerprint, JobFile};
use crate::layout;
use crate::lease::{AttemptState, Lease, LeaseOptions, timestamp};
use crate::names::JobId;
use crate::recovery::{Damage, ReadElsewhere, Settled, Settling, Wants, settle};
use crate::schema::decode_schema;
use crate::snapshot::Snapshot;

/// How often a begin starts anew because a job ended meanwhile.
const TRIES: usize = 8;

/// How an attempt begins.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BeginOptions {
    /// How the lease is kept.
    pub lease: LeaseOptions,
    /// Go on although what is read has changed, and record what it is now.
    pub allow_changed_read: bool,
    /// Add to an output that holds data of jobs whose checkpoint is gone.
    pub append: bool,
    /// How the set of the IDs that are done is built. Whether they are row hashes is what the fingerprint says.
    pub ids: IdSetOptions,
    /// Make one buffer of the IDs, for [`IdSet::buffer`](crate::IdSet::buffer), whatever the merge costs.
    pub flat_ids: bool,
    /// Have records read on other machines too.
    pub elsewhere: Option<ReadElsewhere>,
    /// Merge records when there are more small ones than this; `None` never. Each costs a request and some
    /// milliseconds at every start.
    pub compact_above: Option<u64>,
    /// The shape of merged records.
    pub merge: MergeOptions,
}

impl Default for BeginOptions {
    fn default() -> Self {
        Self {
            lease: LeaseOptions::default(),
            allow_changed_read: false,
            append: false,
            ids: IdSetOptions::default(),
            flat_ids: false,
            elsewhere: None,
            compact_above: Some(10_000),
            merge: MergeOptions::default(),
        }
    }
}

/// What [`Attempt::begin`] found.
#[derive(Debug)]
#[non_exhaustive]
pub enum Begin {
    /// There is work to do, or at least a checkpoint to own.
    Attempt(Box<Attempt>),
    /// The job ended before and nothing has changed since; nothing is owned.
    AlreadyComplete {
        /// The rows that were done.
        rows: u64,
    },
}

/// What was found once the lease was held.
enum Owned {
    Ready(Box<Ready>),
    /// The job ended while the lease was waited for, and its checkpoint is gone.
    Complete(u64),
    /// The job ended while the lease was waited for, and its deletion is under way.
    Deleting,
}

/// What the caller of [`Attempt::begin`] brought.
struct Start<'a> {
    checkpoint: &'a Checkpoint,
    output: &'a StorageRef,
    fingerprint: &'a Fingerprint,
    options: &'a BeginOptions,
    reader: &'a dyn DataReader,
}

impl Attempt {
    /// Takes the lease, closes the past, and loads the IDs that are done.
    ///
    /// In order: an unfinished deletion is finished; an output that holds data of an unknown job is refused;
    /// the fingerprint is compared; the next attempt is created, which may mean watching another's lease;
    /// all of that is looked at again, now that nobody else can change it; what counts of the attempts before
    /// is decided and written down; what does not is deleted.
    ///
    /// # Errors
    /// `Conflict` (in use, changed, another's output), `InvalidConfig`, `BadData` (a damaged committed
    /// record, by name), `OutcomeUnknown`, `Storage`.
    pub async fn begin(
        checkpoint: &Checkpoint,
        output: &StorageRef,
        fingerprint: Fingerprint,
        options: BeginOptions,
        reader: &dyn DataReader,
    ) -> Result<Begin> {
        crate::apart::check(checkpoint.url(), output.url())?;
        if fingerprint.output != output.url() {
            return Err(Error::invalid_config(format!(
                "the fingerprint names another output than the one given: given={} named={}",
                output.url(),
                fingerprint.output
            ))
            .with_hint("set `output` of the fingerprint to the URL of the output's storage"));
        }
        let start = Start { checkpoint, output, fingerprint: &fingerprint, options: &options, reader };
        for _ in 0..TRIES {
            if let Some(begin) = Box::pin(start.once()).await? {
                return Ok(begin);
            }
        }
        Err(Error::conflict(format!("other jobs keep ending on this checkpoint: url={}", checkpoint.url()))
            .with_hint("run the same command again"))
    }
}

impl Start<'_> {
    /// One try; `None` when the job that was found has ended meanwhile.
    async fn once(&self) -> Result<Option<Begin>> {
        let Self { checkpoint, output, fingerprint, options, .. } = self;
        let before = checkpoint.snapshot().await?;
        if before.complete.is_some() {
            let floor = before.highest_attempt();
            crate::end::finish_deletion(checkpoint, Some(output), &options.lease, floor).await?;
            return Ok(None);
        }
        if let Found::Complete(mark) = judge_output(checkpoint, &before, output, fingerprint, options.append).await? {
            return Ok(Some(Begin::AlreadyComplete { rows: mark.rows }));
        }
        before.refuse_headless(checkpoint.url())?;
        compare(&before, fingerprint, options.allow_changed_read, checkpoint.url())?;

        let lease = Lease::acquire(checkpoint, options.lease.clone(), before.highest_attempt()).await?;
        let fenced = checkpoint.fenced(&lease);
        let owned = match Box::pin(self.own(&fenced, &lease)).await {
            Ok(Owned::Ready(ready)) => return Ok(Some(Begin::Attempt(Box::new(Attempt::new(lease, *ready))))),
            Ok(Owned::Deleting) => lease.end(AttemptState::Maintained).await.map(|()| None),
            Ok(Owned::Complete(rows)) => {
                let done = Begin::AlreadyComplete { rows };
                crate::end::give_back(&fenced, &lease, false).await.map(|()| Some(done))
            }
            Err(error) => Err(error),
        };
        if owned.is_err() {
            let _ = lease.end(AttemptState::Failed).await;
        }
        owned
    }

    /// Everything that is done under the lease.
    async fn own(&self, fenced: &Checkpoint, lease: &Lease) -> Result<Owned> {
        let Self { fingerprint, options, reader, .. } = self;
        let url = fenced.url();
        let output: StorageRef = Arc::new(FencedStorage::new(self.output.clone(), lease.guard()));
        // What was read before the lease may have ended, and may have been begun again, by others.
        let snapshot = fenced.snapshot().await?;
        if snapshot.complete.is_some() {
            return Ok(Owned::Deleting);
        }
        if let Found::Complete(mark) = judge_output(fenced, &snapshot, &output, fingerprint, options.append).await? {
            return Ok(Owned::Complete(mark.rows));
        }
        snapshot.refuse_headless(url)?;
        let changed = compare(&snapshot, fingerprint, options.allow_changed_read, url)?;
        if changed {
            record_fingerprint(fenced, lease.attempt(), fingerprint).await?;
        }
        let held = snapshot.fingerprint_of;
        let how = Settling {
            attempt: lease.attempt(),
            fingerprint: held,
            wants: Wants {
                job: Some(fingerprint),
                ids: options.ids.clone(),
                reread: false,
                elsewhere: options.elsewhere.as_ref(),
            },
            reader: *reader,
            damage: Damage::Refuse,
            merge: options.compact_above.map_or(MergePolicy::Never, |above| MergePolicy::Above(above, options.merge)),
        };
        let settled = settle(fenced, Some(&output), &how).await?;
        // After the records that Ray left were found to have the job's IDs: what is created here stays.
        let job = create_job(fenced, fingerprint, options.append).await?;
        let Settled { closed, plan, recovery, writes, .. } = settled;
        let unread = after_merging(plan.unread, &closed.merged);
        let output_schema = plan.output_schema.as_deref().map(decode_schema).transpose()?;
        Ok(Owned::Ready(Box::new(Ready {
            checkpoint: fenced.clone(),
            output,
            job,
            fingerprint: (*fingerprint).clone(),
            closed,
            writes,
            ids: plan.ids.into_set(fenced.runtime.as_ref(), options.flat_ids).await?,
            output_schema,
            failed_rows: plan.failed_rows,
            recovery,
            data_files: plan.data_files,
            unread,
        })))
    }
}

impl Checkpoint {
    /// The same checkpoint, every effect on it under a lease.
    pub(crate) fn fenced(&self, lease: &Lease) -> Self {
        let fence = |s: &StorageRef| -> StorageRef { Arc::new(FencedStorage::new(s.clone(), lease.guard())) };
        Self { storage: fence(&self.storage), control: fence(&self.control), runtime: self.runtime.clone() }
    }
}

pub(crate) async fn judge_output(
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    output: &StorageRef,
    now: &Fingerprint,
    append: bool,
) -> Result<Found> {
    let allowed = append || snapshot.job.as_ref().is_some_and(|job| job.append);
    let view = OutputView::read(output).await?;
    let known: Vec<JobId> = snapshot.job_id().cloned().into_iter().collect();
    match judge(&view, checkpoint.url(), now, &known) {
        // With a checkpoint at hand there is something to resume, whatever marks lie about.
        Ok(Found::Complete(_)) if snapshot.job.is_some() => Ok(Found::Fresh),
        Err(_) if allowed => Ok(Found::Fresh),
        other => other,
    }
}

/// Compares with the recorded fingerprint; answers whether it must be recorded anew. A job of which nothing
/// counts yet is bound to nothing.
pub(crate) fn compare(snapshot: &Snapshot, now: &Fingerprint, allow_changed_read: bool, url: &str) -> Result<bool> {
    let Some(recorded) = &snapshot.fingerprint else { return Ok(false) };
    let difference = recorded.difference(now);
    if difference.is_empty() || !snapshot.may_count() {
        // An input that grew, or was written again under the same IDs, is recorded; so are rows.
        return Ok(recorded != now || recorded.learns_from(now));
    }
    if difference.identity.is_empty() && allow_changed_read {
        return Ok(true);
    }
    let lines: Vec<&str> = difference.lines().collect();
    let hint = if difference.identity.is_empty() {
        "undo the change; or begin again with a fresh --checkpoint and a fresh --output; or pass --allow-changed-read \
         to go on with what is read now and keep what is done"
    } else {
        "undo the change, or begin again with a fresh --checkpoint and a fresh --output"
    };
    Err(Error::conflict(format!("the job is not the one that began this checkpoint: {}: url={url}", lines.join("; ")))
        .with_hint(hint))
}

/// Records what this attempt reads. Its number is its own, so nothing can be there but a try of this write.
async fn record_fingerprint(checkpoint: &Checkpoint, attempt: u64, fingerprint: &Fingerprint) -> Result<()> {
    let path = layout::fingerprint(attempt)?;
    let outcome = create(&checkpoint.control, &path, to_json(fingerprint)?).await?;
    if let WriteOutcome::Done(_) = outcome {
        return Ok(());
    }
    let found: Option<Fingerprint> = read_json(&checkpoint.control, &path).await?;
    match (found, outcome) {
        (Some(found), _) if found == *fingerprint => Ok(()),
        (None, WriteOutcome::Unknown(error)) => Err(unknown("what the job reads was recorded", error)),
        _ => Err(Error::conflict(format!(
            "what the job reads was recorded by another under the number of this attempt: url={}/{path}",
            checkpoint.control.url()
        ))),
    }
}

/// Creates `job.json`, or reads the one that is there.
async fn create_job(checkpoint: &Checkpoint, fingerprint: &Fingerprint, append: bool) -> Result<JobFile> {
    let path = layout::job()?;
    if let Some(job) = read_json::<JobFile>(&checkpoint.control, &path).await? {
        return Ok(job);
    }
    let job = JobFile {
        format: FORMAT,
        job: JobId::random(checkpoint.runtime.as_ref()),
        created: timestamp(&checkpoint.runtime),
        append,
        fingerprint: fingerprint.clone(),
    };
    let doubt = match create(&checkpoint.control, &path, to_json(&job)?).await? {
        WriteOutcome::Done(_) => return Ok(job),
        WriteOutcome::AlreadyExists => None,
        WriteOutcome::Unknown(error) => Some(error),
    };
    match (read_json::<JobFile>(&checkpoint.control, &path).await?, doubt) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(unknown("the job was created", error)),
        (None, None) => Err(Error::conflict(format!(
            "the job was removed while it was read: url={}/{path}",
            checkpoint.control.url()
        ))),
    }
}

fn unknown(what: &str, error: checkpoint_fs::Error) -> Error {
    Error::new(ErrorKind::OutcomeUnknown, format!("whether {what} cannot be found out: {error}"))
        .with_hint("nothing was processed; run the same command again")
        .with_source(error)
}
