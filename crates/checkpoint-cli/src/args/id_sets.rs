//! How sets of IDs are built, for commands that build one.

use std::path::PathBuf;

use checkpoint_store::IdSetOptions;
use clap::Args;

use super::values;

/// What may be spent on it.
#[derive(Args)]
pub(crate) struct IdSetArgs {
    /// The most memory for sorting IDs, besides the set of those that are done, such as 4GiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    id_memory: Option<u64>,
    /// A directory on a local disk for IDs beyond --id-memory [default: that of temporary files]
    #[arg(long, value_name = "DIR", requires = "id_memory")]
    spill_dir: Option<PathBuf>,
}

impl IdSetArgs {
    /// As the store takes it.
    pub(crate) fn options(&self) -> IdSetOptions {
        let mut options = IdSetOptions::default();
        options.memory_limit = self.id_memory;
        options.spill_dir = self.id_memory.map(|_| self.spill_dir.clone().unwrap_or_else(std::env::temp_dir));
        options
    }
}
