//! Cuts what a decoder gives into batches that keep to the windows and sizes of a [`ReadConfig`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;

use super::config::ReadConfig;
use super::sizes::{decoded_size, rows_to_reach};

/// What a batch that need not be full has at the least, one or the other: fewer cost more by the batch than by the row.
const LEAST_ROWS: u64 = 1024;
const LEAST_BYTES: u64 = 1 << 20;

/// Takes decoded chunks of any size in row order and gives batches: none straddles a multiple of `batch_rows` where
/// batches are to be filled, none goes on once its decoded size has reached `batch_bytes`, and small chunks are joined.
/// Holds one chunk and at most one batch that is being joined.
#[derive(Debug)]
pub(super) struct Windows {
    rows: u64,
    bytes: u64,
    filled: bool,
    joinable: bool,
    /// The position of the first row that was not given out yet.
    position: u64,
    /// The first row that is not to be given out, and whether no row follows the last one before it.
    limit: u64,
    limit_ends: bool,
    chunk: Option<RecordBatch>,
    pending: Vec<RecordBatch>,
    pending_rows: u64,
    pending_bytes: u64,
}

impl Windows {
    pub(super) fn new(config: &ReadConfig, schema: &arrow::datatypes::Schema) -> Self {
        Self {
            rows: config.window(),
            bytes: config.cut_bytes(),
            filled: config.filled,
            joinable: schema.fields().iter().all(|f| joins_safely(f.data_type())),
            position: 0,
            limit: u64::MAX,
            limit_ends: true,
            chunk: None,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
        }
    }

    /// The position of the next row to be given out.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Gives no rows from `row` on. Unless they end there, a batch that could go on waits for more.
    pub(super) fn limit(&mut self, row: u64, ends: bool) {
        (self.limit, self.limit_ends) = (row, ends);
    }

    /// Whether all rows before the limit are here.
    pub(super) fn is_at_limit(&self) -> bool {
        self.position + self.pending_rows >= self.limit
    }

    /// Adds the rows that follow. Only after [`Windows::pop`] gave `None`.
    pub(super) fn push(&mut self, chunk: RecordBatch) {
        debug_assert!(self.chunk.is_none(), "pushed before the last chunk was used up");
        if chunk.num_rows() > 0 {
            self.chunk = Some(chunk);
        }
    }

    /// Drops rows before `row`. Returns whether the decoder must be moved there: nothing is held then.
    pub(super) fn skip_to(&mut self, row: u64) -> bool {
        if row <= self.position {
            return false;
        }
        let held = self.pending_rows + self.chunk.as_ref().map_or(0, |c| c.num_rows() as u64);
        if row >= self.position + held {
            (self.chunk, self.pending, self.pending_rows, self.pending_bytes) = (None, Vec::new(), 0, 0);
            self.position = row;
            return true;
        }
        // Between calls of `pop` pending rows are all of a finished chunk, and few; keep what is wanted.
        let mut skip = row - self.position;
        self.position = row;
        for piece in std::mem::take(&mut self.pending) {
            let rows = piece.num_rows() as u64;
            if skip < rows {
                self.pending.push(piece.slice(skip as usize, (rows - skip) as usize));
                skip = 0;
            } else {
                skip -= rows;
            }
        }
        self.pending_rows = self.pending.iter().map(|p| p.num_rows() as u64).sum();
        self.pending_bytes = self.pending.iter().map(decoded_size).sum();
        if skip > 0
            && let Some(chunk) = self.chunk.take()
        {
            self.chunk = Some(chunk.slice(skip as usize, chunk.num_rows() - skip as usize));
        }
        false
    }

    /// The next batch and the position of its first row; `None` when more chunks are needed, or, at the
    /// end, when all is given out.
    ///
    /// # Errors
    /// When pieces cannot be joined, which one schema for all chunks rules out.
    pub(super) fn pop(&mut self, at_end: bool) -> Result<Option<(u64, RecordBatch)>, arrow::error::ArrowError> {
        while let Some(chunk) = self.chunk.take() {
            let next = self.position + self.pending_rows;
            if next >= self.limit {
                self.chunk = Some(chunk);
                break;
            }
            let room = if self.filled { self.rows - next % self.rows } else { self.rows - self.pending_rows };
            let most = room.min(chunk.num_rows() as u64).min(self.limit - next) as usize;
            let rows = rows_to_reach(&chunk, 0, most, self.bytes.saturating_sub(self.pending_bytes));
            let piece = chunk.slice(0, rows);
            if rows < chunk.num_rows() {
                self.chunk = Some(chunk.slice(rows, chunk.num_rows() - rows));
            }
            self.pending_rows += rows as u64;
            self.pending_bytes += decoded_size(&piece);
            self.pending.push(piece);
            let is_enough = !self.filled && self.chunk.is_none() && self.is_worth_a_batch();
            if rows as u64 == room || self.pending_bytes >= self.bytes || !self.joinable || is_enough {
                return self.flush();
            }
        }
        let ended = if self.is_at_limit() { self.limit_ends } else { at_end };
        if ended { self.flush() } else { Ok(None) }
    }

