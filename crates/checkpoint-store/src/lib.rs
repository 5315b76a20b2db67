//! The checkpoint directory of a batch job: which rows are done, and never a row lost or doubled.
//!
//! A job reads rows that are named by an ID, transforms them in tasks, and writes data files. A
//! [`Checkpoint`] records which IDs are done, in records that Ray Data reads too. An [`Attempt`] is one run of
//! the job; it owns the checkpoint while its lease holds.
//!
//! ```
//! # use std::sync::Arc;
//! # use arrow::array::{ArrayRef, Int64Array};
//! # use checkpoint_fs::{MemoryStorage, ObjectPath, StorageRef, WriteOptions};
//! # use checkpoint_store::*;
//! # fn job() -> Fingerprint {
//! #     Fingerprint {
//! #         id_column: "id".into(), id_class: "integer".into(), id_type: "Int64".into(), row_hash: false,
//! #         filter: None, output: "memory://job/output".into(), version: None, inputs: Vec::new(),
//! #         inputs_unknown: false,
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! let output: StorageRef = Arc::new(MemoryStorage::new("memory://job/output"));
//! let storage: StorageRef = Arc::new(MemoryStorage::new("memory://job/checkpoint"));
//! let checkpoint = Checkpoint::new(storage, SystemRuntime::shared());
//! let begun = Attempt::begin(&checkpoint, &output, job(), BeginOptions::default(), &ParquetIds).await?;
//! let Begin::Attempt(attempt) = begun else { return Ok(()) }; // it ended before
//!
//! let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3])); // of rows that attempt.ids() does not hold
//! let (task, data) = (attempt.next_task(), "the transformed rows".as_bytes());
//! let file = DataFile { name: format!("{task}.csv"), bytes: data.len() as u64, rows: 3 };
//! let path = ObjectPath::parse(file.name.as_str())?;
//! let prepared = attempt.prepare(&task, &ids, TaskPlan::new(vec![file])).await?;
//! attempt.output().write(&path, data.into(), WriteOptions::new()).await?.into_result(path.as_str())?;
//! assert!(matches!(attempt.commit(prepared).await?, CommitOutcome::Committed));
//! attempt.finish(false).await?; // all rows are done: the checkpoint goes, a mark stays in the output
//! # Ok(())
//! # }
//! ```
//!
//! **Guarantees.** Kill a job anywhere and run it again: every input row is in the output exactly once, as long
//! as data files are written through [`Attempt::output`] under the names of their task. A commit is committed,
//! a conflict, or unknown, and never guessed. What counts of an attempt is decided once, by the next one, and
//! written down; what a late owner does after that is void. Nothing is deleted but under a name that a record
//! gives, or under the job's own ID.
//!
//! **Not its business.** Reading input, transforming and encoding (`checkpoint-pipeline`), and reaching a store
//! (`checkpoint-fs`). It cannot fence on a store without a create-only write, and says so.
//!
//! Every file is specified in `docs/format.md`. Clock, randomness, tasks and the process's identity come from a
//! [`Runtime`], so that all of it can be simulated.

mod apart;
mod attempt;
mod begin;
mod checkpoint;
mod closed;
mod compact;
mod complete;
mod data;
mod end;
mod error;
mod fence;
mod id;
mod job;
mod layout;
mod lease;
mod lengths;
mod listing;
mod merged;
mod names;
mod ops;
mod preview;
mod record;
mod recovery;
pub mod row_hash;
mod runtime;
mod schema;
mod sealed;
mod served;
mod snapshot;
mod strangers;
mod task;
mod work;

pub use apart::overlap;
pub use attempt::{Attempt, TaskPlan};
pub use begin::{Begin, BeginOptions};
pub use checkpoint::Checkpoint;
pub use closed::{ClosedList, TaskRanges};
pub use compact::MergeOptions;
pub use complete::CompleteFile;
pub use data::{DataReader, ParquetIds};
pub use error::{Error, ErrorKind, Result};
pub use id::{
    CompactIdSet, ExactIdSet, GrowingIdSet, HashKey, IdClass, IdColumn, IdProblem, IdSet, IdSetBuilder, IdSetOptions,
    RepeatedId, Repeats, UniqueIds, array_in_utc, in_utc, same_ids, show_id,
};
pub use job::{Difference, Fingerprint, InputFile, JobFile};
pub use layout::FAILED_DIR;
pub use lease::{AttemptFile, AttemptState, LeaseOptions};
pub use merged::{MergedRecord, SavedIds, SavedRecord, SideFile};
pub use names::{JobId, MergedName, TaskName};
pub use ops::{
    CompactOptions, CompactReport, Found, LastAttempt, RecoverOptions, RecoverReport, Status, VerifyOptions,
    VerifyReport, committed_ids, compact, find_checkpoints, recover, remove, status, verify,
};
pub use preview::{Preview, preview};
pub use record::{DataFile, RecordFacts};
pub use recovery::{PartReader, ReadElsewhere, RecoveryReport, read_part};
pub use runtime::{Liveness, ProcessIdentity, Runtime, RuntimeRef, SystemRuntime, TaskHandle};
pub use schema::{decode_schema, encode_schema};
pub use snapshot::Snapshot;
pub use task::{CommitOutcome, PreparedTask, TaskRecord};
