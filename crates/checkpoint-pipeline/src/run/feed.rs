//! The reader: input files in order, done rows left out, batches handed to whichever worker is free.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, not};
use arrow::datatypes::{DataType, Field, Schema};
use checkpoint_store::{IdColumn, IdProblem, IdSet, RuntimeRef};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::item::{Item, Places, place};
use super::lanes::{Lane, Lanes};
use super::prepare::{Prepared, missing_id_column};
use super::repeats::{Repeats, find_repeats};
use super::stretches::Stretch;
use crate::error::{Error, ErrorKind, Result};
use crate::input::{self, FileAccess, ParquetLook, ReadAhead, ReadConfig, ReadContext, SourceFile, decoded_size};
use crate::pipeline::{Ids, Pipeline, ROW_HASH_COLUMN, RowFilter};
use crate::report::{Counters, Stage, add, get};
use crate::row_hash;

/// Memory is counted in units of this many bytes.
const UNIT: u64 = 1024;
/// Bytes of IDs that are asked for at once, by each of several files.
const ID_BYTES_AT_ONCE: u64 = 2 << 20;

/// Reads all files on one blocking thread.
pub(super) struct Feed {
    rows: Arc<Rows>,
    done: Arc<dyn IdSet>,
    counters: Arc<Counters>,
    runtime: RuntimeRef,
    handle: tokio::runtime::Handle,
    memory: Arc<Semaphore>,
    memory_units: u64,
    memory_factor: u64,
    halt: CancellationToken,
    unique: Option<Repeats>,
    /// The first file, if it was looked at before, with what is held of it.
    first: Option<Arc<FileAccess>>,
    skipped: u64,
}

impl Feed {
    pub(super) fn new(
        pipeline: &Pipeline,
        prepared: &Prepared,
        done: Arc<dyn IdSet>,
        halt: CancellationToken,
        first: Option<Arc<FileAccess>>,
    ) -> Result<Self> {
        let rows = Arc::new(Rows::new(pipeline, prepared, prepared.config.clone()));
        let memory_units = (pipeline.memory as u64 / UNIT).max(1).min(u64::from(u32::MAX));
        Ok(Self {
            unique: pipeline.check_unique.then(|| Repeats::new(&rows)),
            rows,
            done,
            counters: pipeline.counters(),
            runtime: pipeline.runtime.clone(),
            handle: tokio::runtime::Handle::current(),
            memory: Arc::new(Semaphore::new(memory_units as usize)),
            memory_units,
            memory_factor: pipeline.transform.memory_factor().max(1) as u64,
            halt,
            first,
            skipped: 0,
        })
    }

