//! `ckpt compact`: many small records become few.

use checkpoint_pipeline::DataFiles;
use checkpoint_store::{CompactOptions, CompactReport};
use clap::Args;

use crate::amount::{count, size};
use crate::args::{ExclusiveArg, IdSetArgs, JsonArg, LeaseUrlArg};
use crate::exit::Exit;
use crate::failure::Result;
use crate::session::{Session, lease};
use crate::table::Table;

/// `ckpt compact`.
#[derive(Args)]
pub(crate) struct CompactArgs {
    /// The checkpoint's directory
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    #[command(flatten)]
    lease: LeaseUrlArg,
    #[command(flatten)]
    exclusive: ExclusiveArg,
    #[command(flatten)]
    id_sets: IdSetArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// Closes the past and merges records. The output that the job wrote down is looked at too: it tells which pending
/// tasks are done.
pub(crate) async fn run(args: &CompactArgs, session: &Session) -> Result<Exit> {
    let checkpoint = session.checkpoint(&args.checkpoint, &args.lease).await?;
    let recorded = checkpoint.existing().await?.fingerprint().map(|job| job.output.clone());
    let output = match recorded {
        Some(url) => Some(session.open_dir(&url).await?),
        None => None,
    };
    let mut options = CompactOptions::default();
    options.lease = lease(&args.exclusive);
    options.ids = args.id_sets.options();
    let report = checkpoint_store::compact(&checkpoint, output.as_ref(), options, &DataFiles::new()).await?;
    if args.json.json {
        session.out.json(&report)?;
    } else {
        session.out.line(describe(&report))?;
    }
    Ok(Exit::Done)
}

fn describe(report: &CompactReport) -> String {
    let first = if report.records_after < report.records_before { "compacted" } else { "there was nothing to merge" };
    let facts = [
        ("records before", count(report.records_before)),
        ("records after", count(report.records_after)),
        ("bytes before", size(report.bytes_before)),
        ("bytes after", size(report.bytes_after)),
    ];
    format!("{first}\n{}", Table::facts(facts))
}
