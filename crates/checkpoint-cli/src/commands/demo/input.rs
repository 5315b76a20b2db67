//! The demo's input: small Parquet files.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;

use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// The column that names a row.
pub(super) const ID_COLUMN: &str = "id";

/// Writes `rows` rows in `files` files, numbered from 0 through all of them.
pub(super) fn write(dir: &Path, rows: u64, files: u64) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Storage, format!("the demo's input cannot be written: {error}: dir={}", dir.display()))
    };
    fs::create_dir_all(dir).map_err(|e| failed(&e))?;
    for file in 0..files {
        let batch = batch(file * rows / files..(file + 1) * rows / files).map_err(|e| failed(&e))?;
        let path = dir.join(format!("part-{file}.parquet"));
        let writer = File::create(&path).map_err(|e| failed(&e))?;
        let mut writer = ArrowWriter::try_new(writer, batch.schema(), None).map_err(|e| failed(&e))?;
        writer.write(&batch).map_err(|e| failed(&e))?;
        writer.close().map_err(|e| failed(&e))?;
    }
    Ok(())
}

fn batch(numbers: std::ops::Range<u64>) -> Result<RecordBatch, arrow::error::ArrowError> {
    let ids: Int64Array = numbers.clone().filter_map(|n| i64::try_from(n).ok()).map(Some).collect();
    let texts: StringArray = numbers.map(|n| Some(format!("the text of row {n}"))).collect();
    let columns: [(&str, ArrayRef); 2] = [(ID_COLUMN, Arc::new(ids)), ("text", Arc::new(texts))];
    RecordBatch::try_from_iter(columns)
}
