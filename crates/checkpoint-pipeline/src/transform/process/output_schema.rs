//! The one schema of all answers of a run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::json_answer::{BadAnswer, Row};
use super::json_fit::fit;
use super::json_lines::CKPT;
use super::json_shape::Shape;
use super::wire::nullable;
use super::worker::quote;

const WRITE_ALL: &str = "write every column in every row, with null where there is no value";
const KEEP_INPUT: &str = "columns of the input keep their type: give other values a column of another name";
const KEEP_FIRST: &str = "the first answer of the run set the type of this column: write the same type in every row";

/// The schema that the first answer establishes, or that the caller knew before, shared by all workers.
#[derive(Debug, Default, Clone)]
pub(super) struct OutputSchema(Arc<Mutex<Option<SchemaRef>>>);

impl OutputSchema {
    /// Sets the schema before the first answer. Everything in it becomes nullable.
    pub(super) fn preset(&self, schema: &Schema) {
        let fields: Vec<FieldRef> = schema.fields().iter().map(nullable).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(Schema::new(fields)));
    }

    /// The schema, once there is one.
    pub(super) fn get(&self) -> Option<SchemaRef> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The schema that these rows have been checked against: the established one, or a new one made of their
    /// columns, which is established then.
    pub(super) fn settle(&self, input: &Schema, rows: &[Row<'_>]) -> Result<SchemaRef, BadAnswer> {
        if let Some(schema) = self.get() {
            check(rows, &schema, input)?;
            return Ok(schema);
        }
        let candidate = Arc::new(infer(input, rows)?);
        check(rows, &candidate, input)?;
        let first = {
            let mut schema = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(schema.get_or_insert_with(|| Arc::clone(&candidate)))
        };
        if !Arc::ptr_eq(&first, &candidate) {
            check(rows, &first, input)?;
        }
        Ok(first)
    }
}

/// The columns of the rows: those of the input that any row has, in the input's order and of its types, then
/// the new ones as they were met.
fn infer(input: &Schema, rows: &[Row<'_>]) -> Result<Schema, BadAnswer> {
    let mut kept = vec![false; input.fields().len()];
    let mut new: Vec<(&str, Shape)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        for (name, value) in &row.members {
            if let Some((i, _)) = input.column_with_name(name) {
                kept[i] = true;
            } else if name != CKPT {
                let place = *places.entry(name).or_insert(new.len());
                if place == new.len() {
                    new.push((name, Shape::Null));
                }
                Shape::of(value).and_then(|shape| new[place].1.merge(shape)).map_err(|why| {
                    BadAnswer::new(format!(
                        "gave a new column that has no one type: {why}, column={name} row={}",
                        row.line
                    ))
                    .with_hint("write values of one type, integers beyond 64 bits as text")
                })?;
            }
        }
    }
    let old = input.fields().iter().zip(kept).filter(|(_, kept)| *kept).map(|(field, _)| nullable(field));
    let new = new.iter().map(|(name, shape)| Arc::new(Field::new(*name, shape.data_type(), true)));
    let fields: Vec<FieldRef> = old.chain(new).collect();
    if fields.is_empty() {
        return Err(BadAnswer::new("gave rows without any column".to_owned()));
    }
    Ok(Schema::new(fields))
}

/// Checks that the rows have no other columns, none twice, and no value of another type.
fn check(rows: &[Row<'_>], schema: &Schema, input: &Schema) -> Result<(), BadAnswer> {
    let columns: HashMap<&str, (usize, &DataType)> =
        schema.fields().iter().enumerate().map(|(i, f)| (f.name().as_str(), (i, f.data_type()))).collect();
    let mut last_seen = vec![usize::MAX; columns.len()];
    for (number, row) in rows.iter().enumerate() {
        for (name, value) in &row.members {
            if name == CKPT {
                continue;
            }
            let line = row.line;
            let Some(&(column, data_type)) = columns.get(name.as_ref()) else {
                let value = quote(value.get().as_bytes());
                return Err(BadAnswer::new(format!(
                    "gave a column that earlier answers did not have: column={name} row={line} value={value}"
                ))
                .with_hint(WRITE_ALL));
            };
            if std::mem::replace(&mut last_seen[column], number) == number {
                return Err(BadAnswer::new(format!("gave a column twice in one row: column={name} row={line}")));
            }
            fit(value, data_type).map_err(|misfit| {
                let hint = if input.column_with_name(name).is_some() { KEEP_INPUT } else { KEEP_FIRST };
                BadAnswer::new(format!(
                    "gave {} where the column has {}, column={name}{} row={line}",
                    misfit.found, misfit.expected, misfit.path
                ))
                .with_hint(hint)
            })?;
        }
    }
    Ok(())
}
