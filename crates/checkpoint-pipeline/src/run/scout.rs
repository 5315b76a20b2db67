//! Finding out which rows of a file are done before it is read: by the number of its rows, by what its footer
//! says of its IDs, and else by the IDs alone.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use checkpoint_store::{IdClass, IdColumn, IdSet};

use super::item::Places;
use super::open_file::OpenFile;
use super::rows::Rows;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::input::{FileAccess, ParquetLook, SourceFile};
use crate::row_hash;

/// Rows in a row of which none is done, after which the rest of a row group is read without looking ahead: what
/// was never begun is not read twice.
const PATIENCE: u64 = 64 << 10;
/// Rows whose hashes are looked up one by one rather than counted.
const FEW_ROWS: u64 = 4096;

/// Rows that follow each other and are all done, or none of them, as far as that was looked at.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) rows: Range<u64>,
    pub(super) done: bool,
    /// The IDs of done rows and where they are, where they were asked for.
    pub(super) ids: Option<(IdColumn, Places)>,
}

/// A part of a file that is looked at as one: a row group, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) rows: Range<u64>,
    pub(super) group: Option<usize>,
}

/// How closely to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closeness {
    /// Look at every row, and do not take what was never begun for left.
    pub(super) exact: bool,
    /// Give the IDs of done rows.
    pub(super) with_ids: bool,
}

/// Looks at one file.
pub(super) struct Scout {
    job: Arc<Rows>,
    file: Arc<SourceFile>,
    access: Arc<FileAccess>,
    done: Arc<dyn IdSet>,
    closeness: Closeness,
    means: Means,
    look: Option<Arc<ParquetLook>>,
}

/// How rows are told apart.
enum Means {
    /// Not at all.
    None,
    /// By what their hashes must be.
    Hashes { seed: u64 },
    /// By the ID column.
    Ids { open: Option<Box<OpenFile>> },
}

