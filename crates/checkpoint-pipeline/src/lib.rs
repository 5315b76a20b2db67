//! Read, filter, transform, write: a thin resumable pipeline over `checkpoint-store`.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = std::env::temp_dir().join(format!("pipeline-example-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! # std::fs::write(dir.join("prompts.jsonl"), "{\"uid\": 1, \"prompt\": \"a\"}\n{\"uid\": 2, \"prompt\": null}\n")?;
//! use checkpoint_pipeline::transform::{Batch, FnTransform};
//! use checkpoint_pipeline::{Ids, Pipeline};
//!
//! let at = |name: &str| dir.join(name).display().to_string();
//! let with_prompt = FnTransform::new(|batch: Batch| {
//!     let keep = arrow::compute::is_not_null(batch.records.column(1))?;
//!     arrow::compute::filter_record_batch(&batch.records, &keep).map(|rows| vec![rows])
//! });
//! let report = Pipeline::new([at("prompts.jsonl")], at("output"), at("checkpoint"), Ids::Column("uid".to_owned()))
//!     .transform(with_prompt)
//!     .keep_checkpoint(true)
//!     .run()
//!     .await?;
//! assert_eq!((report.processed_rows, report.written_rows), (2, 1));
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok(())
//! # }
//! ```
//!
//! **Guarantees.** Stop a run anywhere, with `kill -9` too, and run the same pipeline again: every input row is in the
//! output exactly once, or as often as the transform makes of it. A row is done when all that it became is written.
//! Rows come out in no order. Memory is bounded by [`Pipeline::memory`], a reader's blocks, and the IDs that are done.
//!
//! **Not its business.** The protocol (`checkpoint-store`) and reaching a store (`checkpoint-fs`). It keeps no state
//! between rows, and it does not sort, join or group.
//!
//! A [`transform`] is a closure, a type of your own, or child processes; [`input`] and [`output`] can be used alone.

mod data_files;
mod error;
mod format;
mod id_text;
pub mod input;
pub mod output;
mod panic;
mod pipeline;
mod report;
mod run;
pub mod transform;

pub use checkpoint_store::row_hash;
pub use data_files::DataFiles;
pub use error::{Error, ErrorKind, Result};
pub use format::Format;
pub use pipeline::{Ids, Pipeline, ROW_HASH_COLUMN};
pub use report::{Counters, Phase, PlanReport, RunReport, Stop};
