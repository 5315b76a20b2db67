//! A pipeline with a lease as short or as long as a test wants, which the `ckpt` program does not offer.
//!
//! Arguments: input, output, checkpoint, and the lease's duration, renewal and margin in milliseconds. It
//! keeps its checkpoint and exits as `ckpt` does.

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
    let [input, output, checkpoint, duration, renew_every, margin] = &args[..] else {
        bail!("six arguments are needed, not {}", args.len());
    };
    let time = |text: &str| text.parse().map(Duration::from_millis).with_context(|| format!("no time: {text}"));
    let mut lease = LeaseOptions::default();
    (lease.duration, lease.renew_every, lease.margin) = (time(duration)?, time(renew_every)?, time(margin)?);
    let pipeline = Pipeline::new([input], output, checkpoint, Ids::Column("id".into()))
        .registry(registry)
        .workers(1)
        .batch_rows(10)
        .rows_per_task(20)
        .keep_checkpoint(true)
        .lease(lease);
    let Err(error) = Box::pin(pipeline.run()).await else { return Ok(ExitCode::SUCCESS) };
    tell(&error);
    Ok(ExitCode::from(match error.kind() {
        ErrorKind::Conflict => 3,
        ErrorKind::OutcomeUnknown => 6,
        _ => 4,
    }))
}

#[expect(clippy::print_stderr, reason = "the test reads what the program says")]
fn tell(error: &checkpoint_pipeline::Error) {
    eprintln!("error: {error}");
}
