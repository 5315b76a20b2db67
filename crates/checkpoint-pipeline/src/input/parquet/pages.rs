//! The pages of one column chunk on their way to the decoder: measured, split where they are large, and
//! resumable in the middle.

use std::io::Read;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::column_bytes::ColumnBytes;
use super::dictionary::StoredDictionary;
use super::page_header::{Content, PLAIN, PLAIN_DICTIONARY, PageHeader};
use super::page_map::ColumnPageMap;
use super::page_size::ColumnShape;
use super::split::SplitPage;
use super::step::Steps;
use super::unpack::{can_stream, unpack};

/// Unpacked bytes above which a page of byte arrays is split, and a dictionary of them stored on disk.
const LARGE: u64 = 16 << 20;

/// The page reader that the decoder sees.
///
/// A reader that starts in the middle of its chunk shows the rows before as one page of known length,
/// which the decoder skips without asking for its content, and then the dictionary that it missed. A large
/// dictionary is never shown: the pages that need it are given with their values put in.
pub(super) struct ColumnPages {
    inner: SerializedPageReader<ColumnBytes>,
    bytes: ColumnBytes,
    steps: Steps,
    column: usize,
    shape: ColumnShape,
    codec: Compression,
    /// Whether the chunk is large enough to hold a large page that can be split.
    may_be_large: bool,
    /// Rows before the first page of `inner`, while the decoder has not skipped them.
    before: Option<usize>,
    dictionary: Option<Page>,
    stored: Option<Arc<StoredDictionary>>,
    split: Option<SplitPage>,
    /// Records that started in the pages that have passed.
    row: u64,
}

impl ColumnPages {
    /// Opens a chunk for a step that starts at the row `start` of its row group: where `map` says that its page
    /// is, or that it was met before.
    pub(super) fn open(
        bytes: ColumnBytes,
        chunk: &ColumnChunkMetaData,
        rows: usize,
        steps: Steps,
        column: usize,
        start: u64,
        map: Option<&ColumnPageMap>,
    ) -> Result<Self> {
        let page = map.and_then(|map| map.page_of(start)).filter(|page| page.row > 0);
        if let Some((map, page)) = map.zip(page) {
            if map.first_page() > bytes.start() && !steps.knows_dictionary(column) {
                Self::at(bytes.clone(), chunk, rows, steps.clone(), column, None)?.pass_dictionary()?;
            }
            steps.note_page(column, page.row, page.start);
        }
        let resume = steps.resume(column, start);
        Self::at(bytes, chunk, rows, steps, column, resume)
    }

    /// Opens a chunk at its start, or at a page that is known.
    fn at(
        bytes: ColumnBytes,
        chunk: &ColumnChunkMetaData,
        rows: usize,
        steps: Steps,
        column: usize,
        resume: Option<(u64, u64, Option<Page>)>,
    ) -> Result<Self> {
        let shape = ColumnShape::new(chunk.column_descr());
        let codec = chunk.compression();
        let may_be_large =
            shape.byte_array && can_stream(codec) && u64::try_from(chunk.uncompressed_size()).is_ok_and(|n| n > LARGE);
        let (row, dictionary, chunk) = match resume {
            None => (0, None, chunk.clone()),
            Some((row, offset, dictionary)) => {
                let length = bytes.end().saturating_sub(offset);
                let rest = chunk
                    .clone()
                    .into_builder()
                    .set_dictionary_page_offset(None)
                    .set_data_page_offset(i64::try_from(offset)?)
                    .set_total_compressed_size(i64::try_from(length)?)
                    .build()?;
                (row, dictionary, rest)
            }
        };
        let inner = SerializedPageReader::new(Arc::new(bytes.clone()), &chunk, rows, None)?;
        bytes.take_mark();
        let before = usize::try_from(row).ok().filter(|rows| *rows > 0);
        let stored = steps.stored_dictionary(column);
        let split = None;
        Ok(Self { inner, bytes, steps, column, shape, codec, may_be_large, before, dictionary, stored, split, row })
    }

    /// Reads the dictionary at the start of the chunk, which notes it.
    fn pass_dictionary(&mut self) -> Result<()> {
        self.prepare(false)?;
        if self.stored.is_none() && self.inner.peek_next_page()?.is_some_and(|page| page.is_dict) {
            self.get_next_page()?;
        }
        self.bytes.take_mark();
        Ok(())
    }

    /// Notes where the page begins that was read or skipped last.
    fn note(&mut self, starts_record: bool) {
        if let Some(offset) = self.bytes.take_mark()
            && starts_record
        {
            self.steps.note_page(self.column, self.row, offset);
        }
    }

