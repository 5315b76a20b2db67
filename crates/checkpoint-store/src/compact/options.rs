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
pub(crate) struct MergePolicy {
    /// Merge when there are more small records than this; `None` never.
    pub(crate) above: Option<u64>,
    pub(crate) shape: MergeOptions,
}

impl MergePolicy {
    /// Whether the caller is here for this, and not for a job.
    pub(crate) fn is_wanted(&self) -> bool {
        self.above == Some(1)
    }

    /// Merges nothing but what must be written anew.
    pub(crate) fn never() -> Self {
        Self { above: None, shape: MergeOptions::default() }
    }

    /// Merges whatever can be.
    pub(crate) fn always(shape: MergeOptions) -> Self {
        Self { above: Some(1), shape }
    }
}
