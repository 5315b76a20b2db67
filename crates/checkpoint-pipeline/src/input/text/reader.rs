//! Batches from the rows of a text file.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};

use super::super::config::ReadConfig;
use super::super::fetch::FileFetch;
use super::super::reader::{BatchReader, choose_columns};
use super::column::{Column, Misfit};
use super::csv::CsvRows;
use super::json::JsonRows;
use super::stream::TextStream;
use crate::error::{Error, Result};
use crate::format::Format;

/// The rows of a text file, one after the other.
pub(super) trait Rows: Send {
    /// Moves to the next row. `false` at the end.
    fn advance(&mut self) -> Result<bool, RowError>;

    /// The line that the row begins on, from 1.
    fn line(&self) -> u64;

    /// About how many bytes the row decodes to.
    fn size(&self) -> u64;

    /// Adds the row to the columns of the schema; `None` columns are not wanted.
    fn push(&self, columns: &mut [Option<Column>]) -> Result<(), RowError>;
}

/// Why a row cannot be read.
#[derive(Debug)]
pub(super) enum RowError {
    /// The bytes did not come, or not decompress.
    Io(std::io::Error),
    /// It is not what the format says.
    Damaged(String),
    /// A value does not fit the schema.
    Misfit(Misfit),
}

impl RowError {
    pub(super) fn damaged(what: impl Into<String>) -> Self {
        RowError::Damaged(what.into())
    }

    /// The error, with its place.
    pub(super) fn at(self, fetch: &FileFetch, line: u64) -> Error {
        let line = format!("line={line}");
        match self {
            RowError::Io(e) => fetch.blame("damaged text file", &e, &line),
            RowError::Damaged(what) => fetch.blame("damaged text file", &what, &line).with_hint(rules(fetch)),
            RowError::Misfit(misfit) => {
                let (message, hint) = misfit.describe(&format!("{} {line}", fetch.place()));
                Error::bad_data(message).with_hint(hint)
            }
        }
    }
}

/// What a file of this format must look like.
fn rules(fetch: &FileFetch) -> &'static str {
    match fetch.file().format {
        Format::Csv => {
            "a CSV file begins with a header of distinct names, and every record has as many fields; \
             fields with commas, quotes or line breaks are quoted"
        }
        _ => "every line must hold one JSON object, whole, in UTF-8",
    }
}

impl From<std::io::Error> for RowError {
    fn from(error: std::io::Error) -> Self {
        RowError::Io(error)
    }
}

impl From<Misfit> for RowError {
    fn from(misfit: Misfit) -> Self {
        RowError::Misfit(misfit)
    }
}

/// Opens a text file under the schema that was inferred for its format.
///
/// # Errors
/// `InvalidConfig` without a schema; `BadData` for a bad header or compression; what reading meets.
pub(in crate::input) fn open(fetch: Arc<FileFetch>, config: &ReadConfig) -> Result<Box<dyn BatchReader>> {
    let format = fetch.file().format;
    let schema = fetch.context().schemas().get(format).cloned().ok_or_else(|| {
        Error::invalid_config(format!("there is no schema for a text file: {}", fetch.place()))
            .with_hint("infer the schemas of all text files of the job first")
    })?;
    let stream = TextStream::open(&fetch).map_err(|e| RowError::from(e).at(&fetch, 1))?;
    if format == Format::Csv {
        let rows = CsvRows::new(stream).and_then(|rows| rows.with_schema(&schema)).map_err(|e| e.at(&fetch, 1))?;
        Ok(Box::new(TextReader::new(fetch, config, &schema, rows)?))
    } else {
        let rows = JsonRows::new(stream, &schema);
        Ok(Box::new(TextReader::new(fetch, config, &schema, rows)?))
    }
}

/// Collects rows into batches.
struct TextReader<R> {
    fetch: Arc<FileFetch>,
    rows: R,
    schema: SchemaRef,
    /// By column of the file's schema; `None` where it is not wanted.
    columns: Vec<Option<Column>>,
    window: u64,
    cut_bytes: u64,
    /// The position of the next row to be read.
    position: u64,
    /// The first row that is wanted.
    wanted: u64,
    /// The first row that is not, for now. Batches end there.
    limit: u64,
}

impl<R: Rows> TextReader<R> {
    fn new(fetch: Arc<FileFetch>, config: &ReadConfig, all: &Schema, rows: R) -> Result<Self> {
        let chosen = choose_columns(all, config.columns.as_deref(), &fetch)?;
        let mut columns: Vec<Option<Column>> = all.fields().iter().map(|_| None).collect();
        for index in &chosen {
            columns[*index] = Some(Column::new(all.field(*index).data_type()));
        }
        let schema = Schema::new(chosen.iter().map(|i| Arc::clone(&all.fields()[*i])).collect::<Vec<_>>());
        Ok(Self {
            fetch,
            rows,
            schema: Arc::new(schema),
            columns,
            window: config.window(),
            cut_bytes: config.cut_bytes(),
            position: 0,
            wanted: 0,
            limit: u64::MAX,
        })
    }

    fn advance(&mut self) -> Result<bool> {
        self.rows.advance().map_err(|e| e.at(&self.fetch, self.rows.line()))
    }
}

impl<R: Rows> BatchReader for TextReader<R> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next(&mut self) -> Result<Option<(u64, RecordBatch)>> {
        while self.position < self.wanted.min(self.limit) {
            if !self.advance()? {
                return Ok(None);
            }
            self.position += 1;
        }
        let start = self.position;
        let end = (start - start % self.window + self.window).min(self.limit);
        let mut bytes = 0;
        while self.position < end && bytes < self.cut_bytes && self.advance()? {
            self.rows.push(&mut self.columns).map_err(|e| e.at(&self.fetch, self.rows.line()))?;
            bytes += self.rows.size();
            self.position += 1;
        }
        if self.position == start {
            return Ok(None);
        }
        let failed = |e: &dyn std::fmt::Display| self.fetch.blame("cannot build a batch", e, "");
        let columns = self.columns.iter_mut().flatten().map(Column::finish).collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|e| failed(&e))?;
        let options = RecordBatchOptions::new().with_row_count(Some((self.position - start) as usize));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        Ok(Some((start, batch.map_err(|e| failed(&e))?)))
    }

    fn skip_to(&mut self, row: u64) -> Result<()> {
        self.wanted = self.wanted.max(row);
        Ok(())
    }

    fn limit(&mut self, row: u64, _last: bool) -> Result<()> {
        self.limit = row;
        Ok(())
    }
}
