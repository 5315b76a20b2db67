//! What the tests share: running the program, making inputs, reading outputs without the product.

pub(crate) mod files;
pub(crate) mod job;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod tables;

pub(crate) use files::{Tree, copy_dir, fixture};
pub(crate) use job::Job;
pub(crate) use program::{Ran, ckpt, worker};
pub(crate) use tables::{ids_of, int_rows, read_dir, write_parquet};
