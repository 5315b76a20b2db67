//! Filtering on one core by a set that is loaded.

use std::path::Path;

use anyhow::{Context, Result};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use checkpoint_store::IdSet;
use serde_json::{Value, json};

use crate::clock::Stopwatch;
use crate::ids::IdKind;
use crate::probes;

/// Time that is given to each loop; the best pass counts.
const SECONDS: f64 = 1.0;
const PASSES: usize = 3;

/// Filters the rows of a file, and says what remained and how fast it went, by the processor's time.
pub(super) fn measure(set: &dyn IdSet, path: &Path, kind: IdKind) -> Result<Value> {
    let batches = probes::read(path)?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let column = kind.column();
    let ids: Vec<_> = batches
        .iter()
        .map(|batch| batch.column_by_name(column).cloned().context("no ID column"))
        .collect::<Result<_>>()?;
    let (mut kept, mut sum) = (0, 0);
    for batch in &batches {
        let rest = set.filter(batch, column)?;
        kept += rest.num_rows();
        let positions = rest.column_by_name("row").context("no positions")?.as_primitive::<Int64Type>();
        sum += positions.values().iter().sum::<i64>();
    }
    let contains = best(|| ids.iter().try_fold(0, |hits, ids| Ok(hits + set.contains(ids)?.true_count())))?;
    let filter = best(|| batches.iter().try_fold(0, |rows, batch| Ok(rows + set.filter(batch, column)?.num_rows())))?;
    Ok(json!({
        "rows": rows,
        "kept_rows": kept,
        "kept_sum": sum,
        "contains_rate": rows as f64 / contains,
        "filter_rate": rows as f64 / filter,
    }))
}

/// Seconds of the best pass.
fn best(mut pass: impl FnMut() -> Result<usize>) -> Result<f64> {
    let (whole, mut best, mut passes) = (Stopwatch::start(), f64::INFINITY, 0);
    while passes < PASSES || whole.seconds() < SECONDS {
        let watch = Stopwatch::start();
        std::hint::black_box(pass()?);
        best = best.min(watch.thread_seconds());
        passes += 1;
    }
    Ok(best)
}
