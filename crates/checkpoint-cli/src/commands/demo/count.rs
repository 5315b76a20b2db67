//! Counting the rows of the demo's output by reading its files, with no help from the checkpoint.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::input::ID_COLUMN;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// How often the rows are in the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) once: u64,
    pub(super) missing: u64,
    pub(super) doubled: u64,
    /// Rows that the input does not have.
    pub(super) unknown: u64,
}

impl Found {
    /// Whether every row is there exactly once, and no other.
    pub(super) fn is_right(&self) -> bool {
        self.missing == 0 && self.doubled == 0 && self.unknown == 0
    }
}

/// Counts the data files in the directory.
pub(super) fn files(dir: &Path) -> Result<u64> {
    data_files(dir).map(|files| files.len() as u64).map_err(|error| unreadable(dir, &error))
}

/// Reads every data file in the directory.
pub(super) fn read(dir: &Path, rows: u64) -> Result<Found> {
    let mut times = vec![0_u64; usize::try_from(rows).unwrap_or(0)];
    let mut unknown = 0;
    for id in ids(dir).map_err(|error| unreadable(dir, &error))? {
        match usize::try_from(id).ok().and_then(|id| times.get_mut(id)) {
            Some(times) => *times += 1,
            None => unknown += 1,
        }
    }
    let counted = |wanted: fn(u64) -> bool| times.iter().filter(|times| wanted(**times)).count() as u64;
    Ok(Found { once: counted(|n| n == 1), missing: counted(|n| n == 0), doubled: counted(|n| n > 1), unknown })
}

fn unreadable(dir: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::BadData, format!("the demo's output cannot be read: {error}: dir={}", dir.display()))
}

fn data_files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            files.push(path);
        }
    }
    Ok(files)
}

fn ids(dir: &Path) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
    let mut ids = Vec::new();
    for path in data_files(dir)? {
        for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(&path)?)?.build()? {
            let batch = batch?;
            let column = batch.column_by_name(ID_COLUMN).ok_or("a file lacks the ID column")?;
            let column = column.as_primitive_opt::<Int64Type>().ok_or("the ID column changed its type")?;
            ids.extend(column.values());
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::super::input;
    use super::*;

    #[test]
    fn missing_doubled_and_unknown_rows_are_told_apart() {
        let dir = tempfile::tempdir().expect("temp dir");
        input::write(dir.path(), 10, 2).expect("writes");
        fs::write(dir.path().join("_mark.json"), "{}").expect("writes");
        let right = Found { once: 10, missing: 0, doubled: 0, unknown: 0 };
        assert_eq!(read(dir.path(), 10).expect("reads"), right);
        assert!(right.is_right());
        assert_eq!(files(dir.path()).expect("lists"), 2);
        assert_eq!(read(dir.path(), 8).expect("reads"), Found { once: 8, missing: 0, doubled: 0, unknown: 2 });
        fs::copy(dir.path().join("part-0.parquet"), dir.path().join("again.parquet")).expect("copies");
        fs::remove_file(dir.path().join("part-1.parquet")).expect("removes");
        let wrong = read(dir.path(), 10).expect("reads");
        assert_eq!(wrong, Found { once: 0, missing: 5, doubled: 5, unknown: 0 });
        assert!(!wrong.is_right());
    }
}
