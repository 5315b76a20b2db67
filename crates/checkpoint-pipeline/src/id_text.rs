//! IDs of every type as JSON lines and CSV hold them, and back: text formats know no widths, bytes or times.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, StructArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::error::ArrowError;

/// The type in which IDs of a type are read from text: numbers keep their digits, all else is text.
pub(crate) fn text_type(id: &DataType) -> DataType {
    use DataType as T;
    match id {
        T::Int8 | T::Int16 | T::Int32 | T::Int64 => T::Int64,
        T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => T::UInt64,
        T::Boolean => T::Boolean,
        T::Dictionary(_, values) => text_type(values),
        T::RunEndEncoded(_, values) => text_type(values.data_type()),
        T::Struct(fields) => T::Struct(in_fields(fields, text_type)),
        _ => T::Utf8,
    }
}

/// What was read in the [`text_type`] of a type, as IDs that compare with those of that type.
///
/// # Errors
/// A text that is no value of the type.
pub(crate) fn from_text(read: &ArrayRef, id: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    match id {
        T::Dictionary(_, values) => from_text(read, values),
        T::RunEndEncoded(_, values) => from_text(read, values.data_type()),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => from_hex(read),
        // Text has the instants in UTC.
        T::Timestamp(unit, Some(_)) => exactly(read, &T::Timestamp(*unit, Some("+00:00".into()))),
        T::Struct(fields) => {
            let read = read.as_struct();
            let columns = read.columns().iter().zip(fields).map(|(column, field)| from_text(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let typed = read.fields().iter().zip(&columns);
            let typed = typed.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
            Ok(Arc::new(StructArray::try_new(typed.collect(), columns, read.nulls().cloned())?))
        }
        _ if *read.data_type() == text_type(id) && !matches!(read.data_type(), T::Utf8) => Ok(Arc::clone(read)),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => Ok(Arc::clone(read)),
        _ => exactly(read, id),
    }
}

fn in_fields(fields: &Fields, change: impl Fn(&DataType) -> DataType) -> Fields {
    fields.iter().map(|field| Field::new(field.name(), change(field.data_type()), true)).collect()
}

fn exactly(read: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(read, to, &CastOptions { safe: false, ..CastOptions::default() })
}

fn from_hex(read: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let texts = read.as_string::<i32>();
    let mut bytes = BinaryBuilder::with_capacity(texts.len(), texts.value_data().len() / 2);
    for text in texts {
        match text {
            None => bytes.append_null(),
            Some(text) => {
                let value =
                    hex(text).ok_or_else(|| ArrowError::CastError(format!("no hexadecimal bytes: {text:?}")))?;
                bytes.append_value(value);
            }
        }
    }
    Ok(Arc::new(bytes.finish()))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        let read: ArrayRef = Arc::new(StringArray::from(vec![Some("00fF"), None, Some("")]));
        let bytes = from_text(&read, &DataType::FixedSizeBinary(2)).expect("is hex");
        assert_eq!(bytes.as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"\x00\xff"[..]), None, Some(b"")]);
        for bad in ["0", "zz", "0\u{e9}"] {
            let read: ArrayRef = Arc::new(StringArray::from(vec![bad]));
            assert!(from_text(&read, &DataType::Binary).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_that_is_no_value_is_an_error_and_not_a_null() {
        let read: ArrayRef = Arc::new(StringArray::from(vec!["tomorrow"]));
        for data_type in [DataType::Date32, DataType::Decimal128(5, 2)] {
            assert!(from_text(&read, &data_type).is_err(), "{data_type}");
        }
    }
}
