//! The Arrow type of a new column, from the values of the first answer.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use serde_json::value::RawValue;

use super::json_value::Value;
use super::worker::quote;

/// What the values seen so far have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// Nothing but nulls.
    Null,
    Bool,
    /// The least and the greatest.
    Integer(i128, i128),
    Float,
    Text,
    List(Box<Shape>),
    /// Members in the order in which they were met.
    Object(Vec<(String, Shape)>),
}

impl Shape {
    /// The shape of one value.
    ///
    /// # Errors
    /// A description of what has no type.
    pub(super) fn of(raw: &RawValue) -> Result<Self, String> {
        Ok(match Value::of(raw).map_err(|e| format!("a value cannot be read ({e})"))? {
            Value::Null => Shape::Null,
            Value::Bool => Shape::Bool,
            Value::Text(_) => Shape::Text,
            Value::Number(number) if number.is_integer() => match number.integer() {
                Some(n) if (i64::MIN.into()..=u64::MAX.into()).contains(&n) => Shape::Integer(n, n),
                _ => return Err(format!("an integer needs more than 64 bits: {}", quote(raw.get().as_bytes()))),
            },
            Value::Number(number) if number.float().is_some() => Shape::Float,
            Value::Number(_) => return Err(format!("a number is too large: {}", quote(raw.get().as_bytes()))),
            Value::List(items) => {
                let mut item = Shape::Null;
                for raw in items {
                    item.merge(Shape::of(raw)?)?;
                }
                Shape::List(Box::new(item))
            }
            Value::Object(object) => {
                let mut members: Vec<(String, Shape)> = Vec::with_capacity(object.0.len());
                for (name, raw) in object.0 {
                    if members.iter().any(|(earlier, _)| *earlier == name) {
                        return Err(format!("an object has a member twice: {name:?}"));
                    }
                    members.push((name.into_owned(), Shape::of(raw)?));
                }
                Shape::Object(members)
            }
        })
    }

    /// Widens this shape to hold another.
    ///
    /// # Errors
    /// A description of the two kinds that no type holds both.
    pub(super) fn merge(&mut self, other: Shape) -> Result<(), String> {
        match (&mut *self, other) {
            (_, Shape::Null) => {}
            (Shape::Null, other) => *self = other,
            (Shape::Bool, Shape::Bool) | (Shape::Text, Shape::Text) => {}
            (Shape::Integer(least, most), Shape::Integer(low, high)) => {
                (*least, *most) = ((*least).min(low), (*most).max(high));
                if *least < 0 && *most > i64::MAX.into() {
                    return Err(format!("no integer type holds both {least} and {most}"));
                }
            }
            (Shape::Float, Shape::Float | Shape::Integer(..)) => {}
            (Shape::Integer(..), Shape::Float) => *self = Shape::Float,
            (Shape::List(item), Shape::List(other)) => item.merge(*other)?,
            (Shape::Object(members), Shape::Object(others)) => merge_members(members, others)?,
            (before, other) => return Err(format!("some values are {}, others {}", before.kind(), other.kind())),
        }
        Ok(())
    }

    /// The Arrow type; everything in it is nullable. What was always null becomes text.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Shape::Null | Shape::Text => DataType::Utf8,
            Shape::Bool => DataType::Boolean,
            Shape::Integer(_, most) if *most > i64::MAX.into() => DataType::UInt64,
            Shape::Integer(..) => DataType::Int64,
            Shape::Float => DataType::Float64,
            Shape::List(item) => DataType::List(Arc::new(Field::new("item", item.data_type(), true))),
            Shape::Object(members) => DataType::Struct(
                members.iter().map(|(name, shape)| Field::new(name, shape.data_type(), true)).collect(),
            ),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Shape::Null => "null",
            Shape::Bool => "booleans",
            Shape::Integer(..) => "integers",
            Shape::Float => "floats",
            Shape::Text => "texts",
            Shape::List(_) => "lists",
            Shape::Object(_) => "objects",
        }
    }
}

fn merge_members(members: &mut Vec<(String, Shape)>, others: Vec<(String, Shape)>) -> Result<(), String> {
    // Objects that serve as maps can have very many members.
    let places: HashMap<String, usize> = members.iter().enumerate().map(|(i, (name, _))| (name.clone(), i)).collect();
    for (name, shape) in others {
        match places.get(&name) {
            Some(&place) => members[place].1.merge(shape).map_err(|e| format!("{e} (in `{name}`)"))?,
            None => members.push((name, shape)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(values: &[&str]) -> Result<DataType, String> {
        let mut shape = Shape::Null;
        for json in values {
            let raw: Box<RawValue> = serde_json::from_str(json).expect("is JSON");
            shape.merge(Shape::of(&raw)?)?;
        }
        Ok(shape.data_type())
    }

    #[test]
    fn types_hold_every_value_seen() {
        let list = |t| DataType::List(Arc::new(Field::new("item", t, true)));
        let pair = DataType::Struct(
            vec![Field::new("a", DataType::Float64, true), Field::new("b", list(DataType::Utf8), true)].into(),
        );
        for (values, expected) in [
            (vec!["null", "null"], DataType::Utf8),
            (vec!["1", "null", "-9223372036854775808"], DataType::Int64),
            (vec!["1", "18446744073709551615"], DataType::UInt64),
            (vec!["1", "1.0"], DataType::Float64),
            (vec!["1.5", "2"], DataType::Float64),
            (vec!["true", "false"], DataType::Boolean),
            (vec!["[]", "[1, null]"], list(DataType::Int64)),
            (vec!["[]"], list(DataType::Utf8)),
            (vec![r#"{"a": 1}"#, r#"{"b": [], "a": 0.5}"#, "null"], pair),
        ] {
            assert_eq!(shape(&values), Ok(expected), "{values:?}");
        }
    }

    #[test]
    fn what_no_type_holds_is_told() {
        for (values, words) in [
            (vec!["1", "\"a\""], "integers, others texts"),
            (vec!["-1", "18446744073709551615"], "no integer type holds both -1"),
            (vec!["18446744073709551616"], "more than 64 bits"),
            (vec!["1e999"], "too large"),
            (vec!["[1, [2]]"], "integers, others lists"),
            (vec![r#"{"a": {"b": 1}}"#, r#"{"a": {"b": "x"}}"#], "(in `b`) (in `a`)"),
            (vec![r#"{"a": 1, "a": 2}"#], "twice"),
        ] {
            let error = shape(&values).expect_err("has none");
            assert!(error.contains(words), "{error}");
        }
    }
}
