//! The hot loops alone: instructions of the processor for each row, which no other load on the machine changes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Bench;
use crate::ids::IdKind;
use crate::probes;
use crate::report::{Table, count, progress};

const ROWS: u64 = 1 << 17;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let ids = bench.size.pick(10_000, 1_000_000, 10_000_000);
    let mut table = Table::new(
        &format!("Instructions for each row, in a set of {} IDs", count(ids)),
        &["IDs", "contains", "filter", "build"],
    );
    if Command::new("valgrind").arg("--version").output().is_err() {
        table.note("Not measured: there is no valgrind (apt-get install valgrind).");
        return bench.report.table(&table);
    }
    table.note(
        "Counted by valgrind as the difference of two runs. contains: half of the rows are in the set, in no order; filter: \
         with the copy of the rows that remain; build: taking IDs into a set, merging included.",
    );
    for kind in [IdKind::Int64, IdKind::RowHash, IdKind::Uuid] {
        progress(kind.title());
        let (set, rows) = (bench.place.path().join("set"), bench.place.path().join("probes.arrow"));
        let built = bench.place.ours("build", &json!({ "kind": kind, "ids": ids, "set": set }))?.run()?;
        built.mark("built")?.found.must_be("ours", "ids", ids)?;
        probes::write(&rows, kind, ROWS, ids)?;
        let mut cells = vec![kind.title().to_owned()];
        for hot in ["contains", "filter", "build"] {
            let counted = |passes: u64| {
                let spec = json!({ "hot": hot, "kind": kind, "set": set, "probes": rows, "passes": passes });
                instructions(bench.place.path(), &spec.to_string())
            };
            let (one, three) = (counted(1)?, counted(3)?);
            cells.push(format!("{:.0}", three.saturating_sub(one) as f64 / 2.0 / ROWS as f64));
        }
        table.row(cells);
    }
    bench.report.table(&table)
}

/// Instructions that the side `probe` runs, from its start to its end.
fn instructions(dir: &Path, spec: &str) -> Result<u64> {
    let said = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["side", "probe", spec])
        .current_dir(dir)
        .output()?;
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(said.status.success(), "valgrind failed: {words}");
    let line = words.lines().find_map(|line| line.split_once("Collected :")).context("valgrind counted nothing")?;
    Ok(line.1.trim().parse()?)
}
