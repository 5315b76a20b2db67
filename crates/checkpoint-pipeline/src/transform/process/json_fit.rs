//! Whether a JSON value is exactly a value of an Arrow type. What reads JSON into Arrow afterwards is
//! lenient: it takes texts for numbers, cuts fractions, rounds decimals and skips unknown members.

use arrow::datatypes::{DataType, TimeUnit};
use serde_json::value::RawValue;

use super::json_value::{Number, Value};
use super::worker::quote;

/// A value that does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    /// Where in the column: empty for the value itself, else `.member` and `[]` steps.
    pub(super) path: String,
    /// What is there.
    pub(super) found: String,
    /// What should be.
    pub(super) expected: String,
}

/// Checks one value.
///
/// # Errors
/// The first part of it that does not fit.
pub(super) fn fit(raw: &RawValue, data_type: &DataType) -> Result<(), Misfit> {
    let value = Value::of(raw).map_err(|e| misfit(format!("a value that cannot be read ({e})"), data_type))?;
    let wrong = || misfit(format!("{} {}", value.kind(), quote(raw.get().as_bytes())), data_type);
    if fits(&value, data_type)? { Ok(()) } else { Err(wrong()) }
}

fn misfit(found: String, expected: &DataType) -> Misfit {
    Misfit { path: String::new(), found, expected: expected.to_string() }
}

fn fits(value: &Value<'_>, data_type: &DataType) -> Result<bool, Misfit> {
    use DataType as T;
    Ok(match (data_type, value) {
        (_, Value::Null) => true,
        (T::Dictionary(_, values), _) => fits(value, values)?,
        (T::RunEndEncoded(_, values), _) => fits(value, values.data_type())?,
        (T::Boolean, Value::Bool) => true,
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, Value::Text(_)) => true,
        (T::Float16, Value::Number(number)) => number.float().is_some_and(|f| f.abs() < 65_520.0),
        (T::Float32, Value::Number(number)) => number.float().is_some_and(|f| (f as f32).is_finite()),
        (T::Float64, Value::Number(number)) => number.float().is_some(),
        (T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s), _) => match value {
            Value::Number(number) => number.fits_decimal(*p, *s),
            Value::Text(text) => Number(inner(text)).fits_decimal(*p, *s),
            _ => false,
        },
        (T::Binary | T::LargeBinary | T::BinaryView, Value::Text(text)) => is_hex(text),
        (T::FixedSizeBinary(size), Value::Text(text)) => is_hex(text) && inner(text).len() == 2 * *size as usize,
        (T::Date32 | T::Date64, Value::Text(_)) => true,
        (T::Time32(unit) | T::Time64(unit) | T::Timestamp(unit, _), Value::Text(text)) => is_precise(text, *unit),
        (T::List(field) | T::LargeList(field) | T::ListView(field) | T::LargeListView(field), Value::List(items)) => {
            all(items, field.data_type())?
        }
        (T::FixedSizeList(field, size), Value::List(items)) => {
            items.len() == *size as usize && all(items, field.data_type())?
        }
        (T::Struct(fields), Value::Object(object)) => {
            for (i, (name, member)) in object.0.iter().enumerate() {
                let at = |mut misfit: Misfit| {
                    misfit.path.insert_str(0, &format!(".{name}"));
                    misfit
                };
                let Some((_, field)) = fields.find(name) else {
                    return Err(at(misfit("a member that the type does not have".to_owned(), data_type)));
                };
                if object.0[..i].iter().any(|(earlier, _)| earlier == name) {
                    return Err(at(misfit("a member given twice".to_owned(), field.data_type())));
                }
                fit(member, field.data_type()).map_err(at)?;
            }
            true
        }
        (T::Map(entries, _), Value::Object(object)) => {
            let T::Struct(pair) = entries.data_type() else { return Ok(false) };
            for (name, member) in &object.0 {
                let values = pair.get(1).map_or(&T::Null, |field| field.data_type());
                fit(member, values).map_err(|mut misfit| {
                    misfit.path.insert_str(0, &format!(".{name}"));
                    misfit
                })?;
            }
            true
        }
        (_, Value::Number(number)) => match integer_range(data_type) {
            Some((least, most)) => number.integer().is_some_and(|n| (least..=most).contains(&n)),
            None => false,
        },
        _ => false,
    })
}

