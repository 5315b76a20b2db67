//! From single rows that are done or left to stretches that are read or passed over.

use std::ops::Range;
use std::sync::Arc;

use checkpoint_store::IdColumn;

use super::item::Places;
use super::scout::{Part, Run, Scout};
use crate::error::Result;
use crate::input::{FileAccess, Hold, ParquetLook};

/// Rows of a file that follow each other.
#[derive(Debug)]
pub(super) enum Stretch {
    /// All done: not read. With the IDs, where they were asked for.
    Done { rows: Range<u64>, ids: Vec<(IdColumn, Places)> },
    /// To be read, since some of them are left. What is read of them ahead is held.
    Read { rows: Range<u64>, ahead: Hold },
}

/// Takes stretches; false when it wants no more.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Stretch) -> bool;

/// Gives the stretches of a part of a file, in order and as they are found: done rows between rows that are left
/// are read with them where that costs less than leaving them out. Starts to read what each needs first. False
/// when the sink wants no more.
///
/// # Errors
/// As looking at the rows gives, after the stretches before.
pub(super) fn send_stretches(scout: &mut Scout, part: &Part, access: &FileAccess, sink: Sink<'_>) -> Result<bool> {
    let look = scout.look().cloned();
    let mut joiner = Joiner { part, access, look, sink, reading: None, gap: None, open: true };
    let outcome = scout.runs(part, &mut |run| joiner.push(run));
    let ended = joiner.end();
    access.forget_kept();
    outcome.and(ended)
}

/// Joins runs.
struct Joiner<'a> {
    part: &'a Part,
    access: &'a FileAccess,
    look: Option<Arc<ParquetLook>>,
    sink: Sink<'a>,
    /// Rows to be read that were not given yet.
    reading: Option<Range<u64>>,
    /// Done rows that follow them.
    gap: Option<Gap>,
    /// Whether the sink wants more.
    open: bool,
}

/// Done rows.
struct Gap {
    rows: Range<u64>,
    ids: Vec<(IdColumn, Places)>,
}

impl Joiner<'_> {
    fn push(&mut self, run: Run) -> Result<bool> {
        match (run.done, &mut self.gap) {
            (true, Some(gap)) => {
                gap.rows.end = run.rows.end;
                gap.ids.extend(run.ids);
            }
            (true, none) => *none = Some(Gap { rows: run.rows, ids: run.ids.into_iter().collect() }),
            (false, _) => self.push_left(run.rows)?,
        }
        Ok(self.open)
    }

    fn push_left(&mut self, rows: Range<u64>) -> Result<()> {
        let apart = match (&self.reading, &self.gap) {
            (Some(_), Some(gap)) => self.is_worth_skipping(&gap.rows)?,
            (None, _) => true,
            (Some(_), None) => false,
        };
        if apart {
            self.give()?;
        }
        self.gap = None;
        self.reading = Some(self.reading.as_ref().map_or(rows.start, |r| r.start)..rows.end);
        Ok(())
    }

    fn is_worth_skipping(&self, gap: &Range<u64>) -> Result<bool> {
        match (&self.look, self.part.group) {
            (Some(look), Some(group)) => look.is_worth_skipping(group, &self.in_part(gap)),
            _ => Ok(true),
        }
    }

    fn in_part(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start - self.part.rows.start..rows.end - self.part.rows.start
    }

    /// Gives what was joined.
    fn give(&mut self) -> Result<()> {
        if let Some(rows) = self.reading.take() {
            let mut ahead = match (&self.look, self.part.group) {
                (Some(look), Some(group)) => look.read_ahead(group, &self.in_part(&rows))?,
                _ if rows.start == 0 => self.access.read_start(),
                _ => Hold::default(),
            };
            ahead.join(&self.access.kept());
            self.open = self.open && (self.sink)(Stretch::Read { rows, ahead });
        }
        if let Some(Gap { rows, ids }) = self.gap.take() {
            self.open = self.open && (self.sink)(Stretch::Done { rows, ids });
        }
        Ok(())
    }

    fn end(&mut self) -> Result<bool> {
        self.give()?;
        Ok(self.open)
    }
}
