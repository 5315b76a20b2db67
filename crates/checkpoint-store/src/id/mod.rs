//! IDs: which types can name a row, how they compare, and the set of those that are done.

mod class;
mod keys;
mod set;

pub use class::IdClass;
pub use keys::{IdColumn, IdProblem, show_id};
pub use set::{ExactIdSet, IdSet};
