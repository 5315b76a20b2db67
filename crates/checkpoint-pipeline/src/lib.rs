//! Read, filter, transform, write: a thin resumable pipeline over `checkpoint-store`.

mod data_files;
mod error;
mod format;
mod id_text;
pub mod input;
pub mod output;
mod pipeline;
mod report;
pub mod row_hash;
mod run;
pub mod transform;

pub use data_files::DataFiles;
pub use error::{Error, ErrorKind, Result};
pub use format::Format;
pub use pipeline::{Ids, Pipeline, ROW_HASH_COLUMN};
pub use report::{Counters, Phase, PlanReport, RunReport, Stop};
