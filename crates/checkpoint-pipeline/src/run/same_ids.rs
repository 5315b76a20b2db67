//! IDs under the type that the output began with: an input that was written again with other widths or
//! encodings of the same IDs goes on into the same columns.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use checkpoint_store::{IdClass, same_ids};

/// The batch with its ID column in the type that `expected` has for it, where the two types are of one class
/// and no value changes on the way. Everything else is left as it is, for the comparison of schemas to name.
pub(super) fn in_type_of(expected: &Schema, id_column: &str, output: &RecordBatch) -> RecordBatch {
    converted(expected, id_column, output).unwrap_or_else(|| output.clone())
}

fn converted(expected: &Schema, id_column: &str, output: &RecordBatch) -> Option<RecordBatch> {
    let (_, before) = expected.column_with_name(id_column)?;
    let (index, now) = output.schema_ref().column_with_name(id_column)?;
    if before.data_type() == now.data_type() {
        return None;
    }
    if IdClass::of(before.data_type()).ok()? != IdClass::of(now.data_type()).ok()? {
        return None;
    }
    let ids = output.column(index);
    let same = same_ids(ids, before.data_type())?;
    let mut columns = output.columns().to_vec();
    columns[index] = same;
    let mut fields: Vec<_> = output.schema_ref().fields().iter().cloned().collect();
    fields[index] = Arc::new(now.clone().with_data_type(before.data_type().clone()));
    let schema = Schema::new_with_metadata(fields, output.schema_ref().metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns).ok()
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array, Int64Array, LargeStringArray, StringArray, TimestampMillisecondArray};
    use arrow::datatypes::{DataType, Field, TimeUnit};

    use super::*;

    fn type_after(before: DataType, ids: ArrayRef) -> DataType {
        let expected = Schema::new(vec![Field::new("id", before, false)]);
        let batch = RecordBatch::try_from_iter([("n", ids.clone()), ("id", ids)]).expect("valid");
        let out = in_type_of(&expected, "id", &batch);
        assert_eq!(out.column(0).data_type(), batch.column(0).data_type(), "other columns are left alone");
        out.column(1).data_type().clone()
    }

    #[test]
    fn ids_of_one_class_take_the_type_of_the_output() {
        assert_eq!(type_after(DataType::Int64, Arc::new(Int32Array::from(vec![1, -1]))), DataType::Int64);
        assert_eq!(type_after(DataType::Int32, Arc::new(Int64Array::from(vec![1, -1]))), DataType::Int32);
        assert_eq!(type_after(DataType::Utf8, Arc::new(LargeStringArray::from(vec!["a"]))), DataType::Utf8);
    }

    #[test]
    fn what_would_change_a_value_or_a_class_is_left_for_the_schemas_to_tell() {
        assert_eq!(type_after(DataType::Int32, Arc::new(Int64Array::from(vec![1_i64 << 40]))), DataType::Int64);
        assert_eq!(type_after(DataType::UInt64, Arc::new(Int64Array::from(vec![-1]))), DataType::Int64);
        assert_eq!(type_after(DataType::Int64, Arc::new(StringArray::from(vec!["1"]))), DataType::Utf8);
        let instants = TimestampMillisecondArray::from(vec![1_001]);
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        assert_eq!(type_after(seconds, Arc::new(instants)), DataType::Timestamp(TimeUnit::Millisecond, None));
    }
}
