//! The reader: input files in order, done rows left out, batches handed to whichever worker is free.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, not};
use arrow::datatypes::{DataType, Field, Schema};
use checkpoint_store::{IdColumn, IdProblem, IdSet, RuntimeRef};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::item::{Item, Places, place};
use super::prepare::{Prepared, missing_id_column};
use super::repeats::{Repeats, find_repeats};
use super::scout::{Next, Scout};
use crate::error::{Error, Result};
use crate::input::{self, ReadConfig, ReadContext, SourceFile, decoded_size};
use crate::pipeline::{Ids, Pipeline, ROW_HASH_COLUMN, RowFilter};
use crate::report::{Counters, Stage, add};
use crate::row_hash;

/// Memory is counted in units of this many bytes.
const UNIT: u64 = 1024;

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
    skipped: u64,
}

impl Feed {
    pub(super) fn new(
        pipeline: &Pipeline,
        prepared: &Prepared,
        done: Arc<dyn IdSet>,
        halt: CancellationToken,
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
            skipped: 0,
        })
    }

    /// Reads to the end, or until nobody listens any more. What was read before an error is still worked off.
    ///
    /// # Errors
    /// As reading and the ID column give.
    pub(super) fn run(mut self, sender: &mpsc::Sender<Item>) -> Result<()> {
        let rows = self.rows.clone();
        for (file, total) in rows.files.iter().zip(&rows.totals) {
            if !self.read_file(file, *total, sender)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads a file, whole rows only where some may be left. False when the run is over.
    fn read_file(&mut self, file: &Arc<SourceFile>, total: Option<u64>, sender: &mpsc::Sender<Item>) -> Result<bool> {
        let (rows, done) = (self.rows.clone(), self.done.clone());
        let mut scout = self.timed(|| Scout::new(&rows, file, total, done.as_ref()))?;
        let mut open: Option<OpenFile> = None;
        while !self.halt.is_cancelled() {
            match self.timed(|| scout.next(done.as_ref()))? {
                None => return Ok(true),
                Some(Next::Done { ids, places }) => self.count(&ids, &places, ids.len() as u64)?,
                Some(Next::Read(range)) => {
                    let open = match &mut open {
                        Some(open) => open,
                        none => none.insert(self.timed(|| rows.open(file))?),
                    };
                    self.timed(|| open.skip_to(range.start))?;
                    while open.position() < range.end && !self.halt.is_cancelled() {
                        let Some(piece) = self.timed(|| open.next())? else { break };
                        let done = done.contains(piece.ids.array())?;
                        self.count(&piece.ids, &piece.places, done.true_count() as u64)?;
                        if let Some(rest) = piece.without(&done)?
                            && !self.send(rest, sender)?
                        {
                            return Ok(false);
                        }
                    }
                    self.timed(|| scout.skip_to(open.position()))?;
                }
            }
        }
        Ok(false)
    }

    /// Counts rows that were read, so many of them done.
    ///
    /// # Errors
    /// `BadData` when more rows are done than IDs, or one is there twice and that is looked for.
    fn count(&mut self, ids: &IdColumn, places: &Places, done_rows: u64) -> Result<()> {
        add(&self.counters.read_rows, ids.len() as u64);
        if let Some(unique) = &mut self.unique {
            unique.insert(&self.rows, ids, places)?;
        }
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

    /// The same rows, read for their IDs alone where nothing else is needed to know them.
    pub(super) fn ids_only(pipeline: &Pipeline, prepared: &Prepared) -> Arc<Self> {
        Self::new(pipeline, prepared, ReadConfig::new()).narrowed()
    }

    /// The same rows, for their IDs alone.
    pub(super) fn narrowed(&self) -> Arc<Self> {
        let columns = match (&self.ids, &self.filter) {
            (Ids::Column(name), None) => Some(vec![name.clone()]),
            _ => None,
        };
        self.with_config(ReadConfig::new().with_batch_rows(8192).with_columns(columns))
    }

    /// The same rows in the same batches, with only these columns.
    pub(super) fn with_columns(&self, columns: Vec<String>) -> Arc<Self> {
        self.with_config(self.config.clone().with_columns(Some(columns)))
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

    /// The most rows of a batch; no batch goes beyond a multiple of it.
    pub(super) fn window(&self) -> u64 {
        self.config.batch_rows.max(1) as u64
    }

    pub(super) fn open(self: &Arc<Self>, file: &Arc<SourceFile>) -> Result<OpenFile> {
        let reader =
            input::open(file, &self.config, &self.context).map_err(|error| self.explain_missing_column(error, file))?;
        Ok(OpenFile {
            rows: self.clone(),
            reader,
            file: file.clone(),
            hash_seed: row_hash::seed(&file.hash_key()),
            hash_position: 0,
            position: 0,
        })
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
}

/// A batch of input rows, every ID fit to name its row.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) records: RecordBatch,
    pub(super) ids: IdColumn,
    pub(super) places: Places,
}

impl OpenFile {
    /// The next rows; `None` at the end of the file.
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

    /// The position in the file of the row that comes next.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Leaves out all rows before `row`. Not for filtered rows, whose hashes count what the filter keeps.
    pub(super) fn skip_to(&mut self, row: u64) -> Result<()> {
        if row > self.position {
            self.reader.skip_to(row)?;
            (self.position, self.hash_position) = (row, row);
        }
        Ok(())
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
