//! The same resume by all who have a checkpoint: half of the rows are done.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::Bench;
use super::files::{self, Amount, Rows, Shape};
use crate::ids::IdKind;
use crate::records;
use crate::report::{Table, bytes, count, progress, seconds};

const KIND: IdKind = IdKind::Uuid;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    if !bench.place.has_peers() {
        return Ok(());
    }
    let done = bench.size.pick(20_000, 1_000_000, 1_000_000);
    let amount = |files| Amount { files, rows_per_file: done / 10, rows_per_group: done / 10 };
    let (first, input) = (bench.place.fresh("first")?, bench.place.fresh("input")?);
    files::write(&first, Shape::Ids(KIND), amount(10))?;
    files::write(&input, Shape::Ids(KIND), amount(20))?;
    let left = Rows::of(KIND, done..2 * done)?;
    let mut table = Table::new(
        &format!("Resuming a job of {} UUIDs of which {} are done", count(2 * done), count(done)),
        &["side", "time", "CPU", "peak memory"],
    );
    table.note(
        "The whole second run, from the call to the last file; starting Python or the Ray cluster is not counted, starting \
         ckpt is. Ray Data and ckpt resume from the same records, of 1,000 tasks. Daft's checkpoint (in its Ray runner alone) \
         keeps records of its own, which its first run made; on plain Parquet files it promises at-least-once.",
    );
    for side in ["Daft", "Ray Data", "ckpt run"] {
        progress(side);
        let (checkpoint, output) = (bench.place.fresh("checkpoint")?, bench.place.fresh("output")?);
        let (mark, ended) = match side {
            "Daft" => {
                let spec = json!({
                    "checkpoint": format!("file://{}", checkpoint.display()), "column": "id", "done": first,
                    "first_output": bench.place.fresh("first-output")?, "input": input, "output": output,
                });
                ("done", bench.place.peer("daft_job.py", &spec)?.run()?)
            }
            "Ray Data" => {
                made(bench, &checkpoint, &output, done)?;
                let spec = json!({ "input": input, "output": output, "checkpoint": checkpoint, "column": "id" });
                ("done", bench.place.peer("ray_job.py", &spec)?.run()?)
            }
            _ => {
                made(bench, &checkpoint, &output, done)?;
                let paths = [&input, &output, &checkpoint].map(|path| path.to_string_lossy().into_owned());
                let args = ["run", "--id-column", "id", "--keep-checkpoint", "--progress", "none", "--json"];
                let places = ["--input", &paths[0], "--output", &paths[1], "--checkpoint", &paths[2]];
                ("", bench.place.ckpt(args.into_iter().chain(places))?.run()?)
            }
        };
        left.must_be_in(side, &output)?;
        let (time, cpu, peak) = if mark.is_empty() {
            (ended.seconds, ended.cpu_seconds, ended.peak_bytes)
        } else {
            let done = ended.mark(mark)?;
            (done.seconds, done.cpu_seconds, done.peak_bytes)
        };
        table.row([side.to_owned(), seconds(time), seconds(cpu), bytes(peak as f64)]);
    }
    bench.report.table(&table)
}

fn made(bench: &Bench<'_>, checkpoint: &Path, output: &Path, done: u64) -> Result<u64> {
    let tasks = records::shares(done, 1000);
    bench.runtime.block_on(Box::pin(records::make(checkpoint, output, KIND, tasks, |numbers| KIND.array(numbers))))
}
