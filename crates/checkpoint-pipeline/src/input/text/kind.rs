//! What the values of a column have been, and the type that holds all of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use serde_json::value::RawValue;

use super::json::{array_items, object_entries};
use super::literal::{Literal, classify, exact_float};

/// Levels of nesting that get types of their own; deeper values stay JSON text.
const DEEPEST: usize = 64;
/// Keys of an object beyond which it is taken for a map and stays JSON text.
const MOST_KEYS: usize = 1000;

/// Everything that was seen of a column. Merging is a union, so the order of files and rows matters for
/// nothing but the order of the fields of objects.
///
/// The type is
/// - `Int64`, or `UInt64` where a value needs it, when all values are integers;
/// - `Float64` when there are floats, and every value is exactly a float;
/// - `Boolean`, a struct or a list when all values are that;
/// - a string in every other case: text, mixtures, integers too large for 64 bits or for the floats beside
///   them, and columns without any value. Values that are not text keep their own text there.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    text: bool,
    boolean: bool,
    number: Option<Numbers>,
    object: Option<Vec<(String, Kind)>>,
    list: Option<Box<Kind>>,
}

/// Which numbers were seen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    negative: bool,
    above_i64: bool,
    beyond_64_bits: bool,
    float: bool,
    not_a_float: bool,
}

impl Kind {
    /// A column that is an object: a row.
    pub(super) fn row() -> Self {
        Self { object: Some(Vec::new()), ..Self::default() }
    }

    /// The kind of a field of a row, made where it is new.
    pub(super) fn field(&mut self, name: &str) -> &mut Kind {
        let fields = self.object.get_or_insert_default();
        let index = fields.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            fields.push((name.to_owned(), Kind::default()));
            fields.len() - 1
        });
        &mut fields[index].1
    }

    /// Sees a field of a CSV file; an empty one is a null.
    pub(super) fn see_text(&mut self, text: &str) {
        match text {
            "" => {}
            "true" | "false" => self.boolean = true,
            _ => self.see_number(text),
        }
    }

    fn see_number(&mut self, text: &str) {
        let form = classify(text);
        if form == Literal::Other {
            self.text = true;
            return;
        }
        let numbers = self.number.get_or_insert_default();
        numbers.not_a_float |= exact_float(text).is_none();
        if form == Literal::Float {
            numbers.float = true;
            return;
        }
        let (signed, unsigned) = (text.parse::<i64>().is_ok(), text.parse::<u64>().is_ok());
        numbers.negative |= text.starts_with('-');
        numbers.above_i64 |= unsigned && !signed;
        numbers.beyond_64_bits |= !unsigned && !signed;
    }

    /// Sees a JSON value. `Err` for a value that is not JSON after all, such as a broken escape.
    pub(super) fn see_json(&mut self, value: &RawValue) -> Result<(), serde_json::Error> {
        self.see_json_at(value, 0)
    }

    fn see_json_at(&mut self, value: &RawValue, depth: usize) -> Result<(), serde_json::Error> {
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'n') => {}
            Some(b't' | b'f') => self.boolean = true,
            Some(b'{') if depth < DEEPEST => {
                self.object.get_or_insert_default();
                for (key, value) in object_entries(text)? {
                    self.field(&key).see_json_at(value, depth + 1)?;
                }
            }
            Some(b'[') if depth < DEEPEST => {
                let list = self.list.get_or_insert_default();
                for value in array_items(text)? {
                    list.see_json_at(value, depth + 1)?;
                }
            }
            Some(b'"' | b'{' | b'[') => self.text = true,
            _ => self.see_number(text),
        }
        Ok(())
    }

    /// Adds what another column, of another file, has been.
    pub(super) fn merge(&mut self, other: Kind) {
        self.text |= other.text;
        self.boolean |= other.boolean;
        if let Some(theirs) = other.number {
            let ours = self.number.get_or_insert_default();
            ours.negative |= theirs.negative;
            ours.above_i64 |= theirs.above_i64;
            ours.beyond_64_bits |= theirs.beyond_64_bits;
            ours.float |= theirs.float;
            ours.not_a_float |= theirs.not_a_float;
        }
        if let Some(fields) = other.object {
            self.object.get_or_insert_default();
            for (name, kind) in fields {
                self.field(&name).merge(kind);
            }
        }
        if let Some(list) = other.list {
            self.list.get_or_insert_default().merge(*list);
        }
    }

    /// The fields of a row.
    pub(super) fn fields(&self) -> Fields {
        let fields = self.object.iter().flatten();
        fields.map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect()
    }

    fn data_type(&self) -> DataType {
        match (self.text, self.boolean, &self.number, &self.object, &self.list) {
            (false, true, None, None, None) => DataType::Boolean,
            (false, false, Some(numbers), None, None) => numbers.data_type(),
            (false, false, None, Some(fields), None) if (1..=MOST_KEYS).contains(&fields.len()) => {
                DataType::Struct(self.fields())
            }
            (false, false, None, None, Some(items)) => {
                DataType::List(Arc::new(Field::new_list_field(items.data_type(), true)))
            }
            _ => DataType::Utf8,
        }
    }
}

