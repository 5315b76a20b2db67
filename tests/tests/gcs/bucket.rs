//! A bucket of the strict mock, and what tests do in it.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use checkpoint_fs::{
    Error, GsConfig, GsStorage, Location, ObjectPath, OpenContext, ReadOptions, RetryPolicy, Storage, StorageOptions,
    WriteMode, WriteOptions,
};
use checkpoint_testkit::mock::{GcsMock, GcsSettings};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

const TOKEN: &str = "ya29.mock-access-token";

pub(crate) fn path(text: &str) -> Result<ObjectPath> {
    Ok(ObjectPath::parse(text)?)
}

/// A storage in a bucket of the mock, with fast retries, as at the service itself.
pub(crate) fn open(mock: &GcsMock, bucket: &str, options: Value) -> Result<GsStorage> {
    open_as(mock, bucket, options, true)
}

/// The same, as at the service or at a server in its place.
pub(crate) fn open_as(mock: &GcsMock, bucket: &str, mut options: Value, is_google: bool) -> Result<GsStorage> {
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

pub(crate) fn start() -> Result<(GcsMock, String, GsStorage)> {
    let mock = GcsMock::start(GcsSettings::default())?;
    let bucket = mock.new_bucket();
    let storage = open(&mock, &bucket, json!({}))?;
    Ok((mock, bucket, storage))
}

pub(crate) fn create() -> WriteOptions {
    WriteOptions::new().mode(WriteMode::IfAbsent)
}

pub(crate) fn error_of<T: std::fmt::Debug>(answer: checkpoint_fs::Result<T>) -> Result<Error> {
    match answer {
        Ok(value) => anyhow::bail!("it should fail, and gave {value:?}"),
        Err(error) => Ok(error),
    }
}

pub(crate) async fn bytes_of(storage: &GsStorage, at: &str) -> Result<Bytes> {
    Ok(storage.read(&path(at)?, ReadOptions::new()).await?.bytes)
}

/// Bytes that no part size could hide in.
pub(crate) fn noise(len: usize) -> Bytes {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Small objects with these names.
pub(crate) async fn write_all(storage: &GsStorage, names: Vec<String>) -> Result<()> {
    let writes = futures::stream::iter(names).map(|name| async move {
        let outcome = storage.write(&path(&name)?, "x".into(), WriteOptions::new()).await?;
        anyhow::Ok(outcome.into_result(&name).map(drop)?)
    });
    writes.buffer_unordered(16).try_collect().await
}
