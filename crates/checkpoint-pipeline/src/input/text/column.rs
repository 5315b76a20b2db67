//! Columns that grow value by value, from JSON values and from the fields of CSV files.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, ListArray, NullBufferBuilder, StringBuilder, StructArray,
    UInt64Builder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};
use arrow::error::ArrowError;
use serde_json::value::RawValue;

use super::json::{array_items, object_entries};
use super::literal::{Literal, classify, exact_float};

/// A value that its column cannot hold.
#[derive(Debug)]
pub(super) struct Misfit {
    /// The names from the column down to the value.
    path: Vec<String>,
    /// The type that the place has; `None` for a name that the schema does not know.
    expected: Option<DataType>,
    value: String,
}

/// A growing column of one of the types that [`Kind`](super::kind::Kind) gives.
#[derive(Debug)]
pub(super) enum Column {
    Boolean(BooleanBuilder),
    Int64(Int64Builder),
    UInt64(UInt64Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
    Struct(Box<StructColumn>),
    List(Box<ListColumn>),
}

#[derive(Debug)]
pub(super) struct StructColumn {
    fields: Fields,
    by_name: HashMap<String, usize>,
    columns: Vec<Column>,
    validity: NullBufferBuilder,
}

#[derive(Debug)]
pub(super) struct ListColumn {
    field: FieldRef,
    items: Column,
    ends: Vec<i32>,
    length: i32,
    validity: NullBufferBuilder,
}

impl Misfit {
    fn new(expected: DataType, value: &str) -> Self {
        Self { path: Vec::new(), expected: Some(expected), value: shorten(value) }
    }

    /// A name that the schema does not know.
    pub(super) fn unknown(name: &str) -> Self {
        Self { path: vec![name.to_owned()], expected: None, value: String::new() }
    }

    /// This misfit, in a column or field of that name.
    pub(super) fn inside(mut self, name: &str) -> Self {
        self.path.insert(0, name.to_owned());
        self
    }

