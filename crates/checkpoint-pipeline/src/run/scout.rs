//! Finding out which rows of a file are done before it is read, by its IDs alone. A resume reads whole rows
//! only where some are left.

use std::ops::Range;
use std::sync::Arc;

use checkpoint_store::{IdColumn, IdSet};

use super::feed::Rows;
use super::id_reader::IdReader;
use super::item::Places;
use crate::error::Result;
use crate::format::Format;
use crate::input::SourceFile;

/// Batches in a row without a done row, after which the rest of a file is read without looking ahead: what
/// was never begun is not read twice.
const PATIENCE: u32 = 64;

/// What comes next in a file.
pub(super) enum Next {
    /// Rows that are all done.
    Done { ids: IdColumn, places: Places },
    /// Positions of rows that must be read whole, since some of them may be left.
    Read(Range<u64>),
}

/// Goes through one file ahead of the reader.
pub(super) enum Scout {
    /// Looks ahead; the number counts batches in a row that nobody began.
    Ahead(IdReader, u32),
    /// Knows nothing of the rows from here on; `None` once that is said.
    Blind(Option<u64>),
}

impl Scout {
    /// Looks at a file as far as that pays: something must be done, positions must be those of the file, and
    /// the ID must be cheaper to read than the row. `rows` is the number of rows, where it is known.
    ///
    /// # Errors
    /// As opening the file gives.
    pub(super) fn new(job: &Arc<Rows>, file: &Arc<SourceFile>, rows: Option<u64>, done: &dyn IdSet) -> Result<Self> {
        let nothing_to_know = done.is_empty() || job.is_filtered();
        let ids = match job.id_column() {
            _ if nothing_to_know => None,
            Some(column) if file.format == Format::Parquet => {
                Some(IdReader::open(&job.with_columns(vec![column.to_owned()]), file, rows)?)
            }
            None if rows.is_some() => Some(IdReader::open(job, file, rows)?),
            _ => None,
        };
        Ok(ids.map_or(Self::Blind(Some(0)), |ids| Self::Ahead(ids, 0)))
    }

    /// What comes next; `None` at the end of the file.
    ///
    /// # Errors
    /// As reading the ID column gives.
    pub(super) fn next(&mut self, done: &dyn IdSet) -> Result<Option<Next>> {
        let (ahead, untouched) = match self {
            Self::Blind(start) => return Ok(start.take().map(|start| Next::Read(start..u64::MAX))),
            Self::Ahead(ahead, untouched) => (ahead, untouched),
        };
        let Some((ids, places)) = ahead.next()? else { return Ok(None) };
        let done_rows = done.contains(ids.array())?.true_count();
        if done_rows == ids.len() {
            *untouched = 0;
            return Ok(Some(Next::Done { ids, places }));
        }
        *untouched = if done_rows == 0 { *untouched + 1 } else { 0 };
        let first = places.rows.first().copied().unwrap_or_default();
        if *untouched >= PATIENCE {
            *self = Self::Blind(None);
            return Ok(Some(Next::Read(first..u64::MAX)));
        }
        Ok(Some(Next::Read(first..first + ids.len() as u64)))
    }

    /// Leaves out all rows before `row`, which the reader has passed.
    ///
    /// # Errors
    /// As reading the ID column gives.
    pub(super) fn skip_to(&mut self, row: u64) -> Result<()> {
        match self {
            Self::Ahead(ahead, _) => ahead.skip_to(row),
            Self::Blind(_) => Ok(()),
        }
    }
}
