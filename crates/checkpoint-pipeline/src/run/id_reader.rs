//! The IDs of one file, as cheaply as they can be had: row hashes need nothing but the number of rows.

use std::sync::Arc;

use arrow::array::ArrayRef;
use checkpoint_store::IdColumn;

use super::feed::{OpenFile, Rows};
use super::item::Places;
use crate::error::{Error, Result};
use crate::input::SourceFile;
use crate::row_hash;

/// Goes through the IDs of a file, in order, batch by batch.
pub(super) enum IdReader {
    /// Reads the file, or what is chosen of its columns.
    Rows(Box<OpenFile>),
    /// Makes row hashes.
    Hashes { file: Arc<SourceFile>, seed: u64, next: u64, rows: u64, window: u64 },
}

impl IdReader {
    /// The IDs of a file, cut as `job` cuts its batches. `rows` is the number of rows, where it is known.
    ///
    /// # Errors
    /// As opening the file gives, where it must be read.
    pub(super) fn open(job: &Arc<Rows>, file: &Arc<SourceFile>, rows: Option<u64>) -> Result<Self> {
        match rows {
            Some(rows) if job.id_column().is_none() && !job.is_filtered() => {
                let seed = row_hash::seed(&file.hash_key());
                Ok(Self::Hashes { file: file.clone(), seed, next: 0, rows, window: job.window() })
            }
            _ => Ok(Self::Rows(Box::new(job.open(file)?))),
        }
    }

    /// The next IDs, never none, and where they are; `None` at the end of the file.
    ///
    /// # Errors
    /// As reading the ID column gives.
    pub(super) fn next(&mut self) -> Result<Option<(IdColumn, Places)>> {
        match self {
            Self::Rows(open) => Ok(open.next()?.map(|piece| (piece.ids, piece.places))),
            Self::Hashes { file, seed, next, rows, window } => {
                let end = (*next / *window + 1).saturating_mul(*window).min(*rows);
                if *next >= end {
                    return Ok(None);
                }
                let range = std::mem::replace(next, end)..end;
                let hashes: ArrayRef = Arc::new(row_hash::array(*seed, range.start, (end - range.start) as usize));
                let ids = IdColumn::try_new(&hashes)?.map_err(|p| Error::bad_data(p.to_string()))?;
                Ok(Some((ids, Places { file: file.clone(), rows: range.collect() })))
            }
        }
    }

    /// Leaves out all rows before `row`. Not for filtered rows.
    ///
    /// # Errors
    /// As reading the ID column gives.
    pub(super) fn skip_to(&mut self, row: u64) -> Result<()> {
        match self {
            Self::Rows(open) => open.skip_to(row),
            Self::Hashes { next, .. } => {
                *next = row.max(*next);
                Ok(())
            }
        }
    }
}
