//! What people do with a checkpoint besides running a job over it.

mod check_task;
mod collect;
mod compact;
mod orphans;
mod recover;
mod remove;
mod status;
mod verify;

pub use collect::{Found, find_checkpoints};
pub use compact::{CompactOptions, CompactReport, compact};
pub use recover::{RecoverOptions, RecoverReport, recover};
pub use remove::remove;
pub use status::{LastAttempt, Status, committed_ids, status};
pub use verify::{VerifyOptions, VerifyReport, verify};
