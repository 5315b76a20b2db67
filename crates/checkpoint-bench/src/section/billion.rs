//! A billion IDs from record files, on one machine.

use anyhow::Result;

use super::Bench;
use super::loading::{self, Load};
use crate::ids::IdKind;
use crate::machine;
use crate::report::{Table, bytes, count, each, rate, seconds};
use crate::target::Target;

/// What the machine may have in all.
const LIMIT: f64 = 24.0 * 1024.0 * 1024.0 * 1024.0;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let ids = bench.size.pick(1_000_000, 1_000_000_000, 1_000_000_000);
    let mut table = Table::new(
        &format!("{} IDs from 1,000 records", count(ids)),
        &["IDs", "side", "load", "CPU", "peak memory", "held", "B/ID set", "B/ID disk", "filter", "contains"],
    );
    table.note(format!("{} of memory were free at the start.", bytes(machine::available_memory() as f64)));
    for kind in [IdKind::RowHash, IdKind::Binary16] {
        let load = Load { kind, ids, records: 1000, probes: 1 << 22, peers: &[], compacted: false };
        let loads = loading::run(bench, load)?;
        for side in &loads.sides {
            table.row([
                kind.title().to_owned(),
                side.side.to_owned(),
                seconds(side.seconds),
                seconds(side.cpu_seconds),
                bytes(side.peak_bytes as f64),
                bytes(side.held_bytes as f64),
                each(side.set_bytes as f64, ids),
                each(loads.disk_bytes as f64, ids),
                side.filter_rate.map_or_else(String::new, rate),
                side.contains_rate.map_or_else(String::new, rate),
            ]);
        }
        if let Some(ours) = loads.sides.first() {
            table.target(Target::at_most(
                format!("{}: peak memory in bytes", kind.title()),
                ours.peak_bytes as f64,
                LIMIT,
            ));
        }
    }
    bench.report.table(&table)
}