    /// Whether the next page can be taken as it is. Large dictionaries before it are stored, so that they
    /// are never seen; a large data page is opened for splitting when `open` says so.
    fn prepare(&mut self, open: bool) -> Result<()> {
        while self.may_be_large && self.split.is_none() && self.inner.peek_next_page()?.is_some() {
            let Some(offset) = self.bytes.mark() else { break };
            let header = PageHeader::read(self.bytes.read_from(offset))?;
            if header.uncompressed <= LARGE {
                break;
            }
            let body = || self.bytes.read_from(offset + header.length).take(header.compressed);
            match header.content {
                Content::Dictionary { values, encoding: PLAIN | PLAIN_DICTIONARY } => {
                    if self.stored.is_none() {
                        self.bytes.set_sequential(true);
                        let page = std::io::BufReader::new(unpack(self.codec, body())?);
                        let stored = StoredDictionary::store(page, values, header.uncompressed, &self.bytes)?;
                        self.stored = Some(self.steps.note_stored_dictionary(self.column, stored));
                    }
                    self.inner.skip_next_page()?;
                    self.bytes.take_mark();
                }
                content if open && SplitPage::can_split(content, &self.shape) => {
                    self.bytes.set_sequential(true);
                    let split = SplitPage::plain(&header, self.shape, self.codec, body())?;
                    self.inner.skip_next_page()?;
                    self.note(split.starts_record());
                    self.split = Some(split);
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Counts a data page, and charges it to the step.
    fn pass(&mut self, page: Page, whole: bool) -> Result<Option<Page>> {
        let size = self.shape.measure(&page, self.steps.longest(self.column));
        if whole {
            self.note(size.records.is_some_and(|r| r.at_start));
        }
        let row = self.row;
        self.row += size.records.map_or(0, |r| r.started);
        if self.steps.charge(self.column, row, size) {
            Ok(Some(page))
        } else {
            Err(ParquetError::General("the decoding step is too large".to_owned()))
        }
    }
}

impl Iterator for ColumnPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for ColumnPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        if self.before.is_some() {
            return Err(ParquetError::General("rows before the first page were asked for".to_owned()));
        }
        if let Some(dictionary) = self.dictionary.take() {
            return Ok(Some(dictionary));
        }
        loop {
            if let Some(split) = &mut self.split {
                if let Some(page) = split.next()? {
                    return self.pass(page, false);
                }
                self.split = None;
            }
            self.prepare(true)?;
            if self.split.is_some() {
                continue;
            }
            self.bytes.set_sequential(true);
            let Some(page) = self.inner.get_next_page()? else { return Ok(None) };
            if let Page::DictionaryPage { buf, num_values, .. } = &page {
                self.bytes.take_mark();
                self.steps.note_dictionary(self.column, &page, self.shape.longest(buf, *num_values));
                return Ok(Some(page));
            }
            match &self.stored {
                Some(stored) if is_dictionary(page.encoding()) => {
                    let split = SplitPage::indices(&page, self.shape, Arc::clone(stored))?;
                    self.note(split.starts_record());
                    self.split = Some(split);
                }
                _ => return self.pass(page, true),
            }
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        if let Some(rows) = self.before {
            return Ok(Some(PageMetadata { num_rows: Some(rows), num_levels: None, is_dict: false }));
        }
        if self.dictionary.is_some() {
            return Ok(Some(PageMetadata { num_rows: None, num_levels: None, is_dict: true }));
        }
        if let Some(split) = &mut self.split
            && let Some(page) = split.peek()?
        {
            let num_levels = Some(page.num_values() as usize);
            return Ok(Some(PageMetadata { num_rows: None, num_levels, is_dict: false }));
        }
        self.split = None;
        self.prepare(false)?;
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if self.before.take().is_some() || self.dictionary.take().is_some() {
            return Ok(());
        }
        if let Some(split) = &mut self.split
            && let Some(page) = split.next()?
        {
            self.row += self.shape.measure(&page, 0).records.map_or(0, |r| r.started);
            return Ok(());
        }
        self.split = None;
        self.prepare(false)?;
        let page = self.inner.peek_next_page()?;
        self.inner.skip_next_page()?;
        self.bytes.set_sequential(false);
        // Only pages of known length are skipped: flat ones, and those that start with a record.
        let rows = page.and_then(|p| if p.is_dict { None } else { p.num_rows.or(p.num_levels) });
        self.note(rows.is_some());
        self.row += rows.unwrap_or(0) as u64;
        Ok(())
    }
}

fn is_dictionary(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

/// Gives one chunk's page reader, once.
pub(super) struct OneChunk(pub(super) Option<Result<ColumnPages>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| pages.map(|pages| Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}
