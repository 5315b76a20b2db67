//! `ckpt rm`: deleting a checkpoint, and never the output.

use checkpoint_fs::{ObjectPath, StorageExt, StorageRef};
use checkpoint_store::Snapshot;
use clap::Args;

use crate::amount::{counted, size};
use crate::args::{ExclusiveArg, LeaseUrlArg};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::session::{Session, lease};

/// `ckpt rm`.
#[derive(Args)]
pub(crate) struct RmArgs {
    /// The checkpoint's directory
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    /// Delete; without it only what would be deleted is shown
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    lease: LeaseUrlArg,
    #[command(flatten)]
    exclusive: ExclusiveArg,
}

/// Shows what there is, and deletes it when told to.
pub(crate) async fn run(args: &RmArgs, session: &Session) -> Result<Exit> {
    let checkpoint = session.checkpoint(&args.checkpoint, &args.lease).await?;
    let snapshot = checkpoint.existing_for_sure().await?;
    let found = Found::below(checkpoint.storage()).await?;
    let what = format!("{}: {}", checkpoint.url(), found.describe(&snapshot));
    if !args.yes {
        session.out.line(format!("would delete {what}"))?;
        return Err(Failure::usage("nothing was deleted").with_hint("add --yes to delete it").with_hint(
            "the output keeps its rows, and without the checkpoint a run over it is refused unless --append is given",
        ));
    }
    checkpoint_store::remove(&checkpoint, lease(&args.exclusive)).await?;
    session.out.line(format!("deleted {what}"))?;
    Ok(Exit::Done)
}

/// What a checkpoint's directory holds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    records: u64,
    state_files: u64,
    bytes: u64,
    others: u64,
}

impl Found {
    async fn below(storage: &StorageRef) -> Result<Self> {
        let mut found = Self::default();
        for (path, meta) in storage.list_files(&ObjectPath::root(), true).await? {
            found.count(&path, meta.size);
        }
        Ok(found)
    }

    fn count(&mut self, path: &ObjectPath, bytes: u64) {
        let text = path.as_str();
        let is_record = !text.contains('/') && !text.starts_with(['_', '.']) && text.ends_with(".parquet");
        let is_state = text.starts_with("_meta/");
        self.records += u64::from(is_record);
        self.state_files += u64::from(is_state);
        if is_record || is_state {
            self.bytes += bytes;
        } else {
            self.others += 1;
        }
    }

    fn describe(&self, snapshot: &Snapshot) -> String {
        let job = if snapshot.is_complete() {
            "a job that is done".to_owned()
        } else {
            format!("a job of {}", counted(snapshot.attempts().len() as u64, "attempt"))
        };
        let others = match self.others {
            0 => String::new(),
            others => format!("; {} of others there, which stay", counted(others, "file")),
        };
        format!(
            "{job}, {}, {} in _meta, {}{others}",
            counted(self.records, "record"),
            counted(self.state_files, "file"),
            size(self.bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_of_the_checkpoint_is_counted() {
        let mut found = Found::default();
        for name in ["a.parquet", "b.pending.parquet", "_meta/job.json", "_meta/pending/x.parquet"] {
            found.count(&ObjectPath::parse(name).expect("valid"), 10);
        }
        for name in ["notes.txt", "_SUCCESS", ".x.parquet", "sub/a.parquet"] {
            found.count(&ObjectPath::parse(name).expect("valid"), 1_000);
        }
        assert_eq!(found, Found { records: 2, state_files: 2, bytes: 40, others: 4 });
    }
}
