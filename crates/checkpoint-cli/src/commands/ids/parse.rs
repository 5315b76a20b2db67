//! Reading an ID as a user wrote it, as the type of the ID column.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray, UInt64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use checkpoint_store::{IdClass, in_utc};

use crate::failure::{Failure, Result};

const AS_LISTED: &str = "write it as `ckpt ids` lists it";

/// One ID as an array of one value, of a type that compares with `id_type`.
///
/// # Errors
/// `Usage` that names the ID and the type; `BadData` for a type that cannot be an ID.
pub(super) fn parse(text: &str, id_type: &DataType) -> Result<ArrayRef> {
    let wrong = |hint: &str| {
        Failure::usage(format!("the ID is not of the ID column's type: id={text:?} type={id_type}")).with_hint(hint)
    };
    match IdClass::of(id_type)? {
        IdClass::Integer => integer(text).ok_or_else(|| wrong("write a whole number")),
        IdClass::Text => Ok(Arc::new(StringArray::from(vec![text]))),
        IdClass::Binary => {
            binary(text).ok_or_else(|| wrong("binary IDs are written in hexadecimal, as `ckpt ids` lists them"))
        }
        IdClass::Struct(_) => Err(Failure::usage(format!("an ID of several fields cannot be looked up: id={text:?}"))
            .with_hint("list the IDs with --format jsonl and search there")),
        IdClass::Timestamp { zoned } => timestamp(text, id_type, zoned).ok_or_else(|| wrong(AS_LISTED)),
        _ => by_cast(text, id_type).ok_or_else(|| wrong(AS_LISTED)),
    }
}

/// Integers compare by value whatever their width.
fn integer(text: &str) -> Option<ArrayRef> {
    if let Ok(number) = text.parse::<i64>() {
        return Some(Arc::new(Int64Array::from(vec![number])));
    }
    text.parse::<u64>().ok().map(|number| Arc::new(UInt64Array::from(vec![number])) as ArrayRef)
}

fn binary(text: &str) -> Option<ArrayRef> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    Some(Arc::new(BinaryArray::from(vec![bytes.as_slice()])))
}

/// In nanoseconds where they reach, so that nothing is cut off; units compare by value.
fn timestamp(text: &str, id_type: &DataType, zoned: bool) -> Option<ArrayRef> {
    let zone: Option<Arc<str>> = zoned.then(|| "UTC".into());
    let exact = by_cast(text, &in_utc(&DataType::Timestamp(TimeUnit::Nanosecond, zone)));
    exact.or_else(|| by_cast(text, &in_utc(id_type)))
}

fn by_cast(text: &str, id_type: &DataType) -> Option<ArrayRef> {
    let given: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let plain = match id_type {
        DataType::Dictionary(_, value) => value.as_ref(),
        other => other,
    };
    cast_with_options(&given, plain, &options).ok().filter(|array| array.null_count() == 0)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Date32Type, Decimal128Type, TimestampNanosecondType};

    use super::*;
    use crate::exit::Exit;

    #[test]
    fn text_becomes_the_columns_type() {
        assert_eq!(*parse("-7", &DataType::Int8).expect("fits"), Int64Array::from(vec![-7]));
        let top = parse("18446744073709551615", &DataType::UInt64).expect("fits");
        assert_eq!(*top, UInt64Array::from(vec![u64::MAX]));
        assert_eq!(*parse("007", &DataType::LargeUtf8).expect("text"), StringArray::from(vec!["007"]));
        let bytes = parse("00fF", &DataType::FixedSizeBinary(2)).expect("hexadecimal");
        assert_eq!(*bytes, BinaryArray::from(vec![&[0_u8, 255][..]]));
        let date = parse("1970-01-03", &DataType::Date32).expect("date");
        assert_eq!(date.as_primitive::<Date32Type>().value(0), 2);
        let decimal = parse("1.50", &DataType::Decimal128(9, 2)).expect("decimal");
        assert_eq!(decimal.as_primitive::<Decimal128Type>().value(0), 150);
        assert!(parse("true", &DataType::Boolean).is_ok());
        let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let instant = parse("1970-01-01T00:00:00.000001+00:00", &zoned).expect("instant");
        assert_eq!(instant.as_primitive::<TimestampNanosecondType>().value(0), 1_000, "nothing is cut off");
        let far = parse("3000-01-01T00:00:00", &DataType::Timestamp(TimeUnit::Second, None)).expect("far");
        assert_eq!(far.data_type(), &DataType::Timestamp(TimeUnit::Second, None));
    }

    #[test]
    fn what_does_not_parse_is_a_usage_error_that_names_it() {
        let unsigned = DataType::UInt64;
        for (text, id_type) in [("x1", &unsigned), ("1.0", &unsigned), ("", &unsigned), ("0g", &DataType::Binary)] {
            let failure = parse(text, id_type).expect_err("refused");
            assert_eq!(failure.exit(), Exit::Usage);
            assert!(failure.to_string().contains(&format!("{text:?}")), "{failure}");
        }
        assert!(parse("soon", &DataType::Date32).is_err());
        assert!(parse("0fa", &DataType::Binary).is_err());
    }
}
