//! `ckpt verify`: whether the promise holds.

use checkpoint_pipeline::DataFiles;
use checkpoint_store::{VerifyOptions, VerifyReport};
use clap::Args;

use crate::amount::{count, counted};
use crate::args::{IdSetArgs, JsonArg, LeaseUrlArg};
use crate::exit::Exit;
use crate::failure::{Result, visible};
use crate::session::Session;
use crate::table::Table;

/// `ckpt verify`.
#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// The checkpoint's directory
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    /// The job's output directory
    #[arg(long, value_name = "URL")]
    output: String,
    #[command(flatten)]
    lease: LeaseUrlArg,
    #[command(flatten)]
    id_sets: IdSetArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// Reads records and data and says whether they agree.
pub(crate) async fn run(args: &VerifyArgs, session: &Session) -> Result<Exit> {
    let checkpoint = session.checkpoint(&args.checkpoint, &args.lease).await?;
    let output = session.open_dir(&args.output).await?;
    let mut options = VerifyOptions::default();
    options.ids = args.id_sets.options();
    let report = checkpoint_store::verify(&checkpoint, &output, options, &DataFiles::new()).await?;
    if args.json.json {
        session.out.json(&report)?;
    } else {
        session.out.line(describe(&report))?;
    }
    Ok(if report.ok { Exit::Done } else { Exit::No })
}

fn describe(report: &VerifyReport) -> String {
    let first = if report.ok {
        format!("ok: the data of all {} is there and whole", counted(report.committed_ids, "committed ID"))
    } else {
        "not ok: the output does not hold what the checkpoint says".to_owned()
    };
    let facts = [
        ("committed IDs", report.committed_ids),
        ("output rows", report.output_rows),
        ("missing IDs", report.missing_ids),
        ("duplicate IDs", report.duplicate_ids),
        ("orphan files", report.orphan_files),
        ("lost tasks", report.lost_tasks),
        ("pending tasks", report.pending_tasks),
    ];
    let mut lines = vec![first, Table::facts(facts.map(|(label, number)| (label, count(number))))];
    if !report.examples.is_empty() {
        lines.push("examples:".to_owned());
        lines.extend(report.examples.iter().map(|example| format!("  {}", visible(example))));
    }
    if report.lost_tasks + report.missing_ids > 0 {
        lines.push("what is lost is computed again after `ckpt recover` with --repair, by the next run".to_owned());
    } else if report.orphan_files > 0 && report.duplicate_ids == 0 {
        lines.push("orphan files are swept by the next run, or by `ckpt recover`".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_comes_first_and_the_way_on_last() {
        let mut report = VerifyReport::default();
        report.ok = true;
        report.committed_ids = 3;
        assert!(describe(&report).starts_with("ok: the data of all 3 committed IDs is there"));
        report.ok = false;
        report.lost_tasks = 1;
        report.examples.push("missing record a\u{7}".to_owned());
        let text = describe(&report);
        assert!(text.starts_with("not ok"), "{text}");
        assert!(text.contains("\n  lost tasks     1\n"), "{text}");
        assert!(text.contains("\nexamples:\n  missing record a\\u{7}\n"), "{text}");
        assert!(text.ends_with("by the next run"), "{text}");
    }
}
