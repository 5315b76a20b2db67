//! `ckpt run`: the job itself.

use std::pin::pin;

use checkpoint_pipeline::{Phase, RunReport};

use crate::amount::{counted, seconds, size};
use crate::args::{ProgressMode, RunArgs};
use crate::console::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::session::Session;
use crate::table::Table;

/// Runs the job to its end, or until a signal asks it to stop.
pub(crate) async fn run(args: &RunArgs, session: &Session) -> Result<Exit> {
    let pipeline = args.job.pipeline(&session.registry, &session.options)?;
    let stop = pipeline.stop();
    session.signals.end_well();
    let mode = if session.quiet { ProgressMode::None } else { args.progress };
    let progress = Progress::start(mode, pipeline.counters(), session.runtime.clone());
    let counters = pipeline.counters();
    let mut job = pin!(pipeline.run());
    let result = tokio::select! {
        result = &mut job => result,
        exit = session.signals.first() => {
            // Nothing is in flight yet: waiting for a lease, say, ends here.
            if matches!(counters.phase(), Phase::Discovering | Phase::Resuming) {
                return Err(Failure::new(exit, "interrupted before any row was processed"));
            }
            console().line("interrupted: finishing the commits in flight; once more stops at once");
            stop.request();
            job.await
        }
    };
    drop(progress);
    match result {
        Ok(report) => {
            if args.json.json {
                session.out.json(&report)?;
            } else {
                session.out.line(describe(&report))?;
            }
            Ok(if report.failed_rows > 0 { Exit::No } else { Exit::Done })
        }
        Err(error) => {
            let exit = Exit::of_pipeline(error.kind(), session.signals.received());
            let failure = Failure::from(error).with_exit(exit);
            Err(failure)
        }
    }
}

fn describe(report: &RunReport) -> String {
    let first = if report.already_complete {
        "already complete, nothing to do".to_owned()
    } else {
        format!("done in {}, attempt {}", seconds(report.seconds), report.attempt)
    };
    let input = match report.bytes_read {
        0 => counted(report.input_rows, "row"),
        bytes => format!("{}, {} read", counted(report.input_rows, "row"), size(bytes)),
    };
    let mut facts = vec![("input", input)];
    if report.skipped_rows > 0 {
        facts.push(("skipped", format!("{}, done before", counted(report.skipped_rows, "row"))));
    }
    if !report.already_complete {
        facts.push(("processed", counted(report.processed_rows, "row")));
        let files = counted(report.written_files, "file");
        facts.push(("written", format!("{} in {files}", counted(report.written_rows, "row"))));
    }
    if report.rolled_forward_tasks + report.voided_tasks > 0 {
        let finished = counted(report.rolled_forward_tasks, "task");
        facts.push(("recovered", format!("{finished} kept, {} thrown away and computed again", report.voided_tasks)));
    }
    if report.failed_rows > 0 {
        facts.push(("failed", format!("{} set aside in _failed of the output", counted(report.failed_rows, "row"))));
    }
    if !report.already_complete {
        let stages = [
            ("read", report.read_seconds),
            ("transform", report.transform_seconds),
            ("write", report.write_seconds),
            ("commit", report.commit_seconds),
        ];
        let stages: Vec<String> = stages.iter().map(|(name, time)| format!("{name} {}", seconds(*time))).collect();
        facts.push(("time", format!("{}, over all workers", stages.join(", "))));
    }
    format!("{first}\n{}", Table::facts(facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_happened_and_nothing_else() {
        let mut report = RunReport::default();
        report.input_rows = 2_000;
        report.skipped_rows = 2_000;
        report.already_complete = true;
        assert_eq!(
            describe(&report),
            "already complete, nothing to do\n  input    2,000 rows\n  skipped  2,000 rows, done before"
        );
        report.already_complete = false;
        report.attempt = 2;
        report.failed_rows = 1;
        report.voided_tasks = 3;
        let text = describe(&report);
        assert!(text.starts_with("done in 0.0 s, attempt 2\n"), "{text}");
        assert!(text.contains("  failed     1 row set aside"), "{text}");
        assert!(text.contains("  recovered  0 tasks kept, 3 thrown away"), "{text}");
    }
}
