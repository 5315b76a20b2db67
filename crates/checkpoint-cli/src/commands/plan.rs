//! `ckpt plan`: what a run would do.

use checkpoint_pipeline::PlanReport;

use crate::amount::{counted, size};
use crate::args::RunArgs;
use crate::exit::Exit;
use crate::failure::Result;
use crate::session::Session;
use crate::table::Table;

/// Looks at the input and the checkpoint and writes nothing.
pub(crate) async fn run(args: &RunArgs, session: &Session) -> Result<Exit> {
    let pipeline = args.job.pipeline(&session.registry, &session.options)?;
    let report = pipeline.plan().await?;
    if args.json.json {
        session.out.json(&report)?;
    } else {
        session.out.line(describe(&report))?;
    }
    Ok(Exit::Done)
}

fn describe(report: &PlanReport) -> String {
    let first = if report.already_complete {
        "already complete, a run would do nothing".to_owned()
    } else {
        format!("a run would compute {}", counted(report.remaining_rows, "row"))
    };
    let of = |rows: u64, files: u64| format!("{} in {}", counted(rows, "row"), counted(files, "file"));
    let input = match report.bytes_read {
        0 => of(report.input_rows, report.input_files),
        bytes => format!("{}, {} read", of(report.input_rows, report.input_files), size(bytes)),
    };
    let mut facts = vec![
        ("input", input),
        ("done", counted(report.done_rows, "row")),
        ("remaining", of(report.remaining_rows, report.remaining_files)),
    ];
    if report.would_roll_forward + report.would_void > 0 {
        let kept = counted(report.would_roll_forward, "finished task");
        facts.push(("recovery", format!("keep {kept}, throw away {}", report.would_void)));
    }
    format!("{first}\n{}", Table::facts(facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_well() {
        let mut report = PlanReport::default();
        (report.input_files, report.input_rows, report.done_rows) = (4, 2_000, 1_100);
        (report.remaining_rows, report.remaining_files, report.would_void) = (900, 1, 2);
        let lines = [
            "a run would compute 900 rows",
            "  input      2,000 rows in 4 files",
            "  done       1,100 rows",
            "  remaining  900 rows in 1 file",
            "  recovery   keep 0 finished tasks, throw away 2",
        ];
        assert_eq!(describe(&report), lines.join("\n"));
    }
}
