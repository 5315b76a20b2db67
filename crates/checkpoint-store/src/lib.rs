//! The checkpoint directory of a batch job: which rows are done, and never a row lost or doubled.

mod error;

pub use error::{Error, ErrorKind, Result};
