//! Very many small records.

use anyhow::Result;

use super::Bench;
use super::loading::{self, Load, Peer};
use crate::ids::IdKind;
use crate::report::{Table, bytes, count, rate, seconds};

const IDS: u64 = 100;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let sizes: &[u64] = bench.size.pick(&[1000][..], &[10_000, 50_000], &[10_000, 50_000, 200_000]);
    let mut table = Table::new(
        "Loading very many records of 100 int64 IDs",
        &["records", "side", "load", "CPU", "peak memory", "records a second"],
    );
    table.note(
        "Of more than 10,000 small records the first start compacts them by itself, and the time of that is in its load. \
         compacted: the start after `ckpt compact`. Ray Data with its older reader: the newer one, its default, opens a thread \
         for each record and did not get through 10,000 of them in eight minutes on two cores.",
    );
    for records in sizes.iter().copied() {
        let load = Load {
            kind: IdKind::Int64,
            ids: records * IDS,
            records,
            probes: 0,
            peers: &[Peer::Tuned],
            compacted: true,
        };
        let sides = loading::run(bench, load)?.sides;
        for side in &sides {
            table.row([
                count(records),
                side.side.to_owned(),
                seconds(side.seconds),
                seconds(side.cpu_seconds),
                bytes(side.peak_bytes as f64),
                rate(records as f64 / side.seconds),
            ]);
        }
        if let [theirs, ours, ..] = sides.as_slice()
            && theirs.side != "ours"
        {
            table.note(format!("{}: {:.0} times as fast as Ray Data.", count(records), theirs.seconds / ours.seconds));
        }
    }
    bench.report.table(&table)
}
