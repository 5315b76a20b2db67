//! IDs as people read them. Timestamps with a zone are shown as the instant in UTC, since a zone's name needs a database
//! of zones.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;

/// UTC as a zone that needs no name.
const UTC: &str = "+00:00";

/// The type with the zone of every timestamp replaced by UTC, as a zone that needs no database.
pub fn in_utc(id_type: &DataType) -> DataType {
    match id_type {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(UTC.into())),
        DataType::Struct(fields) => {
            let field = |field: &Arc<Field>| Field::clone(field).with_data_type(in_utc(field.data_type()));
            DataType::Struct(fields.iter().map(field).collect())
        }
        DataType::Dictionary(key, value) => DataType::Dictionary(key.clone(), Box::new(in_utc(value))),
        other => other.clone(),
    }
}

/// The same IDs, their instants in UTC: what can be written as text whatever their zone.
///
/// # Errors
/// Those of the cast, for a type that cannot be an ID.
pub fn array_in_utc(ids: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let target = in_utc(ids.data_type());
    if &target == ids.data_type() { Ok(ids.clone()) } else { cast(ids, &target) }
}

/// An ID as people read it, cut at 80 characters.
pub fn show_id(array: &ArrayRef, row: usize) -> String {
    let shown = array_in_utc(&array.slice(row, 1));
    let text = match shown.and_then(|id| array_value_to_string(&id, 0)) {
        Ok(text) => text,
        Err(_) => String::from("?"),
    };
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int8Array, StringArray, StructArray, TimestampMillisecondArray};

    use super::*;

    #[test]
    fn named_zones_are_shown_as_instants() {
        let zoned: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![0]).with_timezone("Asia/Shanghai"));
        let shown = array_in_utc(&zoned).expect("cast");
        assert_eq!(array_value_to_string(&shown, 0).expect("shown"), "1970-01-01T00:00:00Z");
        for zone in ["UTC", "Asia/Shanghai", "+08:00"] {
            let times = TimestampMillisecondArray::from(vec![1, 1_000]).with_timezone(zone);
            let times: ArrayRef = Arc::new(times);
            assert_eq!(show_id(&times, 1), "1970-01-01T00:00:01Z", "{zone}");
            let field = Arc::new(Field::new("at", times.data_type().clone(), false));
            let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, times.clone())]));
            assert_eq!(show_id(&nested, 1), "{at: 1970-01-01T00:00:01Z}", "{zone}");
            let dictionary = DictionaryArray::new(Int8Array::from(vec![1, 0, 1]), times);
            assert_eq!(show_id(&(Arc::new(dictionary) as ArrayRef), 2), "1970-01-01T00:00:01Z", "{zone}");
        }
    }

    #[test]
    fn long_ids_are_cut_between_characters() {
        let ids: ArrayRef = Arc::new(StringArray::from(vec!["é".repeat(80), "é".repeat(81)]));
        assert_eq!(show_id(&ids, 0), "é".repeat(80));
        assert_eq!(show_id(&ids, 1), "é".repeat(80) + "...");
    }
}
