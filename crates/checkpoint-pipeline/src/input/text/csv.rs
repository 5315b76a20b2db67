//! CSV: a header line, then records of as many fields.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::Schema;
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};

use super::column::{Column, Misfit};
use super::kind::Kind;
use super::reader::{RowError, Rows};
use super::stream::{LONGEST_ROW, TextStream};

/// The records of a CSV file. Fields are separated by commas and may be quoted by `"`, with line breaks and
/// doubled quotes inside; blank lines are no records. An empty field is a null, quoted or not, in text
/// columns too.
#[derive(Debug)]
pub(super) struct CsvRows {
    reader: Reader<Limited>,
    read_since: Arc<AtomicU64>,
    header: Vec<String>,
    /// By field of the record, the column of the schema.
    columns: Vec<Option<usize>>,
    record: ByteRecord,
    line: u64,
}

impl CsvRows {
    /// Reads the header.
    ///
    /// # Errors
    /// A header with an empty or doubled name.
    pub(super) fn new(stream: TextStream) -> Result<Self, RowError> {
        let read_since = Arc::new(AtomicU64::new(0));
        let limited = Limited { stream, read_since: Arc::clone(&read_since) };
        let reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(limited);
        let (header, columns, record) = (Vec::new(), Vec::new(), ByteRecord::new());
        let mut rows = Self { reader, read_since, header, columns, record, line: 1 };
        if rows.next_record()? {
            rows.header = rows.record.iter().map(text).map(|name| name.map(str::to_owned)).collect::<Result<_, _>>()?;
            let mut seen = HashSet::new();
            for (index, name) in rows.header.iter().enumerate() {
                if name.is_empty() {
                    return Err(RowError::damaged(format!("the header has no name for column {}", index + 1)));
                }
                if !seen.insert(name) {
                    return Err(RowError::damaged(format!("the header names a column twice: {name:?}")));
                }
            }
        }
        Ok(rows)
    }

    /// Says which columns the fields belong to.
    ///
    /// # Errors
    /// A header name that the schema does not have.
    pub(super) fn with_schema(mut self, schema: &Schema) -> Result<Self, RowError> {
        let by_name: HashMap<&str, usize> = schema.fields().iter().map(|f| f.name().as_str()).zip(0..).collect();
        for name in &self.header {
            let index = by_name.get(name.as_str()).ok_or_else(|| Misfit::unknown(name))?;
            self.columns.push(Some(*index));
        }
        Ok(self)
    }

    /// Adds the header and the records that begin within the first `bytes` bytes to a kind.
    pub(super) fn sample(&mut self, bytes: u64, kind: &mut Kind) -> Result<(), RowError> {
        for name in &self.header {
            kind.field(name);
        }
        while self.reader.position().byte() < bytes && self.advance()? {
            for (name, field) in self.header.iter().zip(self.record.iter()) {
                kind.field(name).see_text(text(field)?);
            }
        }
        Ok(())
    }

    fn next_record(&mut self) -> Result<bool, RowError> {
        self.read_since.store(0, Ordering::Relaxed);
        let found = self.reader.read_byte_record(&mut self.record).map_err(|e| match e.into_kind() {
            ErrorKind::Io(e) => RowError::from(e),
            other => RowError::damaged(format!("{other:?}")),
        })?;
        if let Some(position) = self.record.position().filter(|_| found) {
            self.line = position.line();
        }
        Ok(found)
    }
}

fn text(field: &[u8]) -> Result<&str, RowError> {
    std::str::from_utf8(field).map_err(|_| RowError::damaged("a field is not UTF-8"))
}

impl Rows for CsvRows {
    fn advance(&mut self) -> Result<bool, RowError> {
        if self.header.is_empty() || !self.next_record()? {
            return Ok(false);
        }
        if self.record.len() != self.header.len() {
            let (fields, names) = (self.record.len(), self.header.len());
            return Err(RowError::damaged(format!("the record has {fields} fields and the header {names}")));
        }
        Ok(true)
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn size(&self) -> u64 {
        self.record.as_slice().len() as u64 + 4 * self.record.len() as u64
    }

    fn push(&self, columns: &mut [Option<Column>]) -> Result<(), RowError> {
        let mut values: Vec<Option<&[u8]>> = vec![None; columns.len()];
        for (field, column) in self.record.iter().zip(&self.columns) {
            if let Some(value) = column.and_then(|index| values.get_mut(index)) {
                *value = Some(field);
            }
        }
        for (index, (column, value)) in columns.iter_mut().zip(values).enumerate() {
            let Some(column) = column else { continue };
            match value {
                None => column.push_null(),
                Some(value) => column.push_text(text(value)?).map_err(|misfit| {
                    let field = self.columns.iter().position(|c| *c == Some(index));
                    misfit.inside(field.map_or("", |f| &self.header[f]))
                })?,
            }
        }
        Ok(())
    }
}

/// Fails where one record goes on for longer than [`LONGEST_ROW`].
#[derive(Debug)]
struct Limited {
    stream: TextStream,
    read_since: Arc<AtomicU64>,
}

impl Read for Limited {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = self.stream.read(buf)?;
        let since = self.read_since.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if since > LONGEST_ROW {
            return Err(std::io::Error::other(format!(
                "a record is longer than {LONGEST_ROW} bytes, perhaps a quote is never closed"
            )));
        }
        Ok(count)
    }
}
