//! One hot loop and nothing else, so many times over: what it costs is the difference of two runs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use checkpoint_store::{CompactIdSet, IdColumn, IdSet, IdSetBuilder, IdSetOptions};
use serde::Deserialize;

use crate::ids::IdKind;
use crate::probes;

/// Which loop.
#[derive(Debug, Deserialize)]
pub(super) struct Spec {
    hot: Hot,
    kind: IdKind,
    set: PathBuf,
    probes: PathBuf,
    passes: usize,
}

/// What is looked at.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hot {
    /// Asking the set.
    Contains,
    /// Asking the set, and copying the rows that remain.
    Filter,
    /// Taking IDs into a set that is being built, and merging.
    Build,
}

pub(super) fn run(spec: &Spec) -> Result<()> {
    let set = CompactIdSet::map_file(&spec.set)?;
    let (batches, column) = (probes::read(&spec.probes)?, spec.kind.column());
    for _ in 0..spec.passes {
        let builder = IdSetBuilder::new(IdSetOptions::default());
        for batch in &batches {
            let ids = batch.column_by_name(column).context("no ID column")?;
            match spec.hot {
                Hot::Contains => drop(std::hint::black_box(set.contains(ids)?)),
                Hot::Filter => drop(std::hint::black_box(set.filter(batch, column)?)),
                Hot::Build => builder.push(&IdColumn::try_new(ids)?.ok().context("IDs that are none")?)?,
            }
        }
        if matches!(spec.hot, Hot::Build) {
            std::hint::black_box(builder.finish()?);
        }
    }
    Ok(())
}
