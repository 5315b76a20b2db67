//! Arrow IPC: the file format (Feather version 2) and the stream format, told apart by the first bytes.
//!
//! A record batch is stored and decoded as a unit, so an open file holds one record batch as large as its
//! writer made it, and the dictionaries; what is given out are slices of that. A stream that ends between
//! two messages is whole, with or without an end marker: the format allows both.

mod file;
mod message;
mod stream;

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};

use self::file::FileBatches;
pub(super) use self::file::count_rows;
use self::stream::StreamBatches;
use super::config::ReadConfig;
use super::decode::decode;
use super::fetch::FileFetch;
use super::reader::{BatchReader, choose_columns};
use super::windows::Windows;
use crate::error::{Error, Result};

/// Reads one Arrow IPC file or stream.
pub(super) struct IpcReader {
    fetch: Arc<FileFetch>,
    batches: Batches,
    schema: SchemaRef,
    /// The columns that are read, of those that are stored.
    chosen: Vec<usize>,
    windows: Windows,
    /// The position of the first row of the next record batch, and the number of that batch.
    next_row: u64,
    next_batch: usize,
    ended: bool,
}

enum Batches {
    File(Box<FileBatches>),
    Stream(Box<StreamBatches>),
}

impl IpcReader {
    /// Opens a file: reads its footer and dictionaries, or the schema of a stream.
    ///
    /// # Errors
    /// `BadData` for what is neither; what reading meets.
    pub(super) fn open(fetch: Arc<FileFetch>, config: &ReadConfig) -> Result<Self> {
        let (batches, all) = if is_file(&fetch)? {
            let batches = FileBatches::open(&fetch)?;
            let schema = batches.schema();
            (Batches::File(Box::new(batches)), schema)
        } else {
            let batches = StreamBatches::open(&fetch)?;
            let schema = batches.schema();
            (Batches::Stream(Box::new(batches)), schema)
        };
        if all.fields().is_empty() {
            return Err(Error::bad_data(format!("the file has no columns: {}", fetch.place())));
        }
        let chosen = choose_columns(&all, config.columns.as_deref(), &fetch)?;
        let fields: Vec<_> = chosen.iter().map(|i| Arc::clone(&all.fields()[*i])).collect();
        let schema = Arc::new(Schema::new(fields));
        let windows = Windows::new(config, &schema);
        Ok(Self { fetch, batches, schema, chosen, windows, next_row: 0, next_batch: 0, ended: false })
    }

    /// Decodes the next record batch, and leaves out rows that are not wanted.
    fn read_batch(&mut self) -> Result<()> {
        let rows = match &mut self.batches {
            Batches::File(file) => decode(|| file.next()),
            Batches::Stream(stream) => decode(|| stream.next()),
        };
        let failed = |e: &dyn std::fmt::Display| {
            self.fetch.blame("damaged Arrow file", e, &format!("record_batch={}", self.next_batch))
        };
        let Some(rows) = rows.map_err(|e| failed(&e))? else {
            self.ended = true;
            return Ok(());
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let columns = self.chosen.iter().map(|i| Arc::clone(rows.column(*i))).collect();
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let rows = rows.map_err(|e| failed(&e))?;
        let skipped = self.windows.position().saturating_sub(self.next_row).min(rows.num_rows() as u64) as usize;
        self.next_batch += 1;
        self.next_row += rows.num_rows() as u64;
        self.windows.push(rows.slice(skipped, rows.num_rows() - skipped));
        Ok(())
    }
}

impl BatchReader for IpcReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next(&mut self) -> Result<Option<(u64, RecordBatch)>> {
        loop {
            let batch = self.windows.pop(self.ended).map_err(|e| self.fetch.blame("cannot join rows", &e, ""))?;
            if batch.is_some() || self.ended || self.windows.is_at_limit() {
                return Ok(batch);
            }
            self.read_batch()?;
        }
    }

    fn skip_to(&mut self, row: u64) -> Result<()> {
        self.windows.skip_to(row);
        Ok(())
    }

    fn limit(&mut self, row: u64, last: bool) -> Result<()> {
        self.windows.limit(row, last);
        Ok(())
    }
}

/// Whether this is the file format; everything else is tried as a stream.
fn is_file(fetch: &FileFetch) -> Result<bool> {
    if fetch.size() == 0 {
        return Err(Error::bad_data(format!("not an Arrow file, it is empty: {}", fetch.place())));
    }
    let start = fetch.read(0..fetch.size().min(8))?;
    if start.starts_with(b"FEA1") {
        return Err(Error::bad_data(format!("Feather version 1 is not read: {}", fetch.place()))
            .with_hint("write the file again with a current version of pyarrow"));
    }
    Ok(start.starts_with(b"ARROW1"))
}
