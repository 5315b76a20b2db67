//! A whole job that copies its rows: what naming, checking and committing them costs beside plain reading and writing.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::Bench;
use super::files::{self, Amount, Rows, Shape};
use crate::found::Found;
use crate::report::{Table, bytes, progress, seconds};
use crate::target::Target;

/// What ours writes Parquet with.
const CODEC: (&str, u32) = ("zstd", 1);
const PLAIN: &str = "plain pyarrow";
const RAY: &str = "Ray Data, checkpoint";
const OURS: &str = "ckpt run";
const SIDES: [&str; 3] = [PLAIN, RAY, OURS];
/// Runs of which the best one counts; one of Ray Data, which is not near.
const TURNS: usize = 3;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let mut table = Table::new(
        "A whole job that copies its rows, from local files to local files",
        &["rows", "side", "time", "CPU", "input a second", "peak memory"],
    );
    table.note(
        "Written with zstd at level 1 by all but Ray Data, which writes snappy. Plain pyarrow reads a file, writes a file, as \
         many at a time as there are cores; it checks no IDs, syncs nothing to the disk and commits nothing. The best of three \
         runs, of Ray Data one. Starting Python or the Ray cluster is not \
         counted; starting ckpt is.",
    );
    for (title, shape, rows_per_file) in
        [("numbers", Shape::Numbers, 1_000_000), ("text", Shape::Text, 250_000), ("2 KB rows", Shape::Wide, 25_000)]
    {
        progress(title);
        let scale = bench.size.pick(50, 1, 1);
        let files = bench.size.pick(2, 16, 32);
        let amount = Amount { files, rows_per_file: rows_per_file / scale, rows_per_group: 100_000 };
        bench.place.must_have(1 << 33)?;
        let input = bench.place.fresh("input")?;
        let size = files::write(&input, shape, amount)?;
        let expected = Rows::of(shape.kind(), 0..amount.rows())?;
        let mut rates = Vec::new();
        for took in best(bench, &input, expected)? {
            let rate = size as f64 / took.seconds;
            rates.push((took.side, rate));
            table.row([
                format!("{title}, {} in {files} files", bytes(size as f64)),
                took.side.to_owned(),
                seconds(took.seconds),
                seconds(took.cpu_seconds),
                format!("{}/s", bytes(rate)),
                bytes(took.peak_bytes as f64),
            ]);
        }
        let rate = |side: &str| rates.iter().find(|(name, _)| *name == side).map(|(_, rate)| *rate);
        if let (Some(ours), Some(plain)) = (rate(OURS), rate(PLAIN)) {
            table.target(Target::at_least(format!("{title}: part of plain pyarrow's throughput"), ours / plain, 0.8));
        }
    }
    bench.report.table(&table)
}

/// What a job took.
#[derive(Debug)]
struct Took {
    side: &'static str,
    seconds: f64,
    cpu_seconds: f64,
    peak_bytes: u64,
}

/// Each side at its best of some runs that take turns.
fn best(bench: &Bench<'_>, input: &Path, expected: Rows) -> Result<Vec<Took>> {
    let mut best: Vec<Took> = Vec::new();
    for turn in 0..TURNS {
        for side in SIDES {
            if (side != OURS && !bench.place.has_peers()) || (side == RAY && turn > 0) {
                continue;
            }
            let (output, checkpoint) = (bench.place.fresh("output")?, bench.place.fresh("checkpoint")?);
            // What the disk still has to do is of the run before.
            rustix::fs::sync();
            let took = one(bench, side, input, &output, &checkpoint)?;
            expected.must_be_in(side, &output)?;
            match best.iter_mut().find(|best| best.side == side) {
                Some(best) if best.seconds <= took.seconds => {}
                Some(best) => *best = took,
                None => best.push(took),
            }
            fs::remove_dir_all(output)?;
            fs::remove_dir_all(checkpoint)?;
        }
    }
    Ok(best)
}

fn one(bench: &Bench<'_>, side: &'static str, input: &Path, output: &Path, checkpoint: &Path) -> Result<Took> {
    let (script, spec) = match side {
        OURS => return ckpt(bench, input, output, checkpoint),
        PLAIN => ("arrow_copy.py", json!({ "input": input, "output": output, "codec": CODEC.0, "level": CODEC.1 })),
        _ => ("ray_job.py", json!({ "input": input, "output": output, "checkpoint": checkpoint, "column": "id" })),
    };
    let ended = bench.place.peer(script, &spec)?.run()?;
    let done = ended.mark("done")?;
    Ok(Took { side, seconds: done.seconds, cpu_seconds: done.cpu_seconds, peak_bytes: done.peak_bytes })
}

fn ckpt(bench: &Bench<'_>, input: &Path, output: &Path, checkpoint: &Path) -> Result<Took> {
    let args = ["run", "--id-column", "id", "--keep-checkpoint", "--progress", "none", "--json"];
    let side = bench.place.ckpt(args.iter().map(std::ffi::OsStr::new).chain([
        "--input".as_ref(),
        input.as_os_str(),
        "--output".as_ref(),
        output.as_os_str(),
        "--checkpoint".as_ref(),
        checkpoint.as_os_str(),
    ]))?;
    let ended = side.run()?;
    // Says that it is JSON, and that it got to its end.
    Found::parse(&ended.last_line)?.count("written_rows")?;
    Ok(Took { side: OURS, seconds: ended.seconds, cpu_seconds: ended.cpu_seconds, peak_bytes: ended.peak_bytes })
}
