//! Where the pages of a row group are, from its offset index: what must be read for some of its rows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::index_reader::decode_offset_index;

use super::super::decode::decode;
use super::super::fetch::FileFetch;
use super::super::spans::{READ_THROUGH, join};
use super::levels::varint;
use crate::error::Result;

/// The most bytes of an offset index that are read for a row group.
const MOST_BYTES: u64 = 4 << 20;

/// A data page: its first row in the row group, and its bytes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageAt {
    pub(super) row: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The pages of a row group by leaf column; `None` for those that are not read or that have no index.
#[derive(Debug)]
pub(super) struct PageMap {
    columns: Vec<Option<ColumnPageMap>>,
    rows: u64,
}

/// The pages of a column chunk.
#[derive(Debug)]
pub(super) struct ColumnPageMap {
    chunk: Range<u64>,
    pages: Vec<PageAt>,
}

/// The maps of a file's row groups that are in use, by row group.
#[derive(Debug, Default)]
pub(in crate::input) struct PageMaps(Mutex<BTreeMap<usize, Option<Arc<PageMap>>>>);

impl PageMap {
    /// The map of a row group's columns, read once for those who look at the file and then read it; `None` where the file has no
    /// offset index, or one that cannot be right: then pages are found by their headers.
    ///
    /// # Errors
    /// What reading meets.
    pub(super) fn of_group(
        fetch: &Arc<FileFetch>,
        metadata: &ParquetMetaData,
        group: usize,
        wanted: &[bool],
    ) -> Result<Option<Arc<Self>>> {
        let maps = || fetch.page_maps().0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = maps().get(&group) {
            return Ok(known.clone());
        }
        let map = Self::read(fetch, metadata, group, wanted)?.map(Arc::new);
        maps().insert(group, map.clone());
        Ok(map)
    }

    fn read(fetch: &Arc<FileFetch>, metadata: &ParquetMetaData, group: usize, wanted: &[bool]) -> Result<Option<Self>> {
        let group = metadata.row_group(group);
        let chunks = || group.columns().iter().enumerate().filter(|(leaf, _)| wanted.get(*leaf) == Some(&true));
        let ranges: Vec<Range<u64>> = chunks().filter_map(|(_, chunk)| chunk.offset_index_range()).collect();
        let joined = join(ranges, READ_THROUGH);
        let bytes: u64 = joined.iter().map(|r| r.end - r.start).sum();
        if joined.is_empty() || bytes > MOST_BYTES || joined.last().is_some_and(|r| r.end > fetch.size()) {
            return Ok(None);
        }
        let parts =
            joined.into_iter().map(|range| Ok((range.start, fetch.read(range)?))).collect::<Result<Vec<_>>>()?;
        let mut columns: Vec<Option<ColumnPageMap>> = group.columns().iter().map(|_| None).collect();
        let rows = group.num_rows() as u64;
        for (leaf, chunk) in chunks() {
            let Some(range) = chunk.offset_index_range() else { continue };
            let part = parts.iter().rev().find(|(start, _)| *start <= range.start);
            let index =
                part.and_then(|(start, bytes)| bytes.get((range.start - start) as usize..(range.end - start) as usize));
            if let (Some(index), Some(column)) = (index, columns.get_mut(leaf)) {
                *column = ColumnPageMap::decode(index, chunk, rows);
            }
        }
        Ok(Some(Self { columns, rows }))
    }

    /// The pages of a leaf column.
    pub(super) fn column(&self, leaf: usize) -> Option<&ColumnPageMap> {
        self.columns.get(leaf).and_then(Option::as_ref)
    }

    /// The bytes of pages that lie in `gap` as a whole: what is saved by not reading these rows.
    pub(super) fn bytes_within(&self, gap: &Range<u64>) -> u64 {
        self.columns.iter().flatten().map(|column| column.bytes_within(gap, self.rows)).sum()
    }
}

impl PageMaps {
    /// Forgets the maps of the row groups before this one.
    pub(in crate::input) fn forget_before(&self, group: usize) {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *maps = maps.split_off(&group);
    }
}

impl ColumnPageMap {
    /// Decodes an offset index; `None` where it cannot be right.
    pub(super) fn decode(index: &[u8], chunk: &ColumnChunkMetaData, rows: u64) -> Option<Self> {
        if claims_more_than_it_holds(index) {
            return None;
        }
        let index = decode(|| decode_offset_index(index)).ok()?;
        let (start, length) = chunk.byte_range();
        let chunk = start..start + length;
        let pages = index.page_locations().iter().map(|page| {
            let start = u64::try_from(page.offset).ok()?;
            let end = start.checked_add(u64::try_from(page.compressed_page_size).ok()?)?;
            Some(PageAt { row: u64::try_from(page.first_row_index).ok()?, start, end })
        });
        let pages = pages.collect::<Option<Vec<PageAt>>>()?;
        let ordered = pages.windows(2).all(|two| two[0].row < two[1].row && two[0].end <= two[1].start);
        let inside = pages.iter().all(|p| p.start < p.end && chunk.start <= p.start && p.end <= chunk.end);
        let (first, last) = (pages.first()?, pages.last()?);
        (ordered && inside && first.row == 0 && last.row < rows).then_some(Self { chunk, pages })
    }

