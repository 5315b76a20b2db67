//! The end of a checkpoint: deletion in an order that can be stopped anywhere and finished later.

use std::collections::BTreeSet;
use std::sync::Arc;

use checkpoint_fs::{DeleteOptions, ObjectPath, StorageExt, StorageRef, WriteOptions, WriteOutcome};

use crate::checkpoint::{Checkpoint, create, read_json, to_json};
use crate::complete::{CompleteFile, mark_path};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::FencedStorage;
use crate::layout::{self, RecordName};
use crate::lease::{AttemptState, Lease, LeaseOptions};
use crate::recovery::delete_all;

/// Writes `complete`, from which there is no way back, and then does what it says.
pub(crate) async fn complete(
    c: &Checkpoint,
    output: Option<&StorageRef>,
    lease: &Lease,
    file: CompleteFile,
) -> Result<()> {
    let path = layout::complete()?;
    match create(&c.control, &path, to_json(&file)?).await? {
        WriteOutcome::Done(_) => {}
        // A former owner, or another job's, was late with it; see `CompleteFile::holds`. Ours replaces it.
        WriteOutcome::AlreadyExists => overwrite(c, &file).await?,
        WriteOutcome::Unknown(error) => {
            if read_json::<CompleteFile>(&c.control, &path).await?.as_ref() != Some(&file) {
                return Err(Error::new(
                    ErrorKind::OutcomeUnknown,
                    format!("whether the job was marked complete cannot be found out: {error}"),
                )
                .with_hint("nothing was deleted; run the same command again"));
            }
        }
    }
    delete_everything(c, output, lease, &file).await
}

/// Removes a checkpoint whose job may not be done; the output keeps what it has.
pub(crate) async fn remove(c: &Checkpoint, lease: &Lease, file: CompleteFile) -> Result<()> {
    // A half-deleted checkpoint of a job that is done may be there: what it says is replaced.
    overwrite(c, &file).await?;
    delete_everything(c, None, lease, &file).await
}

async fn overwrite(c: &Checkpoint, file: &CompleteFile) -> Result<()> {
    let written = c.control.write(&layout::complete()?, to_json(file)?, WriteOptions::new()).await?;
    written.into_result(c.control.url())?;
    Ok(())
}

/// Finishes a deletion that was begun and not ended. Takes an attempt of its own, above `floor`.
///
/// # Errors
/// `Conflict` while whoever began it is still at it, or when the output is not the one that it belongs to;
/// `Storage`.
pub(crate) async fn finish_deletion(
    c: &Checkpoint,
    output: Option<&StorageRef>,
    options: &LeaseOptions,
    floor: u64,
) -> Result<()> {
    let lease = Lease::acquire(c, options.clone(), floor).await?;
    match finish_under(&lease, &c.fenced(&lease), output).await {
        Ok(()) => Ok(()),
        Err(error) => {
            let _ = lease.end(AttemptState::Failed).await;
            Err(error)
        }
    }
}

async fn finish_under(lease: &Lease, fenced: &Checkpoint, output: Option<&StorageRef>) -> Result<()> {
    // Whoever held the lease before us may have ended the deletion, and another job may have begun.
    let snapshot = fenced.snapshot().await?;
    let Some(file) = snapshot.complete else {
        return give_back(fenced, lease, snapshot.job.is_some()).await;
    };
    if let Some(output) = output.filter(|o| !file.removed && o.url() != file.fingerprint.output) {
        return Err(Error::conflict(format!(
            "the job is done and its checkpoint half deleted; its mark belongs into its own output: given={} \
             recorded={} url={}",
            output.url(),
            file.fingerprint.output,
            fenced.url()
        ))
        .with_hint("give the output that the job was run with, or remove the checkpoint with `ckpt rm`"));
    }
    let output = output.map(|o| -> StorageRef { Arc::new(FencedStorage::new(o.clone(), lease.guard())) });
    delete_everything(fenced, output.as_ref(), lease, &file).await
}