impl Scout {
    /// Looks at a file as far as that pays: something must be done, positions must be those of the file, and
    /// the ID must be cheaper to have than the row. `rows` is the number of rows, where it is known.
    ///
    /// # Errors
    /// As opening the file gives, where it must be.
    pub(super) fn new(
        job: &Arc<Rows>,
        file: &Arc<SourceFile>,
        access: &Arc<FileAccess>,
        rows: Option<u64>,
        done: &Arc<dyn IdSet>,
        closeness: Closeness,
    ) -> Result<Self> {
        let is_parquet = file.format == Format::Parquet;
        let means = match job.id_column() {
            _ if done.is_empty() || job.is_filtered() => Means::None,
            Some(_) if is_parquet => Means::Ids { open: None },
            None if rows.is_some() => Means::Hashes { seed: row_hash::seed(&file.hash_key()) },
            _ => Means::None,
        };
        let mut scout = Self {
            job: job.clone(),
            file: file.clone(),
            access: access.clone(),
            done: done.clone(),
            closeness,
            means,
            look: None,
        };
        if is_parquet && !scout.is_finished(rows)? {
            let look = job.look(access)?;
            let found = look.groups().last().map_or(0, |rows| rows.end);
            if let Some(known) = rows.filter(|known| *known != found) {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("an input file has {found} rows where {known} are known of it: file={}", file.location),
                )
                .with_hint("let nothing write to the input while a job runs, then start the job again"));
            }
            scout.look = Some(Arc::new(look));
        }
        Ok(scout)
    }

    /// Whether looking tells anything.
    pub(super) fn can_tell(&self) -> bool {
        !matches!(self.means, Means::None)
    }

    /// What the file says of itself, where it was opened.
    pub(super) fn look(&self) -> Option<&Arc<ParquetLook>> {
        self.look.as_ref()
    }

    /// Whether all rows are known to be done without a look at the file.
    fn is_finished(&self, rows: Option<u64>) -> Result<bool> {
        match (&self.means, rows) {
            (Means::Hashes { seed }, Some(rows)) => self.are_hashes_done(*seed, 0..rows),
            _ => Ok(false),
        }
    }

    fn are_hashes_done(&self, seed: u64, rows: Range<u64>) -> Result<bool> {
        if let Some(count) = self.done.count_rows(seed, rows.clone()) {
            return Ok(count == rows.end - rows.start);
        }
        for chunk in chunks(rows, FEW_ROWS) {
            if self.done.contains(&hashes(seed, &chunk))?.true_count() as u64 != chunk.end - chunk.start {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The parts of the file, in order. The last one of a file whose rows are not known has no end.
    pub(super) fn parts(&self, rows: Option<u64>) -> Vec<Part> {
        match &self.look {
            Some(look) => {
                let groups = look.groups().into_iter().enumerate();
                groups.map(|(index, rows)| Part { rows, group: Some(index) }).filter(|p| !p.rows.is_empty()).collect()
            }
            None => {
                let end = if self.can_tell() { rows.unwrap_or(u64::MAX) } else { u64::MAX };
                if end == 0 { Vec::new() } else { vec![Part { rows: 0..end, group: None }] }
            }
        }
    }

    /// Goes through a part, in order, until `each` answers false. Rows that cannot be told apart are left.
    ///
    /// # Errors
    /// As reading the ID column gives, and `each`.
    pub(super) fn runs(&mut self, part: &Part, each: &mut dyn FnMut(Run) -> Result<bool>) -> Result<()> {
        match self.means {
            Means::None => each(Run { rows: part.rows.clone(), done: false, ids: None }).map(drop),
            Means::Hashes { seed } => self.hash_runs(seed, part.rows.clone(), each).map(drop),
            Means::Ids { .. } => self.id_runs(part, each),
        }
    }

    /// Halves rows until each part is wholly done or wholly left. False when `each` has had enough.
    fn hash_runs(&self, seed: u64, rows: Range<u64>, each: &mut dyn FnMut(Run) -> Result<bool>) -> Result<bool> {
        let length = rows.end - rows.start;
        match self.done.count_rows(seed, rows.clone()) {
            Some(0) => return each(Run { rows, done: false, ids: None }),
            Some(count) if count == length && !self.closeness.with_ids => {
                return each(Run { rows, done: true, ids: None });
            }
            Some(count) if count != length && length > FEW_ROWS => {
                let middle = rows.start + length / 2;
                return Ok(
                    self.hash_runs(seed, rows.start..middle, each)? && self.hash_runs(seed, middle..rows.end, each)?
                );
            }
            _ => {}
        }
        for chunk in chunks(rows, FEW_ROWS) {
            let ids = hashes(seed, &chunk);
            let done = self.done.contains(&ids)?;
            if !self.each_run(&ids, chunk.start, &done, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Row groups and pages by the bounds of their IDs, what is left of them by the IDs.
    fn id_runs(&mut self, part: &Part, each: &mut dyn FnMut(Run) -> Result<bool>) -> Result<()> {
        let mut pieces = vec![(part.rows.clone(), Verdict::Mixed)];
        if let (Some(look), Some(group)) = (&self.look, part.group)
            && !self.closeness.with_ids
            && self.can_count()
        {
            let bounds = look.id_bounds(group);
            let verdict = self.by_bounds(&part.rows, bounds);
            pieces = vec![(part.rows.clone(), verdict)];
            if verdict == Verdict::Mixed && bounds.is_some() {
                let first = part.rows.start;
                let pages = look.id_pages(group)?.into_iter().map(|(rows, bounds)| {
                    let rows = first + rows.start..first + rows.end;
                    let verdict = self.by_bounds(&rows, bounds);
                    (rows, verdict)
                });
                let pages = join_equal(pages);
                if !pages.is_empty() {
                    pieces = pages;
                }
            }
        }
        let mut untouched = 0;
        for (rows, verdict) in pieces {
            let go_on = match verdict {
                Verdict::Done => each(Run { rows, done: true, ids: None })?,
                Verdict::Left => each(Run { rows, done: false, ids: None })?,
                Verdict::Mixed => self.read_ids(rows, &mut untouched, each)?,
            };
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    /// Whether the set holds integers and can count them.
    fn can_count(&self) -> bool {
        self.done.class() == Some(&IdClass::Integer) && self.done.count_between(0, 0).is_some()
    }

    fn by_bounds(&self, rows: &Range<u64>, bounds: Option<(i128, i128)>) -> Verdict {
        let count = bounds.and_then(|(min, max)| Some((self.done.count_between(min, max)?, max.abs_diff(min) + 1)));
        match count {
            Some((0, _)) => Verdict::Left,
            // More rows than integers repeat one: the rows are read, and that is found.
            Some((count, all)) if u128::from(count) == all && rows.end - rows.start <= count => Verdict::Done,
            _ => Verdict::Mixed,
        }
    }

    /// Reads the IDs of some rows. False when `each` has had enough.
    fn read_ids(
        &mut self,
        rows: Range<u64>,
        untouched: &mut u64,
        each: &mut dyn FnMut(Run) -> Result<bool>,
    ) -> Result<bool> {
        let Means::Ids { open } = &mut self.means else { return Ok(true) };
        let mut ids = match open.take() {
            Some(open) => open,
            None => Box::new(self.job.open_ids(&self.file, &self.access)?),
        };
        let go_on = self.read_open_ids(&mut ids, rows, untouched, each);
        self.means = Means::Ids { open: Some(ids) };
        go_on
    }

    fn read_open_ids(
        &self,
        open: &mut OpenFile,
        rows: Range<u64>,
        untouched: &mut u64,
        each: &mut dyn FnMut(Run) -> Result<bool>,
    ) -> Result<bool> {
        let is_tired = |untouched: u64| !self.closeness.exact && untouched >= PATIENCE;
        let mut next = rows.start;
        if !is_tired(*untouched) {
            open.skip_to(rows.start)?;
            open.limit(rows.end, true)?;
        }
        while next < rows.end {
            if is_tired(*untouched) {
                return each(Run { rows: next..rows.end, done: false, ids: None });
            }
            let Some(piece) = open.next()? else {
                // The ID column has fewer rows than its file says: whoever reads them whole says what is wrong.
                return each(Run { rows: next..rows.end, done: false, ids: None });
            };
            let done = self.done.contains(piece.ids.array())?;
            let end = next + piece.ids.len() as u64;
            *untouched = if done.true_count() == 0 { *untouched + end - next } else { 0 };
            if !self.each_run(piece.ids.array(), next, &done, each)? {
                return Ok(false);
            }
            next = end;
        }
        Ok(true)
    }

    fn each_run(
        &self,
        ids: &ArrayRef,
        first: u64,
        done: &BooleanArray,
        each: &mut dyn FnMut(Run) -> Result<bool>,
    ) -> Result<bool> {
        let mut left = 0;
        let len = done.len();
        for (start, end) in done.values().set_slices().chain([(len, len)]) {
            let at = |row: usize| first + row as u64;
            if left < start && !each(Run { rows: at(left)..at(start), done: false, ids: None })? {
                return Ok(false);
            }
            left = end;
            if start < end {
                let rows = at(start)..at(end);
                let kept = if self.closeness.with_ids { Some(self.show(ids, start, end, &rows)?) } else { None };
                if !each(Run { rows, done: true, ids: kept })? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn show(&self, ids: &ArrayRef, start: usize, end: usize, rows: &Range<u64>) -> Result<(IdColumn, Places)> {
        let ids = IdColumn::checked(&ids.slice(start, end - start))?;
        Ok((ids, Places { file: self.file.clone(), rows: rows.clone().collect() }))
    }
}

/// What bounds say of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Done,
    Left,
    /// Not enough.
    Mixed,
}

fn join_equal(pieces: impl Iterator<Item = (Range<u64>, Verdict)>) -> Vec<(Range<u64>, Verdict)> {
    let mut joined: Vec<(Range<u64>, Verdict)> = Vec::new();
    for (rows, verdict) in pieces {
        match joined.last_mut() {
            Some((last, same)) if *same == verdict && last.end == rows.start => last.end = rows.end,
            _ => joined.push((rows, verdict)),
        }
    }
    joined
}

/// Ranges of at most so many rows.
pub(super) fn chunks(rows: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let mut next = rows.start;
    std::iter::from_fn(move || {
        let start = next;
        next = rows.end.min(start.saturating_add(most));
        (start < next).then_some(start..next)
    })
}

/// The hashes that name these rows.
pub(super) fn hashes(seed: u64, rows: &Range<u64>) -> ArrayRef {
    Arc::new(row_hash::array(seed, rows.start, (rows.end - rows.start) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_verdict_are_one() {
        let pieces = [(0..3, Verdict::Done), (3..5, Verdict::Done), (5..6, Verdict::Mixed), (6..9, Verdict::Done)];
        assert_eq!(
            join_equal(pieces.into_iter()),
            [(0..5, Verdict::Done), (5..6, Verdict::Mixed), (6..9, Verdict::Done)]
        );
        assert_eq!(chunks(3..10, 3).collect::<Vec<_>>(), [3..6, 6..9, 9..10]);
        assert_eq!(chunks(3..3, 3).count(), 0);
    }
}
