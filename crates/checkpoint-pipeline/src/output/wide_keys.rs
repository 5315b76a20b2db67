//! Dictionary keys wide enough for a whole file.
//!
//! A batch may come with a hundred labels under 8-bit keys, and the next with a hundred others: each fits
//! its own dictionary, and no reader can put the file's under such keys. So files have 32-bit keys.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::error::{Error, Result};

/// The schema with dictionary keys of at least 32 bits, at any depth.
pub(crate) fn schema_with_wide_keys(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(widened).collect();
    if fields.iter().zip(schema.fields()).all(|(a, b)| Arc::ptr_eq(a, b)) {
        return Arc::clone(schema);
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The same rows under [`schema_with_wide_keys`]; values are shared, and keys copied where they change.
///
/// # Errors
/// None that a valid batch can cause; Arrow's own checks.
pub(crate) fn with_wide_keys(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = schema_with_wide_keys(batch.schema_ref());
    if Arc::ptr_eq(&schema, batch.schema_ref()) {
        return Ok(batch.clone());
    }
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        cast_with_options(column, field.data_type(), &exact).map_err(|e| {
            Error::bad_data(format!("a dictionary's keys cannot be widened: {e}, column={}", field.name()))
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|e| Error::bad_data(format!("a batch does not fit its own schema: {e}")))
}

fn widened(field: &FieldRef) -> FieldRef {
    match wide(field.data_type()) {
        Some(data_type) => Arc::new(Field::clone(field).with_data_type(data_type)),
        None => Arc::clone(field),
    }
}

/// The type with wide keys; `None` where nothing changes.
fn wide(data_type: &DataType) -> Option<DataType> {
    use DataType as T;
    let child = |field: &FieldRef| {
        let changed = widened(field);
        (!Arc::ptr_eq(&changed, field)).then_some(changed)
    };
    Some(match data_type {
        T::Dictionary(key, values) => match (key.primitive_width(), wide(values)) {
            (Some(1 | 2), values_wide) => {
                T::Dictionary(Box::new(T::Int32), values_wide.map_or_else(|| values.clone(), Box::new))
            }
            (_, values_wide) => T::Dictionary(key.clone(), Box::new(values_wide?)),
        },
        T::List(field) => T::List(child(field)?),
        T::LargeList(field) => T::LargeList(child(field)?),
        T::FixedSizeList(field, size) => T::FixedSizeList(child(field)?, *size),
        T::Map(entries, ordered) => T::Map(child(entries)?, *ordered),
        T::Struct(fields) if fields.iter().any(|field| child(field).is_some()) => {
            T::Struct(fields.iter().map(widened).collect())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Array, ArrayRef, AsArray, DictionaryArray, FixedSizeListArray, Int64Array, LargeListArray, ListArray, MapArray,
        StringArray, StructArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Int8Type, Int64Type, UInt16Type};

    use super::*;

    fn nested(item: &ArrayRef) -> Vec<ArrayRef> {
        let field = |name: &str| Arc::new(Field::new(name, item.data_type().clone(), true));
        let lengths = || OffsetBuffer::from_lengths([2, 1]);
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "z"]));
        let key = Arc::new(Field::new("keys", DataType::Utf8, false));
        let entries = StructArray::from(vec![(key, keys), (field("values"), item.clone())]);
        let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        vec![
            item.clone(),
            Arc::new(StructArray::from(vec![(field("a"), item.clone())])),
            Arc::new(ListArray::new(field("item"), lengths(), item.clone(), None)),
            Arc::new(LargeListArray::new(field("item"), OffsetBuffer::from_lengths([2, 1]), item.clone(), None)),
            Arc::new(FixedSizeListArray::new(field("item"), 3, item.clone(), None)),
            Arc::new(MapArray::new(entry, lengths(), entries, None, false)),
        ]
    }

    #[test]
    fn keys_are_widened_at_any_depth_and_rows_keep_their_values() {
        let small: DictionaryArray<Int8Type> = [Some("a"), None, Some("b")].into_iter().collect();
        let medium: DictionaryArray<UInt16Type> = [Some("a"), None, Some("b")].into_iter().collect();
        for item in [Arc::new(small) as ArrayRef, Arc::new(medium)] {
            for column in nested(&item) {
                let before = RecordBatch::try_from_iter_with_nullable([("c", column.clone(), true)]).expect("valid");
                let after = with_wide_keys(&before).expect("widens");
                let shown = after.column(0).data_type().to_string();
                assert!(shown.contains("Dictionary(Int32, Utf8)"), "{shown}");
                let back = cast_with_options(after.column(0), column.data_type(), &CastOptions::default());
                assert_eq!(&back.expect("casts"), &column, "{shown}");
            }
        }
    }

    #[test]
    fn what_is_wide_stays_as_it_is() {
        let wide: DictionaryArray<Int64Type> = ["a", "b"].into_iter().collect();
        let columns: [(&str, ArrayRef); 2] =
            [("d", Arc::new(wide)), ("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).expect("valid");
        let same = with_wide_keys(&batch).expect("is the same");
        assert!(Arc::ptr_eq(batch.schema_ref(), same.schema_ref()));
        assert_eq!(same.column(0).as_dictionary::<Int64Type>().len(), 2);
    }
}
