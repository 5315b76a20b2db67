//! The lines of a whole answer, read into batches.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use serde_json::value::RawValue;

use super::json_lines::{CKPT, Lines};
use super::json_value::Object;
use super::output_schema::OutputSchema;
use super::wire::{from_wire, wire_type};
use super::worker::quote;
use crate::transform::Batch;

/// Text that becomes one batch: an Arrow column of texts holds no more than 2 GiB, and reading takes several
/// times the text.
const TEXT_OF_A_BATCH: usize = 64 << 20;

/// An answer that breaks the protocol: the end of a sentence that begins with "the child process".
#[derive(Debug)]
pub(super) struct BadAnswer {
    pub(super) what: String,
    pub(super) hint: Option<&'static str>,
}

impl BadAnswer {
    pub(super) fn new(what: String) -> Self {
        Self { what, hint: None }
    }

    pub(super) fn with_hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }
}

/// One output row.
#[derive(Debug)]
pub(super) struct Row<'a> {
    /// The number of its line, which is that of the input row.
    pub(super) line: usize,
    text: &'a str,
    pub(super) members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// Reads the lines of an answer to a batch, without a look at types.
pub(super) fn parse<'a>(lines: &'a Lines, batch: &Batch) -> Result<Vec<Row<'a>>, BadAnswer> {
    let mut rows = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        read_line(line, number, batch, &mut rows)?;
    }
    Ok(rows)
}

/// Reads an answer to a batch. An answer without rows is no batch.
pub(super) fn decode(lines: &Lines, batch: &Batch, output: &OutputSchema) -> Result<Vec<RecordBatch>, BadAnswer> {
    let rows = parse(lines, batch)?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let schema = output.settle(batch.records.schema_ref(), &rows)?;
    let wire_fields: Vec<Field> =
        schema.fields().iter().map(|f| Field::new(f.name(), wire_type(f.data_type()), true)).collect();
    let wire = Arc::new(Schema::new(wire_fields));
    let mut batches = Vec::new();
    let mut rest = &rows[..];
    while !rest.is_empty() {
        let mut text = 0;
        let fits = rest.iter().take_while(|row| {
            text += row.text.len();
            text <= TEXT_OF_A_BATCH
        });
        let (now, later) = rest.split_at(fits.count().max(1));
        batches.push(read_rows(now, &wire, &schema)?);
        rest = later;
    }
    Ok(batches)
}

fn read_line<'a>(line: &'a [u8], number: usize, batch: &Batch, rows: &mut Vec<Row<'a>>) -> Result<(), BadAnswer> {
    let bad = |why: &str| {
        BadAnswer::new(format!("wrote a line that is no answer: {why}, line={number} output={}", quote(line)))
            .with_hint("for each input line write one line: an object, an array of objects, or null; logs go to stderr")
    };
    let text = std::str::from_utf8(line).map_err(|_| bad("not UTF-8"))?.trim_ascii();
    match text.as_bytes().first() {
        Some(b'{') => rows.push(read_row(text, number, batch).map_err(|why| bad(&why))?),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| bad(&not_json(&e)))?;
            for item in items {
                rows.push(read_row(item.get(), number, batch).map_err(|why| bad(&why))?);
            }
        }
        Some(b'n') if text == "null" => {}
        None => return Err(bad("it is empty")),
        _ => match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => return Err(bad("not an object")),
            Err(error) => return Err(bad(&not_json(&error))),
        },
    }
    Ok(())
}

fn not_json(error: &serde_json::Error) -> String {
    format!("not JSON at column {}", error.column())
}

fn read_row<'a>(text: &'a str, line: usize, batch: &Batch) -> Result<Row<'a>, String> {
    if !text.starts_with('{') {
        return Err("an array holds what is no object".to_owned());
    }
    let Object(members) = serde_json::from_str(text).map_err(|e| not_json(&e))?;
    if let Some((_, place)) = members.iter().find(|(name, _)| name == CKPT) {
        check_place(place, line, batch)?;
    }
    Ok(Row { line, text, members })
}

/// Where a child hands our own member back, it must be the one of this row: answers that are out of order
/// or belong to another batch are found here. Anything else under that name is ignored.
fn check_place(place: &RawValue, line: usize, batch: &Batch) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct Place {
        idempotency_key: String,
        row: usize,
        rows: usize,
    }
    match serde_json::from_str::<Place>(place.get()) {
        Ok(place) if place.idempotency_key != batch.idempotency_key || place.rows != batch.records.num_rows() => {
            Err(format!("its {CKPT} is that of another batch"))
        }
        Ok(place) if place.row != line => {
            Err(format!("its {CKPT} is that of row {}: answers must keep the order", place.row))
        }
        _ => Ok(()),
    }
}

fn read_rows(rows: &[Row<'_>], wire: &SchemaRef, schema: &SchemaRef) -> Result<RecordBatch, BadAnswer> {
    let unread = |e: ArrowError| {
        BadAnswer::new(format!(
            "gave values that do not fit their column: {e}, rows={}..={}",
            rows.first().map_or(0, |row| row.line),
            rows.last().map_or(0, |row| row.line)
        ))
    };
    let mut decoder =
        ReaderBuilder::new(Arc::clone(wire)).with_batch_size(rows.len()).build_decoder().map_err(unread)?;
    for row in rows {
        let mut text = row.text.as_bytes();
        while !text.is_empty() {
            let read = decoder.decode(text).map_err(unread)?;
            if read == 0 {
                break;
            }
            text = &text[read..];
        }
    }
    let batch = decoder.flush().map_err(unread)?;
    let batch = batch
        .filter(|batch| batch.num_rows() == rows.len())
        .ok_or_else(|| unread(ArrowError::JsonError("rows were lost while they were read".to_owned())))?;
    from_wire(&batch, schema).map_err(|(column, e)| {
        BadAnswer::new(format!("gave values that do not fit their column: {e}, column={column}"))
    })
}
