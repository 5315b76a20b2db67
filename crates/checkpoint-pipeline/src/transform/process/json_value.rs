//! JSON values as they were written: texts are kept, so no digit is lost before a type is known.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An object's members in order, values unparsed.
#[derive(Debug)]
pub(super) struct Object<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some((Key(key), value)) = map.next_entry()? {
                    members.push((key, value));
                }
                Ok(Object(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// One value, looked into as far as its kind.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool,
    Number(Number<'a>),
    /// A text with its quotes and escapes.
    Text(&'a str),
    List(Vec<&'a RawValue>),
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    /// Looks into a value. A value nested too deeply to be read is an error.
    pub(super) fn of(raw: &'a RawValue) -> serde_json::Result<Self> {
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'n') => Value::Null,
            Some(b't' | b'f') => Value::Bool,
            Some(b'"') => Value::Text(text),
            Some(b'[') => Value::List(serde_json::from_str(text)?),
            Some(b'{') => Value::Object(serde_json::from_str(text)?),
            _ => Value::Number(Number(text)),
        })
    }

    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool => "a boolean",
            Value::Number(number) if number.is_integer() => "an integer",
            Value::Number(_) => "a float",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// A number as it was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a>(pub(super) &'a str);

impl Number<'_> {
    /// Whether it is written as an integer.
    pub(super) fn is_integer(self) -> bool {
        !self.0.contains(['.', 'e', 'E'])
    }

    /// Its value, where that is an integer and known exactly: any that is written as one, and floats without
    /// a fraction up to 2^53.
    pub(super) fn integer(self) -> Option<i128> {
        if self.is_integer() {
            return self.0.parse().ok();
        }
        let float = self.float()?;
        (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then_some(float as i128)
    }

    /// The nearest float, where it is finite.
    pub(super) fn float(self) -> Option<f64> {
        self.0.parse().ok().filter(|f: &f64| f.is_finite())
    }

    /// Whether it is exactly a decimal of this precision and scale.
    pub(super) fn fits_decimal(self, precision: u8, scale: i8) -> bool {
        decimal_digits(self.0).is_some_and(|(digits, fraction)| {
            let spare = i64::from(scale) - fraction;
            digits == 0 || (spare >= 0 && digits + spare <= i64::from(precision))
        })
    }
}

/// Significant digits of a number, zeros at both ends left out, and how many of them are behind the point
/// (negative for whole tens, hundreds, ...). Zero has none.
fn decimal_digits(text: &str) -> Option<(i64, i64)> {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if whole.len() + fraction.len() == 0 || !digits().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let leading = digits().take_while(|b| *b == b'0').count() as i64;
    let all = (whole.len() + fraction.len()) as i64;
    if leading == all {
        return Some((0, 0));
    }
    let trailing = digits().rev().take_while(|b| *b == b'0').count() as i64;
    Some((all - leading - trailing, (fraction.len() as i64).checked_sub(exponent)? - trailing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        let raw: Box<RawValue> = serde_json::from_str("18446744073709551616").expect("is JSON");
        let Value::Number(number) = Value::of(&raw).expect("reads") else { panic!() };
        assert_eq!(number.integer(), Some(1 << 64));
        assert_eq!(Number("3.0").integer(), Some(3));
        assert_eq!(Number("1e3").integer(), Some(1000));
        for none in ["3.5", "9007199254740994.0", "1e400"] {
            assert_eq!(Number(none).integer(), None, "{none}");
        }
        assert_eq!(Number("1e400").float(), None);
    }

    #[test]
    fn decimals_fit_when_no_digit_is_lost() {
        for (text, precision, scale, fits) in [
            ("123.45", 5, 2, true),
            ("123.45", 4, 2, false),
            ("123.450", 5, 2, true),
            ("123.456", 9, 2, false),
            ("-0.05", 2, 2, true),
            ("0", 1, 0, true),
            ("0.000", 1, 0, true),
            ("1e2", 3, 0, true),
            ("1e2", 2, 0, false),
            ("1.5E-1", 2, 2, true),
            ("1200", 2, -2, true),
            ("1250", 2, -2, false),
            ("1e999999999999999999999", 38, 0, false),
            ("--1", 38, 0, false),
            ("", 38, 0, false),
        ] {
            assert_eq!(Number(text).fits_decimal(precision, scale), fits, "{text} {precision} {scale}");
        }
    }

    #[test]
    fn objects_keep_order_repetition_and_escapes() {
        let text = r#"{"b": 1, "a\n": {"x": [1, 2]}, "b": null}"#;
        let object: Object<'_> = serde_json::from_str(text).expect("is JSON");
        let members: Vec<_> = object.0.iter().map(|(k, v)| (k.as_ref(), v.get())).collect();
        assert_eq!(members, [("b", "1"), ("a\n", r#"{"x": [1, 2]}"#), ("b", "null")]);
    }
}
