//! Who is let in, what is not there, and who pays.

use anyhow::{Result, ensure};
use checkpoint_fs::{
    CopyOptions, DeleteFailure, DeleteOptions, ErrorKind, ObjectPath, ReadOptions, Registry, Retry, StatOptions,
    Storage, StorageExt, StorageOptions, WriteOptions,
};
use checkpoint_testkit::server::FakeGcsServer;
use serde_json::json;

use crate::bucket::{bytes_of, create, error_of, open, open_as, path, start, write_all};

#[tokio::test]
async fn wrong_tokens_and_missing_buckets_are_told_apart() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    storage.write(&path("a")?, "a".into(), create()).await?.into_result("a")?;
    for token in ["ya29.of-somebody-else", "anon"] {
        let stranger = open(&mock, &bucket, json!({ "token": token }))?;
        let error = error_of(stranger.read(&path("a")?, ReadOptions::new()).await)?;
        ensure!(error.kind() == ErrorKind::Unauthenticated && error.hint().is_some(), "{error:?}");
        ensure!(!format!("{error:?} {error} {stranger:?}").contains("somebody-else"), "{error:?}");
    }
    let nowhere = open(&mock, "no-such-bucket", json!({}))?;
    let delete = nowhere.delete(&path("a")?, DeleteOptions::new()).await;
    let write = nowhere.write(&path("a")?, "a".into(), create()).await;
    let many = nowhere.delete_many(vec![path("a")?], DeleteOptions::new()).await;
    // A batch tells it of each object.
    let emulated = open_as(&mock, "no-such-bucket", json!({}), false)?;
    let failures = emulated.delete_many(vec![path("a")?], DeleteOptions::new()).await?;
    let [DeleteFailure { error: of_part, .. }] = failures.as_slice() else { anyhow::bail!("{failures:?}") };
    for error in [&error_of(delete)?, &error_of(write)?, &error_of(many)?, of_part] {
        ensure!(error.kind() == ErrorKind::NotFound && error.url().contains("no-such-bucket"), "{error:?}");
        ensure!(error.hint().is_some_and(|hint| hint.contains("bucket")), "{error:?}");
    }
    let error = error_of(storage.stat(&path("none")?, StatOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::NotFound && error.service_code() == Some("notFound"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed() -> Result<()> {
    let (mock, bucket, _) = start()?;
    let user = json!({"client_id": "id", "client_secret": "s", "refresh_token": "r", "token_uri": mock.token_url()});
    let storage = open(&mock, &bucket, json!({ "token": user }))?;
    storage.write(&path("a")?, "a".into(), create()).await?.into_result("a")?;
    mock.set_token("ya29.another");
    ensure!(bytes_of(&storage, "a").await? == "a");
    let asked = mock.requests().iter().filter(|request| request.path == "/token").count();
    ensure!(asked == 2, "the token was asked for {asked} times");
    Ok(())
}

/// The answer to a batch is a success, and the token is refused inside of it.
#[tokio::test]
async fn a_token_that_is_refused_in_a_batch_is_renewed_once() -> Result<()> {
    let (mock, bucket, _) = start()?;
    let user = json!({"client_id": "id", "client_secret": "s", "refresh_token": "r", "token_uri": mock.token_url()});
    let storage = open_as(&mock, &bucket, json!({ "token": user }), false)?;
    write_all(&storage, ["a", "b", "c"].map(str::to_owned).to_vec()).await?;
    mock.set_token("ya29.another");
    mock.forget_requests();
    let paths = ["a", "b", "c"].map(ObjectPath::parse).into_iter().collect::<Result<_, _>>()?;
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    ensure!(failures.is_empty() && mock.names(&bucket).0.is_empty(), "{failures:?}");
    let seen: Vec<String> = mock.requests().into_iter().map(|request| request.path).collect();
    ensure!(seen == ["/batch/storage/v1", "/token", "/batch/storage/v1"], "{seen:?}");
    // A fixed token has nothing behind it.
    let stale = open_as(&mock, &bucket, json!({}), false)?;
    mock.forget_requests();
    let failures = stale.delete_many(vec![path("a")?, path("b")?], DeleteOptions::new()).await?;
    ensure!(failures.len() == 2 && mock.requests().len() == 1, "{failures:?}");
    for DeleteFailure { error, .. } in failures {
        ensure!(error.kind() == ErrorKind::Unauthenticated && error.retry() == Retry::Never, "{error:?}");
    }
    Ok(())
}

/// fake-gcs-server has the same words for an object and a bucket that are not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_404_that_could_mean_anything_is_looked_into() -> Result<()> {
    let server = tokio::task::spawn_blocking(FakeGcsServer::shared).await??;
    let bucket = server.new_bucket()?;
    let registry = Registry::with_environment(server.environment());
    let storage = registry.open_dir(&format!("gs://{bucket}/root"), &StorageOptions::new()).await?;
    storage.write(&path("k")?, "x".into(), WriteOptions::new()).await?.into_result("k")?;
    storage.delete(&path("none")?, DeleteOptions::new()).await?;
    let failures = storage.delete_many(vec![path("k")?, path("none")?], DeleteOptions::new()).await?;
    ensure!(failures.is_empty() && storage.list_files(&ObjectPath::root(), true).await?.is_empty(), "{failures:?}");
    let nowhere = registry.open_dir("gs://no-such-bucket/root", &StorageOptions::new()).await?;
    let failures = nowhere.delete_many(vec![path("k")?], DeleteOptions::new()).await?;
    let [DeleteFailure { error: many, .. }] = failures.as_slice() else { anyhow::bail!("{failures:?}") };
    for error in [&error_of(nowhere.delete(&path("k")?, DeleteOptions::new()).await)?, many] {
        ensure!(error.kind() == ErrorKind::NotFound && error.url().contains("no-such-bucket"), "{error:?}");
        ensure!(error.hint().is_some_and(|hint| hint.contains("bucket")), "{error:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_does_not_resolve_names_its_url() -> Result<()> {
    let registry = Registry::with_environment(checkpoint_fs::Environment::default());
    let error = error_of(registry.resolve("gs://No-Bucket/x", &StorageOptions::new()).await.map(drop))?;
    ensure!(error.kind() == ErrorKind::InvalidConfig, "{error:?}");
    ensure!((error.operation(), error.url()) == ("resolve", "gs://No-Bucket/x"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn the_payer_is_named_in_every_request() -> Result<()> {
    let (mock, bucket, _) = start()?;
    let storage = open(&mock, &bucket, json!({"requester_pays": "payer-1"}))?;
    storage.write(&path("a")?, "a".into(), create()).await?.into_result("a")?;
    bytes_of(&storage, "a").await?;
    storage.copy(&path("a")?, &path("b")?, CopyOptions::new()).await?.into_result("b")?;
    storage.list_files(&ObjectPath::root(), true).await?;
    storage.delete(&path("a")?, DeleteOptions::new()).await?;
    let requests = mock.requests();
    ensure!(requests.iter().all(|request| request.query.contains("userProject=payer-1")), "{requests:?}");
    mock.forget_requests();
    ensure!(storage.delete_many(vec![path("b")?], DeleteOptions::new()).await?.is_empty());
    ensure!(mock.names(&bucket).0.is_empty());
    // The XML API has a header for it.
    let requests = mock.requests();
    ensure!(requests.len() == 1 && requests[0].header("x-goog-user-project") == Some("payer-1"), "{requests:?}");
    // Within a batch it stands in each part, which the mock reads as strictly.
    let emulated = open_as(&mock, &bucket, json!({"requester_pays": "payer-1"}), false)?;
    emulated.write(&path("c")?, "c".into(), create()).await?.into_result("c")?;
    ensure!(emulated.delete_many(vec![path("c")?], DeleteOptions::new()).await?.is_empty());
    ensure!(mock.names(&bucket).0.is_empty());
    Ok(())
}
