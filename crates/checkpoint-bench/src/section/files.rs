//! Input files of some shapes, and whether an output has exactly the rows that it should have.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use arrow::array::{ArrayRef, AsArray, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use parquet::arrow::ArrowWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::ids::{IdKind, mixed};

/// What the rows of a file are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The ID alone.
    Ids(IdKind),
    /// Eight columns of numbers.
    Numbers,
    /// A text of some thirty words.
    Text,
    /// Two kilobytes that cannot be compressed.
    Wide,
}

/// How much is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    pub(super) files: u64,
    pub(super) rows_per_file: u64,
    pub(super) rows_per_group: u64,
}

impl Amount {
    /// Rows of all files.
    pub(super) fn rows(&self) -> u64 {
        self.files * self.rows_per_file
    }
}

impl Shape {
    /// What names its rows.
    pub(super) fn kind(self) -> IdKind {
        match self {
            Self::Ids(kind) => kind,
            Self::Numbers => IdKind::Int64,
            Self::Text | Self::Wide => IdKind::Uuid,
        }
    }

    fn batch(self, rows: Range<u64>) -> Result<RecordBatch> {
        const WORDS: [&str; 16] = [
            "the", "model", "reads", "every", "row", "of", "input", "and", "writes", "it", "once", "into", "an",
            "output", "that", "lasts",
        ];
        let mut columns: Vec<(String, ArrayRef)> = vec![("id".to_owned(), self.kind().array(rows.clone()))];
        match self {
            Self::Ids(_) => {}
            Self::Numbers => {
                for salt in 1..5 {
                    let values = rows.clone().map(|row| mixed(salt << 40, row) as f64 / 1e9);
                    columns.push((format!("measure_{salt}"), Arc::new(Float64Array::from_iter_values(values))));
                }
                for salt in 5..8 {
                    let values = rows.clone().map(|row| (mixed(salt << 40, row) % 1000).cast_signed());
                    columns.push((format!("count_{salt}"), Arc::new(Int64Array::from_iter_values(values))));
                }
            }
            Self::Text => {
                let text = |row| {
                    let word = |at| WORDS[(mixed(0, row * 32 + at) % 16) as usize];
                    (0..30).map(word).collect::<Vec<_>>().join(" ")
                };
                columns.push(("text".to_owned(), Arc::new(StringArray::from_iter_values(rows.map(text)))));
            }
            Self::Wide => {
                let bytes = |row| (0..256).flat_map(|at| mixed(0, row * 256 + at).to_le_bytes()).collect::<Vec<u8>>();
                columns.push(("payload".to_owned(), Arc::new(BinaryArray::from_iter_values(rows.map(bytes)))));
            }
        }
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}

/// The name of an input file.
pub(super) fn name(file: u64) -> String {
    format!("part-{file:04}.parquet")
}

/// Writes Parquet files whose rows have the numbers from nought on, as pyarrow would: with snappy.
pub(super) fn write(dir: &Path, shape: Shape, amount: Amount) -> Result<u64> {
    write_from(dir, shape, amount, 0)
}

/// As [`write()`], with rows whose numbers begin at another one.
pub(super) fn write_from(dir: &Path, shape: Shape, amount: Amount, start: u64) -> Result<u64> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(usize::try_from(amount.rows_per_group)?))
        .build();
    let mut bytes = 0;
    for file in 0..amount.files {
        let path = dir.join(name(file));
        let (first, end) = (start + file * amount.rows_per_file, start + (file + 1) * amount.rows_per_file);
        let schema = shape.batch(first..first + 1)?.schema();
        let mut writer = ArrowWriter::try_new(File::create(&path)?, schema, Some(properties.clone()))?;
        for row in (first..end).step_by(8192) {
            writer.write(&shape.batch(row..end.min(row + 8192))?)?;
        }
        writer.close()?;
        bytes += fs::metadata(&path)?.len();
    }
    Ok(bytes)
}

/// Which rows there are, in any order: how many, and the sum of a hash of their IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Rows {
    rows: u64,
    sum: u64,
}

impl Rows {
    /// Those with these numbers.
    pub(super) fn of(kind: IdKind, numbers: impl Iterator<Item = u64>) -> Result<Self> {
        let mut rows = Self::default();
        rows.add(&kind.array(numbers))?;
        Ok(rows)
    }

    /// Those in the Parquet files of a directory, however deep.
    pub(super) fn read(dir: &Path) -> Result<Self> {
        let mut rows = Self::default();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                let inside = Self::read(&path)?;
                rows = Self { rows: rows.rows + inside.rows, sum: rows.sum.wrapping_add(inside.sum) };
            } else if path.extension().is_some_and(|ending| ending == "parquet") {
                let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&path)?)?;
                let index = builder.schema().index_of("id")?;
                let mask = ProjectionMask::roots(builder.parquet_schema(), [index]);
                for batch in builder.with_projection(mask).with_batch_size(1 << 16).build()? {
                    rows.add(batch?.column(0))?;
                }
            }
        }
        Ok(rows)
    }

    /// Fails unless a side wrote these rows and no others.
    pub(super) fn must_be_in(self, side: &str, dir: &Path) -> Result<()> {
        let found = Self::read(dir)?;
        ensure!(found == self, "a side is wrong: side={side} found={found:?} expected={self:?}");
        Ok(())
    }

    fn add(&mut self, ids: &ArrayRef) -> Result<()> {
        self.rows += ids.len() as u64;
        if ids.data_type().is_integer() {
            for id in cast(ids, &DataType::Int64)?.as_primitive::<Int64Type>().values() {
                self.sum = self.sum.wrapping_add(mixed(0, id.cast_unsigned()));
            }
            return Ok(());
        }
        let texts = cast(ids, &DataType::Utf8)?;
        for id in texts.as_string::<i32>() {
            let mut hasher = DefaultHasher::new();
            hasher.write(id.context("an ID that is null")?.as_bytes());
            self.sum = self.sum.wrapping_add(hasher.finish());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_and_what_is_not_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let amount = Amount { files: 2, rows_per_file: 3000, rows_per_group: 1000 };
        for shape in [Shape::Ids(IdKind::Int64), Shape::Numbers, Shape::Text, Shape::Wide] {
            let least = if shape == Shape::Wide { 2048 } else { 8 };
            assert!(write(dir.path(), shape, amount).unwrap() > 6000 * least, "{shape:?}");
            Rows::of(shape.kind(), 0..6000).unwrap().must_be_in("ours", dir.path()).unwrap();
            Rows::of(shape.kind(), 1..6001).unwrap().must_be_in("ours", dir.path()).unwrap_err();
        }
    }
}
