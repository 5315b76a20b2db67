//! Building a set from IDs in memory, for the loops that are looked at alone.

use std::path::PathBuf;

use anyhow::{Context, Result};
use checkpoint_store::{IdColumn, IdSet, IdSetBuilder, IdSetOptions};
use serde::Deserialize;
use serde_json::json;

use super::mark;
use crate::ids::IdKind;

const CHUNK: u64 = 1 << 20;

/// Which IDs, and where the set goes.
#[derive(Debug, Deserialize)]
pub(super) struct Spec {
    kind: IdKind,
    ids: u64,
    set: PathBuf,
}

pub(super) fn run(spec: &Spec) -> Result<()> {
    mark("idle", json!({}))?;
    let mut options = IdSetOptions::default();
    options.row_hash = spec.kind == IdKind::RowHash;
    let builder = IdSetBuilder::new(options);
    for start in (0..spec.ids).step_by(CHUNK as usize) {
        let ids = spec.kind.array(start..spec.ids.min(start + CHUNK));
        builder.push(&IdColumn::try_new(&ids)?.ok().context("IDs that are none")?)?;
    }
    let set = builder.finish()?;
    std::fs::write(&spec.set, set.as_bytes())?;
    mark("built", json!({ "ids": set.len(), "set_bytes": set.memory() }))
}
