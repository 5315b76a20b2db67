//! Bringing a batch whose columns are the right ones into the exact schema of a file.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait,
    RecordBatch, RecordBatchOptions, StructArray, new_null_array,
};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;

use super::schema::schema_drift;
use crate::error::{Error, Result};

/// The batch under `schema`: columns in its order, with its nullability, labels and metadata. No value is
/// changed or copied.
///
/// # Errors
/// `BadData` that names the columns that differ in name or type, or hold a null where none may be.
pub(super) fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    if let Some(drift) = schema_drift(schema, batch.schema_ref()) {
        return Err(Error::bad_data(format!("a batch does not have the columns that the output began with: {drift}"))
            .with_hint("make the transform give the same columns and types for every batch"));
    }
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let column = batch.column_by_name(field.name()).ok_or_else(|| missing(field))?;
        if !field.is_nullable() && column.logical_null_count() > 0 {
            return Err(Error::bad_data(format!("a column without nulls has one now: column={}", field.name()))
                .with_hint("the first batch declared the column non-nullable; declare it nullable from the start"));
        }
        columns.push(relabel(column, field.data_type()).map_err(|e| {
            Error::bad_data(format!("a column does not fit its type any more: {e}, column={}", field.name()))
        })?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|e| Error::bad_data(format!("a batch does not fit the output: {e}")))
}

fn missing(field: &FieldRef) -> Error {
    Error::bad_data(format!("a column is missing: column={}", field.name()))
}

/// The same values under a type that differs in labels alone: nullability, metadata, names of list items,
/// order of struct fields, and `Null` where `to` has a type.
///
/// # Errors
/// When nulls meet a non-nullable field, or the types differ in more.
fn relabel(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (T::Null, _) => Ok(new_null_array(to, array.len())),
        (T::List(_), T::List(field)) => list::<i32>(array, field),
        (T::LargeList(_), T::LargeList(field)) => list::<i64>(array, field),
        (T::ListView(_), T::ListView(field)) => list_view::<i32>(array, field),
        (T::LargeListView(_), T::LargeListView(field)) => list_view::<i64>(array, field),
        (T::FixedSizeList(_, _), T::FixedSizeList(field, size)) => {
            let from = array.as_fixed_size_list();
            let values = relabel(from.values(), field.data_type())?;
            Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *size, values, from.nulls().cloned())?))
        }
        (T::Map(_, _), T::Map(field, ordered)) => {
            let from = array.as_map();
            let T::Struct(labels) = field.data_type() else { return Err(mismatch(array, to)) };
            let pairs = from.entries();
            let columns = pairs.columns().iter().zip(labels).map(|(c, f)| relabel(c, f.data_type()));
            let entries =
                StructArray::try_new(labels.clone(), columns.collect::<Result<_, _>>()?, pairs.nulls().cloned())?;
            let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *ordered)?))
        }
        (T::Struct(_), T::Struct(fields)) => {
            let from = array.as_struct();
            let columns = fields.iter().map(|field| {
                let column = from.column_by_name(field.name()).ok_or_else(|| mismatch(array, to))?;
                relabel(column, field.data_type())
            });
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let nulls = from.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, from.len())?))
        }
        (T::Dictionary(_, _), T::Dictionary(_, values)) => {
            let from = array.as_any_dictionary();
            let values = relabel(from.values(), values)?;
            Ok(from.with_values(values))
        }
        _ => Err(mismatch(array, to)),
    }
}

fn list<O: OffsetSizeTrait>(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let from = array.as_list::<O>();
    let values = relabel(from.values(), field.data_type())?;
    let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(field), offsets, values, nulls)?))
}

fn list_view<O: OffsetSizeTrait>(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let from = array.as_list_view::<O>();
    let values = relabel(from.values(), field.data_type())?;
    let (offsets, sizes) = (from.offsets().clone(), from.sizes().clone());
    Ok(Arc::new(GenericListViewArray::<O>::try_new(Arc::clone(field), offsets, sizes, values, from.nulls().cloned())?))
}

fn mismatch(array: &ArrayRef, to: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("{} is not {to}", array.data_type()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray, NullArray, StringArray};
    use arrow::datatypes::{Field, Int64Type, Schema};

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).expect("valid")
    }

    #[test]
    fn order_labels_and_null_columns_are_brought_into_the_schema() {
        let items = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), Some(2)]), None]);
        let pair = StructArray::from(vec![
            (Arc::new(Field::new("x", DataType::Int64, true)), Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
            (Arc::new(Field::new("y", DataType::Null, true)), Arc::new(NullArray::new(2)) as ArrayRef),
        ]);
        let got = batch(vec![
            ("pair", Arc::new(pair)),
            ("items", Arc::new(items)),
            ("note", Arc::new(NullArray::new(2))),
            ("id", Arc::new(Int64Array::from(vec![7, 8]))),
        ]);
        let swapped = vec![Field::new("y", DataType::Utf8, true), Field::new("x", DataType::Int64, false)];
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("items", DataType::List(Arc::new(Field::new("element", DataType::Int64, false))), true),
            Field::new("note", DataType::Utf8, true),
            Field::new("pair", DataType::Struct(swapped.into()), true),
        ]));
        let out = conform(&got, &schema).expect("fits");
        assert_eq!(out.schema(), schema);
        assert_eq!(out.column(0).as_primitive::<Int64Type>().values(), &[7, 8]);
        assert_eq!(out.column(1).as_list::<i32>().value(0).as_primitive::<Int64Type>().values(), &[1, 2]);
        assert!(out.column(1).is_null(1));
        assert_eq!(out.column(2).null_count(), 2);
        let pair = out.column(3).as_struct();
        assert_eq!(pair.column(1).as_primitive::<Int64Type>().values(), &[1, 2]);
        assert_eq!(pair.column(0).null_count(), 2);
    }

    #[test]
    fn a_null_in_a_column_without_nulls_names_it() {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("name", DataType::Utf8, false)]));
        let got = batch(vec![("name", Arc::new(StringArray::from(vec![Some("a"), None])))]);
        let error = conform(&got, &schema).expect_err("holds a null");
        assert!(error.to_string().ends_with("column=name"), "{error}");
        let fine = batch(vec![("name", Arc::new(StringArray::from(vec![Some("a"), Some("b")])))]);
        assert_eq!(conform(&fine, &schema).expect("fits").schema(), schema);
    }

    #[test]
    fn nulls_deep_inside_are_refused_where_the_type_has_none() {
        let field = Field::new("element", DataType::Int64, false);
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("l", DataType::List(Arc::new(field)), true)]));
        let items = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])]);
        let error = conform(&batch(vec![("l", Arc::new(items))]), &schema).expect_err("holds a null");
        assert!(error.to_string().ends_with("column=l"), "{error}");
    }
}
