//! What does an ID cost in memory, and how many rows a second does one core filter?
//!
//! `cargo bench -p checkpoint-store --bench id_set -- [MILLIONS ...]`, 1 and 10 where none are given. For each size it
//! builds a set of random 64-bit integers, of row hashes, and of 36-character UUIDs, and probes it with shuffled IDs of
//! which half are there. Times are of the thread's own processor time, so other work on the machine matters little but
//! for the memory that it shares.

#![allow(clippy::print_stdout, reason = "it reports to people")]

use std::fmt::Write;
use std::sync::Arc;

use anyhow::Result;
use arrow::array::{ArrayRef, Int64Array, StringBuilder, UInt64Array};
use checkpoint_store::{CompactIdSet, HashKey, IdColumn, IdSet, IdSetBuilder, IdSetOptions, row_hash};
use rustix::time::{ClockId, clock_gettime};

/// Rows of a batch.
const BATCH: u64 = 8192;
/// Rows that are probed in one round.
const PROBES: u64 = 4_000_000;
const ROUNDS: usize = 3;

#[derive(Clone, Copy)]
enum Shape {
    Integers,
    RowHashes,
    Uuids,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Integers => "random int64",
            Self::RowHashes => "row hash",
            Self::Uuids => "36-character UUID",
        }
    }

    /// The IDs of these numbers; different numbers have different IDs.
    fn ids(self, numbers: impl Iterator<Item = u64>) -> ArrayRef {
        match self {
            Self::Integers => Arc::new(Int64Array::from_iter_values(numbers.map(|i| mixed(i) as i64))),
            Self::RowHashes => Arc::new(UInt64Array::from_iter_values(numbers.map(mixed))),
            Self::Uuids => {
                let (mut ids, mut id) = (StringBuilder::new(), String::new());
                for number in numbers {
                    let (high, low) = (mixed(number), mixed(!number));
                    id.clear();
                    let (a, b, c) = (high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF);
                    let written =
                        write!(id, "{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & ((1 << 48) - 1));
                    if written.is_ok() {
                        ids.append_value(&id);
                    }
                }
                Arc::new(ids.finish())
            }
        }
    }
}

fn mixed(number: u64) -> u64 {
    row_hash::hash(0x0123_4567_89AB_CDEF, number)
}

/// Seconds of processor time that this thread has had.
fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn build(shape: Shape, ids: u64) -> Result<CompactIdSet> {
    let mut options = IdSetOptions::default();
    options.row_hash = matches!(shape, Shape::RowHashes);
    options.hash_key = Some(HashKey::new(*b"the same in each"));
    let builder = IdSetBuilder::new(options);
    for start in (0..ids).step_by(1 << 20) {
        let column = shape.ids(start..ids.min(start + (1 << 20)));
        builder.push(&IdColumn::try_new(&column)?.map_err(|problem| anyhow::anyhow!("{problem}"))?)?;
    }
    Ok(builder.finish()?)
}

fn measure(shape: Shape, ids: u64) -> Result<()> {
    let set = build(shape, ids)?;
    let bytes = set.as_bytes().len() as f64;
    let before = seconds();
    CompactIdSet::from_bytes(set.as_bytes().clone())?;
    let opened = seconds() - before;
    // Random numbers below twice as many: half of them are there, in no order.
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut number = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((u128::from(row_hash::hash(0, state)) * u128::from(2 * ids)) >> 64) as u64
    };
    let batches: Vec<ArrayRef> = (0..PROBES / BATCH)
        .map(|_| {
            let numbers: Vec<u64> = (0..BATCH).map(|_| number()).collect();
            shape.ids(numbers.into_iter())
        })
        .collect();
    let rows = (batches.len() as u64 * BATCH) as f64;
    let (mut best, mut hits) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let before = seconds();
        hits = 0;
        for batch in &batches {
            hits += set.contains(batch)?.true_count();
        }
        best = best.min(seconds() - before);
    }
    println!(
        "{:<18} {:>11} {:>12.4} {:>9.1} {:>8.3} {:>11.1}",
        shape.name(),
        set.len(),
        bytes / set.len() as f64,
        rows / best / 1e6,
        hits as f64 / rows,
        bytes / opened / 1e9,
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut millions: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if millions.is_empty() {
        millions = vec![1, 10];
    }
    println!(
        "{:<18} {:>11} {:>12} {:>9} {:>8} {:>11}",
        "IDs", "in the set", "bytes per ID", "M rows/s", "hits", "open GB/s"
    );
    for millions in millions {
        for shape in [Shape::Integers, Shape::RowHashes, Shape::Uuids] {
            measure(shape, millions * 1_000_000)?;
        }
    }
    Ok(())
}
