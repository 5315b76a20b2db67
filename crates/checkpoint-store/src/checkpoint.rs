//! A checkpoint directory, and the JSON files in it.

use bytes::Bytes;
use checkpoint_fs::{ObjectPath, StorageExt, StorageRef, WriteMode, WriteOptions, WriteOutcome};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::layout;
use crate::lengths::{checked, whole};
use crate::record::Damage;
use crate::runtime::RuntimeRef;

/// The format of `_meta`, but for closed lists that name merged records; see `merged::FORMAT`.
pub(crate) const FORMAT: u32 = 1;

/// A checkpoint directory. Cheap to clone; making one does no I/O.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub(crate) storage: StorageRef,
    pub(crate) control: StorageRef,
    pub(crate) runtime: RuntimeRef,
}

impl Checkpoint {
    /// The checkpoint at the root of a storage.
    pub fn new(storage: StorageRef, runtime: RuntimeRef) -> Self {
        Self { control: storage.clone(), storage, runtime }
    }

    /// Keeps the create-only objects (job, attempts, closed lists) on another storage, for a checkpoint
    /// whose own store has no create-only write. Every later command must be given the same one.
    #[must_use]
    pub fn with_control(mut self, control: StorageRef) -> Self {
        self.control = control;
        self
    }

    /// The storages that hold its `_meta`: its own, and the control storage where that is another.
    pub(crate) fn storages(&self) -> impl Iterator<Item = &StorageRef> {
        let other = (self.control.url() != self.storage.url()).then_some(&self.control);
        std::iter::once(&self.storage).chain(other)
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        self.storage.url()
    }

    /// The storage that it is in.
    pub fn storage(&self) -> &StorageRef {
        &self.storage
    }

    /// Where the committed record of this name is.
    pub(crate) fn record_url(&self, name: &str) -> String {
        format!("{}/{name}{}", self.url(), layout::RECORD)
    }

    /// An error for a committed record that must be read and cannot.
    pub(crate) fn damaged_record(&self, name: &str, damage: &Damage) -> Error {
        let record = self.record_url(name);
        damage.refuse_newer(&record).err().unwrap_or_else(|| {
            Error::bad_data(format!("a committed record is damaged: {damage}: record={record}"))
                .with_hint("`ckpt recover` with --repair sets it aside and lets its rows be computed again")
        })
    }
}

/// Writes an object that must not replace another: only if there is none, on a storage that can tell.
pub(crate) async fn create(
    storage: &StorageRef,
    path: &ObjectPath,
    bytes: Bytes,
) -> checkpoint_fs::Result<WriteOutcome> {
    let mode = if storage.capabilities().write_if_absent { WriteMode::IfAbsent } else { WriteMode::Overwrite };
    storage.write(path, bytes, WriteOptions::new().mode(mode)).await
}

/// Reads a JSON file of `_meta`; `None` where there is none.
pub(crate) async fn read_json<T: DeserializeOwned>(storage: &StorageRef, path: &ObjectPath) -> Result<Option<T>> {
    let Some(read) = storage.read_optional(path, whole()).await? else { return Ok(None) };
    parse_json(&read.bytes, &storage.url_of(path), FORMAT).map(Some)
}

/// An error for a file that is not what was written.
pub(crate) fn damaged_file(what: &dyn std::fmt::Display, url: &str) -> Error {
    Error::bad_data(format!("a file of the checkpoint is damaged: {what} url={url}"))
        .with_hint("restore it from a backup, or begin again with a fresh checkpoint and a fresh output")
}

/// A JSON file of which this program reads formats up to `newest`.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8], url: &str, newest: u32) -> Result<T> {
    #[derive(serde::Deserialize)]
    struct Version {
        #[serde(default)]
        format: u32,
    }
    let damaged = |e: serde_json::Error| damaged_file(&e, url);
    let version: Version = serde_json::from_slice(bytes).map_err(damaged)?;
    if version.format > newest {
        return Err(Error::bad_data(format!(
            "the checkpoint has format {}, newer than this program reads ({newest}): url={url}",
            version.format
        ))
        .with_hint("use the version of ckpt that wrote it, or a newer one"));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<Bytes> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::bad_data("a file of the checkpoint cannot be written as JSON").with_source(e))?;
    bytes.push(b'\n');
    checked(bytes.into(), &"a file of the checkpoint")
}