impl Numbers {
    fn data_type(self) -> DataType {
        match self {
            Numbers { float: true, not_a_float: false, .. } => DataType::Float64,
            Numbers { float: true, .. } | Numbers { beyond_64_bits: true, .. } => DataType::Utf8,
            Numbers { above_i64: true, negative: true, .. } => DataType::Utf8,
            Numbers { above_i64: true, .. } => DataType::UInt64,
            _ => DataType::Int64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_json(values: &[&str]) -> DataType {
        let mut kind = Kind::default();
        for value in values {
            let raw: &RawValue = serde_json::from_str(value).expect("JSON");
            kind.see_json(raw).expect("JSON");
        }
        // The same from two files, in either order.
        let mut halves = [Kind::default(), Kind::default()];
        for (i, value) in values.iter().enumerate() {
            halves[i % 2].see_json(serde_json::from_str(value).expect("JSON")).expect("JSON");
        }
        let [mut a, mut b] = halves.clone();
        a.merge(halves[1].clone());
        b.merge(halves[0].clone());
        assert_eq!((a.data_type(), b.data_type()), (kind.data_type(), kind.data_type()));
        kind.data_type()
    }

    #[test]
    fn numbers_stay_exact() {
        assert_eq!(of_json(&["1", "-9223372036854775808", "null"]), DataType::Int64);
        assert_eq!(of_json(&["1", "9223372036854775808"]), DataType::UInt64);
        assert_eq!(of_json(&["-1", "18446744073709551615"]), DataType::Utf8);
        assert_eq!(of_json(&["18446744073709551616"]), DataType::Utf8);
        assert_eq!(of_json(&["1", "1.5"]), DataType::Float64);
        assert_eq!(of_json(&["9007199254740993", "1.5"]), DataType::Utf8);
        assert_eq!(of_json(&["1e999"]), DataType::Utf8);
    }

    #[test]
    fn mixtures_are_text() {
        assert_eq!(of_json(&["1", "\"a\""]), DataType::Utf8);
        assert_eq!(of_json(&["true", "1"]), DataType::Utf8);
        assert_eq!(of_json(&["[1]", "{\"a\":1}"]), DataType::Utf8);
        assert_eq!(of_json(&["null", "null"]), DataType::Utf8);
        assert_eq!(of_json(&["{}", "{}"]), DataType::Utf8);
        assert_eq!(of_json(&["true", "null"]), DataType::Boolean);
    }

    #[test]
    fn objects_and_lists_nest() {
        let fields =
            |f: &[(&str, DataType)]| DataType::Struct(f.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect());
        let list = |t: DataType| DataType::List(Arc::new(Field::new_list_field(t, true)));
        let inner = fields(&[("x", list(DataType::Float64))]);
        let values = ["[{\"x\":[1]},null]", "[{\"x\":[0.5,null]}]"];
        assert_eq!(of_json(&values), list(inner));
        assert_eq!(of_json(&["[]", "[]"]), list(DataType::Utf8));
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        assert!(matches!(of_json(&[&deep]), DataType::List(_)));
    }

    #[test]
    fn objects_with_very_many_keys_are_text() {
        let object = |keys: usize| {
            let entries: Vec<String> = (0..keys).map(|i| format!("\"k{i}\":1")).collect();
            format!("{{{}}}", entries.join(","))
        };
        assert!(matches!(of_json(&[&object(MOST_KEYS)]), DataType::Struct(_)));
        assert_eq!(of_json(&[&object(MOST_KEYS + 1)]), DataType::Utf8);
    }

    #[test]
    fn csv_fields_follow_the_same_rules() {
        let of_csv = |fields: &[&str]| {
            let mut kind = Kind::default();
            fields.iter().for_each(|f| kind.see_text(f));
            kind.data_type()
        };
        assert_eq!(of_csv(&["1", "", "3"]), DataType::Int64);
        assert_eq!(of_csv(&["007", "8"]), DataType::Utf8);
        assert_eq!(of_csv(&["true", "false", ""]), DataType::Boolean);
        assert_eq!(of_csv(&["1", "2.5"]), DataType::Float64);
        assert_eq!(of_csv(&["2026-01-01"]), DataType::Utf8);
        assert_eq!(of_csv(&["", ""]), DataType::Utf8);
    }
}
