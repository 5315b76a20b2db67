//! Resuming a job of wide rows that is nine tenths done, its input on an S3 server.

use std::fs;
use std::path::Path;

use anyhow::Result;
use bytes::Bytes;
use checkpoint_fs::{ObjectPath, Registry, StorageOptions, WriteOptions};
use checkpoint_store::row_hash;
use checkpoint_testkit::proxy::FaultProxy;
use checkpoint_testkit::server::{Access, S3Server};
use serde_json::json;

use super::Bench;
use super::files::{self, Amount, Rows, Shape};
use crate::ids::{IdKind, mixed};
use crate::records;
use crate::report::{Table, bytes, progress, seconds};
use crate::target::Target;

/// Rows of a task, and of a row group.
const TASK: u64 = 1000;

/// Which tasks are done, and what names their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    /// The first nine tenths.
    First,
    /// Nine tenths, here and there.
    Scattered,
    /// As the first, by row hashes.
    RowHashes,
}

impl Done {
    fn title(self) -> &'static str {
        match self {
            Self::First => "UUID text, the first 9 of 10 tasks done",
            Self::Scattered => "UUID text, 9 of 10 tasks done here and there",
            Self::RowHashes => "row hash, the first 9 of 10 tasks done",
        }
    }

    fn is_done(self, task: u64, tasks: u64) -> bool {
        match self {
            Self::First | Self::RowHashes => task < tasks / 10 * 9,
            // Of ten neighbours all but one.
            Self::Scattered => mixed(9, task / 10) % 10 != task % 10,
        }
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let server = S3Server::shared()?;
    let proxy = FaultProxy::start(&server.access().endpoint)?;
    let access = Access { endpoint: proxy.address(), ..server.access().clone() };
    let amount = Amount { files: bench.size.pick(4, 10, 20), rows_per_file: 10 * TASK, rows_per_group: TASK };
    let input = bench.place.fresh("input")?;
    let size = files::write(&input, Shape::Wide, amount)?;
    let bucket = server.access().new_bucket()?;
    let upload = upload(&access, &bucket, &input, amount.files);
    bench.runtime.block_on(Box::pin(upload))?;
    fs::remove_dir_all(&input)?;

    let mut table = Table::new(
        &format!("Resuming at 90% done: {} rows of 2 KB, {} on an S3 server", amount.rows(), bytes(size as f64)),
        &["done", "side", "bytes of the input", "part of a full read", "requests", "time"],
    );
    table.note("Bytes and requests as they passed a proxy before the server. Starting Python or the Ray cluster is not counted; starting ckpt is.");
    for done in [Done::First, Done::Scattered, Done::RowHashes] {
        progress(done.title());
        for side in ["Ray Data", "ckpt run"] {
            if side == "Ray Data" && !bench.place.has_peers() {
                continue;
            }
            let (checkpoint, output) = (bench.place.fresh("checkpoint")?, bench.place.fresh("output")?);
            let left = prepare(bench, done, amount, &bucket, (&checkpoint, &output))?;
            let case = Case { done, input: format!("s3://{bucket}/in"), checkpoint: &checkpoint, output: &output };
            let (took, time) = case.run(bench, side, &access, &proxy)?;
            left.must_be_in(side, &output)?;
            let part = took.bytes as f64 / size as f64;
            table.row([
                done.title().to_owned(),
                side.to_owned(),
                bytes(took.bytes as f64),
                format!("{:.1}%", part * 100.0),
                took.requests.to_string(),
                seconds(time),
            ]);
            if side == "ckpt run" {
                table.target(Target::at_most(format!("{}: percent of a full read", done.title()), part * 100.0, 15.0));
            }
        }
    }
    bench.report.table(&table)
}

async fn upload(access: &Access, bucket: &str, dir: &Path, files: u64) -> Result<()> {
    let registry = Registry::with_environment(access.environment());
    let storage = registry.open_dir(&format!("s3://{bucket}/in"), &StorageOptions::new()).await?;
    for file in 0..files {
        let name = files::name(file);
        let bytes = Bytes::from(fs::read(dir.join(&name))?);
        storage.write(&ObjectPath::parse(name.as_str())?, bytes, WriteOptions::new()).await?.into_result(&name)?;
    }
    Ok(())
}

/// Makes the checkpoint of what is done; answers the rows that are left.
fn prepare(bench: &Bench<'_>, done: Done, amount: Amount, bucket: &str, at: (&Path, &Path)) -> Result<Rows> {
    let (tasks, per_file) = (amount.rows() / TASK, amount.rows_per_file);
    let rows = |task: u64| task * TASK..(task + 1) * TASK;
    let finished: Vec<_> = (0..tasks).filter(|task| done.is_done(*task, tasks)).map(rows).collect();
    let left: Vec<u64> = (0..tasks).filter(|task| !done.is_done(*task, tasks)).flat_map(rows).collect();
    let kind = if done == Done::RowHashes { IdKind::RowHash } else { IdKind::Uuid };
    let made = records::make(at.0, at.1, kind, finished, |numbers| {
        if done != Done::RowHashes {
            return kind.array(numbers);
        }
        let seed = row_hash::seed(&format!("{bucket}/in/{}", files::name(numbers.start / per_file)));
        std::sync::Arc::new(row_hash::array(seed, numbers.start % per_file, TASK as usize))
    });
    bench.runtime.block_on(Box::pin(made))?;
    Rows::of(IdKind::Uuid, left.into_iter())
}

/// A job to resume.
struct Case<'a> {
    done: Done,
    input: String,
    checkpoint: &'a Path,
    output: &'a Path,
}

/// What passed the proxy.
struct Passed {
    bytes: u64,
    requests: usize,
}

impl Case<'_> {
    fn run(&self, bench: &Bench<'_>, side: &str, access: &Access, proxy: &FaultProxy) -> Result<(Passed, f64)> {
        let row_hash = self.done == Done::RowHashes;
        proxy.calm();
        let time = if side == "ckpt run" {
            let mut args = vec!["run", "--keep-checkpoint", "--progress", "none", "--json", "--allow-changed-read"];
            args.extend(if row_hash { &["--row-hash"][..] } else { &["--id-column", "id"] });
            let (checkpoint, output) = (self.checkpoint.to_string_lossy(), self.output.to_string_lossy());
            args.extend(["--input", &self.input, "--checkpoint", &checkpoint, "--output", &output]);
            bench.place.ckpt(args)?.variables(access.variables()).run()?.seconds
        } else {
            let spec = json!({
                "input": self.input, "output": self.output, "checkpoint": self.checkpoint, "row_hash": row_hash,
                "column": if row_hash { "row_hash" } else { "id" },
            });
            let side = bench.place.peer("ray_job.py", &spec)?.variables(access.variables());
            side.run()?.mark("done")?.seconds
        };
        Ok((Passed { bytes: proxy.answered_bytes(), requests: proxy.passed() }, time))
    }
}
