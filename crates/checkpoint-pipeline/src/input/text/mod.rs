//! Text formats: JSON lines and CSV, plain or as a whole in gzip (`.gz`) or Zstandard (`.zst`).
//!
//! Both have no types of their own. [`infer_schemas`] takes them from the first MiB of every file of the
//! job, one schema a format, so that all batches of a job agree; see [`Kind`](kind::Kind) for the rules.
//! A later value that the schema cannot hold exactly is an error, never a guess.
//!
//! An open file holds two blocks of 4 MiB, the decompressor's window, the longest line, and one batch.

mod column;
mod csv;
mod infer;
mod json;
mod kind;
mod literal;
mod reader;
mod stream;

pub use self::infer::{TextSchemas, infer_schemas};
pub(super) use self::reader::open;
