//! `ckpt recover`: settling what earlier attempts left, without running the job.

use checkpoint_pipeline::DataFiles;
use checkpoint_store::{RecoverOptions, RecoverReport};
use clap::Args;

use crate::amount::count;
use crate::args::{ExclusiveArg, IdSetArgs, JsonArg, LeaseUrlArg};
use crate::exit::Exit;
use crate::failure::Result;
use crate::session::{Session, lease};
use crate::table::Table;

/// `ckpt recover`.
#[derive(Args)]
pub(crate) struct RecoverArgs {
    /// The checkpoint's directory
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    /// The job's output directory
    #[arg(long, value_name = "URL")]
    output: String,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Let rows be computed again whose record is damaged or whose data is gone
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    lease: LeaseUrlArg,
    #[command(flatten)]
    exclusive: ExclusiveArg,
    #[command(flatten)]
    id_sets: IdSetArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// Closes the past and sweeps what does not count.
pub(crate) async fn run(args: &RecoverArgs, session: &Session) -> Result<Exit> {
    let checkpoint = session.checkpoint(&args.checkpoint, &args.lease).await?;
    let output = session.open_dir(&args.output).await?;
    let mut options = RecoverOptions::default();
    options.dry_run = args.dry_run;
    options.repair = args.repair;
    options.lease = lease(&args.exclusive);
    options.ids = args.id_sets.options();
    let report = checkpoint_store::recover(&checkpoint, &output, options, &DataFiles::new()).await?;
    if args.json.json {
        session.out.json(&report)?;
    } else {
        session.out.line(describe(&report))?;
    }
    Ok(Exit::Done)
}

fn describe(report: &RecoverReport) -> String {
    let first = if report.dry_run { "dry run, nothing was changed; this would be done:" } else { "recovered" };
    let facts = [
        ("tasks rolled forward", report.rolled_forward),
        ("tasks voided", report.voided),
        ("tasks to compute again", report.repaired_tasks),
        ("data files deleted", report.deleted_files),
    ];
    format!("{first}\n{}", Table::facts(facts.map(|(label, number)| (label, count(number)))))
}
