//! Loading IDs of each kind, and filtering by them.

use anyhow::Result;

use super::Bench;
use super::loading::{self, Load, Loaded, Loads, Peer};
use crate::ids::IdKind;
use crate::machine;
use crate::report::{Table, bytes, count, each, rate, seconds};
use crate::settings::Size;
use crate::target::Target;

const RECORDS: u64 = 1000;
/// The size that targets are stated for.
const STATED: u64 = 10_000_000;
/// About what the peer needs for each ID of text while it loads.
const PEER_BYTES: u64 = 300;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let sizes: &[u64] = match bench.size {
        Size::Smoke => &[100_000],
        Size::Quick => &[1_000_000, STATED],
        Size::Large => &[1_000_000, STATED, 100_000_000],
    };
    let mut table = Table::new(
        "Loading what is done, from 1,000 records, and filtering by it",
        &["IDs", "side", "load", "CPU", "peak memory", "held", "B/ID set", "B/ID disk", "filter", "contains"],
    );
    table.note(
        "load: to the moment from which rows can be filtered; ours with the lease and the closing of the attempts \
         before; compacted: the start after `ckpt compact`. peak, held: over the idle process, or over the idle Ray \
         cluster. filter: rows a second by the processor time of one core, half of them done, in no order, the rows that \
         remain copied; contains: without the copy. Ray Data, tuned: with as many footer actors and threads as there are \
         cores, its older reader, which is the faster one here, and no lower priority of its workers.",
    );
    for kind in [IdKind::Int64, IdKind::RowHash, IdKind::Uuid] {
        for ids in sizes.iter().copied() {
            let peers: &[Peer] = match kind {
                IdKind::Uuid if ids * PEER_BYTES > machine::available_memory() => &[],
                IdKind::Uuid if ids == STATED => &[Peer::AsItComes, Peer::Tuned],
                _ => &[Peer::Tuned],
            };
            let probes = bench.size.pick(1 << 17, 1 << 21, 1 << 22);
            let loads = loading::run(bench, Load { kind, ids, records: RECORDS, probes, peers, compacted: true })?;
            add(&mut table, kind, ids, &loads);
            if peers.is_empty() {
                table.note(format!(
                    "Ray Data would need more memory than there is for {} of {}.",
                    count(ids),
                    kind.title()
                ));
            }
        }
    }
    bench.report.table(&table)
}

fn add(table: &mut Table, kind: IdKind, ids: u64, loads: &Loads) {
    for side in &loads.sides {
        table.row([
            format!("{}, {}", kind.title(), count(ids)),
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
    let side = |name: &str| loads.sides.iter().find(|side| side.side == name);
    let Some(ours) = side("ours") else { return };
    let what = format!("{}, {}", kind.title(), count(ids));
    let of_one = ours.set_bytes as f64 / ids as f64;
    let limit = match kind {
        IdKind::Int64 => 6.0,
        IdKind::RowHash => 0.01,
        _ if ids > STATED => 9.0,
        _ => 10.0,
    };
    if ids >= STATED {
        table.target(Target::at_most(format!("{what}: bytes of memory for each ID"), of_one, limit));
    }
    if ids == STATED {
        targets_of_speed(table, &what, kind, ours);
        for peer in [Peer::AsItComes, Peer::Tuned] {
            if let Some(theirs) = side(peer.title()) {
                compare(table, &what, kind, ours, theirs);
            }
        }
    }
}

fn targets_of_speed(table: &mut Table, what: &str, kind: IdKind, ours: &Loaded) {
    let rows = if kind == IdKind::Uuid { 20.0 } else { 50.0 };
    if let Some(contains) = ours.contains_rate {
        table.target(Target::at_least(
            format!("{what}: million rows a second asked for on one core"),
            contains / 1e6,
            rows,
        ));
    }
}

fn compare(table: &mut Table, what: &str, kind: IdKind, ours: &Loaded, theirs: &Loaded) {
    if let (Some(ours), Some(theirs_rate)) = (ours.filter_rate, theirs.filter_rate) {
        table.note(format!("{what}, against {}: filter {:.0} times as fast.", theirs.side, ours / theirs_rate));
    }
    let (times, memory) = (theirs.seconds / ours.seconds, ours.peak_bytes as f64 / theirs.peak_bytes as f64);
    if kind == IdKind::Uuid {
        table.target(Target::at_least(format!("{what}: load, times as fast as {}", theirs.side), times, 20.0));
        table.target(Target::at_most(format!("{what}: peak memory, part of {}", theirs.side), memory, 0.1));
    } else {
        table.note(format!(
            "{what}, against {}: load {times:.1} times as fast, with {memory:.2} of the memory.",
            theirs.side
        ));
    }
}