fn all(items: &[&RawValue], data_type: &DataType) -> Result<bool, Misfit> {
    for item in items {
        fit(item, data_type).map_err(|mut misfit| {
            misfit.path.insert_str(0, "[]");
            misfit
        })?;
    }
    Ok(true)
}

fn integer_range(data_type: &DataType) -> Option<(i128, i128)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 | DataType::Duration(_) => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// A text without its quotes; escapes stay, and fit nothing that is checked here.
fn inner(text: &str) -> &str {
    text.get(1..text.len() - 1).unwrap_or("")
}

fn is_hex(text: &str) -> bool {
    let digits = inner(text);
    digits.len().is_multiple_of(2) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a time has no more digits behind the point than its unit holds.
fn is_precise(text: &str, unit: TimeUnit) -> bool {
    let fraction = inner(text).split_once('.').map_or("", |(_, rest)| rest);
    let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
    let digits = fraction[..end].trim_end_matches('0').len();
    digits
        <= match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    fn check(json: &str, data_type: &DataType) -> Result<(), Misfit> {
        let raw: Box<RawValue> = serde_json::from_str(json).expect("is JSON");
        fit(&raw, data_type)
    }

    #[test]
    fn values_fit_when_nothing_is_lost() {
        use DataType as T;
        let list = || T::FixedSizeList(Arc::new(Field::new("item", T::Int8, true)), 2);
        let nanos = T::Timestamp(TimeUnit::Nanosecond, None);
        let seconds = T::Timestamp(TimeUnit::Second, Some("Asia/Tokyo".into()));
        for (data_type, good, bad) in [
            (T::Int8, vec!["127", "-128", "null", "3.0"], vec!["128", "\"1\"", "1.5", "true"]),
            (T::Int64, vec!["9223372036854775807"], vec!["9223372036854775808", "9.3e18"]),
            (T::UInt64, vec!["18446744073709551615", "0"], vec!["-1", "18446744073709551616"]),
            (T::Float64, vec!["1", "1.5e300", "9007199254740993"], vec!["1e999", "\"NaN\"", "[]"]),
            (T::Float32, vec!["0.1"], vec!["1e39"]),
            (T::Boolean, vec!["true"], vec!["1", "\"true\""]),
            (T::Utf8View, vec!["\"\""], vec!["1", "{}"]),
            (T::Binary, vec!["\"00fF\"", "\"\""], vec!["\"0\"", "\"zz\"", "1"]),
            (T::FixedSizeBinary(2), vec!["\"00ff\""], vec!["\"00\""]),
            (T::Decimal128(5, 2), vec!["123.45", "\"123.45\""], vec!["123.456", "1234.5", "\"x\"", "true"]),
            (nanos, vec!["\"2020-01-01T00:00:00.123456789\""], vec!["5"]),
            (seconds, vec!["\"2020-01-01T00:00:00.000Z\""], vec!["\"2020-01-01T00:00:00.5Z\""]),
            (list(), vec!["[1, null]"], vec!["[1]", "[1, 2, 3]", "{}"]),
            (T::Dictionary(Box::new(T::Int8), Box::new(T::Utf8)), vec!["\"a\""], vec!["1"]),
            (T::Null, vec!["null"], vec!["1"]),
        ] {
            for json in good {
                assert_eq!(check(json, &data_type), Ok(()), "{data_type} {json}");
            }
            for json in bad {
                check(json, &data_type).expect_err(&format!("{data_type} {json}"));
            }
        }
    }

    #[test]
    fn the_place_of_a_misfit_is_told() {
        use DataType as T;
        let inner = T::Struct(vec![Field::new("x", T::Int64, true)].into());
        let outer = T::List(Arc::new(Field::new("item", inner, true)));
        assert_eq!(check(r#"[{"x": 1}, {}, null]"#, &outer), Ok(()));
        let misfit = check(r#"[{"x": 1}, {"x": "a"}]"#, &outer).expect_err("is a text");
        assert_eq!((misfit.path.as_str(), misfit.expected.as_str()), ("[].x", "Int64"));
        assert_eq!(misfit.found, r#"a text "\"a\"""#);
        assert_eq!(check(r#"[{"y": 1}]"#, &outer).expect_err("is unknown").path, "[].y");
        assert_eq!(check(r#"[{"x": 1, "x": 1}]"#, &outer).expect_err("is repeated").path, "[].x");
    }
}
