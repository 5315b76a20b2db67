//! Copies: of one source whole, in as many steps as they take.

use anyhow::{Result, ensure};
use checkpoint_fs::{CopyOptions, ErrorKind, Retry, Storage, WriteMode, WriteOutcome};

use crate::bucket::{bytes_of, create, error_of, noise, path, start};

/// Half of one object and half of another, with the description of a third, would be nobody's.
#[tokio::test]
async fn a_copy_is_of_the_source_that_was_described() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    storage.write(&path("from")?, noise(1000), create()).await?.into_result("from")?;
    for options in [CopyOptions::new(), CopyOptions::new().mode(WriteMode::IfAbsent)] {
        mock.change_source_of_next_copy();
        let error = error_of(storage.copy(&path("from")?, &path("to")?, options.clone()).await)?;
        ensure!(error.kind() == ErrorKind::Conflict && error.retry() == Retry::Maybe, "{error:?}");
        ensure!(mock.names(&bucket).0 == ["root/from"], "{:?}", mock.names(&bucket));
    }
    storage.copy(&path("from")?, &path("to")?, CopyOptions::new()).await?.into_result("to")?;
    mock.change_source_of_next_copy();
    let only_new = CopyOptions::new().mode(WriteMode::IfAbsent);
    let outcome = storage.copy(&path("from")?, &path("to")?, only_new).await?;
    ensure!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn large_copies_go_on_until_they_are_done() -> Result<()> {
    let (mock, _, storage) = start()?;
    let bytes = noise(1_000_000);
    storage.write(&path("from")?, bytes.clone(), create()).await?.into_result("from")?;
    mock.forget_requests();
    let only_new = CopyOptions::new().mode(WriteMode::IfAbsent);
    storage.copy(&path("from")?, &path("to")?, only_new.clone()).await?.into_result("to")?;
    let steps = mock.requests().iter().filter(|request| request.path.contains("/rewriteTo/")).count();
    ensure!(steps == 4, "{steps} steps");
    ensure!(bytes_of(&storage, "to").await? == bytes);
    let outcome = storage.copy(&path("from")?, &path("to")?, only_new).await?;
    ensure!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
    Ok(())
}
