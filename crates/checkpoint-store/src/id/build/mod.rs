//! Building the compact set: keys are sorted in batches, packed, and merged at the end, in bounded memory.

mod block;
mod builder;
mod growing;
mod merge;
mod options;
mod repeats;
mod source;
mod spill;
#[cfg(test)]
mod tests;

pub use builder::IdSetBuilder;
pub use growing::GrowingIdSet;
pub(crate) use growing::merge as merge_sets;
pub use options::IdSetOptions;
pub use repeats::Repeats;
