//! The decoding step: how many rows are decoded at once, and what stops one that grows too large.
//!
//! The decoder is told a number of rows and then reads the pages it needs. Each page is measured as it
//! passes ([`super::page_size`]); when the pages of one step add up to more than the limit, the step is
//! given up and taken again with fewer rows. So neither a skewed row group nor a dictionary can make a
//! step large, and one row alone is always allowed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parquet::column::page::Page;

use super::dictionary::StoredDictionary;
use super::page_size::PageSize;

/// The most rows of a step.
pub(super) const MOST_ROWS: usize = 8192;
/// Steps that must pass before a step grows.
const STEPS_BEFORE_GROWTH: u32 = 16;

/// The state that the page readers of one row group share, and that outlives them.
#[derive(Debug, Clone)]
pub(super) struct Steps(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    limit: u64,
    /// Rows of a step.
    rows: usize,
    /// The row that the current step starts at, within the row group.
    start: u64,
    used: u64,
    exceeded: bool,
    taken: u32,
    columns: Vec<Column>,
}

/// What is remembered of a column, so that a step can be taken again from the page it starts in.
#[derive(Debug, Default)]
struct Column {
    /// Decoded bytes of a row, in the page that passed last.
    rate: u64,
    /// Decoded bytes of that page.
    page: u64,
    dictionary: Option<Page>,
    stored: Option<Arc<StoredDictionary>>,
    longest: u64,
    /// Pages that start with a record: the row and the offset of the header. The first is the one that
    /// holds the start of the current step.
    pages: VecDeque<(u64, u64)>,
}

impl State {
    /// Decoded bytes of a row, as far as is known. Page headers say what they like.
    fn row_bytes(&self) -> u64 {
        self.columns.iter().map(|c| c.rate).fold(0, u64::saturating_add)
    }
}

