//! `ckpt fs cat`: files to standard output, a piece at a time.

use checkpoint_fs::{Location, ObjectPath, StatOptions, StorageRef};
use clap::Args;

use super::cp::Pieces;
use super::place::no_file;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::session::Session;

/// `ckpt fs cat`.
#[derive(Args)]
pub(super) struct CatArgs {
    /// The files, one after the other
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
}

/// Writes each whole, or fails.
pub(super) async fn run(args: &CatArgs, session: &Session) -> Result<Exit> {
    for url in &args.urls {
        let (storage, path) = source(&Location::parse(url)?, session).await?;
        let mut pieces = Pieces::open(storage, path).await?;
        while let Some(piece) = pieces.next().await? {
            session.out.bytes(&piece)?;
            if session.out.is_closed() {
                return Ok(Exit::Done);
            }
        }
    }
    Ok(Exit::Done)
}

/// A file that is there.
///
/// # Errors
/// `Usage` for a directory, or for nothing.
pub(super) async fn source(location: &Location, session: &Session) -> Result<(StorageRef, ObjectPath)> {
    let (storage, path) = session.open_parent(location).await?;
    if path.is_root() {
        return Err(no_file(location, session).await?);
    }
    match storage.stat(&path, StatOptions::new()).await {
        Ok(_) => Ok((storage, path)),
        Err(error) if error.is_not_found() => Err(no_file(location, session).await?),
        Err(error) => Err(Failure::from(error)),
    }
}
