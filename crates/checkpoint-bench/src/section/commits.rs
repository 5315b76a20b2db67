//! What it costs to commit a task: requests and time on an S3 server near and far, and tasks a second on a local disk.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use checkpoint_testkit::proxy::{FaultProxy, Hardship};
use checkpoint_testkit::server::{Access, S3Server};
use serde_json::json;

use super::Bench;
use crate::report::{Table, rate, seconds};
use crate::side::{Ended, Side};
use crate::target::Target;

/// IDs of a task.
const IDS: u64 = 1000;
/// Bytes of its data on a local disk.
const DATA: u64 = 1024;
/// Tasks that run at a time where several do.
const AT_ONCE: u64 = 16;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    on_s3(bench)?;
    on_disk(bench)
}

fn on_s3(bench: &mut Bench<'_>) -> Result<()> {
    let server = S3Server::shared()?;
    let proxy = FaultProxy::start(&server.access().endpoint)?;
    let access = Access { endpoint: proxy.address(), ..server.access().clone() };
    let tasks = bench.size.pick(10, 100, 1000);
    let mut table = Table::new(
        &format!("Committing {tasks} tasks of {IDS} IDs, the checkpoint path alone"),
        &["store", "side", "tasks at a time", "requests a task", "time a task", "of the lease", "at the end"],
    );
    table.note(format!(
        "The store is {}, through a proxy that counts requests and adds the latency. Of the lease: requests that keep the \
         checkpoint owned, however many tasks there are. At the end: requests that remove pending records and give the lease \
         back. Ray Data commits one task at a time in each of its write tasks; it leaves nothing for the end.",
        server.describe().split(',').next().unwrap_or_default()
    ));
    for latency in [0, 20] {
        let mut sides = vec![("ours", 1), ("ours", AT_ONCE)];
        if bench.place.has_peers() {
            sides.insert(0, ("Ray Data", 1));
        }
        for (name, at_once) in sides {
            let bucket = server.access().new_bucket()?;
            let spec = json!({
                "checkpoint": format!("s3://{bucket}/checkpoint"), "output": format!("s3://{bucket}/output"),
                "tasks": tasks, "ids_per_task": IDS, "data_bytes": 0, "at_once": at_once,
            });
            let side = side(bench, name, &spec)?.variables(access.variables());
            let watched = watch(side, &proxy, Duration::from_millis(latency))?;
            watched.ended.mark("counted")?.found.must_be(name, "ids", tasks * IDS)?;
            let (each, time) = (watched.commits as f64 / tasks as f64, watched.ended.mark("committed")?.seconds);
            table.row([
                format!("S3, {latency} ms"),
                name.to_owned(),
                at_once.to_string(),
                format!("{each:.2}"),
                seconds(time / tasks as f64),
                watched.lease.to_string(),
                watched.end.to_string(),
            ]);
            if name == "ours" && at_once == 1 {
                table.target(Target::at_most(
                    format!("{latency} ms: requests of a task on the checkpoint path"),
                    each,
                    2.0,
                ));
            }
        }
    }
    bench.report.table(&table)
}

fn side(bench: &Bench<'_>, name: &str, spec: &serde_json::Value) -> Result<Side> {
    if name == "ours" { bench.place.ours("commits", spec) } else { bench.place.peer("ray_commits.py", spec) }
}

/// A side, and the requests that passed while it committed and while it ended.
struct Watched {
    ended: Ended,
    commits: u64,
    lease: u64,
    end: u64,
}

fn watch(side: Side, proxy: &FaultProxy, latency: Duration) -> Result<Watched> {
    let (lease, commits, leases, end) = (Arc::new(AtomicU64::new(0)), Cell::new(0), Cell::new(0), Cell::new(0));
    let plan = || {
        let lease = Arc::clone(&lease);
        lease.store(0, Ordering::SeqCst);
        proxy.plan(move |request| {
            if request.path.contains("/_meta/attempts/") {
                lease.fetch_add(1, Ordering::SeqCst);
            }
            (!latency.is_zero()).then_some(Hardship::Late(latency))
        });
    };
    plan();
    let ended = side.run_with(|mark| match mark {
        "begun" => plan(),
        "committed" => {
            leases.set(lease.load(Ordering::SeqCst));
            commits.set(proxy.passed() as u64 - leases.get());
            plan();
        }
        "ended" => end.set(proxy.passed() as u64),
        _ => {}
    })?;
    Ok(Watched { ended, commits: commits.get(), lease: leases.get(), end: end.get() })
}

fn on_disk(bench: &mut Bench<'_>) -> Result<()> {
    let tasks = bench.size.pick(100, 2000, 20_000);
    let mut table = Table::new(
        &format!("Committing {tasks} tasks of {IDS} IDs and {DATA} B of data on a local disk"),
        &["side", "tasks at a time", "tasks a second", "CPU a task"],
    );
    table.note(
        "Ours is on the disk when it says so: files and directories are synced, so a power cut loses nothing. Ray Data \
         syncs nothing; what it says is committed may be gone after a power cut.",
    );
    let mut sides = vec![("ours", 1), ("ours", AT_ONCE)];
    if bench.place.has_peers() {
        sides.insert(0, ("Ray Data", 1));
    }
    for (name, at_once) in sides {
        let (checkpoint, output) = (bench.place.fresh("checkpoint")?, bench.place.fresh("output")?);
        let spec = json!({
            "checkpoint": checkpoint, "output": output,
            "tasks": tasks, "ids_per_task": IDS, "data_bytes": DATA, "at_once": at_once,
        });
        let ended = side(bench, name, &spec)?.run()?;
        ended.mark("counted")?.found.must_be(name, "ids", tasks * IDS)?;
        let committed = ended.mark("committed")?;
        table.row([
            name.to_owned(),
            at_once.to_string(),
            rate(tasks as f64 / committed.seconds),
            seconds(committed.cpu_seconds / tasks as f64),
        ]);
    }
    bench.report.table(&table)
}
