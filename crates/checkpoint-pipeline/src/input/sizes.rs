//! The decoded size of rows: what they hold, whatever buffers they share.

use arrow::array::{
    Array, AsArray, BinaryViewArray, FixedSizeListArray, GenericByteArray, GenericListArray, OffsetSizeTrait,
    RecordBatch, StringViewArray, downcast_integer_array,
};
use arrow::datatypes::{ByteArrayType, DataType};

/// The bytes that the rows of a batch hold, as though nothing were shared: a value that a dictionary or a
/// view names a thousand times counts a thousand times. Slices count their own rows. Cost: one step per
/// column, or per value for views and dictionaries.
pub fn decoded_size(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| array_size(column.as_ref())).sum()
}

/// How many rows from `start` on, at least one and at most `most`, it takes to reach `bytes`.
pub(super) fn rows_to_reach(batch: &RecordBatch, start: usize, most: usize, bytes: u64) -> usize {
    let size = |rows: usize| decoded_size(&batch.slice(start, rows));
    if most <= 1 || size(most) <= bytes {
        return most;
    }
    let (mut below, mut reached) = (0, most);
    while reached - below > 1 {
        let middle = below + (reached - below) / 2;
        if size(middle) >= bytes {
            reached = middle;
        } else {
            below = middle;
        }
    }
    reached
}

fn array_size(array: &dyn Array) -> u64 {
    let rows = array.len() as u64;
    let validity = if array.nulls().is_some() { rows.div_ceil(8) } else { 0 };
    validity
        + match array.data_type() {
            DataType::Null => 0,
            DataType::Boolean => rows.div_ceil(8),
            DataType::Utf8 => bytes_size(array.as_string::<i32>()),
            DataType::LargeUtf8 => bytes_size(array.as_string::<i64>()),
            DataType::Binary => bytes_size(array.as_binary::<i32>()),
            DataType::LargeBinary => bytes_size(array.as_binary::<i64>()),
            DataType::Utf8View => view_size(array.as_string_view()),
            DataType::BinaryView => binary_view_size(array.as_binary_view()),
            DataType::FixedSizeBinary(width) => rows * u64::try_from(*width).unwrap_or(0),
            DataType::List(_) => list_size(array.as_list::<i32>()),
            DataType::LargeList(_) => list_size(array.as_list::<i64>()),
            DataType::FixedSizeList(..) => fixed_list_size(array.as_fixed_size_list()),
            DataType::Map(..) => {
                let map = array.as_map();
                let offsets = map.value_offsets();
                offset_range(offsets)
                    .map_or(0, |(from, len)| array_size(&map.entries().slice(from, len)) + 4 * (rows + 1))
            }
            DataType::Struct(_) => array.as_struct().columns().iter().map(|c| array_size(c.as_ref())).sum(),
            DataType::Dictionary(..) => dictionary_size(array),
            other => match other.primitive_width() {
                Some(width) => rows * width as u64,
                None => array.get_array_memory_size() as u64,
            },
        }
}

fn bytes_size<T: ByteArrayType>(array: &GenericByteArray<T>) -> u64 {
    let width = size_of::<T::Offset>() as u64;
    offset_range(array.value_offsets()).map_or(0, |(_, len)| len as u64) + width * (array.len() as u64 + 1)
}

fn view_size(array: &StringViewArray) -> u64 {
    array.views().iter().map(|view| 16 + u64::from(*view as u32)).sum()
}

fn binary_view_size(array: &BinaryViewArray) -> u64 {
    array.views().iter().map(|view| 16 + u64::from(*view as u32)).sum()
}

fn list_size<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> u64 {
    let offsets = size_of::<O>() as u64 * (array.len() as u64 + 1);
    offsets + offset_range(array.value_offsets()).map_or(0, |(from, len)| array_size(&array.values().slice(from, len)))
}

fn fixed_list_size(array: &FixedSizeListArray) -> u64 {
    array_size(array.values().as_ref())
}

/// Where the values of a slice start, and how many they are.
fn offset_range<O: OffsetSizeTrait>(offsets: &[O]) -> Option<(usize, usize)> {
    let (first, last) = (offsets.first()?.as_usize(), offsets.last()?.as_usize());
    Some((first, last.saturating_sub(first)))
}

fn dictionary_size(array: &dyn Array) -> u64 {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    let rows = array.len() as u64;
    let lengths = match values.data_type() {
        DataType::Utf8 => lengths(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => lengths(values.as_string::<i64>().value_offsets()),
        DataType::Binary => lengths(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => lengths(values.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => values.as_string_view().views().iter().map(|v| u64::from(*v as u32)).collect(),
        DataType::BinaryView => values.as_binary_view().views().iter().map(|v| u64::from(*v as u32)).collect(),
        _ => {
            let each = array_size(values.as_ref()).div_ceil(values.len().max(1) as u64);
            return rows * (each + 4);
        }
    };
    let keys = dictionary.keys();
    downcast_integer_array!(
        keys => {
            let at = |key: usize| lengths.get(key).copied().unwrap_or(0);
            keys.iter().flatten().map(|key| at(key as usize)).sum::<u64>() + 4 * rows
        }
        _ => 4 * rows
    )
}

fn lengths<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<u64> {
    offsets.windows(2).map(|pair| pair[1].as_usize().saturating_sub(pair[0].as_usize()) as u64).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BinaryArray, DictionaryArray, Int64Array, ListArray, StringArray, StructArray, UInt8Array,
    };
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    fn batch(array: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("c", array, true)]).expect("one column")
    }

    #[test]
    fn slices_count_their_own_rows() {
        let b = batch(Arc::new(StringArray::from(vec!["a".repeat(100), "b".repeat(10), String::new()])));
        assert_eq!(decoded_size(&b), 110 + 4 * 4);
        assert_eq!(decoded_size(&b.slice(1, 2)), 10 + 4 * 3);
        let b = batch(Arc::new(Int64Array::from(vec![1, 2, 3])));
        assert_eq!(decoded_size(&b.slice(2, 1)), 8);
    }

    #[test]
    fn shared_values_count_every_time() {
        let words: Vec<String> = (0..10).map(|_| "x".repeat(1000)).collect();
        let dictionary: DictionaryArray<Int32Type> = words.iter().map(String::as_str).collect();
        assert_eq!(decoded_size(&batch(Arc::new(dictionary))), 10 * 1004);
        let views = StringViewArray::from_iter_values(&words);
        assert_eq!(decoded_size(&batch(Arc::new(views.slice(3, 2)))), 2 * 1016);
    }

    #[test]
    fn nested_values_count_by_their_rows() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1); 50]), Some(vec![Some(2)])]);
        assert_eq!(decoded_size(&batch(Arc::new(lists.slice(1, 1)))), 4 + 8);
        let inner: ArrayRef = Arc::new(BinaryArray::from(vec![&b"abcd"[..]]));
        let fields = vec![Field::new("f", DataType::Binary, true)];
        let structs = StructArray::try_new(fields.into(), vec![inner], None).expect("valid");
        assert_eq!(decoded_size(&batch(Arc::new(structs))), 4 + 8);
    }

    #[test]
    fn the_row_that_reaches_the_limit_is_the_last() {
        let b = batch(Arc::new(UInt8Array::from(vec![0; 100])));
        assert_eq!(rows_to_reach(&b, 0, 100, 30), 30);
        assert_eq!(rows_to_reach(&b, 90, 10, 30), 10);
        assert_eq!(rows_to_reach(&b, 0, 100, 0), 1);
    }
}
