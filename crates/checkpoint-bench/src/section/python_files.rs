//! The filesystems for Python beside s3fs, pyarrow's own and obstore, on one S3 server.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bytes::Bytes;
use checkpoint_fs::{ObjectPath, Registry, StorageOptions, WriteOptions};
use checkpoint_testkit::server::{Access, S3Server};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;

use super::Bench;
use crate::report::{Table, progress, seconds};
use crate::side::Ended;
use crate::target::Target;

const OURS: &str = "ours, fsspec";
const SIDES: [&str; 5] = [OURS, "ours, pyarrow", "s3fs", "pyarrow", "obstore"];
/// Which side ours is compared with, and how many times as fast it has to be.
const TARGETS: [(&str, f64); 2] = [("s3fs", 3.0), ("obstore", 1.0)];

/// What a turn of a side does.
const STEPS: [&str; 7] = ["write", "stream", "read", "read as a stream", "write small", "read small", "list"];

/// What one step took: the least of all turns.
#[derive(Debug, Clone, Copy)]
struct Took {
    seconds: f64,
    cpu_seconds: f64,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    if !bench.place.has_peers() {
        return Ok(());
    }
    let server = S3Server::shared()?;
    let access = server.access();
    let bucket = access.new_bucket()?;
    let (size, objects) = (bench.size.pick(16_u64, 256, 1024) << 20, bench.size.pick(20, 1000, 1000));
    let (listed, turns) = (bench.size.pick(1500, 100_000, 100_000), bench.size.pick(1, 3, 3));
    bench.runtime.block_on(Box::pin(make(access, &bucket, listed)))?;
    let mut table = Table::new(
        &format!(
            "Files from Python: {} MiB, {objects} objects of 4 KiB, a listing of {listed}; seconds, and seconds computed",
            size >> 20
        ),
        &[&["side"][..], &STEPS].concat(),
    );
    table.note(format!(
        "The store is {}, on the same machine: it computes too, and takes from every side the same. The least of {turns} \
         turns. The targets take throughput or, where the server is what limits it, what the client computes: the better \
         of the two.",
        server.describe().split(',').next().unwrap_or_default()
    ));
    let mut all = BTreeMap::new();
    for side in SIDES {
        progress(side);
        let spec = json!({
            "side": side, "bucket": bucket, "prefix": side.replace(", ", "-"), "bytes": size, "objects": objects,
            "turns": turns,
        });
        let ended = bench.place.peer("store_files.py", &spec)?.variables(access.variables()).run()?;
        let took = STEPS.iter().map(|step| least(&ended, side, step, turns, listed)).collect::<Result<Vec<_>>>()?;
        let cell = |took: &Took| format!("{} / {}", seconds(took.seconds), seconds(took.cpu_seconds));
        table.row(std::iter::once(side.to_owned()).chain(took.iter().map(cell)));
        all.insert(side, took);
    }
    for (peer, wanted) in TARGETS {
        for (index, step) in STEPS.iter().enumerate() {
            let of = |side| all.get(side).and_then(|took: &Vec<Took>| took.get(index)).context("a step is missing");
            let (ours, theirs) = (of(OURS)?, of(peer)?);
            let times = (theirs.seconds / ours.seconds).max(theirs.cpu_seconds / ours.cpu_seconds.max(0.01));
            table.target(Target::at_least(format!("{step}: times {peer}"), times, wanted));
        }
    }
    bench.report.table(&table)
}

/// Makes the objects that are listed.
async fn make(access: &Access, bucket: &str, objects: u64) -> Result<()> {
    let registry = Registry::with_environment(access.environment());
    let storage = registry.open_dir(&format!("s3://{bucket}/listed"), &StorageOptions::new()).await?;
    let writes = stream::iter(0..objects).map(|number| {
        let storage = storage.clone();
        async move {
            let path = ObjectPath::parse(format!("{:03}/{number:06}", number % 100))?;
            storage.write(&path, Bytes::from_static(b"x"), WriteOptions::new()).await?.into_result("x")?;
            anyhow::Ok(())
        }
    });
    writes.buffer_unordered(32).try_collect().await
}

fn least(ended: &Ended, side: &str, step: &str, turns: u64, listed: u64) -> Result<Took> {
    let mut least = Took { seconds: f64::INFINITY, cpu_seconds: f64::INFINITY };
    for turn in 0..turns {
        let mark = ended.mark(&format!("{step} {turn}"))?;
        if step == "list" {
            mark.found.must_be(side, "listed", listed)?;
        }
        least.seconds = least.seconds.min(mark.seconds);
        least.cpu_seconds = least.cpu_seconds.min(mark.cpu_seconds);
    }
    Ok(least)
}
