//! JSON lines: one object a line, each value kept as text until its column takes it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;

use arrow::datatypes::Schema;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::column::{Column, Misfit};
use super::kind::Kind;
use super::reader::{RowError, Rows};
use super::stream::{LONGEST_ROW, TextStream};

/// The entries of an object, in order.
struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    entries.push((key, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// A key, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The entries of a JSON object.
pub(super) fn object_entries(text: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, serde_json::Error> {
    serde_json::from_str::<Entries<'_>>(text).map(|entries| entries.0)
}

/// The items of a JSON array.
pub(super) fn array_items(text: &str) -> Result<Vec<&RawValue>, serde_json::Error> {
    serde_json::from_str(text)
}

/// The rows of a JSON lines file.
#[derive(Debug)]
pub(super) struct JsonRows {
    stream: TextStream,
    line: Vec<u8>,
    line_number: u64,
    by_name: HashMap<String, usize>,
    names: Vec<String>,
}

impl JsonRows {
    /// Rows whose columns are those of the schema.
    pub(super) fn new(stream: TextStream, schema: &Schema) -> Self {
        let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        let by_name = names.iter().cloned().zip(0..).collect();
        Self { stream, line: Vec::new(), line_number: 0, by_name, names }
    }

    /// Adds the rows that begin within the first `bytes` bytes to a kind.
    pub(super) fn sample(&mut self, bytes: u64, kind: &mut Kind) -> Result<(), RowError> {
        let mut seen = 0;
        while seen < bytes && self.advance()? {
            seen += self.line.len() as u64;
            for (key, value) in self.entries()? {
                kind.field(&key).see_json(value).map_err(|e| not_json(&e))?;
            }
        }
        Ok(())
    }

    fn entries(&self) -> Result<Vec<(Cow<'_, str>, &RawValue)>, RowError> {
        let text = std::str::from_utf8(&self.line).map_err(|_| RowError::damaged("the line is not UTF-8"))?;
        object_entries(text).map_err(|e| not_json(&e))
    }
}

fn not_json(error: &serde_json::Error) -> RowError {
    // The parser counts lines within the row; only the byte position means something to the reader.
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    RowError::damaged(format!("the line is no JSON object, {text} at byte {}", error.column()))
}

impl Rows for JsonRows {
    fn advance(&mut self) -> Result<bool, RowError> {
        loop {
            self.line.clear();
            self.line_number += 1;
            let mut limited = std::io::Read::take(&mut self.stream, LONGEST_ROW + 1);
            if limited.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(false);
            }
            if self.line.len() as u64 > LONGEST_ROW {
                return Err(RowError::damaged(format!("the line is longer than {LONGEST_ROW} bytes")));
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                return Ok(true);
            }
        }
    }

    fn line(&self) -> u64 {
        self.line_number
    }

    fn size(&self) -> u64 {
        self.line.len() as u64
    }

    fn push(&self, columns: &mut [Option<Column>]) -> Result<(), RowError> {
        let mut values: Vec<Option<&RawValue>> = vec![None; columns.len()];
        for (key, value) in self.entries()? {
            match self.by_name.get(key.as_ref()) {
                Some(index) => values[*index] = Some(value),
                None if value.get() == "null" => {}
                None => return Err(Misfit::unknown(&key).into()),
            }
        }
        for ((column, value), name) in columns.iter_mut().zip(values).zip(&self.names) {
            match (column, value) {
                (Some(column), Some(value)) => column.push_json(value).map_err(|e| e.inside(name))?,
                (Some(column), None) => column.push_null(),
                (None, _) => {}
            }
        }
        Ok(())
    }
}
