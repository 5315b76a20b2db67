//! Timestamps with a zone as text: the instant in UTC, since a zone's name needs a database of zones.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;

/// UTC as a zone that needs no name.
pub(super) const UTC: &str = "+00:00";

/// The type with every zone replaced by UTC. IDs hold timestamps alone or in structs.
pub(super) fn in_utc(id_type: &DataType) -> DataType {
    match id_type {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(UTC.into())),
        DataType::Struct(fields) => {
            let field = |field: &Arc<Field>| Field::clone(field).with_data_type(in_utc(field.data_type()));
            DataType::Struct(fields.iter().map(field).collect())
        }
        other => other.clone(),
    }
}

/// The same instants in UTC.
pub(super) fn array_in_utc(ids: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let target = in_utc(ids.data_type());
    if &target == ids.data_type() { Ok(ids.clone()) } else { cast(ids, &target) }
}

#[cfg(test)]
mod tests {
    use arrow::array::{StructArray, TimestampMillisecondArray};
    use arrow::util::display::array_value_to_string;

    use super::*;

    #[test]
    fn named_zones_are_shown_as_instants() {
        let zoned: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![0]).with_timezone("Asia/Shanghai"));
        let shown = array_in_utc(&zoned).expect("cast");
        assert_eq!(array_value_to_string(&shown, 0).expect("shown"), "1970-01-01T00:00:00Z");
        let field = Arc::new(Field::new("at", zoned.data_type().clone(), false));
        let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, zoned)]));
        let shown = array_in_utc(&nested).expect("cast");
        assert_eq!(array_value_to_string(&shown, 0).expect("shown"), "{at: 1970-01-01T00:00:00Z}");
    }
}