    /// Whether what is pending need not wait for more.
    fn is_worth_a_batch(&self) -> bool {
        self.pending_rows >= self.rows.min(LEAST_ROWS) || self.pending_bytes >= LEAST_BYTES
    }

    fn flush(&mut self) -> Result<Option<(u64, RecordBatch)>, arrow::error::ArrowError> {
        let pieces = std::mem::take(&mut self.pending);
        let batch = match &pieces[..] {
            [] => return Ok(None),
            [only] => only.clone(),
            [first, ..] => concat_batches(&first.schema(), &pieces)?,
        };
        let position = self.position;
        self.position += self.pending_rows;
        (self.pending_rows, self.pending_bytes) = (0, 0);
        Ok(Some((position, release_unused(batch)?)))
    }
}

/// Dictionaries with small keys may not be joinable: their joined values can outnumber the keys.
fn joins_safely(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(key, value) => key.primitive_width().is_some_and(|w| w >= 4) && joins_safely(value),
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) | DataType::Map(f, _) => {
            joins_safely(f.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|f| joins_safely(f.data_type())),
        DataType::Union(..) | DataType::RunEndEncoded(..) | DataType::ListView(_) | DataType::LargeListView(_) => false,
        _ => true,
    }
}

/// Copies top-level view columns that keep much more memory alive than they show.
fn release_unused(batch: RecordBatch) -> Result<RecordBatch, arrow::error::ArrowError> {
    let held = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => column.as_string_view().data_buffers().iter().map(|b| b.len()).sum::<usize>(),
        DataType::BinaryView => column.as_binary_view().data_buffers().iter().map(|b| b.len()).sum::<usize>(),
        _ => 0,
    };
    let wasteful = |column: &ArrayRef| {
        let held = held(column);
        held > 1 << 16 && held as u64 > 2 * decoded_column(column)
    };
    if !batch.columns().iter().any(wasteful) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View if wasteful(column) => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView if wasteful(column) => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    });
    RecordBatch::try_new(batch.schema(), columns.collect())
}

