//! The checkpoint directory of a batch job: which rows are done, and never a row lost or doubled.

mod apart;
mod attempt;
mod begin;
mod checkpoint;
mod closed;
mod complete;
mod data;
mod end;
mod error;
mod fence;
mod id;
mod job;
mod layout;
mod lease;
mod listing;
mod names;
mod ops;
mod preview;
mod record;
mod recovery;
mod runtime;
mod snapshot;
mod task;

pub use apart::overlap;
pub use attempt::{Attempt, TaskPlan};
pub use begin::{Begin, BeginOptions};
pub use checkpoint::Checkpoint;
pub use closed::{ClosedList, TaskRanges};
pub use complete::CompleteFile;
pub use data::{DataReader, ParquetIds};
pub use error::{Error, ErrorKind, Result};
pub use id::{ExactIdSet, IdClass, IdColumn, IdProblem, IdSet, show_id};
pub use job::{Difference, Fingerprint, InputFile, JobFile};
pub use layout::FAILED_DIR;
pub use lease::{AttemptFile, AttemptState, LeaseOptions};
pub use names::{JobId, TaskName};
pub use ops::{
    Found, RecoverOptions, RecoverReport, Status, VerifyReport, committed_ids, find_checkpoints, recover, remove,
    status, verify,
};
pub use preview::{Preview, preview};
pub use record::{DataFile, RecordFacts, decode_schema, encode_schema};
pub use recovery::RecoveryReport;
pub use runtime::{Liveness, ProcessIdentity, Runtime, RuntimeRef, SystemRuntime, TaskHandle};
pub use snapshot::Snapshot;
pub use task::{CommitOutcome, PreparedTask};
