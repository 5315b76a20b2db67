//! Timestamps with a zone, as text: the instant in UTC.
//!
//! A zone's name can only be resolved with a zone database, and a local time is ambiguous once a year.
//! In text formats the same instants are written in UTC, which any reader takes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;

const UTC: &str = "+00:00";

/// The batch with every zone replaced by UTC; instants stay.
pub(super) fn in_utc(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let fields: Vec<FieldRef> = schema.fields().iter().map(utc_field).collect();
    if fields.iter().zip(schema.fields()).all(|(a, b)| Arc::ptr_eq(a, b)) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(&fields).map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn utc_field(field: &FieldRef) -> FieldRef {
    match utc_type(field.data_type()) {
        Some(data_type) => Arc::new(Field::clone(field).with_data_type(data_type)),
        None => Arc::clone(field),
    }
}

/// The type with every zone replaced by UTC; `None` where nothing changes.
fn utc_type(data_type: &DataType) -> Option<DataType> {
    use DataType as T;
    let child = |field: &FieldRef| {
        let changed = utc_field(field);
        (!Arc::ptr_eq(&changed, field)).then_some(changed)
    };
    Some(match data_type {
        T::Timestamp(unit, Some(zone)) if &**zone != UTC => T::Timestamp(*unit, Some(UTC.into())),
        T::List(field) => T::List(child(field)?),
        T::LargeList(field) => T::LargeList(child(field)?),
        T::ListView(field) => T::ListView(child(field)?),
        T::LargeListView(field) => T::LargeListView(child(field)?),
        T::FixedSizeList(field, size) => T::FixedSizeList(child(field)?, *size),
        T::Map(entries, ordered) => T::Map(child(entries)?, *ordered),
        T::RunEndEncoded(ends, values) => T::RunEndEncoded(Arc::clone(ends), child(values)?),
        T::Dictionary(keys, values) => T::Dictionary(keys.clone(), Box::new(utc_type(values)?)),
        T::Struct(fields) if fields.iter().any(|field| child(field).is_some()) => {
            T::Struct(fields.iter().map(utc_field).collect())
        }
        _ => return None,
    })
}
