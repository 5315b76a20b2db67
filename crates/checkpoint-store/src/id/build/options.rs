//! How a set is built.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use crate::id::HashKey;
use crate::runtime::{Runtime, SystemRuntime};

/// How an [`IdSetBuilder`](super::IdSetBuilder) works. The set that comes out depends on none of it but
/// `row_hash` and `hash_key`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct IdSetOptions {
    /// The IDs are row hashes: the rows of a file then take next to no memory.
    pub row_hash: bool,
    /// The secret of the hashes of IDs that are no integers. Sets that are to be merged need the same one.
    /// Random where none is given.
    pub hash_key: Option<HashKey>,
    /// The most memory for what is not merged yet, in bytes; what is beyond goes to `spill_dir`. It does not count
    /// the finished set, which is in memory in any case, nor some 10 MiB for each thread. No limit where none is
    /// given; all IDs then take about as much as they do in the finished set.
    pub memory_limit: Option<u64>,
    /// A directory on a local disk for what is beyond `memory_limit`: one file without a name, about ten bytes for
    /// each ID at the most, gone when the builder is.
    pub spill_dir: Option<PathBuf>,
    /// Threads that merge. As many as there are cores where none is given.
    pub threads: Option<NonZeroUsize>,
}

impl IdSetOptions {
    /// The hash key that is given, or a new one.
    pub(crate) fn key_or_random(&self) -> HashKey {
        self.hash_key.unwrap_or_else(|| {
            let (one, two) = (SystemRuntime.random(), SystemRuntime.random());
            HashKey::new((u128::from(one) << 64 | u128::from(two)).to_le_bytes())
        })
    }

    pub(crate) fn thread_count(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.map_or_else(cores, NonZeroUsize::get)
    }
}