    /// The message, with the place that `at` names, and what to do.
    pub(super) fn describe(&self, at: &str) -> (String, &'static str) {
        let column = self.path.join(".");
        match &self.expected {
            Some(expected) => (
                format!(
                    "a value does not fit the type of its column: {at} column={column} type={expected} value={}",
                    self.value
                ),
                "types are taken from the first MiB of each file: correct the value, or let a value of this kind come early in a file",
            ),
            None => (
                format!("a column that the schema does not have: {at} column={column}"),
                "columns are taken from the first MiB of each file: let a row with this one come early in a file",
            ),
        }
    }
}

fn shorten(value: &str) -> String {
    let mut short: String = value.chars().take(60).collect();
    if short.len() < value.len() {
        short.push_str("...");
    }
    format!("{short:?}")
}

impl Column {
    /// An empty column; types that no inference gives become text.
    pub(super) fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Column::Boolean(BooleanBuilder::new()),
            DataType::Int64 => Column::Int64(Int64Builder::new()),
            DataType::UInt64 => Column::UInt64(UInt64Builder::new()),
            DataType::Float64 => Column::Float64(Float64Builder::new()),
            DataType::Struct(fields) => Column::Struct(Box::new(StructColumn {
                by_name: fields.iter().enumerate().map(|(i, f)| (f.name().clone(), i)).collect(),
                columns: fields.iter().map(|f| Column::new(f.data_type())).collect(),
                fields: fields.clone(),
                validity: NullBufferBuilder::new(0),
            })),
            DataType::List(field) => Column::List(Box::new(ListColumn {
                items: Column::new(field.data_type()),
                field: Arc::clone(field),
                ends: vec![0],
                length: 0,
                validity: NullBufferBuilder::new(0),
            })),
            _ => Column::Text(StringBuilder::new()),
        }
    }

    /// Adds a null.
    pub(super) fn push_null(&mut self) {
        match self {
            Column::Boolean(b) => b.append_null(),
            Column::Int64(b) => b.append_null(),
            Column::UInt64(b) => b.append_null(),
            Column::Float64(b) => b.append_null(),
            Column::Text(b) => b.append_null(),
            Column::Struct(s) => {
                s.columns.iter_mut().for_each(Column::push_null);
                s.validity.append_null();
            }
            Column::List(l) => {
                l.ends.push(l.length);
                l.validity.append_null();
            }
        }
    }

    /// Adds a field of a CSV file; an empty one is a null.
    ///
    /// # Errors
    /// A value of another type.
    pub(super) fn push_text(&mut self, text: &str) -> Result<(), Misfit> {
        if text.is_empty() {
            self.push_null();
            return Ok(());
        }
        match self {
            Column::Text(b) => b.append_value(text),
            Column::Boolean(b) => match text {
                "true" => b.append_value(true),
                "false" => b.append_value(false),
                _ => return Err(Misfit::new(DataType::Boolean, text)),
            },
            _ => return self.push_number(text),
        }
        Ok(())
    }

    fn push_number(&mut self, text: &str) -> Result<(), Misfit> {
        let integer = || classify(text) == Literal::Integer;
        let fits = match self {
            Column::Int64(b) => text.parse().ok().filter(|_| integer()).map(|v| b.append_value(v)),
            Column::UInt64(b) => text.parse().ok().filter(|_| integer()).map(|v| b.append_value(v)),
            Column::Float64(b) => exact_float(text).map(|v| b.append_value(v)),
            _ => None,
        };
        fits.ok_or_else(|| Misfit::new(self.data_type(), text))
    }

    /// Adds a JSON value.
    ///
    /// # Errors
    /// A value of another type, or a key of an object that the schema does not have.
    pub(super) fn push_json(&mut self, value: &RawValue) -> Result<(), Misfit> {
        let text = value.get();
        if text == "null" {
            self.push_null();
            return Ok(());
        }
        let misfit = |data_type: DataType| Misfit::new(data_type, text);
        match self {
            Column::Text(b) if text.starts_with('"') => {
                let text: String = serde_json::from_str(text).map_err(|_| misfit(DataType::Utf8))?;
                b.append_value(text);
            }
            // What is not text keeps its own.
            Column::Text(b) => b.append_value(text),
            Column::Boolean(b) => b.append_value(match text {
                "true" => true,
                "false" => false,
                _ => return Err(misfit(DataType::Boolean)),
            }),
            Column::Int64(_) | Column::UInt64(_) | Column::Float64(_) => return self.push_number(text),
            Column::Struct(s) => {
                let entries = object_entries(text).map_err(|_| misfit(DataType::Struct(s.fields.clone())))?;
                s.push(entries)?;
            }
            Column::List(l) => {
                let items = array_items(text).map_err(|_| misfit(DataType::List(Arc::clone(&l.field))))?;
                let end = i32::try_from(items.len()).ok().and_then(|n| l.length.checked_add(n));
                l.length = end.ok_or_else(|| misfit(DataType::List(Arc::clone(&l.field))))?;
                for item in items {
                    l.items.push_json(item)?;
                }
                l.ends.push(l.length);
                l.validity.append_non_null();
            }
        }
        Ok(())
    }

    fn data_type(&self) -> DataType {
        match self {
            Column::Boolean(_) => DataType::Boolean,
            Column::Int64(_) => DataType::Int64,
            Column::UInt64(_) => DataType::UInt64,
            Column::Float64(_) => DataType::Float64,
            Column::Text(_) => DataType::Utf8,
            Column::Struct(s) => DataType::Struct(s.fields.clone()),
            Column::List(l) => DataType::List(Arc::clone(&l.field)),
        }
    }

    /// The values so far; the column is empty afterwards.
    ///
    /// # Errors
    /// None that values of this column can cause; Arrow's own checks.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Column::Boolean(b) => Arc::new(b.finish()),
            Column::Int64(b) => Arc::new(b.finish()),
            Column::UInt64(b) => Arc::new(b.finish()),
            Column::Float64(b) => Arc::new(b.finish()),
            Column::Text(b) => Arc::new(b.finish()),
            Column::Struct(s) => {
                let columns = s.columns.iter_mut().map(Column::finish).collect::<Result<_, _>>()?;
                Arc::new(StructArray::try_new(s.fields.clone(), columns, s.validity.finish())?)
            }
            Column::List(l) => {
                let ends = ScalarBuffer::from(std::mem::replace(&mut l.ends, vec![0]));
                l.length = 0;
                let items = l.items.finish()?;
                let field = Arc::clone(&l.field);
                Arc::new(ListArray::try_new(field, OffsetBuffer::new(ends), items, l.validity.finish())?)
            }
        })
    }
}

impl StructColumn {
    /// Adds an object; of a key that comes twice the last value counts, and a missing one is null.
    fn push(&mut self, entries: Vec<(std::borrow::Cow<'_, str>, &RawValue)>) -> Result<(), Misfit> {
        let mut values: Vec<Option<&RawValue>> = vec![None; self.columns.len()];
        for (key, value) in entries {
            match self.by_name.get(key.as_ref()) {
                Some(index) => values[*index] = Some(value),
                None if value.get() == "null" => {}
                None => return Err(Misfit::unknown(&key)),
            }
        }
        for ((column, value), field) in self.columns.iter_mut().zip(values).zip(&self.fields) {
            match value {
                Some(value) => column.push_json(value).map_err(|e| e.inside(field.name()))?,
                None => column.push_null(),
            }
        }
        self.validity.append_non_null();
        Ok(())
    }
}