fn decoded_column(column: &ArrayRef) -> u64 {
    let views = match column.data_type() {
        DataType::Utf8View => column.as_string_view().views(),
        _ => column.as_binary_view().views(),
    };
    views.iter().map(|view| u64::from(*view as u32)).sum()
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int64Array, StringArray, StringViewArray};
    use arrow::datatypes::{Int8Type, Int64Type};

    use super::*;

    fn numbers(from: i64, to: i64) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
        RecordBatch::try_from_iter([("n", column)]).expect("one column")
    }

    fn run(windows: &mut Windows, chunks: Vec<RecordBatch>) -> Vec<(u64, RecordBatch)> {
        let mut out = Vec::new();
        for chunk in chunks {
            windows.push(chunk);
            while let Some(batch) = windows.pop(false).expect("joins") {
                out.push(batch);
            }
        }
        while let Some(batch) = windows.pop(true).expect("joins") {
            out.push(batch);
        }
        out
    }

    #[test]
    fn batches_keep_to_windows_whatever_the_chunks() {
        let config = ReadConfig::new().with_batch_rows(10);
        for cuts in [vec![0, 35], vec![0, 3, 4, 25, 35], (0..=35).collect::<Vec<_>>()] {
            let chunks: Vec<_> = cuts.windows(2).map(|c| numbers(c[0], c[1])).collect();
            let mut windows = Windows::new(&config, &chunks[0].schema());
            let shape: Vec<_> = run(&mut windows, chunks).iter().map(|(p, b)| (*p, b.num_rows(), first(b))).collect();
            assert_eq!(shape, [(0, 10, 0), (10, 10, 10), (20, 10, 20), (30, 5, 30)], "{cuts:?}");
        }
    }

    #[test]
    fn batches_that_need_not_be_full_are_the_chunks_but_for_small_ones() {
        let config = ReadConfig::new().with_batch_rows(4096).with_filled(false);
        let cuts = [0, 3000, 5000, 5010, 5020, 14_000, 14_100];
        let chunks: Vec<_> = cuts.windows(2).map(|c| numbers(c[0], c[1])).collect();
        let buffers: Vec<_> = chunks.iter().map(|chunk| chunk.column(0).to_data().buffers()[0].data_ptr()).collect();
        let mut windows = Windows::new(&config, &chunks[0].schema());
        let batches = run(&mut windows, chunks);
        let shape: Vec<_> = batches.iter().map(|(p, b)| (*p, b.num_rows(), first(b))).collect();
        let expected = [(0, 3000), (3000, 2000), (5000, 4096), (9096, 4096), (13_192, 908)];
        assert_eq!(shape, expected.map(|(position, rows)| (position, rows, position as i64)));
        for (at, buffer) in [(0, 0), (1, 1), (3, 4)] {
            assert_eq!(batches[at].1.column(0).to_data().buffers()[0].data_ptr(), buffers[buffer], "not copied");
        }
    }

    fn first(batch: &RecordBatch) -> i64 {
        batch.column(0).as_primitive::<Int64Type>().value(0)
    }

    #[test]
    fn a_batch_ends_when_its_size_is_reached() {
        let config = ReadConfig::new().with_batch_rows(1000).with_batch_bytes(1 << 20);
        let rows: Vec<String> = (0..10).map(|_| "x".repeat(400 << 10)).collect();
        let column: ArrayRef = Arc::new(StringArray::from(rows));
        let chunk = RecordBatch::try_from_iter([("s", column)]).expect("one column");
        let mut windows = Windows::new(&config, &chunk.schema());
        let shape: Vec<_> = run(&mut windows, vec![chunk]).iter().map(|(p, b)| (*p, b.num_rows())).collect();
        assert_eq!(shape, [(0, 3), (3, 3), (6, 3), (9, 1)]);
    }

    #[test]
    fn skips_within_and_beyond_what_is_held() {
        let config = ReadConfig::new().with_batch_rows(10);
        let mut windows = Windows::new(&config, &numbers(0, 1).schema());
        windows.push(numbers(0, 25));
        assert!(!windows.skip_to(12), "inside the chunk");
        let (position, batch) = windows.pop(false).expect("joins").expect("a batch");
        assert_eq!((position, batch.num_rows(), first(&batch)), (12, 8, 12));
        assert!(windows.pop(false).expect("joins").is_none(), "five rows wait for more");
        assert!(!windows.skip_to(22));
        windows.push(numbers(25, 31));
        let (position, batch) = windows.pop(false).expect("joins").expect("a batch");
        assert_eq!((position, batch.num_rows(), first(&batch)), (22, 8, 22));
        assert!(windows.skip_to(100), "the decoder has to move");
        windows.push(numbers(100, 110));
        let (position, batch) = windows.pop(false).expect("joins").expect("a batch");
        assert_eq!((position, batch.num_rows(), first(&batch)), (100, 10, 100));
    }

    #[test]
    fn a_limit_holds_back_what_could_go_on_and_ends_what_cannot() {
        let config = ReadConfig::new().with_batch_rows(10);
        let mut windows = Windows::new(&config, &numbers(0, 1).schema());
        let pop = |windows: &mut Windows| {
            windows.pop(false).expect("joins").map(|(position, batch)| (position, batch.num_rows(), first(&batch)))
        };
        windows.limit(14, false);
        windows.push(numbers(0, 18));
        assert_eq!((pop(&mut windows), pop(&mut windows)), (Some((0, 10, 0)), None));
        assert!(windows.is_at_limit());
        windows.limit(17, false);
        assert_eq!(pop(&mut windows), None, "seven of ten");
        windows.limit(17, true);
        assert_eq!((pop(&mut windows), pop(&mut windows)), (Some((10, 7, 10)), None));
        assert!(!windows.skip_to(17));
        windows.limit(u64::MAX, true);
        assert_eq!(pop(&mut windows), None, "one row waits");
        windows.push(numbers(18, 25));
        assert_eq!(pop(&mut windows), Some((17, 3, 17)));
    }

    #[test]
    fn small_dictionaries_are_never_joined() {
        let words = |from: usize| -> RecordBatch {
            let words: Vec<String> = (from..from + 100).map(|i| format!("w{i}")).collect();
            let column: DictionaryArray<Int8Type> = words.iter().map(String::as_str).collect();
            RecordBatch::try_from_iter([("d", Arc::new(column) as ArrayRef)]).expect("one column")
        };
        let config = ReadConfig::new().with_batch_rows(1000);
        let mut windows = Windows::new(&config, &words(0).schema());
        let shape: Vec<_> =
            run(&mut windows, vec![words(0), words(100)]).iter().map(|(p, b)| (*p, b.num_rows())).collect();
        assert_eq!(shape, [(0, 100), (100, 100)]);
    }

    #[test]
    fn views_do_not_keep_what_they_do_not_show() {
        let long: Vec<String> = (0..100).map(|i| format!("{i:05}").repeat(1000)).collect();
        let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(&long));
        let batch = RecordBatch::try_from_iter([("v", column)]).expect("one column").slice(7, 1);
        let small = release_unused(batch).expect("copies");
        let view = small.column(0).as_string_view();
        assert_eq!(view.value(0), long[7]);
        assert!(view.data_buffers().iter().map(|b| b.len()).sum::<usize>() < 10_000);
    }
}