    /// Reads to the end, or until nobody listens any more. What was read before an error is still worked off.
    ///
    /// # Errors
    /// As reading and the ID column give.
    pub(super) fn run(mut self, sender: &mpsc::Sender<Item>) -> Result<()> {
        let (rows, done, halt) = (self.rows.clone(), self.done.clone(), self.halt.clone());
        let mut lanes = Lanes::new(rows, done, self.unique.is_some(), halt, self.first.take());
        while let Some(lane) = lanes.next() {
            if !self.read_file(lane, sender)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads a file, whole rows only where some may be left. False when the run is over.
    ///
    /// # Errors
    /// As reading gives; `OutcomeUnknown` when rows of the file were neither read nor known to be done.
    fn read_file(&mut self, mut lane: Lane, sender: &mpsc::Sender<Item>) -> Result<bool> {
        let mut open: Option<OpenFile> = None;
        let before = get(&self.counters.read_rows);
        let mut last = 0;
        while !self.halt.is_cancelled() {
            let stretch = self.timed(|| lane.next())?;
            if let (Some(open), None | Some(Stretch::Done { .. })) = (&mut open, &stretch)
                && open.is_limited()
            {
                // Rows that wait for others to follow have waited in vain.
                self.timed(|| open.limit_here())?;
                if !self.read_rows(open, sender)? {
                    return Ok(false);
                }
            }
            match stretch {
                None => {
                    let counted = get(&self.counters.read_rows) - before;
                    return if counted == last || last == u64::MAX || self.rows.is_filtered() {
                        Ok(true)
                    } else {
                        Err(unaccounted(&lane.file, last, counted))
                    };
                }
                Some(Stretch::Done { rows, ids }) => {
                    last = rows.end;
                    self.count_done(&rows, &ids)?;
                }
                Some(Stretch::Read { rows, ahead }) => {
                    last = rows.end;
                    let open = match &mut open {
                        Some(open) => open,
                        none => none.insert(self.timed(|| self.rows.open(&lane.file, &lane.access))?),
                    };
                    self.timed(|| open.go_on(rows))?;
                    if !self.read_rows(open, sender)? {
                        return Ok(false);
                    }
                    drop(ahead);
                }
            }
        }
        Ok(false)
    }

    /// Sends the rows of an open file up to its limit. False when the run is over.
    fn read_rows(&mut self, open: &mut OpenFile, sender: &mpsc::Sender<Item>) -> Result<bool> {
        while let Some(piece) = self.timed(|| open.next())? {
            let done = self.done.contains(piece.ids.array())?;
            self.count(&piece.ids, &piece.places, done.true_count() as u64)?;
            if let Some(rest) = piece.without(&done)?
                && !self.send(rest, sender)?
            {
                return Ok(false);
            }
            if self.halt.is_cancelled() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts rows that are done and were not read.
    fn count_done(&mut self, rows: &Range<u64>, ids: &[(IdColumn, Places)]) -> Result<()> {
        if let Some(unique) = &mut self.unique {
            ids.iter().try_for_each(|(ids, places)| unique.insert(&self.rows, ids, places))?;
        }
        let count = rows.end - rows.start;
        self.add(count, count)
    }

    /// Counts rows that were read, so many of them done.
    ///
    /// # Errors
    /// `BadData` when more rows are done than IDs, or one is there twice and that is looked for.
    fn count(&mut self, ids: &IdColumn, places: &Places, done_rows: u64) -> Result<()> {
        if let Some(unique) = &mut self.unique {
            unique.insert(&self.rows, ids, places)?;
        }
        self.add(ids.len() as u64, done_rows)
    }

    fn add(&mut self, rows: u64, done_rows: u64) -> Result<()> {
        add(&self.counters.read_rows, rows);
        self.skipped += done_rows;
        add(&self.counters.skipped_rows, done_rows);
        if self.skipped > self.done.len() {
            return Err(find_repeats(&self.rows, self.done.as_ref(), self.skipped)?);
        }
        Ok(())
    }

    fn timed<R>(&self, work: impl FnOnce() -> R) -> R {
        let began = self.runtime.elapsed();
        let result = work();
        self.counters.spent(Stage::Read, self.runtime.elapsed().saturating_sub(began));
        result
    }

    /// Waits for memory and for a worker. False when the run is over.
    fn send(&self, piece: Piece, sender: &mpsc::Sender<Item>) -> Result<bool> {
        let units = (self.memory_factor * decoded_size(&piece.records) / UNIT).clamp(1, self.memory_units) as u32;
        let waiting = async {
            tokio::select! {
                permit = self.memory.clone().acquire_many_owned(units) => permit.ok(),
                () = self.halt.cancelled() => None,
            }
        };
        let Some(permit) = self.handle.block_on(waiting) else { return Ok(false) };
        let item = Item { records: piece.records, ids: piece.ids, places: piece.places, _memory: permit };
        Ok(sender.blocking_send(item).is_ok())
    }
}

/// The error for a file of whose rows some were lost on the way: rather no end than one without them.
fn unaccounted(file: &SourceFile, rows: u64, counted: u64) -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        format!("rows are unaccounted for: {counted} of {rows} were read or done before: file={}", file.location),
    )
    .with_hint("the checkpoint is kept; run the same command again, and please report this")
}

/// The rows of the job: all files, the filter and row hashes applied, IDs checked.
pub(super) struct Rows {
    pub(super) files: Vec<Arc<SourceFile>>,
    /// The rows of each file, where they are known without reading it.
    pub(super) totals: Vec<Option<u64>>,
    ids: Ids,
    filter: Option<RowFilter>,
    id_class: String,
    config: ReadConfig,
    context: ReadContext,
}

impl Rows {
    pub(super) fn new(pipeline: &Pipeline, prepared: &Prepared, config: ReadConfig) -> Self {
        Self {
            files: prepared.files.clone(),
            totals: prepared.totals.clone(),
            ids: pipeline.ids.clone(),
            filter: pipeline.filter.as_ref().map(|(_, filter)| filter.clone()),
            id_class: prepared.fingerprint.id_class.clone(),
            config,
            context: prepared.context.clone(),
        }
    }

    /// The same rows, for their IDs alone.
    pub(super) fn narrowed(&self) -> Arc<Self> {
        let columns = match (&self.ids, &self.filter) {
            (Ids::Column(name), None) => Some(vec![name.clone()]),
            _ => None,
        };
        self.with_config(ReadConfig::new().with_batch_rows(8192).with_at_once(ID_BYTES_AT_ONCE).with_columns(columns))
    }

    fn with_config(&self, config: ReadConfig) -> Arc<Self> {
        Arc::new(Self {
            files: self.files.clone(),
            totals: self.totals.clone(),
            ids: self.ids.clone(),
            filter: self.filter.clone(),
            id_class: self.id_class.clone(),
            config,
            context: self.context.clone(),
        })
    }

    /// The column that names rows; none when row hashes do.
    pub(super) fn id_column(&self) -> Option<&str> {
        match &self.ids {
            Ids::Column(name) => Some(name),
            Ids::RowHash => None,
        }
    }

    /// Whether some rows are left out, so that positions in the file are not those of the job.
    pub(super) fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// The memory for what is read before its turn.
    pub(super) fn read_ahead(&self) -> &ReadAhead {
        self.context.read_ahead()
    }

    /// A file of the job, to be looked at and then read.
    pub(super) fn access(&self, index: usize, file: &SourceFile) -> Arc<FileAccess> {
        Arc::new(FileAccess::new(file, &self.context, self.read_ahead().of_file(index)))
    }

    /// What a Parquet file says of the rows that will be read of it.
    ///
    /// # Errors
    /// As opening it gives.
    pub(super) fn look(&self, access: &FileAccess) -> Result<ParquetLook> {
        access.look(&self.config, self.id_column())
    }

    /// Opens a file for its rows.
    ///
    /// # Errors
    /// As reading gives.
    pub(super) fn open(self: &Arc<Self>, file: &Arc<SourceFile>, access: &FileAccess) -> Result<OpenFile> {
        let reader = access.open(&self.config).map_err(|error| self.explain_missing_column(error, file))?;
        Ok(OpenFile::new(self, reader, file))
    }

    /// Opens a file for its IDs alone, which are kept for who reads the rows after.
    ///
    /// # Errors
    /// As reading gives.
    pub(super) fn open_ids(&self, file: &Arc<SourceFile>, access: &FileAccess) -> Result<OpenFile> {
        let ids = self.narrowed();
        let reader = access.open_for_look(&ids.config).map_err(|error| ids.explain_missing_column(error, file))?;
        Ok(OpenFile::new(&ids, reader, file))
    }

    /// Opens a file by itself.
    ///
    /// # Errors
    /// As reading gives.
    pub(super) fn open_alone(self: &Arc<Self>, file: &Arc<SourceFile>) -> Result<OpenFile> {
        let reader = input::open(file, &self.config, &self.context);
        let reader = reader.map_err(|error| self.explain_missing_column(error, file))?;
        Ok(OpenFile::new(self, reader, file))
    }

    /// A projection on a column that is not there fails in the reader; say it as everywhere else.
    fn explain_missing_column(&self, error: Error, file: &Arc<SourceFile>) -> Error {
        let (Some(columns), Ids::Column(name)) = (&self.config.columns, &self.ids) else { return error };
        let whole = self.config.clone().with_columns(None);
        match input::open(file, &whole, &self.context) {
            Ok(reader) if columns.contains(name) && reader.schema().field_with_name(name).is_err() => {
                missing_id_column(name, &reader.schema(), &file.location.to_string())
            }
            _ => error,
        }
    }
}

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
    fn new(rows: &Arc<Rows>, reader: Box<dyn input::BatchReader>, file: &Arc<SourceFile>) -> Self {
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
        let ids = IdColumn::try_new(&array)?.map_err(|p| Error::bad_data(p.to_string()))?;
        let places = Places { rows: kept(&self.places.rows, &keep), file: self.places.file };
        Ok(Some(Self { records, ids, places }))
    }
}

fn kept(rows: &[u64], keep: &BooleanArray) -> Vec<u64> {
    rows.iter().enumerate().filter(|(i, _)| keep.is_valid(*i) && keep.value(*i)).map(|(_, row)| *row).collect()
}
