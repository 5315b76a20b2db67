//! One file that is first looked at, and then read: neither reads what the other has in hand.

use std::sync::Arc;

use super::budget::Budget;
use super::config::{ReadConfig, ReadContext};
use super::fetch::FileFetch;
use super::held::Hold;
use super::parquet::ParquetLook;
use super::reader::{BatchReader, open_fetch};
use super::source::SourceFile;
use crate::error::Result;
use crate::format::Format;

/// Bytes at the start of a file that are read before its turn, where nothing says what will be needed.
const START: u64 = 4 << 20;
/// Bytes at its end, where its footer is.
const END: u64 = 64 << 10;

/// A file with what is held of it.
#[derive(Debug)]
pub(crate) struct FileAccess {
    reading: Arc<FileFetch>,
    looking: Arc<FileFetch>,
}

impl FileAccess {
    /// A file that may hold as much as the budget gives.
    pub(crate) fn new(file: &SourceFile, context: &ReadContext, budget: Budget) -> Self {
        let reading = FileFetch::with_budget(file.clone(), context.clone(), Some(budget));
        Self { looking: reading.keeping(), reading }
    }

    /// Opens it for reading, as [`open`](super::open) does.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn open(&self, config: &ReadConfig) -> Result<Box<dyn BatchReader>> {
        open_fetch(Arc::clone(&self.reading), config)
    }

    /// Opens it for a look at some of its columns. What is read is kept for those who read it after.
    ///
    /// # Errors
    /// As [`open`](super::open).
    pub(crate) fn open_for_look(&self, config: &ReadConfig) -> Result<Box<dyn BatchReader>> {
        open_fetch(Arc::clone(&self.looking), config)
    }

    /// What a Parquet file says of its rows before they are read. `config` says what will be read of them, and
    /// `id_column` which column's values are of interest.
    ///
    /// # Errors
    /// As [`open`](super::open).
    pub(crate) fn look(&self, config: &ReadConfig, id_column: Option<&str>) -> Result<ParquetLook> {
        ParquetLook::open(Arc::clone(&self.looking), Arc::clone(&self.reading), config, id_column)
    }

    /// Holds what was kept while looking.
    pub(crate) fn kept(&self) -> Hold {
        self.looking.kept()
    }

    /// Holds the end of the file, if it was read for the footer: the page index is there, mostly.
    pub(crate) fn end(&self) -> Hold {
        self.looking.held_from(self.looking.size().saturating_sub(END))
    }

    /// Keeps no longer what was kept so far.
    pub(crate) fn forget_kept(&self) {
        self.looking.forget_kept();
    }

    /// Starts to read what opening a file and its first rows needs, where its footer does not tell.
    pub(crate) fn read_start(&self) -> Hold {
        let size = self.reading.size();
        let start = 0..size.min(START);
        let ranges = match self.reading.file().format {
            Format::ArrowIpc => vec![start, size.saturating_sub(END)..size],
            _ => vec![start],
        };
        self.reading.hold_ahead(ranges)
    }
}
