//! Very many objects under one prefix: all are listed, and few requests delete them.
//!
//! `CKPT_OBJECTS` says how many; 5,000 where it says nothing.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use checkpoint_fs::{DeleteOptions, ObjectPath, StorageExt, StorageRef, WriteOptions};
use checkpoint_tests::{Backend, Stand, each_of};
use futures::{StreamExt, TryStreamExt};

/// Writes in flight at once.
const WRITERS: usize = 32;

fn count() -> Result<usize> {
    match std::env::var("CKPT_OBJECTS") {
        Ok(text) => text.parse().context("CKPT_OBJECTS is no number"),
        Err(_) => Ok(5_000),
    }
}

fn name(number: usize) -> String {
    format!("many/{}/part {number:06}+%.arrow", number % 7)
}

async fn write(storage: &StorageRef, count: usize) -> Result<()> {
    let writes = futures::stream::iter(0..count).map(|number| async move {
        let path = ObjectPath::parse(name(number))?;
        storage.write(&path, "x".into(), WriteOptions::new()).await?.into_result("many")?;
        anyhow::Ok(())
    });
    writes.buffer_unordered(WRITERS).try_for_each(|()| futures::future::ready(Ok(()))).await
}

/// Keys that one request deletes: the most that each service takes.
fn keys_in_a_request(backend: Backend) -> usize {
    match backend {
        Backend::Az => 256,
        Backend::S3 | Backend::Cos | Backend::Oss | Backend::Tclake | Backend::Gs => 1000,
    }
}

/// No request more than the keys fill: 100 for 100,000 objects, and 391 at Azure.
async fn all_are_listed_and_deleted_in_batches(backend: Backend, count: usize) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    write(&storage, count).await?;
    let outside = ObjectPath::parse("outside/k")?;
    storage.write(&outside, "x".into(), WriteOptions::new()).await?.into_result("outside")?;

    let listed = storage.list_files(&ObjectPath::parse("many")?, true).await?;
    let names: BTreeSet<String> = listed.iter().map(|(path, _)| path.to_string()).collect();
    ensure!(listed.len() == count && names.len() == count, "{} entries, {} names", listed.len(), names.len());
    ensure!((0..count).all(|number| names.contains(&name(number))), "other names than were written");

    stand.proxy.plan(|_| None);
    let paths = listed.into_iter().map(|(path, _)| path).collect();
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    ensure!(failures.is_empty(), "{} failures, the first is {:?}", failures.len(), failures.first());
    let most = count.div_ceil(keys_in_a_request(backend));
    ensure!(stand.proxy.passed() <= most, "{} requests, not {most} at most", stand.proxy.passed());
    let left = storage.list_files(&ObjectPath::root(), true).await?;
    ensure!(left.len() == 1 && left[0].0 == outside, "{} objects are left", left.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_mocks() -> Result<()> {
    let count = count()?;
    each_of(&[Backend::Cos, Backend::Oss, Backend::Tclake, Backend::Gs], |backend| {
        Box::pin(all_are_listed_and_deleted_in_batches(backend, count))
    })
    .await
}

/// Fewer objects, since it is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_azurite() -> Result<()> {
    let count = count()?.div_ceil(10);
    Box::pin(all_are_listed_and_deleted_in_batches(Backend::Az, count)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_s3_server() -> Result<()> {
    let count = count()?;
    Box::pin(all_are_listed_and_deleted_in_batches(Backend::S3, count)).await
}
