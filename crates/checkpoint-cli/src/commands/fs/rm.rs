//! `ckpt fs rm`: deleting files, and directories only when told twice.

use std::collections::BTreeSet;

use checkpoint_fs::{DeleteOptions, Entry, ListOptions, Location, ObjectPath, StorageExt, StorageRef};
use clap::Args;
use futures::TryStreamExt;
use serde::Serialize;

use super::place::{directory_at, file_at, missing};
use crate::amount::{counted, size};
use crate::args::JsonArg;
use crate::exit::Exit;
use crate::failure::{Failure, Result, visible};
use crate::session::Session;

/// `ckpt fs rm`.
#[derive(Args)]
pub(super) struct RmArgs {
    /// The files
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// Directories too, with everything below them; needs --yes
    #[arg(short, long)]
    recursive: bool,
    /// Delete; with -r and without this only what would be deleted is shown
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Deleted {
    files: u64,
    bytes: u64,
}

/// What one URL stands for.
enum Doomed {
    File { storage: StorageRef, path: ObjectPath, bytes: u64 },
    Tree(Tree),
}

/// A directory with all that is below it.
struct Tree {
    location: Location,
    storage: StorageRef,
    files: Vec<ObjectPath>,
    dirs: BTreeSet<ObjectPath>,
    bytes: u64,
}

/// Looks at every URL first, so that a wrong one deletes nothing, and then deletes.
pub(super) async fn run(args: &RmArgs, session: &Session) -> Result<Exit> {
    let mut doomed = Vec::new();
    for url in &args.urls {
        doomed.push(look(url, args.recursive, session).await?);
    }
    if args.recursive && !args.yes {
        for one in &doomed {
            session.out.line(format!("would delete {}", one.describe()))?;
        }
        return Err(Failure::usage("nothing was deleted").with_hint("add --yes to delete it"));
    }
    let mut deleted = Deleted { files: 0, bytes: 0 };
    for one in doomed {
        let text = one.describe();
        one.delete(&mut deleted).await?;
        if !args.json.json {
            session.out.line(format!("deleted {text}"))?;
        }
    }
    if args.json.json {
        session.out.json(&deleted)?;
    }
    Ok(Exit::Done)
}

async fn look(url: &str, recursive: bool, session: &Session) -> Result<Doomed> {
    let location = Location::parse(url)?;
    if let Some(meta) = file_at(&location, session).await? {
        let (storage, path) = session.open_parent(&location).await?;
        return Ok(Doomed::File { storage, path, bytes: meta.size });
    }
    let Some(storage) = directory_at(&location, session).await? else { return Err(missing(&location)) };
    if !recursive {
        return Err(Failure::usage(format!("this is a directory: url={location}"))
            .with_hint("add -r to delete it with everything below it"));
    }
    if session.registry.split(&location).is_none() {
        return Err(Failure::usage(format!(
            "a whole bucket, volume or file system is not deleted here: url={location}"
        ))
        .with_hint("name a directory in it"));
    }
    Ok(Doomed::Tree(Tree::walk(location, storage).await?))
}

impl Doomed {
    fn describe(&self) -> String {
        match self {
            Doomed::File { storage, path, bytes } => format!("{}, {}", visible(&storage.url_of(path)), size(*bytes)),
            Doomed::Tree(tree) => {
                let url = visible(&tree.location.to_string());
                format!("{url}/, {}, {}", counted(tree.files.len() as u64, "file"), size(tree.bytes))
            }
        }
    }

    async fn delete(self, deleted: &mut Deleted) -> Result<()> {
        match self {
            Doomed::File { storage, path, bytes } => {
                storage.delete(&path, DeleteOptions::new()).await?;
                deleted.files += 1;
                deleted.bytes += bytes;
            }
            Doomed::Tree(tree) => {
                deleted.files += tree.files.len() as u64;
                deleted.bytes += tree.bytes;
                tree.delete().await?;
            }
        }
        Ok(())
    }
}

impl Tree {
    /// Where directories exist they are walked one by one, so that empty ones are found too.
    async fn walk(location: Location, storage: StorageRef) -> Result<Self> {
        let by_level = storage.capabilities().directories;
        let mut tree = Self { location, storage, files: Vec::new(), dirs: BTreeSet::new(), bytes: 0 };
        let mut open = vec![ObjectPath::root()];
        while let Some(dir) = open.pop() {
            let mut entries = tree.storage.list(&dir, ListOptions::new().recursive(!by_level).fresh(true));
            while let Some(entry) = entries.try_next().await? {
                match entry {
                    Entry::File { path, meta } => {
                        tree.bytes += meta.size;
                        tree.files.push(path);
                    }
                    Entry::Dir { path } => open.push(path),
                }
            }
            if by_level {
                tree.dirs.insert(dir);
            }
        }
        Ok(tree)
    }

    async fn delete(self) -> Result<()> {
        let failures = self.storage.delete_many(self.files, DeleteOptions::new()).await?;
        let left = failures.len() as u64;
        if let Some(first) = failures.into_iter().next() {
            return Err(Failure::from(first.error)
                .with_hint(format!("{} could not be deleted; run the command again", counted(left, "file"))));
        }
        // A directory comes before what is in it, so from the end.
        for dir in self.dirs.iter().rev() {
            self.storage.delete(dir, DeleteOptions::new()).await?;
        }
        Ok(())
    }
}
