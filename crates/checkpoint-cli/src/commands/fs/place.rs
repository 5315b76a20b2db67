//! Telling files from directories.

use checkpoint_fs::{Entry, ListOptions, Location, ObjectMeta, ObjectPath, StorageExt, StorageRef};
use futures::TryStreamExt;

use crate::failure::{Failure, Result};
use crate::session::Session;

/// The metadata of a file; `None` where there is none, a directory perhaps.
pub(super) async fn file_at(location: &Location, session: &Session) -> Result<Option<ObjectMeta>> {
    let (parent, name) = session.open_parent(location).await?;
    if name.is_root() {
        return Ok(None);
    }
    Ok(parent.stat_optional(&name).await?)
}

/// The directory of that name, if there is one: it holds something, or it exists by itself. No file has
/// that name.
pub(super) async fn directory_at(location: &Location, session: &Session) -> Result<Option<StorageRef>> {
    let storage = session.open_location(location).await?;
    let mut entries = storage.list(&ObjectPath::root(), ListOptions::new());
    if session.registry.split(location).is_none() || entries.try_next().await?.is_some() {
        return Ok(Some(storage));
    }
    let (parent, name) = session.open_parent(location).await?;
    let is_empty_directory = parent.capabilities().directories && is_listed(&parent, &name).await?;
    Ok(is_empty_directory.then_some(storage))
}

/// Whether a listing shows a directory of that name.
async fn is_listed(parent: &StorageRef, name: &ObjectPath) -> Result<bool> {
    let mut entries = parent.list(&ObjectPath::root(), ListOptions::new());
    while let Some(entry) = entries.try_next().await? {
        if matches!(&entry, Entry::Dir { path } if path == name) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// That there is nothing.
pub(super) fn missing(location: &Location) -> Failure {
    Failure::usage(format!("there is no such file or directory: url={location}"))
        .with_hint("`ckpt fs ls` of the directory above shows what is there")
}

/// That a directory is there where a file is needed, or nothing.
pub(super) async fn no_file(location: &Location, session: &Session) -> Result<Failure> {
    Ok(match directory_at(location, session).await? {
        Some(_) => Failure::usage(format!("this is a directory: url={location}"))
            .with_hint("`ckpt fs ls` lists it; name a file in it"),
        None => missing(location),
    })
}
