//! What the tests do to objects, and what they expect of answers.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;
use checkpoint_fs::{Error, ObjectPath, ReadOptions, StorageRef, WriteMode, WriteOptions, WriteOutcome};
use checkpoint_testkit::proxy::Passing;

/// Nothing may take longer than this, however slow the machine is.
const BOUND: Duration = Duration::from_secs(300);

/// Ends a call that hangs.
pub(crate) async fn bounded<T>(what: &str, call: impl Future<Output = T>) -> Result<T> {
    match tokio::time::timeout(BOUND, call).await {
        Ok(answer) => Ok(answer),
        Err(_) => bail!("it hangs: {what}"),
    }
}

pub(crate) fn path(text: &str) -> Result<ObjectPath> {
    Ok(ObjectPath::parse(text)?)
}

/// Bytes that no part size could hide in.
pub(crate) fn noise(length: usize) -> Bytes {
    (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub(crate) async fn put(storage: &StorageRef, at: &str, bytes: Bytes) -> Result<()> {
    storage.write(&path(at)?, bytes, WriteOptions::new()).await?.into_result(at)?;
    Ok(())
}

pub(crate) async fn create(storage: &StorageRef, at: &str, bytes: Bytes) -> checkpoint_fs::Result<WriteOutcome> {
    storage.write(&ObjectPath::parse(at)?, bytes, WriteOptions::new().mode(WriteMode::IfAbsent)).await
}

pub(crate) async fn get(storage: &StorageRef, at: &str) -> checkpoint_fs::Result<Bytes> {
    let read = storage.read(&ObjectPath::parse(at)?, ReadOptions::new()).await?;
    Ok(read.bytes)
}

pub(crate) fn failed<T: Debug>(what: &str, answer: checkpoint_fs::Result<T>) -> Result<Error> {
    match answer {
        Ok(value) => bail!("it should fail: {what}: {value:?}"),
        Err(error) => Ok(error),
    }
}

/// Whether a request changes something.
pub(crate) fn changes(request: &Passing) -> bool {
    request.method != "GET" && request.method != "HEAD"
}
