//! One row group, decoded in steps.

use std::sync::Arc;

use arrow::array::RecordBatch;
use parquet::arrow::FieldLevels;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector};
use parquet::column::page::PageIterator;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use super::super::decode::decode;
use super::super::fetch::FileFetch;
use super::column_bytes::ColumnBytes;
use super::page_size::ColumnShape;
use super::pages::{ColumnPages, OneChunk};
use super::step::Steps;
use crate::error::Result;

/// Compressed bytes of a row group that are fetched in one request.
const SMALL_GROUP: u64 = 8 << 20;
/// Bytes that the blocks of all columns of a larger row group take together.
const READ_AHEAD: u64 = 16 << 20;
const SMALLEST_BLOCK: u64 = 16 << 10;
const LARGEST_BLOCK: u64 = 2 << 20;

/// A row group that is being read.
pub(super) struct RowGroupReader {
    group: Group,
    fetch: Arc<FileFetch>,
    levels: Arc<FieldLevels>,
    /// Rows that were given out.
    done: u64,
    decoder: Option<ParquetRecordBatchReader>,
}

/// What the decoder is built from, again for every change of the step.
struct Group {
    metadata: Arc<ParquetMetaData>,
    index: usize,
    columns: Vec<Option<ColumnBytes>>,
    steps: Steps,
    start: u64,
}

impl RowGroupReader {
    /// Opens a row group at one of its rows; `step_bytes` bounds what a step decodes to. Columns that
    /// `wanted` leaves out are not read.
    ///
    /// # Errors
    /// What reading meets, where the row group is small enough to be fetched at once.
    pub(super) fn open(
        fetch: &Arc<FileFetch>,
        metadata: &Arc<ParquetMetaData>,
        levels: &Arc<FieldLevels>,
        index: usize,
        wanted: &[bool],
        step_bytes: u64,
        start: u64,
    ) -> Result<Self> {
        let group = metadata.row_group(index);
        let chosen: Vec<&ColumnChunkMetaData> =
            group.columns().iter().zip(wanted).filter(|(_, wanted)| **wanted).map(|(column, _)| column).collect();
        let row_bytes = chosen.iter().map(|c| row_bytes(c, group.num_rows() as u64)).sum();
        let steps = Steps::new(wanted.len(), step_bytes, row_bytes);
        let columns = open_columns(fetch, group.columns(), wanted, &chosen, start == 0)?;
        Ok(Self {
            group: Group { metadata: Arc::clone(metadata), index, columns, steps, start },
            fetch: Arc::clone(fetch),
            levels: Arc::clone(levels),
            done: start,
            decoder: None,
        })
    }

    /// Goes on at a later row of this row group.
    pub(super) fn skip_to(&mut self, row: u64) {
        if row > self.done {
            self.done = row;
            self.decoder = None;
        }
    }

    /// The next rows; `None` at the end of the row group.
    ///
    /// # Errors
    /// `BadData` for damaged pages, and what reading meets.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let rows = self.group.row_group().num_rows() as u64;
        while self.done < rows {
            let mut decoder = match self.decoder.take() {
                Some(decoder) => decoder,
                None => self.build(rows)?,
            };
            self.group.steps.begin(self.done);
            match decode(|| decoder.next().transpose()) {
                Ok(Some(batch)) => {
                    self.done += batch.num_rows() as u64;
                    if !self.group.steps.grow_if_small() {
                        self.decoder = Some(decoder);
                    }
                    return Ok(Some(batch));
                }
                Err(_) if self.group.steps.shrink_if_exceeded() => {}
                Err(e) => return Err(self.damaged(&e)),
                Ok(None) => {
                    let what = format!("it ends after {} of {rows} rows", self.done);
                    return Err(self.damaged(&what));
                }
            }
        }
        Ok(None)
    }

    fn build(&mut self, rows: u64) -> Result<ParquetRecordBatchReader> {
        self.group.start = self.done;
        let selection = (self.done > 0).then(|| {
            let (done, rest) = (self.done as usize, (rows - self.done) as usize);
            RowSelection::from(vec![RowSelector::skip(done), RowSelector::select(rest)])
        });
        let step = self.group.steps.rows();
        let group = &self.group;
        decode(|| ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, group, step, selection))
            .map_err(|e| self.damaged(&e))
    }

    fn damaged(&self, cause: &dyn std::fmt::Display) -> crate::error::Error {
        self.fetch.blame("damaged Parquet file", cause, &format!("row_group={}", self.group.index))
    }
}

impl Group {
    fn row_group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }
}

impl RowGroups for Group {
    fn num_rows(&self) -> usize {
        self.row_group().num_rows() as usize
    }

    fn column_chunks(&self, i: usize) -> parquet::errors::Result<Box<dyn PageIterator>> {
        let missing = || parquet::errors::ParquetError::General(format!("column {i} is not read"));
        let bytes = self.columns.get(i).and_then(Option::as_ref).ok_or_else(missing)?;
        let chunk = self.row_group().column(i);
        let pages = ColumnPages::open(bytes.clone(), chunk, self.num_rows(), self.steps.clone(), i, self.start)?;
        Ok(Box::new(OneChunk(Some(Ok(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.row_group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// Opens the wanted columns: from one request for all where they are small, else a block at a time.
fn open_columns(
    fetch: &Arc<FileFetch>,
    all: &[ColumnChunkMetaData],
    wanted: &[bool],
    chosen: &[&ColumnChunkMetaData],
    from_start: bool,
) -> Result<Vec<Option<ColumnBytes>>> {
    let range = |column: &ColumnChunkMetaData| {
        let (start, length) = column.byte_range();
        start..start + length
    };
    let start = chosen.iter().map(|c| range(c).start).min().unwrap_or(0);
    let end = chosen.iter().map(|c| range(c).end).max().unwrap_or(0);
    let bytes: u64 = chosen.iter().map(|c| c.byte_range().1).sum();
    let span = end.saturating_sub(start);
    let small = from_start && span <= SMALL_GROUP && span <= bytes + bytes / 4 + SMALLEST_BLOCK;
    let whole = if small { Some(fetch.read(start..end)?) } else { None };
    let block = (READ_AHEAD / (2 * chosen.len().max(1) as u64)).clamp(SMALLEST_BLOCK, LARGEST_BLOCK);
    let columns = all.iter().zip(wanted).map(|(column, wanted)| {
        if !wanted {
            return None;
        }
        let range = range(column);
        Some(match &whole {
            Some(whole) => {
                let held = (range.start - start) as usize..(range.end - start) as usize;
                ColumnBytes::whole(fetch, range, whole.slice(held))
            }
            None => {
                let column = ColumnBytes::new(fetch, range, block);
                if from_start {
                    column.start_reading();
                }
                column
            }
        })
    });
    Ok(columns.collect())
}

/// A guess of a row's decoded bytes in a column, from the footer.
fn row_bytes(column: &ColumnChunkMetaData, rows: u64) -> u64 {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let values = count(column.num_values());
    let bytes = match ColumnShape::new(column.column_descr()).fixed_width() {
        0 => match column.unencoded_byte_array_data_bytes() {
            Some(bytes) => count(bytes) + 4 * values,
            None => count(column.uncompressed_size()).max(4 * values),
        },
        width => values.saturating_mul(width),
    };
    bytes.div_ceil(rows.max(1))
}
