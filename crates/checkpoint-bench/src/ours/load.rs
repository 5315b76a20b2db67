//! Taking over a checkpoint: the lease, the closing of the past, and the IDs that are done.

use std::path::PathBuf;

use anyhow::Result;
use checkpoint_store::AttemptState;
use serde::Deserialize;
use serde_json::json;

use super::{filter, mark, runtime};
use crate::ids::IdKind;
use crate::records;

/// What to load.
#[derive(Debug, Deserialize)]
pub(super) struct Spec {
    checkpoint: PathBuf,
    output: PathBuf,
    kind: IdKind,
    probes: Option<PathBuf>,
}

pub(super) fn run(spec: &Spec) -> Result<()> {
    let runtime = runtime()?;
    let (checkpoint, output) = runtime
        .block_on(async { tokio::try_join!(records::storage(&spec.checkpoint), records::storage(&spec.output)) })?;
    mark("idle", json!({}))?;
    let attempt = runtime.block_on(Box::pin(records::begin(&checkpoint, &output, spec.kind)))?;
    let set = attempt.ids();
    mark("loaded", json!({ "ids": set.len(), "set_bytes": set.memory() }))?;
    runtime.block_on(attempt.end(AttemptState::Interrupted))?;
    if let Some(probes) = &spec.probes {
        mark("filtered", filter::measure(set.as_ref(), probes, spec.kind)?)?;
    }
    Ok(())
}
