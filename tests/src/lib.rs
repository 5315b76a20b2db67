//! What the tests across crates share: jobs that are killed at a chosen or a random moment, and a reading of
//! what they leave that does not trust the product.
//!
//! - [`Orders`]: what a child program is told to do to itself, in its environment.
//! - [`Place`]: where jobs live, a directory or a bucket of a real S3 server.
//! - [`Job`] and [`Running`]: the program under test, in a process group of its own.
//! - [`Census`]: which row of the closing table each task is in.
//! - [`audit`]: each row in the output exactly once, and nothing else left.
//! - [`Ledger`] and [`MergeState`]: which IDs count by which record, and how far a compaction had come.
//! - [`Stand`]: any backend, behind a proxy that breaks what passes.
//! - [`VendorClient`]: the vendors' own clients.
//! - [`random_kills`] and [`effect_kills`]: the two ways of killing; [`compaction_kills`]: the first, of compactions.

mod audit;
mod census;
pub mod compaction_kills;
pub mod effect_kills;
mod effect_kind;
mod job;
mod leases;
mod ledger;
mod merge_state;
mod moments;
mod orders;
mod place;
pub mod random_kills;
mod records;
mod rows;
mod running;
mod stand;
mod stopwatch;
mod trace;
mod vendor_client;

pub use audit::{Ending, audit, audit_committed};
pub use census::{Census, Row, Tally};
pub use effect_kind::EffectKind;
pub use job::Job;
pub use leases::{attempt_path, forge_foreign_owner, renew};
pub use ledger::Ledger;
pub use merge_state::{MergeState, MergeTally};
pub use orders::{Blow, Orders, Point, Strike};
pub use place::Place;
pub use rows::{Format, Rows};
pub use running::{Ended, Running};
pub use stand::{Backend, Opening, Stand, each_of};
pub use stopwatch::{Stopwatch, wait_until};
pub use trace::{TraceLine, read_trace};
pub use vendor_client::{VendorClient, tools};
