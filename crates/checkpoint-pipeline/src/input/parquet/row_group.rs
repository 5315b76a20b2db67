//! One row group, decoded in steps.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use parquet::arrow::FieldLevels;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector};
use parquet::column::page::PageIterator;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use super::super::decode::decode;
use super::super::fetch::FileFetch;
use super::super::held::Hold;
use super::super::spans::total;
use super::column_bytes::ColumnBytes;
use super::page_map::PageMap;
use super::page_size::ColumnShape;
use super::pages::{ColumnPages, OneChunk};
use super::step::Steps;
use crate::error::Result;

/// Bytes of a row group that are read whole for any of its rows, where its pages are not known.
const LITTLE: u64 = 1 << 20;
const SMALLEST_BLOCK: u64 = 16 << 10;
const LARGEST_BLOCK: u64 = 2 << 20;

/// What of a row group is read for some of its rows.
#[derive(Debug)]
pub(super) struct Reach {
    /// By leaf column that is wanted: the parts of its chunk that are needed, in order.
    columns: Vec<Option<Vec<Range<u64>>>>,
    /// Bytes that are asked for at once in each column; without bounds where all of it is little.
    block: u64,
    /// Whether the parts are known, and not guessed from the rows.
    exact: bool,
}

impl Reach {
    /// What rows of a group need, by its page map; without one, all of it or about as much as their part in it.
    /// Dictionaries are left out of columns for which `knows_dictionary` holds.
    pub(super) fn of(
        group: &RowGroupMetaData,
        wanted: &[bool],
        rows: &Range<u64>,
        map: Option<&PageMap>,
        at_once: u64,
        knows_dictionary: impl Fn(usize) -> bool,
    ) -> Self {
        let all = group.num_rows() as u64;
        let whole = rows.start == 0 && rows.end >= all;
        let chunks = || group.columns().iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let bytes: u64 = chunks().map(|(chunk, _)| chunk.byte_range().1).sum();
        // Below so much, or where most of it is wanted, finding the pages costs more than reading past them.
        let guess = !whole && map.is_none() && bytes > LITTLE && (rows.end - rows.start) < all / 2;
        let columns = group.columns().iter().zip(wanted).enumerate().map(|(leaf, (chunk, wanted))| {
            let (start, length) = chunk.byte_range();
            let chunk = start..start + length;
            let spans = match map.and_then(|map| map.column(leaf)) {
                Some(pages) => pages.spans(rows, !knows_dictionary(leaf)),
                None if guess => vec![guess_span(&chunk, rows, all)],
                None => vec![chunk.clone()],
            };
            wanted.then_some(spans)
        });
        let columns: Vec<Option<Vec<Range<u64>>>> = columns.collect();
        let needed: u64 = columns.iter().flatten().map(|spans| total(spans)).sum();
        let count = columns.iter().flatten().count().max(1) as u64;
        let block = if needed <= at_once { u64::MAX } else { (at_once / count).clamp(SMALLEST_BLOCK, LARGEST_BLOCK) };
        Self { columns, block, exact: !guess }
    }

    /// What is asked for first: everything where that is little, else a block of each column; nothing where it
    /// would be a guess.
    pub(super) fn first_ranges(&self) -> Vec<Range<u64>> {
        if !self.exact {
            return Vec::new();
        }
        let block = |span: &Range<u64>| span.start..span.end.min(span.start.saturating_add(self.block));
        self.columns.iter().flatten().flatten().map(block).collect()
    }
}

/// About where some rows are in a chunk whose pages are not known.
fn guess_span(chunk: &Range<u64>, rows: &Range<u64>, all: u64) -> Range<u64> {
    let length = chunk.end - chunk.start;
    let part = |row: u64| (u128::from(length) * u128::from(row) / u128::from(all.max(1))) as u64;
    let start = part(rows.start).saturating_sub(length / 16 + SMALLEST_BLOCK);
    chunk.start + start..chunk.end.min(chunk.start + part(rows.end))
}

/// A row group that is being read.
pub(super) struct RowGroupReader {
    group: Group,
    fetch: Arc<FileFetch>,
    levels: Arc<FieldLevels>,
    wanted: Vec<bool>,
    at_once: u64,
    /// Rows that were given out.
    done: u64,
    /// The first row that is not wanted for now.
    end: u64,
    /// Whether what `done..end` needs was asked for.
    reached: bool,
    /// What was asked for.
    hold: Hold,
    decoder: Option<ParquetRecordBatchReader>,
}

/// What the decoder is built from, again for every change of the step.
struct Group {
    metadata: Arc<ParquetMetaData>,
    index: usize,
    columns: Vec<Option<ColumnBytes>>,
    map: Option<Arc<PageMap>>,
    steps: Steps,
    start: u64,
}

