//! Read, filter, transform, write: a thin resumable pipeline over `checkpoint-store`.

mod error;
mod format;
pub mod input;
pub mod output;
pub mod row_hash;

pub use error::{Error, ErrorKind, Result};
pub use format::Format;
