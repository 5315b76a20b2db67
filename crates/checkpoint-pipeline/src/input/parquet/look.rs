//! What a Parquet file says of its rows before they are read: where they are, what their IDs can be, and what
//! it costs to read some of them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::super::config::ReadConfig;
use super::super::decode::decode;
use super::super::fetch::FileFetch;
use super::super::held::Hold;
use super::super::reader::choose_columns;
use super::super::spans::{READ_THROUGH, total};
use super::bounds::{BoundedRows, Bounds, Integers};
use super::footer;
use super::page_map::{ColumnPageMap, PageMap};
use super::row_group::Reach;
use crate::error::Result;

/// Bytes that a page has about, before it is compressed.
const PAGE: u64 = 1 << 20;
/// The most bytes of a page index that are read to learn of the IDs.
const MOST_INDEX: u64 = 1 << 20;

/// A Parquet file that is looked at.
#[derive(Debug)]
pub(crate) struct ParquetLook {
    looking: Arc<FileFetch>,
    reading: Arc<FileFetch>,
    metadata: Arc<ParquetMetaData>,
    /// By leaf column, whether it will be read.
    wanted: Vec<bool>,
    at_once: u64,
    ids: Option<Integers>,
    /// The row group after the last one whose dictionaries were asked for.
    dictionaries: AtomicUsize,
}

impl ParquetLook {
    pub(in crate::input) fn open(
        looking: Arc<FileFetch>,
        reading: Arc<FileFetch>,
        config: &ReadConfig,
        id_column: Option<&str>,
    ) -> Result<Self> {
        let metadata = footer::read(&looking)?;
        let arrow = decode(|| ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new()))
            .map_err(|e| looking.blame("unreadable Parquet schema", &e, ""))?;
        let chosen = choose_columns(arrow.schema(), config.columns.as_deref(), &looking)?;
        let file = metadata.file_metadata();
        let mask = ProjectionMask::roots(file.schema_descr(), chosen);
        let wanted = (0..file.schema_descr().num_columns()).map(|leaf| mask.leaf_included(leaf)).collect();
        let ids = id_column.and_then(|name| {
            let field = arrow.schema().field_with_name(name).ok()?;
            Integers::find(file, name, field.data_type())
        });
        let dictionaries = AtomicUsize::new(0);
        Ok(Self { looking, reading, metadata, wanted, at_once: config.at_once, ids, dictionaries })
    }

    /// The rows of each row group, as positions in the file.
    pub(crate) fn groups(&self) -> Vec<Range<u64>> {
        let mut next = 0;
        let groups = self.metadata.row_groups().iter().map(|group| {
            let first = next;
            next += group.num_rows() as u64;
            first..next
        });
        groups.collect()
    }

    /// Between which integers all IDs of a row group are; `None` where nothing that can be trusted says so.
    pub(crate) fn id_bounds(&self, group: usize) -> Option<Bounds> {
        let ids = self.ids?;
        ids.of_chunk(self.metadata.row_group(group).column(ids.leaf))
    }

    /// The rows of each page of IDs within a row group, from its first row, with the bounds of the IDs where they
    /// are known. Empty without a page index.
    ///
    /// # Errors
    /// What reading meets.
    pub(crate) fn id_pages(&self, group: usize) -> Result<BoundedRows> {
        let Some(ids) = self.ids else { return Ok(Vec::new()) };
        let rows = self.metadata.row_group(group).num_rows() as u64;
        let chunk = self.metadata.row_group(group).column(ids.leaf);
        let (Some(values), Some(pages)) = (chunk.column_index_range(), chunk.offset_index_range()) else {
            return Ok(Vec::new());
        };
        let readable = |range: &Range<u64>| range.end <= self.looking.size() && range.end - range.start <= MOST_INDEX;
        if !readable(&values) || !readable(&pages) {
            return Ok(Vec::new());
        }
        let Some(map) = ColumnPageMap::decode(&self.looking.read(pages)?, chunk, rows) else { return Ok(Vec::new()) };
        let all: Vec<Range<u64>> = map.page_rows(rows).collect();
        let bounds = ids.of_pages(&self.looking.read(values)?, chunk.column_type(), all.len());
        Ok(bounds.map(|bounds| all.into_iter().zip(bounds).collect()).unwrap_or_default())
    }

    /// Whether rows between others that are read are worth leaving out: whether that saves more bytes than a
    /// request is worth. `gap` counts from the first row of the row group.
    ///
    /// # Errors
    /// What reading the offset index meets.
    pub(crate) fn is_worth_skipping(&self, group: usize, gap: &Range<u64>) -> Result<bool> {
        if let Some(map) = PageMap::of_group(&self.reading, &self.metadata, group, &self.wanted)? {
            return Ok(map.bytes_within(gap) > READ_THROUGH);
        }
        // Pages lie where they like: only beyond the first can some be left out.
        let rows = (self.metadata.row_group(group).num_rows() as u64).max(1);
        let saved = |chunk: &ColumnChunkMetaData| {
            let bytes = chunk.byte_range().1;
            let unpacked = u64::try_from(chunk.uncompressed_size()).unwrap_or(0).max(1);
            let page = (u128::from(PAGE) * u128::from(bytes) / u128::from(unpacked)) as u64;
            let part = (u128::from(bytes) * u128::from(gap.end - gap.start) / u128::from(rows)) as u64;
            part.saturating_sub(page)
        };
        Ok(self.chunks(group).map(saved).sum::<u64>() > READ_THROUGH)
    }

    /// Starts to read what the reader of some rows of a row group will ask for first: everything, if it is little.
    ///
    /// # Errors
    /// What reading the offset index meets.
    pub(crate) fn read_ahead(&self, group: usize, rows: &Range<u64>) -> Result<Hold> {
        let all = self.metadata.row_group(group).num_rows() as u64;
        let whole = rows.start == 0 && rows.end >= all;
        let map = match whole {
            true => None,
            false => PageMap::of_group(&self.reading, &self.metadata, group, &self.wanted)?,
        };
        let known = self.dictionaries.swap(group + 1, Ordering::Relaxed) == group + 1;
        let metadata = self.metadata.row_group(group);
        let reach = Reach::of(metadata, &self.wanted, rows, map.as_deref(), self.at_once, |_| known);
        let first = reach.first_ranges();
        Ok(if total(&first) == 0 { Hold::default() } else { self.reading.hold_ahead(first) })
    }

    fn chunks(&self, group: usize) -> impl Iterator<Item = &ColumnChunkMetaData> {
        let columns = self.metadata.row_group(group).columns().iter().zip(&self.wanted);
        columns.filter(|(_, wanted)| **wanted).map(|(chunk, _)| chunk)
    }
}
