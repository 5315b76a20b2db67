//! One input file while it is read: its rows with their IDs, each fit to name its row.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, not};
use arrow::datatypes::{DataType, Field, Schema};
use checkpoint_store::{IdColumn, IdProblem};

use super::item::{Places, place};
use super::prepare::missing_id_column;
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::input::{self, SourceFile};
use crate::pipeline::{Ids, ROW_HASH_COLUMN};
use crate::row_hash;

/// One file while it is read.
pub(super) struct OpenFile {
    rows: Arc<Rows>,
    reader: Box<dyn input::BatchReader>,
    file: Arc<SourceFile>,
    hash_seed: u64,
    hash_position: u64,
    position: u64,
    limit: u64,
}

/// A batch of input rows, every ID fit to name its row.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) records: RecordBatch,
    pub(super) ids: IdColumn,
    pub(super) places: Places,
}

impl OpenFile {
    pub(super) fn new(rows: &Arc<Rows>, reader: Box<dyn input::BatchReader>, file: &Arc<SourceFile>) -> Self {
        Self {
            rows: rows.clone(),
            reader,
            file: file.clone(),
            hash_seed: row_hash::seed(&file.hash_key()),
            hash_position: 0,
            position: 0,
            limit: u64::MAX,
        }
    }

    /// The next rows; `None` at the end of the file, or where its rows are limited.
    pub(super) fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            let Some((start, mut records)) = self.reader.next()? else { return Ok(None) };
            self.position = start + records.num_rows() as u64;
            let mut rows: Vec<u64> = (start..self.position).collect();
            if let Some(filter) = &self.rows.filter {
                let keep = filter(&records)?;
                rows = kept(&rows, &keep);
                records = filter_record_batch(&records, &keep).map_err(|e| self.broken("filtering failed", e))?;
            }
            if records.num_rows() == 0 {
                continue;
            }
            if self.rows.ids == Ids::RowHash {
                records = self.with_row_hash(&records)?;
            }
            let places = Places { file: self.file.clone(), rows };
            let ids = self.check_ids(&records, &places)?;
            return Ok(Some(Piece { records, ids, places }));
        }
    }

    /// Leaves out all rows before `row`. Not for filtered rows, whose hashes count what the filter keeps.
    pub(super) fn skip_to(&mut self, row: u64) -> Result<()> {
        if row > self.position {
            self.reader.skip_to(row)?;
            (self.position, self.hash_position) = (row, row);
        }
        Ok(())
    }

    /// Gives no rows from `row` on; those before may wait for more to follow, unless they are the `last`.
    pub(super) fn limit(&mut self, row: u64, last: bool) -> Result<()> {
        self.limit = row;
        self.reader.limit(row, last)
    }

    /// Gives these rows next: after those up to the limit, which may wait for them, or after a gap.
    pub(super) fn go_on(&mut self, rows: Range<u64>) -> Result<()> {
        if self.limit != rows.start {
            self.skip_to(rows.start)?;
        }
        self.limit(rows.end, false)
    }

    /// Whether its rows end before the file does, as far as is known.
    pub(super) fn is_limited(&self) -> bool {
        self.limit < u64::MAX
    }

    /// Says that no row follows those up to the limit.
    pub(super) fn limit_here(&mut self) -> Result<()> {
        self.reader.limit(self.limit, true)
    }

    fn broken(&self, what: &str, error: impl std::fmt::Display) -> Error {
        Error::bad_data(format!("{what}: {error}: file={}", self.file.location))
    }

    fn with_row_hash(&mut self, records: &RecordBatch) -> Result<RecordBatch> {
        let hashes = row_hash::array(self.hash_seed, self.hash_position, records.num_rows());
        self.hash_position += records.num_rows() as u64;
        let schema = records.schema();
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(ROW_HASH_COLUMN, DataType::UInt64, false)));
        let mut columns: Vec<ArrayRef> = records.columns().to_vec();
        columns.push(Arc::new(hashes));
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        RecordBatch::try_new(schema, columns).map_err(|e| self.broken("adding row hashes failed", e))
    }

    fn check_ids(&self, records: &RecordBatch, places: &Places) -> Result<IdColumn> {
        let name = self.rows.ids.column();
        let Some(array) = records.column_by_name(name) else {
            return Err(missing_id_column(name, &records.schema(), &self.file.location.to_string()));
        };
        let (what, row) = match IdColumn::try_new(array)? {
            Ok(ids) if ids.class().to_string() == self.rows.id_class => return Ok(ids),
            Ok(ids) => {
                return Err(Error::bad_data(format!(
                    "the ID column is of another type in this file: {} and elsewhere {}: column={name} file={}",
                    ids.class(),
                    self.rows.id_class,
                    self.file.location
                ))
                .with_hint("a text never equals a number: make the files agree, or run them as two jobs"));
            }
            Err(IdProblem::Null { row }) => ("null", row),
            Err(IdProblem::Empty { row }) => ("empty", row),
            Err(other) => return Err(Error::bad_data(format!("{other}: file={}", self.file.location))),
        };
        let row = places.rows.get(row).copied().unwrap_or_default();
        Err(Error::bad_data(format!("the ID is {what}: column={name} at={}", place(&self.file, row)))
            .with_hint("every row needs an ID; drop such rows, fill them in, or use --row-hash"))
    }
}

impl Piece {
    /// The rows that are not done; `None` when all are.
    pub(super) fn without(self, done: &BooleanArray) -> Result<Option<Self>> {
        let done_rows = done.true_count();
        if done_rows == 0 {
            return Ok(Some(self));
        }
        if done_rows == self.ids.len() {
            return Ok(None);
        }
        let failed = |e: arrow::error::ArrowError| Error::bad_data(format!("a batch cannot be filtered: {e}"));
        let keep = not(done).map_err(failed)?;
        let records = filter_record_batch(&self.records, &keep).map_err(failed)?;
        let array = arrow::compute::filter(self.ids.array(), &keep).map_err(failed)?;
        let ids = IdColumn::checked(&array)?;
        let places = Places { rows: kept(&self.places.rows, &keep), file: self.places.file };
        Ok(Some(Self { records, ids, places }))
    }
}

fn kept(rows: &[u64], keep: &BooleanArray) -> Vec<u64> {
    rows.iter().enumerate().filter(|(i, _)| keep.is_valid(*i) && keep.value(*i)).map(|(_, row)| *row).collect()
}
