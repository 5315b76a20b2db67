//! A pipeline with what the `ckpt` program does not offer: a lease as short or as long as a test wants, and records that
//! are merged at the start of a run however few they are.
//!
//! Arguments: input, output, checkpoint, and settings as `name=value`: `lease` with the duration, renewal and margin in
//! milliseconds, `compact-above`, `workers`, `rows-per-task`, and `keep`. It exits as `ckpt` does.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use checkpoint_fs::Registry;
use checkpoint_pipeline::{ErrorKind, Ids, Pipeline};
use checkpoint_store::LeaseOptions;
use checkpoint_tests::Orders;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let registry = Orders::from_process()?.apply(&Registry::from_process())?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(([input, output, checkpoint], settings)) = args.split_first_chunk() else {
        bail!("three URLs are needed, not {}", args.len());
    };
    let mut pipeline = Pipeline::new([input], output, checkpoint, Ids::Column("id".into()))
        .registry(registry)
        .workers(1)
        .batch_rows(10)
        .rows_per_task(20);
    for setting in settings {
        pipeline = set(pipeline, setting).with_context(|| format!("in {setting:?}"))?;
    }
    let Err(error) = Box::pin(pipeline.run()).await else { return Ok(ExitCode::SUCCESS) };
    tell(&error);
    Ok(ExitCode::from(match error.kind() {
        ErrorKind::Conflict => 3,
        ErrorKind::OutcomeUnknown => 6,
        _ => 4,
    }))
}

fn set(pipeline: Pipeline, setting: &str) -> anyhow::Result<Pipeline> {
    let (name, value) = setting.split_once('=').context("no value")?;
    Ok(match name {
        "lease" => pipeline.lease(lease(value)?),
        "compact-above" => pipeline.compact_above(Some(value.parse()?)),
        "workers" => pipeline.workers(value.parse()?),
        "rows-per-task" => pipeline.rows_per_task(value.parse()?),
        "keep" => pipeline.keep_checkpoint(value.parse()?),
        _ => bail!("there is no such setting"),
    })
}

fn lease(times: &str) -> anyhow::Result<LeaseOptions> {
    let times: Vec<u64> = times.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let &[duration, renew_every, margin] = &times[..] else { bail!("three times are needed, not {}", times.len()) };
    let mut lease = LeaseOptions::default();
    lease.duration = Duration::from_millis(duration);
    lease.renew_every = Duration::from_millis(renew_every);
    lease.margin = Duration::from_millis(margin);
    Ok(lease)
}

#[expect(clippy::print_stderr, reason = "the test reads what the program says")]
fn tell(error: &checkpoint_pipeline::Error) {
    eprintln!("error: {error}");
}
