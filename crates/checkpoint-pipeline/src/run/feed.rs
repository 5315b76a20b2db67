//! The reader: input files in order, done rows left out, batches handed to whichever worker is free.

use std::ops::Range;
use std::sync::Arc;

use checkpoint_store::{IdColumn, IdSet, RuntimeRef};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::item::{Item, Places};
use super::lanes::{Lane, Lanes};
use super::open_file::{OpenFile, Piece};
use super::prepare::Prepared;
use super::probe::FirstLook;
use super::repeats::{Repeats, find_repeats};
use super::rows::Rows;
use super::stretches::Stretch;
use crate::error::{Error, ErrorKind, Result};
use crate::input::{SourceFile, decoded_size};
use crate::pipeline::Pipeline;
use crate::report::{Counters, Stage, add, get};

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
    look: FirstLook,
    skipped: u64,
}

impl Feed {
    pub(super) fn new(
        pipeline: &Pipeline,
        prepared: &Prepared,
        done: Arc<dyn IdSet>,
        halt: CancellationToken,
        look: FirstLook,
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
            look,
            skipped: 0,
        })
    }

    /// Reads to the end, or until nobody listens any more. What was read before an error is still worked off.
    ///
    /// # Errors
    /// As reading and the ID column give.
    pub(super) fn run(mut self, sender: &mpsc::Sender<Item>) -> Result<()> {
        let (rows, done, halt) = (self.rows.clone(), self.done.clone(), self.halt.clone());
        let mut lanes = Lanes::new(rows, done, self.unique.is_some(), halt, std::mem::take(&mut self.look));
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
            return Err(find_repeats(&self.rows, &self.done, self.skipped)?);
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
