//! Google Cloud Storage as its backend meets it when things go wrong, on the strict mock.

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{
    CopyOptions, DeleteFailure, DeleteOptions, Error, ErrorKind, GsConfig, GsStorage, Location, ObjectPath,
    OpenContext, ReadOptions, Registry, Retry, RetryPolicy, StatOptions, Storage, StorageExt, StorageOptions,
    WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_testkit::mock::{GcsMock, GcsSettings, Trouble};
use checkpoint_testkit::server::FakeGcsServer;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

const TOKEN: &str = "ya29.mock-access-token";

fn path(text: &str) -> Result<ObjectPath> {
    Ok(ObjectPath::parse(text)?)
}

/// A storage in a bucket of the mock, with fast retries, as at the service itself.
fn open(mock: &GcsMock, bucket: &str, options: Value) -> Result<GsStorage> {
    open_as(mock, bucket, options, true)
}

/// The same, as at the service or at a server in its place.
fn open_as(mock: &GcsMock, bucket: &str, mut options: Value, is_google: bool) -> Result<GsStorage> {
    if options.get("token").is_none() {
        options["token"] = json!(TOKEN);
    }
    let mut context = OpenContext::default();
    context.options = StorageOptions::from_value(json!({ "gs": options }))?;
    context.environment = mock.environment();
    let retry = RetryPolicy::new(4, Duration::from_millis(1), Duration::from_millis(5));
    let config = GsConfig::resolve(bucket, &context)?.with_google(is_google).with_retry(retry);
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

/// Small objects with these names.
async fn write_all(storage: &GsStorage, names: Vec<String>) -> Result<()> {
    let writes = futures::stream::iter(names).map(|name| async move {
        let outcome = storage.write(&path(&name)?, "x".into(), WriteOptions::new()).await?;
        anyhow::Ok(outcome.into_result(&name).map(drop)?)
    });
    writes.buffer_unordered(16).try_collect().await
}

/// 250 objects, of which one is kept for a while and one for good; gives where the deletes went.
async fn delete_where_some_are_kept(mock: &GcsMock, bucket: &str, storage: &GsStorage) -> Result<Vec<String>> {
    let names: Vec<String> = (0..250).map(|number| format!("k {number}&+%")).collect();
    let paths = names.iter().map(|name| path(name)).collect::<Result<_>>()?;
    write_all(storage, names).await?;
    mock.forget_requests();
    mock.keep_key("root/k 7&+%", 2);
    mock.keep_key("root/k 8&+%", 100);
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    let [failure] = failures.as_slice() else { anyhow::bail!("{failures:?}") };
    ensure!(failure.path == path("k 8&+%")? && failure.error.kind() == ErrorKind::RateLimited, "{failure:?}");
    ensure!(failure.error.retry() == Retry::Exhausted && failure.error.url().ends_with("k 8&+%"), "{failure:?}");
    ensure!(mock.names(bucket).0 == ["root/k 8&+%"], "{:?}", mock.names(bucket));
    Ok(mock.requests().into_iter().map(|request| format!("{}?{}", request.path, request.query)).collect())
}

#[tokio::test]
async fn deletes_go_a_thousand_to_a_request_and_each_has_its_own_answer() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    ensure!(storage.capabilities().max_delete_batch == 1000);
    let seen = delete_where_some_are_kept(&mock, &bucket, &storage).await?;
    ensure!(seen == vec![format!("/{bucket}?delete"); 4], "one, and three more for what was kept: {seen:?}");
    let names: Vec<String> = (0..1_100).map(|number| format!("m/{number}")).collect();
    write_all(&storage, names.clone()).await?;
    mock.forget_requests();
    // Twice the same, and some that are not there.
    let named = names.iter().chain(&names[..50]).cloned().chain((0..50).map(|number| format!("none/{number}")));
    let paths = named.map(|name| path(&name)).collect::<Result<_>>()?;
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    ensure!(failures.is_empty() && mock.requests().len() == 2, "{failures:?}");
    ensure!(mock.names(&bucket).0 == ["root/k 8&+%"]);
    for request in mock.requests() {
        ensure!(request.header("content-md5").is_some() && request.status == 200, "{request:?}");
    }
    Ok(())
}

#[tokio::test]
async fn servers_in_the_services_place_get_batches_of_a_hundred() -> Result<()> {
    let mock = GcsMock::start(GcsSettings::default())?;
    let bucket = mock.new_bucket();
    let storage = open_as(&mock, &bucket, json!({}), false)?;
    ensure!(storage.capabilities().max_delete_batch == 100);
    let seen = delete_where_some_are_kept(&mock, &bucket, &storage).await?;
    ensure!(seen == ["/batch/storage/v1?"; 6], "three batches, and three more for what was kept: {seen:?}");
    Ok(())
}

#[tokio::test]
async fn a_multi_delete_carries_odd_keys_and_what_it_cannot_goes_elsewhere() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let odd =
        [" a ", "b&c", "<d>", "\"e\"", "f'g", "h+i%20", "j\u{e9}\u{1F600}", "k\tl", "]]>", "&amp;", "m;n=o", "p?q#r"];
    let named = odd.iter().copied().chain(["control\u{1}"]);
    write_all(&storage, named.clone().map(str::to_owned).collect()).await?;
    ensure!(mock.names(&bucket).0.len() == 13);
    mock.forget_requests();
    let paths = named.map(path).collect::<Result<_>>()?;
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    ensure!(failures.is_empty() && mock.names(&bucket).0.is_empty(), "{failures:?} {:?}", mock.names(&bucket));
    let seen: Vec<String> = mock.requests().into_iter().map(|request| request.path).collect();
    ensure!(seen == [format!("/{bucket}"), "/batch/storage/v1".to_owned()], "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_multi_delete_says_of_a_key_is_heard() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let names = ["fine", "gone", "held", "denied", "once", "unsaid"];
    write_all(&storage, names.map(str::to_owned).to_vec()).await?;
    for (name, code, times) in [
        ("gone", "NoSuchKey", 1),
        ("held", "ObjectUnderActiveHold", 100),
        ("denied", "AccessDenied", 100),
        ("once", "InternalError", 1),
        ("unsaid", "", 1),
    ] {
        mock.keep_key_as(&format!("root/{name}"), code, times);
    }
    mock.forget_requests();
    let paths = names.map(ObjectPath::parse).into_iter().collect::<Result<_, _>>()?;
    let mut failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    failures.sort_by(|a, b| a.path.cmp(&b.path));
    let said: Vec<_> = failures.iter().map(|f| (f.path.as_str(), f.error.kind(), f.error.service_code())).collect();
    ensure!(
        said == [
            ("denied", ErrorKind::PermissionDenied, Some("AccessDenied")),
            ("held", ErrorKind::PermissionDenied, Some("ObjectUnderActiveHold")),
        ],
        "{failures:?}"
    );
    // The key of which nothing was said is gone, and not by the first request.
    ensure!(mock.names(&bucket).0 == ["root/denied", "root/gone", "root/held"], "{:?}", mock.names(&bucket));
    let seen: Vec<String> = mock.requests().into_iter().map(|request| request.path).collect();
    ensure!(seen == [format!("/{bucket}"), format!("/{bucket}"), "/batch/storage/v1".to_owned()], "{seen:?}");
    Ok(())
}

/// Wrong tokens, requests that are too many, answers that are lost.
#[tokio::test]
async fn a_multi_delete_is_refused_and_repeated_like_any_request() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    write_all(&storage, ["a", "b"].map(str::to_owned).to_vec()).await?;
    let both = || vec![ObjectPath::parse("a").expect("valid"), ObjectPath::parse("b").expect("valid")];
    let stranger = open(&mock, &bucket, json!({"token": "ya29.of-somebody-else"}))?;
    let error = error_of(stranger.delete_many(both(), DeleteOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::Unauthenticated && error.hint().is_some(), "{error:?}");
    ensure!(error.operation() == "delete_many" && error.url().contains(&bucket), "{error:?}");
    for trouble in [Trouble::SlowDown, Trouble::InternalError, Trouble::LostAnswer] {
        mock.forget_requests();
        mock.trouble_next(trouble, 2);
        let failures = storage.delete_many(both(), DeleteOptions::new()).await?;
        ensure!(failures.is_empty() && mock.names(&bucket).0.is_empty(), "{failures:?}");
        let seen = mock.requests();
        ensure!(seen.len() == 3 && seen.iter().all(|request| request.path == format!("/{bucket}")), "{seen:?}");
        write_all(&storage, ["a", "b"].map(str::to_owned).to_vec()).await?;
    }
    mock.trouble_next(Trouble::SlowDown, 4);
    let error = error_of(storage.delete_many(both(), DeleteOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::RateLimited && error.retry() == Retry::Exhausted, "{error:?}");
    ensure!(mock.names(&bucket).0.len() == 2);
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
async fn what_does_not_resolve_names_its_url() -> Result<()> {
    let registry = Registry::with_environment(checkpoint_fs::Environment::default());
    let error = error_of(registry.resolve("gs://No-Bucket/x", &StorageOptions::new()).await.map(drop))?;
    ensure!(error.kind() == ErrorKind::InvalidConfig, "{error:?}");
    ensure!((error.operation(), error.url()) == ("resolve", "gs://No-Bucket/x"), "{error:?}");
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