impl Steps {
    /// A state for the columns of a row group whose rows take about `row_bytes` each.
    pub(super) fn new(columns: usize, limit: u64, row_bytes: u64) -> Self {
        let rows = rows_within(limit / 4, row_bytes);
        let columns = (0..columns).map(|_| Column::default()).collect();
        Self(Arc::new(Mutex::new(State { limit, rows, start: 0, used: 0, exceeded: false, taken: 0, columns })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows of a step.
    pub(super) fn rows(&self) -> usize {
        self.lock().rows
    }

    /// Begins a step at a row. Pages that passed before may give all of their rows to it.
    pub(super) fn begin(&self, start: u64) {
        let mut state = self.lock();
        state.start = start;
        state.exceeded = false;
        let rows = state.rows as u64;
        let charges = state.columns.iter().map(|c| c.page.min(c.rate.saturating_mul(rows)));
        state.used = charges.fold(0, u64::saturating_add);
        for column in &mut state.columns {
            while column.pages.get(1).is_some_and(|(row, _)| *row <= start) {
                column.pages.pop_front();
            }
        }
    }

    /// Whether the step that failed was given up for its size; then fewer rows are set.
    pub(super) fn shrink_if_exceeded(&self) -> bool {
        let mut state = self.lock();
        if !std::mem::take(&mut state.exceeded) {
            return false;
        }
        state.rows = rows_within(state.limit / 2, state.row_bytes()).min(state.rows / 2).max(1);
        state.taken = 0;
        true
    }

    /// Counts a step that went well. Returns whether the next ones should have more rows, which are set.
    pub(super) fn grow_if_small(&self) -> bool {
        let mut state = self.lock();
        state.taken += 1;
        if state.taken < STEPS_BEFORE_GROWTH {
            return false;
        }
        state.taken = 0;
        let possible = rows_within(state.limit / 4, state.row_bytes());
        let grows = possible / 4 >= state.rows;
        if grows {
            state.rows = possible;
        }
        grows
    }

    /// Where to take a column up for a step at `start`: the row and header offset of the page that holds
    /// that row, and the dictionary that was read before it.
    pub(super) fn resume(&self, column: usize, start: u64) -> Option<(u64, u64, Option<Page>)> {
        let mut state = self.lock();
        let column = state.columns.get_mut(column)?;
        let (row, offset) = column.pages.iter().copied().rfind(|(row, _)| *row <= start)?;
        // The readers start over, and notice these pages again.
        column.pages.retain(|(_, o)| *o <= offset);
        (column.rate, column.page) = (0, 0);
        Some((row, offset, column.dictionary.clone()))
    }

    /// Whether the dictionary of a column is known, in memory or on disk.
    pub(super) fn knows_dictionary(&self, column: usize) -> bool {
        self.lock().columns.get(column).is_some_and(|c| c.dictionary.is_some() || c.stored.is_some())
    }

    /// Notes a dictionary and its longest value.
    pub(super) fn note_dictionary(&self, column: usize, page: &Page, longest: u64) {
        if let Some(column) = self.lock().columns.get_mut(column) {
            column.dictionary = Some(page.clone());
            column.longest = longest;
        }
    }

    /// Keeps a dictionary that lies on disk.
    pub(super) fn note_stored_dictionary(&self, column: usize, stored: StoredDictionary) -> Arc<StoredDictionary> {
        let stored = Arc::new(stored);
        if let Some(column) = self.lock().columns.get_mut(column) {
            column.stored = Some(Arc::clone(&stored));
        }
        stored
    }

    /// The dictionary of a column that lies on disk.
    pub(super) fn stored_dictionary(&self, column: usize) -> Option<Arc<StoredDictionary>> {
        self.lock().columns.get(column).and_then(|c| c.stored.clone())
    }

    /// The longest value of a column's dictionary.
    pub(super) fn longest(&self, column: usize) -> u64 {
        self.lock().columns.get(column).map_or(0, |c| c.longest)
    }

    /// Notes where a page starts that starts with a record.
    pub(super) fn note_page(&self, column: usize, row: u64, offset: u64) {
        if let Some(column) = self.lock().columns.get_mut(column)
            && column.pages.back().is_none_or(|(_, last)| *last < offset)
        {
            column.pages.push_back((row, offset));
        }
    }

    /// Charges a page whose records start at `row` to the current step. `false`: the step is too large.
    pub(super) fn charge(&self, column: usize, row: u64, size: PageSize) -> bool {
        let mut state = self.lock();
        let (start, rows) = (state.start, state.rows as u64);
        let Some(column) = state.columns.get_mut(column) else { return true };
        let records = size.records.map_or(1, |r| r.started).max(1);
        column.rate = size.decoded.div_ceil(records);
        column.page = size.decoded;
        let charged = column.page.min(column.rate.saturating_mul(rows));
        if size.records.is_some() && row + records <= start {
            // Passed on the way to the start of the step; nothing of it is kept.
            return true;
        }
        state.used = state.used.saturating_add(charged);
        state.exceeded |= state.used > state.limit && rows > 1;
        !state.exceeded
    }
}

fn rows_within(bytes: u64, row_bytes: u64) -> usize {
    usize::try_from(bytes / row_bytes.max(1)).unwrap_or(MOST_ROWS).clamp(1, MOST_ROWS)
}

#[cfg(test)]
mod tests {
    use super::super::levels::Records;
    use super::*;

    fn page(decoded: u64, rows: u64) -> PageSize {
        PageSize { decoded, records: Some(Records { started: rows, at_start: true }) }
    }

    #[test]
    fn a_step_that_meets_large_rows_shrinks_to_them() {
        let steps = Steps::new(2, 8 << 20, 1000);
        assert_eq!(steps.rows(), 2097);
        steps.begin(0);
        assert!(steps.charge(0, 0, page(1 << 20, 10_000)));
        assert!(!steps.charge(1, 0, page(20 << 20, 1)), "20 MB in a step of 8");
        assert!(steps.shrink_if_exceeded());
        assert_eq!(steps.rows(), 1);
        steps.begin(0);
        assert!(steps.charge(1, 0, page(20 << 20, 1)), "one row is always allowed");
        assert!(!steps.shrink_if_exceeded());
    }

    #[test]
    fn pages_of_impossible_sizes_make_the_smallest_step() {
        let steps = Steps::new(2, 8 << 20, u64::MAX);
        assert_eq!(steps.rows(), 1);
        steps.begin(0);
        assert!(steps.charge(0, 0, page(u64::MAX, 1)) && steps.charge(1, 0, page(u64::MAX, 1)));
        steps.begin(1);
        for _ in 0..STEPS_BEFORE_GROWTH {
            assert!(!steps.grow_if_small());
        }
        assert_eq!(steps.rows(), 1);
    }

    #[test]
    fn a_step_grows_again_after_a_while() {
        let steps = Steps::new(1, 8 << 20, 1 << 20);
        assert_eq!(steps.rows(), 2);
        steps.begin(0);
        assert!(steps.charge(0, 0, page(1 << 20, 10_000)));
        assert_eq!((0..STEPS_BEFORE_GROWTH).filter(|_| steps.grow_if_small()).count(), 1);
        assert_eq!(steps.rows(), MOST_ROWS);
    }

    #[test]
    fn pages_on_the_way_to_the_start_are_free() {
        let steps = Steps::new(1, 1 << 20, 1000);
        steps.begin(5000);
        for row in 0..50 {
            assert!(steps.charge(0, row * 100, page(1 << 20, 100)));
        }
        assert!(steps.charge(0, 5000, page(100, 100)));
    }

    #[test]
    fn resumes_at_the_page_that_holds_the_row() {
        let steps = Steps::new(1, 1 << 20, 1000);
        for (row, offset) in [(0, 4), (100, 900), (250, 1700)] {
            steps.note_page(0, row, offset);
        }
        assert!(matches!(steps.resume(0, 100), Some((100, 900, None))));
        steps.note_page(0, 250, 1700);
        steps.begin(260);
        assert!(steps.resume(0, 240).is_none(), "pages before the start are forgotten");
        assert!(matches!(steps.resume(0, 260), Some((250, 1700, None))));
    }
}
