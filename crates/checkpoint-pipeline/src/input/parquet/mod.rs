//! Parquet: any types, codecs and sizes, in bounded memory.
//!
//! An open file holds
//! - its footer, without value statistics;
//! - compressed bytes: 8 MiB where what is wanted of a row group is little enough to be fetched at once, else two
//!   blocks per column of together 16 MiB (at least 32 KiB per column, which only matters above 512 columns);
//! - per column the page that is being decoded, and the dictionary, each as large as the writer made it:
//!   about 1 MiB as commonly written. Byte arrays above 16 MiB are an exception: such a page is unpacked as
//!   a stream and split ([`split`]), such a dictionary put into a temporary file ([`dictionary`]). Not so
//!   where the codec is Brotli, LZO or the old LZ4, or the encoding a delta one: then a page is held whole;
//! - decoded rows: one step (at most 8 MiB, or one row), one batch that is being joined, and the batch
//!   given out.
//!
//! Row groups of any size, dictionaries that decode to far more than the file, and sudden large rows
//! change none of this: see [`step`].

mod bounds;
mod column_bytes;
mod dictionary;
mod footer;
mod levels;
mod look;
mod page_header;
mod page_map;
mod page_size;
mod pages;
mod row_group;
mod split;
mod step;
mod unpack;

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::file::metadata::ParquetMetaData;

pub(crate) use self::look::ParquetLook;
pub(super) use self::page_map::PageMaps;
use self::row_group::{ReadPlan, RowGroupReader};
use super::config::ReadConfig;
use super::decode::decode;
use super::fetch::FileFetch;
use super::reader::BatchReader;
use super::windows::Windows;
use crate::error::{Error, Result};

/// The most that a step may decode to.
const MOST_STEP_BYTES: u64 = 8 << 20;

/// Reads one Parquet file.
pub(super) struct ParquetReader {
    fetch: Arc<FileFetch>,
    metadata: Arc<ParquetMetaData>,
    levels: Arc<FieldLevels>,
    schema: SchemaRef,
    /// By leaf column, whether it is read.
    wanted: Vec<bool>,
    step_bytes: u64,
    at_once: u64,
    windows: Windows,
    /// The first row of the file that is not wanted for now.
    limit: u64,
    /// The row group that comes after the current one, and the position of its first row.
    next_group: usize,
    next_group_row: u64,
    current: Option<RowGroupReader>,
}

impl ParquetReader {
    /// Opens a file: one or two requests, for the footer.
    ///
    /// # Errors
    /// `BadData` for a damaged footer, a file without columns or without a column that was asked for.
    pub(super) fn open(fetch: Arc<FileFetch>, config: &ReadConfig) -> Result<Self> {
        let metadata = footer::read(&fetch)?;
        let damaged = |e: &dyn std::fmt::Display| fetch.blame("unreadable Parquet schema", e, "");
        let arrow = decode(|| ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new()))
            .map_err(|e| damaged(&e))?;
        let descriptor = metadata.file_metadata().schema_descr();
        let all = arrow.schema();
        if all.fields().is_empty() {
            return Err(Error::bad_data(format!("the file has no columns: {}", fetch.place())));
        }
        let chosen = super::reader::choose_columns(all, config.columns.as_deref(), &fetch)?;
        let mask = ProjectionMask::roots(descriptor, chosen.iter().copied());
        let wanted = (0..descriptor.num_columns()).map(|leaf| mask.leaf_included(leaf)).collect();
        let levels =
            decode(|| parquet_to_arrow_field_levels(descriptor, mask, Some(all.fields()))).map_err(|e| damaged(&e))?;
        // Metadata of the whole schema tells of the writer (Ray, pandas), not of the data.
        let fields: Vec<_> = chosen.iter().map(|i| Arc::clone(&all.fields()[*i])).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Self {
            windows: Windows::new(config, &schema),
            levels: Arc::new(levels),
            step_bytes: MOST_STEP_BYTES.min(config.cut_bytes()),
            at_once: config.at_once,
            limit: u64::MAX,
            fetch,
            metadata,
            schema,
            wanted,
            next_group: 0,
            next_group_row: 0,
            current: None,
        })
    }

    /// Opens the next row group that holds rows from the window's position on.
    fn open_group(&mut self) -> bool {
        let position = self.windows.position();
        while let Some(group) = self.metadata.row_groups().get(self.next_group) {
            let first = self.next_group_row;
            let rows = group.num_rows() as u64;
            let index = self.next_group;
            self.next_group += 1;
            self.next_group_row += rows;
            if self.next_group_row <= position {
                continue;
            }
            let wanted = position.saturating_sub(first)..self.limit.saturating_sub(first).min(rows);
            let plan = ReadPlan {
                fetch: &self.fetch,
                metadata: &self.metadata,
                levels: &self.levels,
                wanted: &self.wanted,
                step_bytes: self.step_bytes,
                at_once: self.at_once,
            };
            self.fetch.page_maps().forget_before(index);
            self.current = Some(RowGroupReader::open(&plan, index, wanted));
            return true;
        }
        false
    }

    /// The position of the first row of the row group that is being read.
    fn current_start(&self) -> u64 {
        let index = self.next_group.checked_sub(1);
        let rows = index.map_or(0, |index| self.metadata.row_group(index).num_rows() as u64);
        self.next_group_row - rows
    }
}

impl BatchReader for ParquetReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next(&mut self) -> Result<Option<(u64, RecordBatch)>> {
        loop {
            let at_end = self.current.is_none() && self.next_group == self.metadata.num_row_groups();
            let batch = self.windows.pop(at_end).map_err(|e| self.fetch.blame("cannot join rows", &e, ""))?;
            if batch.is_some() || at_end || self.windows.is_at_limit() {
                return Ok(batch);
            }
            if self.current.is_none() && !self.open_group() {
                continue;
            }
            let Some(group) = &mut self.current else { continue };
            match group.next()? {
                Some(rows) => {
                    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
                    let columns = rows.columns().to_vec();
                    let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
                        .map_err(|e| self.fetch.blame("damaged Parquet file", &e, ""))?;
                    self.windows.push(rows);
                }
                None => self.current = None,
            }
        }
    }

    fn skip_to(&mut self, row: u64) -> Result<()> {
        if !self.windows.skip_to(row) {
            return Ok(());
        }
        let first = self.current_start();
        match &mut self.current {
            Some(group) if row < self.next_group_row => group.skip_to(row - first),
            _ => self.current = None,
        }
        Ok(())
    }

    fn limit(&mut self, row: u64, last: bool) -> Result<()> {
        self.limit = row;
        self.windows.limit(row, last);
        let first = self.current_start();
        if let Some(group) = &mut self.current {
            group.limit(row.saturating_sub(first));
        }
        Ok(())
    }
}

/// The number of rows, from the footer.
///
/// # Errors
/// As [`ParquetReader::open`] for the footer.
pub(super) fn count_rows(fetch: &Arc<FileFetch>) -> Result<u64> {
    let metadata = footer::read(fetch)?;
    u64::try_from(metadata.file_metadata().num_rows()).map_err(|e| fetch.blame("damaged Parquet footer", &e, ""))
}
