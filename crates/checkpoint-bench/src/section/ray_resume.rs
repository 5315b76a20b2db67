//! Resuming a job of Ray Data: with our package, and with Ray's own checkpoint.

use anyhow::Result;
use serde_json::json;

use super::Bench;
use super::files::{self, Amount, Rows, Shape};
use crate::ids::IdKind;
use crate::records;
use crate::report::{Table, bytes, count, progress, seconds};
use crate::side::Mark;
use crate::target::Target;

const KIND: IdKind = IdKind::Uuid;
/// Less than this is not told from nothing, as two runs of a job differ by as much.
const LEAST_SECONDS: f64 = 0.1;
const LEAST_BYTES: f64 = 1e6;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    if !bench.place.has_peers() {
        return Ok(());
    }
    let done = bench.size.pick(20_000, 10_000_000, 10_000_000);
    bench.place.must_have(done * KIND.disk_bytes() * 3 + (1 << 30))?;
    // A tenth of a per cent of the rows that are done is read again, and as many that are not.
    let rows = done / 100;
    let input = bench.place.fresh("input")?;
    let amount = Amount { files: 10, rows_per_file: rows / 10, rows_per_group: rows / 10 };
    let first = done - rows / 2;
    files::write_from(&input, Shape::Ids(KIND), amount, first)?;
    let (left, all) = (Rows::of(KIND, done..first + rows)?, Rows::of(KIND, first..first + rows)?);
    let mut table = Table::new(
        &format!("Resuming in Ray Data with {} UUIDs done, over {} rows of which half are", count(done), count(rows)),
        &["side", "time", "CPU", "peak memory", "driver", "object store"],
    );
    table.note(
        "The whole second run, from the call to the last file, on a cluster that is up: what each takes over the idle \
         cluster. The peaks of the driver and of the object store may be at other moments than that of all processes. The \
         job without a checkpoint writes all rows: what the others take above it is the load of the checkpoint and the \
         filter, and that is what the targets are for. Ray Data is tuned for few cores.",
    );
    let mut marks = Vec::new();
    for side in ["no checkpoint", "Ray Data", "ours"] {
        progress(side);
        let (checkpoint, output) = (bench.place.fresh("checkpoint")?, bench.place.fresh("output")?);
        if side != "no checkpoint" {
            let tasks = records::shares(done, 1000);
            let made = records::make(&checkpoint, &output, KIND, tasks, |numbers| KIND.array(numbers));
            bench.runtime.block_on(Box::pin(made))?;
        }
        let spec = json!({ "side": side, "checkpoint": checkpoint, "input": input, "output": output });
        let mut ended = bench.place.peer("ray_resume.py", &spec)?.run()?;
        let expected = if side == "no checkpoint" { all } else { left };
        expected.must_be_in(side, &output)?;
        let mark = ended.take_mark("done")?;
        table.row([
            side.to_owned(),
            seconds(mark.seconds),
            seconds(mark.cpu_seconds),
            bytes(mark.peak_bytes as f64),
            bytes(mark.peaks.first as f64),
            bytes(mark.peaks.shared as f64),
        ]);
        marks.push(mark);
    }
    if let [none, theirs, ours] = marks.as_slice() {
        let time = |mark: &Mark| (mark.seconds - none.seconds).max(LEAST_SECONDS);
        let memory = |mark: &Mark| (mark.peak_bytes as f64 - none.peak_bytes as f64).max(LEAST_BYTES);
        table.target(Target::at_least("load in Ray: times as fast as Ray Data", time(theirs) / time(ours), 20.0));
        table.target(Target::at_most("load in Ray: part of Ray Data's memory", memory(ours) / memory(theirs), 0.1));
    }
    bench.report.table(&table)
}