/// How the row groups of a file are read.
pub(super) struct ReadPlan<'a> {
    pub(super) fetch: &'a Arc<FileFetch>,
    pub(super) metadata: &'a Arc<ParquetMetaData>,
    pub(super) levels: &'a Arc<FieldLevels>,
    /// By leaf column, whether it is read.
    pub(super) wanted: &'a [bool],
    /// What a step may decode to.
    pub(super) step_bytes: u64,
    /// Bytes that are asked for at once.
    pub(super) at_once: u64,
}

impl RowGroupReader {
    /// Opens a row group for some of its rows; nothing is read yet.
    pub(super) fn open(plan: &ReadPlan<'_>, index: usize, rows: Range<u64>) -> Self {
        let group = plan.metadata.row_group(index);
        let chosen = group.columns().iter().zip(plan.wanted).filter(|(_, wanted)| **wanted);
        let row_bytes =
            chosen.map(|(column, _)| row_bytes(column, group.num_rows() as u64)).fold(0, u64::saturating_add);
        let steps = Steps::new(plan.wanted.len(), plan.step_bytes, row_bytes);
        let columns = group.columns().iter().zip(plan.wanted).map(|(column, wanted)| {
            let (start, length) = column.byte_range();
            wanted.then(|| ColumnBytes::new(plan.fetch, start..start + length))
        });
        Self {
            group: Group {
                metadata: Arc::clone(plan.metadata),
                index,
                columns: columns.collect(),
                map: None,
                steps,
                start: rows.start,
            },
            fetch: Arc::clone(plan.fetch),
            levels: Arc::clone(plan.levels),
            wanted: plan.wanted.to_vec(),
            at_once: plan.at_once,
            done: rows.start,
            end: rows.end,
            reached: false,
            hold: Hold::default(),
            decoder: None,
        }
    }

    /// Goes on at a later row of this row group.
    pub(super) fn skip_to(&mut self, row: u64) {
        if row > self.done {
            self.done = row;
            self.end = self.end.max(row);
            (self.decoder, self.reached) = (None, false);
        }
    }

    /// Gives no rows from this one of the row group on.
    pub(super) fn limit(&mut self, row: u64) {
        let end = row.min(self.group.row_group().num_rows() as u64);
        if end != self.end {
            self.end = end;
            (self.decoder, self.reached) = (None, false);
        }
    }

    /// Asks for what the rows need that come next.
    fn reach(&mut self) -> Result<()> {
        let group = self.group.metadata.row_group(self.group.index);
        let rows = self.done..self.end;
        let whole = rows.start == 0 && rows.end >= group.num_rows() as u64;
        if !whole && self.group.map.is_none() {
            self.group.map = PageMap::of_group(&self.fetch, &self.group.metadata, self.group.index, &self.wanted)?;
        }
        let steps = &self.group.steps;
        let known = |leaf: usize| steps.knows_dictionary(leaf);
        let reach = Reach::of(group, &self.wanted, &rows, self.group.map.as_deref(), self.at_once, known);
        // Before the last hold goes: what both need is not read twice.
        self.hold = self.fetch.hold_now(reach.first_ranges());
        let block = reach.block;
        for (column, spans) in self.group.columns.iter().zip(reach.columns) {
            if let (Some(column), Some(spans)) = (column, spans) {
                column.set_spans(spans, block);
            }
        }
        self.reached = true;
        Ok(())
    }

    /// The next rows; `None` where the wanted ones end.
    ///
    /// # Errors
    /// `BadData` for damaged pages, and what reading meets.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let rows = self.group.row_group().num_rows() as u64;
        while self.done < self.end {
            if !self.reached {
                self.reach()?;
            }
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
        let selection = (self.done > 0 || self.end < rows).then(|| {
            let (done, rest) = (self.done as usize, (self.end - self.done) as usize);
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
        let map = self.map.as_ref().and_then(|map| map.column(i));
        let pages = ColumnPages::open(bytes.clone(), chunk, self.num_rows(), self.steps.clone(), i, self.start, map)?;
        Ok(Box::new(OneChunk(Some(Ok(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.row_group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// A guess of a row's decoded bytes in a column, from the footer. What it says of sizes nobody has checked: a wrong guess
/// is put right by the first step.
fn row_bytes(column: &ColumnChunkMetaData, rows: u64) -> u64 {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let values = count(column.num_values());
    let bytes = match ColumnShape::new(column.column_descr()).fixed_width() {
        0 => match column.unencoded_byte_array_data_bytes() {
            Some(bytes) => count(bytes).saturating_add(values.saturating_mul(4)),
            None => count(column.uncompressed_size()).max(values.saturating_mul(4)),
        },
        width => values.saturating_mul(width),
    };
    bytes.div_ceil(rows.max(1))
}
