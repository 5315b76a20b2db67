//! Google Cloud Storage as its backend meets it when things go wrong, on the strict mock.

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{
    CopyOptions, DeleteOptions, Error, ErrorKind, GsConfig, GsStorage, Location, ObjectPath, OpenContext, ReadOptions,
    Retry, RetryPolicy, StatOptions, Storage, StorageExt, StorageOptions, WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_testkit::mock::{GcsMock, GcsSettings, Trouble};
use serde_json::{Value, json};

const TOKEN: &str = "ya29.mock-access-token";

fn path(text: &str) -> Result<ObjectPath> {
    Ok(ObjectPath::parse(text)?)
}

/// A storage in a bucket of the mock, with fast retries.
fn open(mock: &GcsMock, bucket: &str, mut options: Value) -> Result<GsStorage> {
    if options.get("token").is_none() {
        options["token"] = json!(TOKEN);
    }
    let mut context = OpenContext::default();
    context.options = StorageOptions::from_value(json!({ "gs": options }))?;
    context.environment = mock.environment();
    let retry = RetryPolicy::new(4, Duration::from_millis(1), Duration::from_millis(5));
    let config = GsConfig::resolve(bucket, &context)?.with_google(true).with_retry(retry);
    Ok(GsStorage::new(config, &Location::parse(&format!("gs://{bucket}/root"))?)?)
}

fn start() -> Result<(GcsMock, String, GsStorage)> {
    let mock = GcsMock::start(GcsSettings::default())?;
    let bucket = mock.new_bucket();
    let storage = open(&mock, &bucket, json!({}))?;
    Ok((mock, bucket, storage))
}

fn create() -> WriteOptions {
    WriteOptions::new().mode(WriteMode::IfAbsent)
}

fn error_of<T: std::fmt::Debug>(answer: checkpoint_fs::Result<T>) -> Result<Error> {
    match answer {
        Ok(value) => anyhow::bail!("it should fail, and gave {value:?}"),
        Err(error) => Ok(error),
    }
}

async fn bytes_of(storage: &GsStorage, at: &str) -> Result<Bytes> {
    Ok(storage.read(&path(at)?, ReadOptions::new()).await?.bytes)
}

/// Bytes that no part size could hide in.
fn noise(len: usize) -> Bytes {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

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
    let failures = nowhere.delete_many(vec![path("a")?], DeleteOptions::new()).await?;
    for error in [error_of(delete)?, error_of(write)?, failures.into_iter().map(|f| f.error).next().expect("one")] {
        ensure!(error.kind() == ErrorKind::NotFound, "{error:?}");
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

#[tokio::test]
async fn a_lost_answer_is_settled_by_the_token_of_the_write() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    mock.trouble_next(Trouble::LostAnswer, 1);
    let outcome = storage.write(&path("created")?, "mine".into(), create()).await?;
    ensure!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    let outcome = storage.write(&path("created")?, "mine".into(), create()).await?;
    ensure!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
    // Every attempt is lost; the read back is not.
    mock.trouble_next(Trouble::LostAnswer, 4);
    let outcome = storage.write(&path("over")?, "mine".into(), WriteOptions::new()).await?;
    ensure!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    // The read back is lost as well.
    mock.trouble_next(Trouble::LostAnswer, 8);
    let outcome = storage.write(&path("dark")?, "mine".into(), create()).await?;
    ensure!(matches!(outcome, WriteOutcome::Unknown(_)), "{outcome:?}");
    mock.trouble_next(Trouble::LostAnswer, 1);
    storage.copy(&path("created")?, &path("copied")?, CopyOptions::new()).await?.into_result("copied")?;
    ensure!(mock.names(&bucket).0 == ["root/copied", "root/created", "root/dark", "root/over"]);
    Ok(())
}

#[tokio::test]
async fn one_write_is_one_request_with_its_condition() -> Result<()> {
    let (mock, _, storage) = start()?;
    storage.write(&path("a")?, noise(100_000), create()).await?.into_result("a")?;
    let mut writer = storage.writer(&path("b")?, WriteOptions::new()).await?;
    writer.write(noise(100_000)).await?;
    writer.finish().await?.into_result("b")?;
    let requests = mock.requests();
    ensure!(requests.len() == 2, "{requests:?}");
    ensure!(requests[0].query.contains("uploadType=multipart") && requests[0].query.contains("ifGenerationMatch=0"));
    ensure!(requests[1].query.contains("uploadType=multipart") && !requests[1].query.contains("ifGenerationMatch"));
    Ok(())
}

#[tokio::test]
async fn what_asks_to_slow_down_is_tried_again_for_a_while() -> Result<()> {
    let (mock, _, storage) = start()?;
    mock.trouble_next(Trouble::SlowDown, 2);
    storage.write(&path("a")?, "a".into(), create()).await?.into_result("a")?;
    mock.trouble_next(Trouble::InternalError, 3);
    ensure!(bytes_of(&storage, "a").await? == "a");
    mock.trouble_next(Trouble::SlowDown, 4);
    let error = error_of(storage.write(&path("a")?, "b".into(), WriteOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::RateLimited && error.retry() == Retry::Exhausted, "{error:?}");
    ensure!(error.request_id().is_some_and(|id| id.starts_with("MOCK")), "{error:?}");
    ensure!(bytes_of(&storage, "a").await? == "a");
    Ok(())
}

#[tokio::test]
async fn parts_that_arrive_in_part_or_twice_make_the_right_object() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let bytes = noise(20 << 20);
    for trouble in [None, Some(Trouble::LostAnswer), Some(Trouble::InternalError)] {
        let mut writer = storage.writer(&path("large")?, WriteOptions::new()).await?;
        for (number, piece) in bytes.chunks(5 << 20).enumerate() {
            match trouble {
                None if number == 2 => mock.shorten_next_part(512 << 10),
                Some(trouble) if number == 2 => mock.trouble_next(trouble, 2),
                _ => {}
            }
            writer.write(Bytes::copy_from_slice(piece)).await?;
        }
        if let Some(trouble) = trouble {
            mock.trouble_next(trouble, 2);
        }
        let meta = writer.finish().await?.into_result("large")?;
        ensure!(meta.size == bytes.len() as u64, "{meta:?}");
        ensure!(bytes_of(&storage, "large").await? == bytes, "with {trouble:?}");
    }
    ensure!(mock.names(&bucket).1 == 0, "no session is left");
    Ok(())
}

#[tokio::test]
async fn a_part_of_which_nothing_arrives_ends_the_write() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let mut writer = storage.writer(&path("large")?, WriteOptions::new()).await?;
    writer.write(noise(8 << 20)).await?;
    mock.trouble_next(Trouble::InternalError, 8);
    let error = error_of(writer.write(noise(1)).await)?;
    ensure!(error.kind() == ErrorKind::Io && error.retry() == Retry::Exhausted, "{error:?}");
    writer.abort().await?;
    ensure!(mock.names(&bucket) == (Vec::new(), 0), "{:?}", mock.names(&bucket));
    Ok(())
}

#[tokio::test]
async fn bytes_without_their_checksum_are_not_taken() -> Result<()> {
    let (mock, _, storage) = start()?;
    storage.write(&path("a")?, noise(1000), create()).await?.into_result("a")?;
    mock.damage_next_downloads(2);
    ensure!(bytes_of(&storage, "a").await? == noise(1000));
    mock.damage_next_downloads(100);
    let error = error_of(storage.read(&path("a")?, ReadOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::Corrupt && error.retry() == Retry::Exhausted, "{error:?}");
    Ok(())
}

#[tokio::test]
async fn deletes_go_a_hundred_to_a_request_and_each_has_its_own_answer() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let mut paths = Vec::new();
    for number in 0..250 {
        let at = path(&format!("k {number}&+%"))?;
        storage.write(&at, "x".into(), WriteOptions::new()).await?.into_result("x")?;
        paths.push(at);
    }
    mock.forget_requests();
    mock.keep_key("root/k 7&+%", 2);
    mock.keep_key("root/k 8&+%", 100);
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    let [failure] = failures.as_slice() else { anyhow::bail!("{failures:?}") };
    ensure!(failure.path == path("k 8&+%")? && failure.error.kind() == ErrorKind::RateLimited, "{failure:?}");
    ensure!(failure.error.retry() == Retry::Exhausted, "{failure:?}");
    ensure!(mock.names(&bucket).0 == ["root/k 8&+%"], "{:?}", mock.names(&bucket));
    let requests = mock.requests();
    ensure!(requests.iter().all(|request| request.path == "/batch/storage/v1"), "{requests:?}");
    ensure!(requests.len() == 6, "three batches, and three more for what was kept: {}", requests.len());
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
    // Within a batch it stands in each part, which the mock reads as strictly.
    ensure!(storage.delete_many(vec![path("b")?], DeleteOptions::new()).await?.is_empty());
    ensure!(mock.names(&bucket).0.is_empty());
    Ok(())
}
