//! `ckpt fs cp`: one file from any storage to any other, in bounded memory and published whole.

use bytes::Bytes;
use checkpoint_fs::{
    Location, ObjectMeta, ObjectPath, ReadOptions, StatOptions, StorageExt, StorageRef, StorageWriter, WriteOptions,
    WriteOutcome,
};
use clap::Args;
use serde::Serialize;

use super::cat::source;
use super::place::{directory_at, file_at};
use crate::amount::size;
use crate::args::JsonArg;
use crate::exit::Exit;
use crate::failure::{Failure, Result, visible};
use crate::session::Session;

/// Bytes of one read.
const PIECE: u64 = 8 << 20;

/// `ckpt fs cp`.
#[derive(Args)]
pub(super) struct CpArgs {
    /// The file to copy
    #[arg(value_name = "SRC")]
    source: String,
    /// Where to; a directory, or a URL that ends in /, keeps the name. What is there is replaced
    #[arg(value_name = "DST")]
    target: String,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Copied {
    source: String,
    target: String,
    bytes: u64,
}

/// Copies and says how much.
pub(super) async fn run(args: &CpArgs, session: &Session) -> Result<Exit> {
    let from = Location::parse(&args.source)?;
    let (storage, path) = source(&from, session).await?;
    let to = target(&args.target, from.path().name(), session).await?;
    if from == to {
        return Err(Failure::usage(format!("source and target are the same: url={from}"))
            .with_hint("give another name or directory"));
    }
    let (target_storage, target_path) = session.open_parent(&to).await?;
    let bytes = copy(storage, path, &target_storage, &target_path).await?;
    let copied = Copied { source: from.to_string(), target: to.to_string(), bytes };
    if args.json.json {
        session.out.json(&copied)?;
    } else {
        session.out.line(format!("copied {} to {}", size(bytes), visible(&copied.target)))?;
    }
    Ok(Exit::Done)
}

/// Where the copy goes: the URL itself, or the name inside it when it is a directory.
async fn target(url: &str, name: &str, session: &Session) -> Result<Location> {
    let location = Location::parse(url)?;
    let is_directory = url.ends_with('/')
        || file_at(&location, session).await?.is_none() && directory_at(&location, session).await?.is_some();
    Ok(if is_directory { location.join(name)? } else { location })
}

async fn copy(from: StorageRef, path: ObjectPath, to: &StorageRef, target: &ObjectPath) -> Result<u64> {
    let url = to.url_of(target);
    let mut pieces = Pieces::open(from, path).await?;
    let mut writer = to.writer(target, WriteOptions::new()).await?;
    if let Err(failure) = fill(&mut pieces, writer.as_mut()).await {
        if let Err(error) = writer.abort().await {
            tracing::warn!(%error, "what was written of the copy could not be removed");
        }
        return Err(failure);
    }
    match writer.finish().await? {
        WriteOutcome::Unknown(error) => {
            Err(Failure::new(Exit::OutcomeUnknown, format!("whether the copy is there cannot be found out: url={url}"))
                .with_hint("copy it once more")
                .with_causes(&error))
        }
        outcome => {
            outcome.into_result(url)?;
            Ok(pieces.at)
        }
    }
}

async fn fill(pieces: &mut Pieces, writer: &mut dyn StorageWriter) -> Result<()> {
    while let Some(piece) = pieces.next().await? {
        writer.write(piece).await?;
    }
    Ok(())
}

/// An object in pieces of 8 MiB, one in memory at a time.
#[derive(Debug)]
pub(super) struct Pieces {
    storage: StorageRef,
    path: ObjectPath,
    meta: ObjectMeta,
    at: u64,
}

impl Pieces {
    /// Asks how large it is.
    pub(super) async fn open(storage: StorageRef, path: ObjectPath) -> Result<Self> {
        let meta = storage.stat(&path, StatOptions::new()).await?;
        Ok(Self { storage, path, meta, at: 0 })
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// `Conflict` when the object was replaced meanwhile: pieces of two objects are never mixed.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.at >= self.meta.size {
            return Ok(None);
        }
        let range = self.at..self.meta.size.min(self.at + PIECE);
        let read = self.storage.read(&self.path, ReadOptions::new().range(Some(range.clone()))).await?;
        let same = read.meta.size == self.meta.size && read.meta.etag == self.meta.etag;
        let same_time = read.meta.last_modified == self.meta.last_modified || read.meta.last_modified.is_none();
        if !same || !same_time || read.bytes.len() as u64 != range.end - range.start {
            let url = self.storage.url_of(&self.path);
            return Err(Failure::new(Exit::Conflict, format!("the file changed while it was read: url={url}"))
                .with_hint("run the command again"));
        }
        self.at = range.end;
        Ok(Some(read.bytes))
    }
}

#[cfg(test)]
mod tests {
    use checkpoint_fs::{Environment, Registry, StorageOptions};

    use super::*;

    #[tokio::test]
    async fn a_file_that_changes_is_never_mixed() {
        let registry = Registry::with_environment(Environment::default());
        let storage = registry.open_dir("memory://pieces", &StorageOptions::new()).await.expect("opens");
        let path = ObjectPath::parse("f").expect("valid");
        let write = async |byte: u8| {
            let bytes = Bytes::from(vec![byte; PIECE as usize + 1]);
            let written = storage.write(&path, bytes, WriteOptions::new()).await.expect("writes");
            written.into_result("f").expect("done");
        };
        write(1).await;
        let mut pieces = Pieces::open(storage.clone(), path.clone()).await.expect("opens");
        assert_eq!(pieces.next().await.expect("reads").map(|b| b.len() as u64), Some(PIECE));
        write(2).await;
        assert_eq!(pieces.next().await.expect_err("changed").exit(), Exit::Conflict);
        let mut pieces = Pieces::open(storage.clone(), path.clone()).await.expect("opens");
        assert_eq!(pieces.next().await.expect("reads").map(|b| b.len() as u64), Some(PIECE));
        assert_eq!(pieces.next().await.expect("reads").map(|b| b.len()), Some(1));
        assert_eq!(pieces.next().await.expect("ends"), None);
    }
}