    /// The rows of each page, of a row group of so many.
    pub(super) fn page_rows(&self, rows: u64) -> impl Iterator<Item = Range<u64>> {
        let ends = self.pages.iter().skip(1).map(|page| page.row).chain([rows]);
        self.pages.iter().zip(ends).map(|(page, end)| page.row..end)
    }

    /// Where the first page begins; what comes before it in the chunk is the dictionary.
    pub(super) fn first_page(&self) -> u64 {
        self.pages.first().map_or(self.chunk.start, |page| page.start)
    }

    /// The page that holds a row.
    pub(super) fn page_of(&self, row: u64) -> Option<PageAt> {
        let after = self.pages.partition_point(|page| page.row <= row);
        self.pages.get(after.checked_sub(1)?).copied()
    }

    /// What must be read for some rows: their pages, and the dictionary before, if there is one and it is wanted.
    pub(super) fn spans(&self, rows: &Range<u64>, with_dictionary: bool) -> Vec<Range<u64>> {
        let start = if with_dictionary { self.chunk.start } else { self.first_page() };
        let dictionary = start..self.first_page();
        let first = self.page_of(rows.start);
        let last = rows.end.checked_sub(1).and_then(|row| self.page_of(row));
        match (first, last) {
            (Some(first), Some(last)) if rows.start < rows.end => join(vec![dictionary, first.start..last.end], 0),
            _ => Vec::new(),
        }
    }

    fn bytes_within(&self, gap: &Range<u64>, rows: u64) -> u64 {
        let first = self.pages.partition_point(|page| page.row < gap.start);
        // A page ends where the next one begins.
        let last = match gap.end >= rows {
            true => self.pages.len(),
            false => self.pages.partition_point(|page| page.row <= gap.end).saturating_sub(1),
        };
        self.pages.get(first..last).unwrap_or_default().iter().map(|page| page.end - page.start).sum()
    }
}

/// Whether an offset index says of itself that it has more pages than bytes. The decoder makes room for all of them before
/// it reads the first: up to 48 GiB for an index of seven bytes.
fn claims_more_than_it_holds(index: &[u8]) -> bool {
    /// How a structure begins whose first field is a list, and a list of 15 or more structures.
    const LIST: [u8; 2] = [0x19, 0xfc];
    match index.split_first_chunk() {
        Some((&LIST, mut rest)) => varint(&mut rest).is_none_or(|pages| pages > rest.len() as u64),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> ColumnPageMap {
        let page = |row: u64, start: u64, end: u64| PageAt { row, start, end };
        ColumnPageMap { chunk: 100..1000, pages: vec![page(0, 150, 300), page(10, 300, 500), page(25, 600, 900)] }
    }

    #[test]
    fn rows_need_the_dictionary_and_their_pages() {
        let map = map();
        assert_eq!(map.spans(&(0..10), true), vec![100..300]);
        assert_eq!(map.spans(&(10..11), true), [100..150, 300..500]);
        assert_eq!(map.spans(&(24..26), true), [100..150, 300..900]);
        assert_eq!(map.spans(&(30..40), true), [100..150, 600..900]);
        assert_eq!(map.spans(&(30..40), false), vec![600..900]);
        assert_eq!(map.spans(&(5..5), true), []);
        assert_eq!(map.page_of(24).map(|p| p.row), Some(10));
        assert_eq!(map.page_rows(40).collect::<Vec<_>>(), [0..10, 10..25, 25..40]);
    }

    #[test]
    fn an_index_cannot_claim_more_pages_than_it_has_bytes() {
        assert!(claims_more_than_it_holds(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]));
        assert!(claims_more_than_it_holds(&[0x19, 0xfc, 0x80]), "no number at all");
        let sixteen = [&[0x19, 0xfc, 16][..], &[0; 16]].concat();
        assert!(!claims_more_than_it_holds(&sixteen));
        assert!(claims_more_than_it_holds(&sixteen[..18]));
        assert!(!claims_more_than_it_holds(&[0x19, 0x1c, 0]), "few pages need no room");
    }

    #[test]
    fn only_whole_pages_in_a_gap_are_saved() {
        let map = map();
        assert_eq!(map.bytes_within(&(10..25), 40), 200);
        assert_eq!(map.bytes_within(&(9..25), 40), 200);
        assert_eq!(map.bytes_within(&(10..24), 40), 0);
        assert_eq!(map.bytes_within(&(1..40), 40), 500);
        assert_eq!(map.bytes_within(&(1..39), 40), 200);
        assert_eq!(map.bytes_within(&(0..40), 40), 650);
    }
}