/// Ends an attempt that found nothing to do: beside a job it is marked as ended, without one nothing of it
/// is left behind.
pub(crate) async fn give_back(c: &Checkpoint, lease: &Lease, job: bool) -> Result<()> {
    if job {
        return lease.end(AttemptState::Maintained).await;
    }
    lease.give_up().await;
    c.control.delete(&layout::attempt(lease.attempt())?, DeleteOptions::new()).await?;
    remove_empty_dirs(c).await;
    Ok(())
}

/// Deletes the checkpoint: the mark in the output first, then records, then `_meta`, `complete` last. Every
/// step can be done again. Records that the job does not know stay, unless all is to be removed.
async fn delete_everything(
    c: &Checkpoint,
    output: Option<&StorageRef>,
    lease: &Lease,
    file: &CompleteFile,
) -> Result<()> {
    if !file.removed {
        let Some(output) = output else {
            return Err(Error::conflict(format!(
                "the job is done and its checkpoint half deleted; its mark belongs into the output: output={} url={}",
                file.fingerprint.output,
                c.url()
            ))
            .with_hint("run the job once more, or `ckpt recover` with --output"));
        };
        leave_mark(output, file).await?;
    }
    delete_records(c, file).await?;

    let complete = layout::complete()?;
    let own = layout::attempt(lease.attempt())?;
    let mut meta = Vec::new();
    for storage in c.storages() {
        for (path, _) in storage.list_files(&layout::meta_dir()?, true).await? {
            if path != complete && path != own && !meta.contains(&path) {
                meta.push(path);
            }
        }
    }
    for storage in c.storages() {
        delete_all(storage, meta.clone()).await?;
    }
    lease.give_up().await;
    c.control.delete(&own, DeleteOptions::new()).await?;
    c.control.delete(&complete, DeleteOptions::new()).await?;
    remove_empty_dirs(c).await;
    Ok(())
}

/// Writes the mark, unless a later attempt of the job has left its own there.
async fn leave_mark(output: &StorageRef, file: &CompleteFile) -> Result<()> {
    let path = mark_path(&file.job)?;
    let found: Option<CompleteFile> = read_json(output, &path).await?;
    if found.is_some_and(|found| found.attempt >= file.attempt) {
        return Ok(());
    }
    let written = output.write(&path, to_json(file)?, WriteOptions::new()).await?;
    written.into_result(output.url())?;
    Ok(())
}

/// Deletes the records of the job, those of Ray that it closed, and those that came late of a write that an attempt named.
/// What is of others stays.
async fn delete_records(c: &Checkpoint, file: &CompleteFile) -> Result<()> {
    let snapshot = c.snapshot().await?;
    let known: BTreeSet<&String> = snapshot.closed.records.union(&snapshot.closed.void).collect();
    let mut records = Vec::new();
    for (path, _) in c.storage.list_files(&ObjectPath::root(), false).await? {
        let ours = match RecordName::parse(path.name()) {
            None => false,
            Some(_) if file.removed => true,
            Some(RecordName::Own(task)) => task.job == file.job,
            Some(RecordName::Merged(merged)) => merged.job == file.job,
            Some(RecordName::Foreign(stem) | RecordName::RayPending(stem)) => {
                known.contains(&stem) || file.writes.iter().any(|write| stem.contains(write.as_str()))
            }
        };
        if ours {
            records.push(path);
        }
    }
    delete_all(&c.storage, records).await
}

/// Leaves no empty directories behind where directories exist.
async fn remove_empty_dirs(c: &Checkpoint) {
    let names = [
        "_meta/pending",
        "_meta/attempts",
        "_meta/closed",
        "_meta/fingerprints",
        "_meta/merged",
        "_meta/damaged",
        "_meta",
        "",
    ];
    for name in names {
        let Ok(path) = ObjectPath::parse(name) else { continue };
        for storage in c.storages() {
            if !storage.capabilities().directories {
                continue;
            }
            if let Err(error) = storage.delete(&path, DeleteOptions::new()).await {
                tracing::debug!(%error, "a directory of the checkpoint stays");
            }
        }
    }
}
