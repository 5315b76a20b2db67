//! Opening a file for reading, whatever its format.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

use super::config::{ReadConfig, ReadContext};
use super::fetch::FileFetch;
use super::ipc::IpcReader;
use super::parquet::ParquetReader;
use super::source::SourceFile;
use super::text;
use crate::error::{Error, Result};
use crate::format::Format;

/// The rows of one file, in order, as batches.
///
/// All methods block, on storage and on decoding, and wait with `Handle::block_on`: call them on a
/// blocking thread (`tokio::task::spawn_blocking`), never in an async task. After an error the reader is
/// of no further use.
pub trait BatchReader: Send {
    /// The schema of every batch.
    fn schema(&self) -> SchemaRef;

    /// The next batch and the position in the file of its first row; `None` after the last. No batch is
    /// empty, straddles a multiple of [`ReadConfig::batch_rows`], or goes on beyond
    /// [`ReadConfig::batch_bytes`]. The same file gives the same batches every time.
    ///
    /// # Errors
    /// `BadData` for a damaged file, naming it and the place; `Conflict` for a file that changed since it
    /// was discovered; `Storage` when reading fails.
    fn next(&mut self) -> Result<Option<(u64, RecordBatch)>>;

    /// Leaves out all rows before `row`: the next batch starts there, and ends where its window does.
    /// A row that was passed already changes nothing. Parquet reads nothing of row groups that are left
    /// out, nor of pages where the file has an offset index, and else only the headers of pages; other formats
    /// read on and drop the rows.
    ///
    /// # Errors
    /// As [`BatchReader::next`].
    fn skip_to(&mut self, row: u64) -> Result<()>;

    /// Gives no rows from `row` on until a later row is set, so that what only they need is not read. At the limit
    /// [`BatchReader::next`] gives `None`; a batch that could go on beyond it may be held back for the rows that
    /// follow, unless `last` says that they do not.
    ///
    /// # Errors
    /// As [`BatchReader::next`].
    fn limit(&mut self, row: u64, last: bool) -> Result<()>;
}

/// Opens a file: reads its footer or header, unless the context keeps a footer from before. Every read checks
/// that it is the file that was discovered. Blocks, as [`BatchReader`] does.
///
/// # Errors
/// As [`BatchReader::next`]; `InvalidConfig` for a text file without a schema in the context.
pub fn open(file: &SourceFile, config: &ReadConfig, context: &ReadContext) -> Result<Box<dyn BatchReader>> {
    open_fetch(FileFetch::new(file.clone(), context.clone()), config)
}

/// As [`open`], through a fetch that is there already.
pub(super) fn open_fetch(fetch: Arc<FileFetch>, config: &ReadConfig) -> Result<Box<dyn BatchReader>> {
    match fetch.file().format {
        Format::Parquet => Ok(Box::new(ParquetReader::open(fetch, config)?)),
        Format::ArrowIpc => Ok(Box::new(IpcReader::open(fetch, config)?)),
        Format::JsonLines | Format::Csv => text::open(fetch, config),
    }
}

/// The indices of the top-level columns that are read, ascending.
pub(super) fn choose_columns(schema: &Schema, columns: Option<&[String]>, fetch: &FileFetch) -> Result<Vec<usize>> {
    let Some(columns) = columns else { return Ok((0..schema.fields().len()).collect()) };
    if columns.is_empty() {
        return Err(
            Error::invalid_config("no column was chosen").with_hint("name at least one column, or none to read all")
        );
    }
    let mut chosen = Vec::with_capacity(columns.len());
    for name in columns {
        let index = schema.index_of(name).map_err(|_| {
            let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).take(20).collect();
            Error::bad_data(format!("the file has no such column: {} column={name}", fetch.place()))
                .with_hint(format!("its columns are: {}", known.join(", ")))
        })?;
        chosen.push(index);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}
