//! The comparisons: each makes its files, runs its sides, checks what they found, and prints a table.

mod billion;
mod commits;
mod copy;
mod files;
mod hot;
mod ids;
mod loading;
mod peers;
mod python_files;
mod ray_resume;
mod resume;
mod small_records;

use std::process::ExitCode;

use anyhow::Result;

use crate::machine;
use crate::place::Place;
use crate::report::{Report, progress};
use crate::settings::{Comparison, Settings, Size};

/// What a comparison is given.
struct Bench<'a> {
    place: &'a Place,
    size: Size,
    report: &'a mut Report,
    runtime: tokio::runtime::Runtime,
}

/// Makes all comparisons that are asked for. One that fails has no table, and the run fails at its end.
pub(crate) fn run(settings: &Settings) -> Result<ExitCode> {
    let place = Place::new(settings)?;
    let mut report = Report::new(settings)?;
    let mut head = format!("# Measured\n\n{}.\n", machine::describe());
    match &settings.python {
        Some(python) => head.push_str(&format!("Peers: {}.\n", machine::peers(python))),
        None => head.push_str("Peers: none, ours alone.\n"),
    }
    report.text(&head)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut bench = Bench { place: &place, size: settings.size, report: &mut report, runtime };
    let mut failed = 0;
    for comparison in settings.comparisons() {
        progress(&format!("{comparison:?}"));
        let done = match comparison {
            Comparison::Ids => ids::run(&mut bench),
            Comparison::Records => small_records::run(&mut bench),
            Comparison::Commits => commits::run(&mut bench),
            Comparison::Resume => resume::run(&mut bench).and_then(|()| peers::run(&mut bench)),
            Comparison::Copy => copy::run(&mut bench),
            Comparison::Hot => hot::run(&mut bench),
            Comparison::Files => python_files::run(&mut bench),
            Comparison::Ray => ray_resume::run(&mut bench),
            Comparison::Billion => billion::run(&mut bench),
        };
        if let Err(error) = done {
            failed += 1;
            bench.report.text(&format!("## {comparison:?}: FAILED\n\n{error:#}\n"))?;
        }
    }
    report.end()?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
