//! Loading one checkpoint by every side: theirs, ours, and ours once it is compacted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::Bench;
use crate::found::Found;
use crate::ids::IdKind;
use crate::probes;
use crate::records;
use crate::report::progress;
use crate::side::Ended;

/// Seconds that a side filters for.
const FILTER_SECONDS: f64 = 2.0;

/// What is loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) kind: IdKind,
    pub(super) ids: u64,
    pub(super) records: u64,
    /// Rows that are filtered afterwards; none is no filtering.
    pub(super) probes: u64,
    /// As what the peer takes part.
    pub(super) peers: &'static [Peer],
    /// Whether it is loaded once more after a compaction.
    pub(super) compacted: bool,
}

/// How the peer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// With settings for a machine of few cores, and its older reader.
    Tuned,
    /// With its own defaults.
    AsItComes,
}

impl Peer {
    /// As a table names it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Tuned => "Ray Data, tuned",
            Self::AsItComes => "Ray Data, as it comes",
        }
    }
}

/// What a side took.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) side: &'static str,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) peak_bytes: u64,
    /// Memory of the process, or the processes, once it can filter.
    pub(super) held_bytes: u64,
    /// Bytes of the set as the side itself says.
    pub(super) set_bytes: u64,
    /// Rows a second on one core, the rows that remain copied.
    pub(super) filter_rate: Option<f64>,
    /// The same without the copy.
    pub(super) contains_rate: Option<f64>,
}

/// All sides, and the bytes of the records on the disk before any side touched them.
#[derive(Debug)]
pub(super) struct Loads {
    pub(super) disk_bytes: u64,
    pub(super) sides: Vec<Loaded>,
}

/// Makes the checkpoint and loads it by every side.
pub(super) fn run(bench: &Bench<'_>, load: Load) -> Result<Loads> {
    let Load { kind, ids, records, .. } = load;
    progress(&format!("{} of {ids} in {records} records", kind.title()));
    // A compaction writes each ID once more, and a set of them.
    let copies = if load.compacted { 3 } else { 1 };
    bench.place.must_have(ids * kind.disk_bytes() * copies + load.probes * 64 + (1 << 30))?;
    let (dir, output) = (bench.place.fresh("checkpoint")?, bench.place.fresh("output")?);
    let made = records::make(&dir, &output, kind, records::shares(ids, records), |numbers| kind.array(numbers));
    let disk_bytes = bench.runtime.block_on(Box::pin(made))?;
    let probes = (load.probes > 0).then(|| bench.place.path().join("probes.arrow"));
    if let Some(path) = &probes {
        probes::write(path, kind, load.probes, ids)?;
    }
    let mut sides = Vec::new();
    if bench.place.has_peers() {
        for peer in load.peers {
            sides.push(theirs(bench, load, *peer, &dir, probes.as_ref())?);
        }
    }
    let spec = json!({ "checkpoint": dir, "output": output, "kind": kind, "probes": probes });
    for side in ["ours", "ours, compacted"].into_iter().take(if load.compacted { 2 } else { 1 }) {
        if side != "ours" {
            let checkpoint = dir.to_string_lossy();
            bench.place.ckpt(["compact", checkpoint.as_ref(), "--json"])?.run()?;
        }
        let ended = bench.place.ours("load", &spec)?.run()?;
        let loaded = ended.mark("loaded")?;
        loaded.found.must_be(side, "ids", ids)?;
        let filtered = filtered(side, &ended, load)?;
        sides.push(Loaded {
            side,
            seconds: loaded.seconds,
            cpu_seconds: loaded.cpu_seconds,
            peak_bytes: loaded.peak_bytes,
            held_bytes: loaded.held_bytes,
            set_bytes: loaded.found.count("set_bytes")?,
            filter_rate: filtered.map(|found| found.number("filter_rate")).transpose()?,
            contains_rate: filtered.map(|found| found.number("contains_rate")).transpose()?,
        });
    }
    for dir in [dir, output] {
        fs::remove_dir_all(dir)?;
    }
    if let Some(path) = probes {
        fs::remove_file(path)?;
    }
    Ok(Loads { disk_bytes, sides })
}

fn theirs(bench: &Bench<'_>, load: Load, peer: Peer, dir: &Path, probes: Option<&PathBuf>) -> Result<Loaded> {
    let side = peer.title();
    let spec = json!({
        "checkpoint": dir, "column": load.kind.column(), "probes": probes, "seconds": FILTER_SECONDS,
        "tuned": peer == Peer::Tuned,
    });
    let ended = bench.place.peer("ray_load.py", &spec)?.run()?;
    let loaded = ended.mark("loaded")?;
    let filtered = filtered(side, &ended, load)?;
    if filtered.is_some() {
        ended.mark("ready")?.found.must_be(side, "ids", load.ids)?;
    }
    Ok(Loaded {
        side,
        seconds: loaded.seconds,
        cpu_seconds: loaded.cpu_seconds,
        peak_bytes: loaded.peak_bytes,
        held_bytes: if filtered.is_some() { ended.mark("ready")?.held_bytes } else { loaded.held_bytes },
        set_bytes: loaded.found.count("set_bytes")?,
        filter_rate: filtered.map(|found| found.number("filter_rate")).transpose()?,
        contains_rate: None,
    })
}

/// What a side found when it filtered, once it is known to be right.
fn filtered<'a>(side: &str, ended: &'a Ended, load: Load) -> Result<Option<&'a Found>> {
    if load.probes == 0 {
        return Ok(None);
    }
    let found = &ended.mark("filtered")?.found;
    let kept = probes::expected(found.count("rows")?, load.ids);
    found.must_be(side, "kept_rows", kept.rows)?;
    found.must_be(side, "kept_sum", kept.sum)?;
    Ok(Some(found))
}
