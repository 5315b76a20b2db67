//! What is merged, and when.

/// The shape of merged records. The defaults suit every store; tests make them small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Records whose file has fewer bytes than this are merged.
    pub small_bytes: u64,
    /// The most IDs of a merged record.
    pub max_rows: u64,
    /// The most bytes of a merged record, in memory.
    pub max_bytes: u64,
    /// The most tasks of a merged record.
    pub max_tasks: u64,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self { small_bytes: 16 << 20, max_rows: 4_000_000, max_bytes: 128 << 20, max_tasks: 100_000 }
    }
}

/// Whether to merge.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MergePolicy {
    /// Nothing but what must be written anew.
    Never,
    /// Where there are more small records than this.
    Above(u64, MergeOptions),
    /// Whatever can be: the caller is here for this, and not for a job.
    Always(MergeOptions),
}

impl MergePolicy {
    /// Whether so many small records are merged.
    pub(super) fn merges(&self, small: usize) -> bool {
        match self {
            Self::Never => false,
            Self::Above(limit, _) => small as u64 > *limit,
            // One alone would only be written again.
            Self::Always(_) => small > 1,
        }
    }

    pub(super) fn shape(&self) -> MergeOptions {
        match self {
            Self::Never => MergeOptions::default(),
            Self::Above(_, shape) | Self::Always(shape) => *shape,
        }
    }
}
