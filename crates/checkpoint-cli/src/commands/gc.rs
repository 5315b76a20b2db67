//! `ckpt gc`: deleting old checkpoints under a prefix, and never one that runs.

use std::sync::Arc;
use std::time::Duration;

use checkpoint_fs::{Location, ObjectPath, StorageRef};
use checkpoint_store::{Checkpoint, ErrorKind, Found, find_checkpoints, remove};
use clap::Args;

use crate::amount::{count, counted, size, span};
use crate::args::{ExclusiveArg, age};
use crate::exit::Exit;
use crate::failure::{Failure, Result, visible};
use crate::session::{Session, lease};
use crate::subdirectory::Subdirectory;
use crate::table::{Align, Table};

/// `ckpt gc`.
#[derive(Args)]
pub(crate) struct GcArgs {
    /// The directory to search, at any depth
    #[arg(value_name = "PREFIX")]
    prefix: String,
    /// Only checkpoints in which nothing was written for so long, such as 12h, 7d or 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Duration,
    /// Only checkpoints of jobs that ended well
    #[arg(long)]
    only_finished: bool,
    /// Delete; without it only what would be deleted is shown
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    exclusive: ExclusiveArg,
}

/// Lists the checkpoints that it finds, and deletes the old ones when told to.
pub(crate) async fn run(args: &GcArgs, session: &Session) -> Result<Exit> {
    let prefix = Location::parse(&args.prefix)?;
    let storage = session.open_location(&prefix).await?;
    let open = |path: &ObjectPath| -> StorageRef { Arc::new(Subdirectory::new(storage.clone(), path.clone())) };
    let found = find_checkpoints(&storage, open, &session.runtime).await?;
    if found.is_empty() {
        session.out.line(format!("no checkpoints under {}", visible(&prefix.to_string())))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Right, Align::Left, Align::Left]);
    table.row(["CHECKPOINT", "IDLE", "FILES", "SIZE", "JOB", ""].map(str::to_owned));
    for one in &found {
        let job = if one.finished { "finished" } else { "unfinished" };
        let what = match spared(args, one) {
            Some(why) => format!("skipped: {why}"),
            None if args.yes => "delete".to_owned(),
            None => "would delete".to_owned(),
        };
        let name = if one.path.is_root() { "." } else { one.path.as_str() };
        table.row([visible(name), span(one.idle), count(one.objects), size(one.bytes), job.to_owned(), what]);
    }
    session.out.line(table.render())?;
    let doomed: Vec<&Found> = found.iter().filter(|one| spared(args, one).is_none()).collect();
    if !args.yes {
        let hint = if doomed.is_empty() { "" } else { "; add --yes to delete" };
        session.out.line(format!("{} of {} would be deleted{hint}", doomed.len(), found.len()))?;
        return Ok(Exit::Done);
    }
    delete(args, session, &prefix, &doomed).await
}

/// Why a checkpoint stays.
fn spared(args: &GcArgs, one: &Found) -> Option<&'static str> {
    if one.running {
        Some("running")
    } else if one.idle < args.older_than {
        Some("not old enough")
    } else if args.only_finished && !one.finished {
        Some("not finished")
    } else {
        None
    }
}

/// Deletes each under its lease. One that came to life meanwhile stays; a failure ends the work at the end.
async fn delete(args: &GcArgs, session: &Session, prefix: &Location, doomed: &[&Found]) -> Result<Exit> {
    let mut deleted = 0;
    let mut failed: Option<Failure> = None;
    for one in doomed {
        let location = prefix.join(one.path.as_str())?;
        let checkpoint = Checkpoint::new(session.open_location(&location).await?, session.runtime.clone());
        match remove(&checkpoint, lease(&args.exclusive)).await {
            Ok(()) => deleted += 1,
            Err(error) if error.kind() == ErrorKind::Conflict => {
                session.out.line(format!("skipped {}: {error}", visible(&location.to_string())))?;
            }
            Err(error) => {
                session.out.line(format!("failed {}: {error}", visible(&location.to_string())))?;
                failed.get_or_insert_with(|| error.into());
            }
        }
    }
    session.out.line(format!("deleted {}", counted(deleted, "checkpoint")))?;
    match failed {
        Some(failure) => Err(failure),
        None => Ok(Exit::Done),
    }
}
