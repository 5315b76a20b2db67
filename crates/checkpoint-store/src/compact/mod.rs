//! Compaction: many small records become few, and what they said of their tasks is kept.

mod choose;
mod fetch;
mod file;
mod merge;
mod options;
mod saved;
mod side;
mod unread;

pub(crate) use file::MergedBytes;
pub(crate) use merge::{MergedNames, Sizes, merge};
pub use options::MergeOptions;
pub(crate) use options::MergePolicy;
pub(crate) use saved::{Restored, keep_ids, restore};
pub(crate) use unread::{after_merging, data_files_of};
