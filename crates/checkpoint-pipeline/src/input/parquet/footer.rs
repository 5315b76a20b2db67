//! The footer of a Parquet file: read once with one or two requests, checked before anything relies on it.

use std::io::{Cursor, Read};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use parquet::file::reader::{ChunkReader, Length};

use super::super::decode::decode;
use super::super::fetch::FileFetch;
use super::bounds::integer_leaf;
use crate::error::{Error, Result};

/// Bytes of the end of the file that are fetched at first; most footers fit.
const TAIL: u64 = 64 << 10;

/// Reads and checks the footer, or takes the one that the context keeps. Statistics of values are left out, for
/// they can be large, save those of the integers that the context asks for.
///
/// # Errors
/// `BadData` for a damaged footer, and what reading meets.
pub(super) fn read(fetch: &Arc<FileFetch>) -> Result<Arc<ParquetMetaData>> {
    let footers = fetch.context().footers();
    if let Some(footer) = footers.get(fetch.file()) {
        return Ok(footer);
    }
    let size = fetch.size();
    if size < 12 {
        return Err(Error::bad_data(format!("not a Parquet file, it has {size} bytes: {}", fetch.place())));
    }
    let start = size.saturating_sub(TAIL);
    let tail = Tail { fetch: Arc::clone(fetch), start, bytes: fetch.read(start..size)? };
    let parse = |statistics| {
        let options = ParquetMetaDataOptions::new().with_column_stats_policy(statistics);
        let reader = ParquetMetaDataReader::new().with_metadata_options(Some(options));
        decode(|| reader.parse_and_finish(&tail)).map_err(|e| fetch.blame("damaged Parquet footer", &e, ""))
    };
    let mut metadata = parse(ParquetStatisticsPolicy::SkipAll)?;
    let ids = fetch.context().statistics_of().and_then(|name| integer_leaf(metadata.file_metadata(), name));
    if let Some(leaf) = ids {
        metadata = parse(ParquetStatisticsPolicy::skip_except(&[leaf]))?;
    }
    check(&metadata, size).map_err(|what| fetch.blame("damaged Parquet footer", &what, ""))?;
    let metadata = Arc::new(metadata);
    footers.keep(fetch.file(), &metadata);
    Ok(metadata)
}

/// Refuses offsets and counts that no whole file can have; the decoder takes them for granted.
fn check(metadata: &ParquetMetaData, size: u64) -> Result<(), String> {
    let mut rows = 0i64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        if group.num_rows() < 0 {
            return Err(format!("row group {index} has {} rows", group.num_rows()));
        }
        rows = rows.checked_add(group.num_rows()).ok_or("the row count overflows")?;
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            let length = column.compressed_size();
            let whole = start >= 0 && length >= 0 && start.checked_add(length).is_some_and(|end| end as u64 <= size);
            if !whole {
                return Err(format!(
                    "row group {index} column {} claims {length} bytes at {start} of a file of {size}",
                    column.column_path()
                ));
            }
        }
    }
    if metadata.file_metadata().num_rows() != rows {
        return Err(format!("it claims {} rows and its row groups {rows}", metadata.file_metadata().num_rows()));
    }
    Ok(())
}

/// The file through its fetched end.
struct Tail {
    fetch: Arc<FileFetch>,
    start: u64,
    bytes: Bytes,
}

impl Length for Tail {
    fn len(&self) -> u64 {
        self.fetch.size()
    }
}

impl ChunkReader for Tail {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let length = self.len().saturating_sub(start) as usize;
        Ok(Box::new(Cursor::new(self.get_bytes(start, length)?)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.saturating_add(length as u64);
        if end > self.len() {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} end beyond the file")));
        }
        if start >= self.start {
            let from = (start - self.start) as usize;
            return Ok(self.bytes.slice(from..from + length));
        }
        self.fetch.read(start..end).map_err(|e| {
            let text = e.to_string();
            self.fetch.keep_fault(e);
            ParquetError::General(text)
        })
    }
}
