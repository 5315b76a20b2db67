//! Encoding record batches into files, and publishing these.
//!
//! A [`FileEncoder`] turns batches into the bytes of one file, in memory or, beyond a limit, in an unlinked
//! temporary file; the [`EncodedFile`] that it gives is then published whole. Encoding blocks and uses the
//! CPU: call it from a blocking thread.

mod conform;
mod dictionary;
mod encoder;
mod json_rows;
mod likeness;
mod options;
mod publish;
mod schema;
mod spool;
mod wide_keys;
mod zones;

pub use encoder::FileEncoder;
pub use options::EncodeOptions;
pub use publish::EncodedFile;
pub use schema::schema_drift;

pub(crate) use json_rows::{JsonRows, JsonRowsError};
pub(crate) use likeness::mostly_unlike;
pub(crate) use wide_keys::{schema_with_wide_keys, with_wide_keys};
