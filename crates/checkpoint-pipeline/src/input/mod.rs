//! The input of a job: which files there are, and their rows as batches.
//!
//! [`discover`] finds the files; [`infer_schemas`] gives text files the schema that they lack;
//! [`count_rows`] tells what it can for progress; [`open`] reads one file, in bounded memory:
//!
//! ```
//! # async fn example() -> checkpoint_pipeline::Result<()> {
//! use checkpoint_fs::{Registry, StorageOptions};
//! use checkpoint_pipeline::input::{self, ReadConfig, ReadContext};
//!
//! let inputs = ["s3://bucket/in/day=*/".to_owned()];
//! let files = input::discover(&Registry::from_process(), &inputs, &StorageOptions::new(), None).await?;
//! let context = ReadContext::new(tokio::runtime::Handle::current());
//! let schemas = input::infer_schemas(&files, &context).await?;
//! let context = context.with_schemas(schemas);
//! let rows = tokio::task::spawn_blocking(move || -> checkpoint_pipeline::Result<u64> {
//!     let mut rows = 0;
//!     for file in &files {
//!         let mut reader = input::open(file, &ReadConfig::new(), &context)?;
//!         while let Some((_position, batch)) = reader.next()? {
//!             rows += batch.num_rows() as u64;
//!         }
//!     }
//!     Ok(rows)
//! });
//! # drop(rows);
//! # Ok(())
//! # }
//! ```
//!
//! Everything is deterministic: the same files under the same configuration give the same files in the
//! same order, the same schemas and the same batches, in every attempt.
//!
//! # Memory
//! Files whose turn has not come yet hold at most 20 MiB together, and the one that is read as much again. An open reader holds about 64 MiB at most for files as they are commonly written: blocks that were read
//! and are read ahead, one decoding step, one batch in the making, and the batch given out. What can make
//! it more: an Arrow record batch is decoded as a unit, however large its writer made it; so are Parquet
//! pages, but for large ones of byte arrays, which are split; every Parquet column has a page at a time, so
//! very many columns add up; and a row can be as large as it likes.

mod access;
mod budget;
mod config;
mod count;
mod decode;
mod discover;
mod fetch;
mod footers;
mod glob;
mod held;
mod ipc;
mod parquet;
mod reach;
mod reader;
mod sequential;
mod sizes;
mod source;
mod spans;
mod text;
mod windows;

pub(crate) use self::access::FileAccess;
pub(crate) use self::budget::ReadAhead;
pub use self::config::{ReadConfig, ReadContext};
pub use self::count::count_rows;
pub use self::discover::discover;
pub(crate) use self::held::Hold;
pub(crate) use self::parquet::ParquetLook;
pub(crate) use self::reach::Reach;
pub use self::reader::{BatchReader, open};
pub use self::sizes::decoded_size;
pub use self::source::SourceFile;
pub use self::text::{TextSchemas, infer_schemas};
