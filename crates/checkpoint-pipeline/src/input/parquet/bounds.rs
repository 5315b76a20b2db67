//! Bounds of integers: what the statistics of a row group and the column index say of the ID column.

use std::ops::Range;

use arrow::datatypes::DataType;
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData};
use parquet::file::page_index::column_index::{ColumnIndexMetaData, PrimitiveColumnIndex};
use parquet::file::page_index::index_reader::decode_column_index;
use parquet::file::statistics::Statistics;

use super::super::decode::decode;

/// The least and the greatest value, both included. Every value lies between them; they need not occur.
pub(super) type Bounds = (i128, i128);

/// A column of integers whose bounds can be trusted: its values sort as its type says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Integers {
    pub(super) leaf: usize,
    signed: bool,
    /// Whether there can be nulls.
    nullable: bool,
}

impl Integers {
    /// The top-level column of that name, if it is of integers and its statistics sort as integers do.
    pub(super) fn find(file: &FileMetaData, column: &str, data_type: &DataType) -> Option<Self> {
        let signed = match data_type {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => true,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => false,
            _ => return None,
        };
        let leaf = integer_leaf(file, column)?;
        let order = if signed { SortOrder::SIGNED } else { SortOrder::UNSIGNED };
        let orders = file.column_orders()?;
        let trusted = matches!(orders.get(leaf), Some(ColumnOrder::TYPE_DEFINED_ORDER(found)) if *found == order);
        let nullable = file.schema_descr().column(leaf).max_def_level() > 0;
        trusted.then_some(Self { leaf, signed, nullable })
    }

    /// The bounds of a column chunk; `None` where it has none, or may have nulls.
    pub(super) fn of_chunk(&self, chunk: &ColumnChunkMetaData) -> Option<Bounds> {
        let statistics = chunk.statistics()?;
        if statistics.is_min_max_deprecated() || (self.nullable && statistics.null_count_opt() != Some(0)) {
            return None;
        }
        match statistics {
            Statistics::Int32(values) => self.bounds32(*values.min_opt()?, *values.max_opt()?),
            Statistics::Int64(values) => self.bounds64(*values.min_opt()?, *values.max_opt()?),
            _ => None,
        }
    }

    /// The bounds of each of `pages` pages, from the column index; `None` for pages that have none, or may have
    /// nulls. Nothing at all where the index is not what it should be.
    pub(super) fn of_pages(&self, index: &[u8], kind: Type, pages: usize) -> Option<Vec<Option<Bounds>>> {
        match decode(|| decode_column_index(index, kind)).ok()? {
            ColumnIndexMetaData::INT32(index) => self.each_page(&index, pages, |min, max| self.bounds32(*min, *max)),
            ColumnIndexMetaData::INT64(index) => self.each_page(&index, pages, |min, max| self.bounds64(*min, *max)),
            _ => None,
        }
    }

    fn each_page<T>(
        &self,
        index: &PrimitiveColumnIndex<T>,
        pages: usize,
        bounds: impl Fn(&T, &T) -> Option<Bounds>,
    ) -> Option<Vec<Option<Bounds>>> {
        if index.num_pages() != pages as u64 {
            return None;
        }
        let page = |page| {
            if index.is_null_page(page) || (self.nullable && index.null_count(page) != Some(0)) {
                return None;
            }
            bounds(index.min_value(page)?, index.max_value(page)?)
        };
        Some((0..pages).map(page).collect())
    }

    fn bounds32(&self, min: i32, max: i32) -> Option<Bounds> {
        let wide = |value: i32| if self.signed { i128::from(value) } else { i128::from(value as u32) };
        ordered(wide(min), wide(max))
    }

    fn bounds64(&self, min: i64, max: i64) -> Option<Bounds> {
        let wide = |value: i64| if self.signed { i128::from(value) } else { i128::from(value as u64) };
        ordered(wide(min), wide(max))
    }
}

fn ordered(min: i128, max: i128) -> Option<Bounds> {
    (min <= max).then_some((min, max))
}

/// The leaf of a top-level column that is stored as integers.
pub(super) fn integer_leaf(file: &FileMetaData, column: &str) -> Option<usize> {
    let descriptor = file.schema_descr();
    let leaf = descriptor.columns().iter().position(|c| c.path().parts() == [column])?;
    let stored = descriptor.column(leaf);
    (matches!(stored.physical_type(), Type::INT32 | Type::INT64) && stored.max_rep_level() == 0).then_some(leaf)
}

/// The rows that each page of a column holds, with their bounds where they are known.
pub(super) type BoundedRows = Vec<(Range<u64>, Option<Bounds>)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_integers_keep_their_value_and_nonsense_is_no_bound() {
        let signed = Integers { leaf: 0, signed: true, nullable: false };
        let unsigned = Integers { leaf: 0, signed: false, nullable: false };
        assert_eq!(signed.bounds32(-1, 5), Some((-1, 5)));
        assert_eq!(unsigned.bounds32(5, -1), Some((5, i128::from(u32::MAX))));
        assert_eq!(unsigned.bounds64(0, i64::MIN), Some((0, 1 << 63)));
        assert_eq!((signed.bounds64(5, -1), unsigned.bounds32(-1, 5)), (None, None));
    }
}
