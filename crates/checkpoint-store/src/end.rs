//! The end of a checkpoint: deletion in an order that can be stopped anywhere and finished later.

use checkpoint_fs::{DeleteOptions, ObjectPath, StorageExt, StorageRef, WriteMode, WriteOptions, WriteOutcome};

use crate::checkpoint::{Checkpoint, read_json, to_json};
use crate::complete::{CompleteFile, mark_path};
use crate::error::{Error, ErrorKind, Result};
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
    let mode = if c.control.capabilities().write_if_absent { WriteMode::IfAbsent } else { WriteMode::Overwrite };
    match c.control.write(&path, to_json(&file)?, WriteOptions::new().mode(mode)).await? {
        WriteOutcome::Done(_) => {}
        WriteOutcome::AlreadyExists => {
            return Err(Error::conflict(format!(
                "the job was completed by somebody else: url={}",
                c.control.url_of(&path)
            )));
        }
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
    let written = c.control.write(&layout::complete()?, to_json(&file)?, WriteOptions::new()).await?;
    written.into_result(c.url())?;
    delete_everything(c, None, lease, &file).await
}

/// Finishes a deletion that was begun and not ended. Takes an attempt of its own.
///
/// # Errors
/// `Conflict` while whoever began it is still at it; `Storage`.
pub(crate) async fn finish_deletion(c: &Checkpoint, output: Option<&StorageRef>, options: &LeaseOptions) -> Result<()> {
    let lease = Lease::acquire(c, options.clone()).await?;
    let fenced = c.fenced(&lease);
    let Some(file) = read_json::<CompleteFile>(&fenced.control, &layout::complete()?).await? else {
        // Whoever held the lease before us ended the deletion meanwhile; our attempt's file is all there is.
        lease.stop_renewing().await;
        fenced.control.delete(&layout::attempt(lease.attempt())?, DeleteOptions::new()).await?;
        return Ok(());
    };
    let output: Option<StorageRef> = output
        .map(|o| -> StorageRef { std::sync::Arc::new(crate::fence::FencedStorage::new(o.clone(), lease.guard())) });
    match delete_everything(&fenced, output.as_ref(), &lease, &file).await {
        Ok(()) => Ok(()),
        Err(error) => {
            let _ = lease.end(AttemptState::Failed).await;
            Err(error)
        }
    }
}

/// Deletes the checkpoint: the mark in the output first, then records, then `_meta`, `complete` last. Every
/// step can be done again.
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
        let written = output.write(&mark_path(&file.job)?, to_json(file)?, WriteOptions::new()).await?;
        written.into_result(output.url())?;
    }
    let mut records = Vec::new();
    for (path, _) in c.storage.list_files(&ObjectPath::root(), false).await? {
        if RecordName::parse(path.name()).is_some() {
            records.push(path);
        }
    }
    delete_all(&c.storage, records).await?;

    let complete = layout::complete()?;
    let own = layout::attempt(lease.attempt())?;
    let mut meta = Vec::new();
    for storage in [&c.storage, &c.control] {
        for (path, _) in storage.list_files(&layout::meta_dir()?, true).await? {
            if path != complete && path != own && !meta.contains(&path) {
                meta.push(path);
            }
        }
    }
    delete_all(&c.storage, meta.clone()).await?;
    delete_all(&c.control, meta).await?;
    lease.stop_renewing().await;
    c.control.delete(&own, DeleteOptions::new()).await?;
    c.control.delete(&complete, DeleteOptions::new()).await?;
    remove_empty_dirs(c).await;
    Ok(())
}

/// Leaves no empty directories behind where directories exist.
async fn remove_empty_dirs(c: &Checkpoint) {
    if !c.storage.capabilities().directories {
        return;
    }
    let names = ["_meta/pending", "_meta/attempts", "_meta/closed", "_meta/fingerprints", "_meta/damaged", "_meta", ""];
    for name in names {
        let Ok(path) = ObjectPath::parse(name) else { continue };
        for storage in [&c.storage, &c.control] {
            if let Err(error) = storage.delete(&path, DeleteOptions::new()).await {
                tracing::debug!(%error, "a directory of the checkpoint stays");
            }
        }
    }
}
