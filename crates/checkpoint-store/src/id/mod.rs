//! IDs: which types can name a row, how they compare, and the set of those that are done.

mod build;
mod canonical;
mod class;
mod class_bytes;
mod compact;
mod hash;
mod key_map;
mod key_source;
mod keys;
mod layers;
mod same;
mod seen;
mod set;
mod show;
mod unique;

pub(crate) use build::merge_sets;
pub use build::{GrowingIdSet, IdSetBuilder, IdSetOptions, Repeats};
pub use class::IdClass;
pub use compact::CompactIdSet;
pub(crate) use compact::pages;
pub use hash::HashKey;
pub(crate) use key_map::KeyMap;
pub use keys::{IdColumn, IdProblem};
pub(crate) use layers::Layers;
pub use same::same_ids;
pub use set::{ExactIdSet, IdSet};
pub use show::{array_in_utc, in_utc, show_id};
pub use unique::{RepeatedId, UniqueIds};
