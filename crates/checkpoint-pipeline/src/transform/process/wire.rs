//! The types in which values travel as JSON lines, where those are not the columns' own.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;

const EXACT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow::util::display::FormatOptions::new() };

/// The type that a column's values have in JSON: what dictionaries and runs stand for, instants in UTC,
/// durations as integers of their unit. Everything is nullable.
pub(super) fn wire_type(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::Dictionary(_, values) => wire_type(values),
        T::RunEndEncoded(_, values) => wire_type(values.data_type()),
        T::Timestamp(unit, Some(_)) => T::Timestamp(*unit, Some("+00:00".into())),
        T::Duration(_) => T::Int64,
        _ => map_children(data_type, &|field| {
            Arc::new(
                Field::new(field.name(), wire_type(field.data_type()), true).with_metadata(field.metadata().clone()),
            )
        }),
    }
}

/// The field with everything in it nullable, but map keys, which cannot be.
pub(super) fn nullable(field: &FieldRef) -> FieldRef {
    let data_type = map_children(field.data_type(), &nullable);
    Arc::new(Field::clone(field).with_data_type(data_type).with_nullable(true))
}

fn map_children(data_type: &DataType, change: &impl Fn(&FieldRef) -> FieldRef) -> DataType {
    use DataType as T;
    match data_type {
        T::List(field) => T::List(change(field)),
        T::LargeList(field) => T::LargeList(change(field)),
        T::ListView(field) => T::ListView(change(field)),
        T::LargeListView(field) => T::LargeListView(change(field)),
        T::FixedSizeList(field, size) => T::FixedSizeList(change(field), *size),
        T::Struct(fields) => T::Struct(fields.iter().map(change).collect()),
        T::Map(entries, ordered) => match entries.data_type() {
            T::Struct(pair) if pair.len() == 2 => {
                let key = Field::clone(&change(&pair[0])).with_nullable(false);
                let pair = T::Struct(vec![Arc::new(key), change(&pair[1])].into());
                T::Map(Arc::new(Field::clone(entries).with_data_type(pair).with_nullable(false)), *ordered)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// The batch with durations as integers; all else is written as it is.
pub(super) fn to_wire(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let has_duration = |field: &FieldRef| holds_duration(field.data_type());
    if !batch.schema_ref().fields().iter().any(has_duration) {
        return Ok(batch.clone());
    }
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let data_type = if has_duration(field) { wire_type(field.data_type()) } else { field.data_type().clone() };
        columns.push(cast_with_options(column, &data_type, &EXACT)?);
        fields.push(Field::clone(field).with_data_type(data_type));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn holds_duration(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Duration(_) => true,
        T::Dictionary(_, values) => holds_duration(values),
        T::RunEndEncoded(_, field)
        | T::List(field)
        | T::LargeList(field)
        | T::ListView(field)
        | T::LargeListView(field)
        | T::FixedSizeList(field, _)
        | T::Map(field, _) => holds_duration(field.data_type()),
        T::Struct(fields) => fields.iter().any(|field| holds_duration(field.data_type())),
        _ => false,
    }
}

/// The batch in the types of `schema`, of which it has the wire types.
///
/// # Errors
/// The name of the column, and what is wrong.
pub(super) fn from_wire(batch: &RecordBatch, schema: &Arc<Schema>) -> Result<RecordBatch, (String, ArrowError)> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (column, field) in batch.columns().iter().zip(schema.fields()) {
        let column = cast_with_options(column, field.data_type(), &EXACT);
        columns.push(column.map_err(|e| (field.name().clone(), e))?);
    }
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|e| (String::new(), e))
}
