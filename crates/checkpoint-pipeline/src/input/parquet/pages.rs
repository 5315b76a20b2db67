//! The pages of one column chunk on their way to the decoder: measured, and resumable in the middle.

use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::column_bytes::ColumnBytes;
use super::page_size::ColumnShape;
use super::step::Steps;

/// The page reader that the decoder sees.
///
/// A reader that starts in the middle of its chunk shows the rows before as one page of known length,
/// which the decoder skips without asking for its content, and then the dictionary that it missed.
pub(super) struct ColumnPages {
    inner: SerializedPageReader<ColumnBytes>,
    bytes: ColumnBytes,
    steps: Steps,
    column: usize,
    shape: ColumnShape,
    /// Rows before the first page of `inner`, while the decoder has not skipped them.
    before: Option<usize>,
    dictionary: Option<Page>,
    /// Records that started in the pages that have passed.
    row: u64,
}

impl ColumnPages {
    /// Opens a chunk for a step that starts at the row `start` of its row group.
    pub(super) fn open(
        bytes: ColumnBytes,
        chunk: &ColumnChunkMetaData,
        rows: usize,
        steps: Steps,
        column: usize,
        start: u64,
    ) -> Result<Self> {
        let shape = ColumnShape::new(chunk.column_descr());
        let (row, dictionary, chunk) = match steps.resume(column, start) {
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
        let inner = SerializedPageReader::new(std::sync::Arc::new(bytes.clone()), &chunk, rows, None)?;
        bytes.take_mark();
        let before = usize::try_from(row).ok().filter(|rows| *rows > 0);
        Ok(Self { inner, bytes, steps, column, shape, before, dictionary, row })
    }

    fn note(&mut self, starts_record: bool) {
        if let Some(offset) = self.bytes.take_mark()
            && starts_record
        {
            self.steps.note_page(self.column, self.row, offset);
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
        self.bytes.set_sequential(true);
        let Some(page) = self.inner.get_next_page()? else { return Ok(None) };
        if let Page::DictionaryPage { buf, num_values, .. } = &page {
            self.bytes.take_mark();
            self.steps.note_dictionary(self.column, &page, self.shape.longest(buf, *num_values));
            return Ok(Some(page));
        }
        let size = self.shape.measure(&page, self.steps.longest(self.column));
        self.note(size.records.is_some_and(|r| r.at_start));
        let row = self.row;
        self.row += size.records.map_or(0, |r| r.started);
        if self.steps.charge(self.column, row, size) {
            Ok(Some(page))
        } else {
            Err(ParquetError::General("the decoding step is too large".to_owned()))
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        if let Some(rows) = self.before {
            return Ok(Some(PageMetadata { num_rows: Some(rows), num_levels: None, is_dict: false }));
        }
        if self.dictionary.is_some() {
            return Ok(Some(PageMetadata { num_rows: None, num_levels: None, is_dict: true }));
        }
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if self.before.take().is_some() || self.dictionary.take().is_some() {
            return Ok(());
        }
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

/// Gives one chunk's page reader, once.
pub(super) struct OneChunk(pub(super) Option<Result<ColumnPages>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| pages.map(|pages| Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}
