//! Streamed writes of several parts over connections that break: whole or not at all.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{ErrorKind, ObjectPath, StorageExt, StorageRef, WriteOptions, WriteOutcome};
use checkpoint_testkit::proxy::Hardship;
use checkpoint_tests::{Backend, Stand, on_each_backend};

use crate::objects::{bounded, changes, get, noise};

on_each_backend! { uploads_survive, an_upload_that_breaks_off_leaves_nothing }

const LARGE: usize = (17 << 20) + 7;

async fn upload(storage: &StorageRef, at: &str, bytes: &Bytes) -> checkpoint_fs::Result<WriteOutcome> {
    let mut writer = storage.writer(&ObjectPath::parse(at)?, WriteOptions::new()).await?;
    for piece in bytes.chunks(5 << 20) {
        if let Err(error) = writer.write(Bytes::copy_from_slice(piece)).await {
            // What is left of it is the store's to forget.
            let _ = writer.abort().await;
            return Err(error);
        }
    }
    writer.finish().await
}

/// Each request of an upload meets trouble once: its beginning, its parts, its completion.
async fn uploads_survive(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.opening().patience(3.0).open().await?;
    let bytes = noise(LARGE);
    for hardship in [
        Hardship::ResetAnswer,
        Hardship::CutBody,
        Hardship::Answered { status: 500, headers: Vec::new(), body: String::new() },
    ] {
        let strike = hardship.clone();
        stand.proxy.plan(move |request| (changes(request) && request.number % 2 == 0).then(|| strike.clone()));
        let outcome = bounded("upload", upload(&storage, "large", &bytes)).await?;
        let struck = stand.proxy.struck();
        stand.proxy.calm();
        let outcome = outcome.with_context(|| format!("{hardship:?}"))?;
        ensure!(matches!(outcome, WriteOutcome::Done(_)), "{hardship:?}: {outcome:?}");
        ensure!(struck >= 3, "{hardship:?} befell {struck} requests");
        ensure!(get(&storage, "large").await? == bytes, "{hardship:?}");
    }
    Ok(())
}

/// From some request on nothing works any more: the write fails, or is not known to be done, and nothing is
/// there.
async fn an_upload_that_breaks_off_leaves_nothing(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    let bytes = noise(LARGE);
    for from in 0..3 {
        stand.proxy.plan(move |request| (request.number >= from).then_some(Hardship::ResetRequest));
        let at = format!("large-{from}");
        let error = match bounded("upload", upload(&storage, &at, &bytes)).await? {
            Ok(WriteOutcome::Unknown(error)) | Err(error) => error,
            Ok(outcome) => anyhow::bail!("from {from}: {outcome:?}"),
        };
        stand.proxy.calm();
        ensure!(error.kind() == ErrorKind::Io, "from {from}: {error:?}");
        let there = storage.stat_optional(&ObjectPath::parse(at)?).await?;
        ensure!(there.is_none(), "from {from}: {there:?}");
    }
    ensure!(storage.list_files(&ObjectPath::root(), true).await?.is_empty());
    Ok(())
}
