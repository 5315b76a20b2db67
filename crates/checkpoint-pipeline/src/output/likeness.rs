//! Which columns repeat their values, told from the first rows.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// Rows that are looked at.
const SAMPLE: usize = 1024;
/// Fewer tell nothing, and cost nothing.
const FEWEST: usize = 64;

/// The columns of which most values are unlike each other; the column of IDs always is one.
///
/// Cost: a hash of at most 1,024 values a column.
pub(crate) fn mostly_unlike(batch: &RecordBatch, id_column: &str) -> Vec<String> {
    let named = batch.schema_ref().fields().iter().zip(batch.columns());
    named
        .filter(|(field, column)| {
            let is_leaf = !field.data_type().is_nested() && !matches!(field.data_type(), DataType::Dictionary(..));
            is_leaf && (field.name() == id_column || hardly_repeats(column))
        })
        .map(|(field, _)| field.name().clone())
        .collect()
}

/// Whether more than half of the values are different ones.
fn hardly_repeats(column: &ArrayRef) -> bool {
    let rows = column.len().min(SAMPLE);
    if rows < FEWEST {
        return false;
    }
    let distinct = match column.data_type() {
        DataType::Utf8 => count((0..rows).map(|row| column.as_string::<i32>().value(row).as_bytes())),
        DataType::LargeUtf8 => count((0..rows).map(|row| column.as_string::<i64>().value(row).as_bytes())),
        DataType::Utf8View => count((0..rows).map(|row| column.as_string_view().value(row).as_bytes())),
        DataType::Binary => count((0..rows).map(|row| column.as_binary::<i32>().value(row))),
        DataType::LargeBinary => count((0..rows).map(|row| column.as_binary::<i64>().value(row))),
        DataType::BinaryView => count((0..rows).map(|row| column.as_binary_view().value(row))),
        other => {
            let Some(width) = other.primitive_width() else { return false };
            let data = column.to_data();
            let start = data.offset() * width;
            let values = data.buffers().first().and_then(|values| values.as_slice().get(start..start + rows * width));
            values.map_or(0, |values| count(values.chunks_exact(width)))
        }
    };
    distinct > rows / 2
}

fn count<'a>(values: impl Iterator<Item = &'a [u8]>) -> usize {
    values.collect::<HashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, ListArray, StringArray, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn columns_that_repeat_keep_their_dictionary() {
        let rows = 200;
        let words = |repeat: i64| (0..rows).map(move |i| format!("word {}", i / repeat));
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>((0..rows).map(|i| Some(vec![Some(i)])));
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(Int64Array::from(vec![7; rows as usize])) as ArrayRef),
            ("few", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i % 50)))),
            ("many", Arc::new(Float64Array::from_iter_values((0..rows).map(|i| i as f64)))),
            ("few words", Arc::new(StringArray::from_iter_values(words(4)))),
            ("many words", Arc::new(StringViewArray::from_iter_values(words(1)))),
            ("a.list", Arc::new(list)),
        ])
        .expect("valid");
        assert_eq!(mostly_unlike(&batch, "id"), ["id", "many", "many words"]);
        assert_eq!(mostly_unlike(&batch.slice(100, 100), "id"), ["id", "many", "many words"]);
        assert_eq!(mostly_unlike(&batch.slice(0, 10), "few"), ["few"], "too few rows to tell");
    }
}
