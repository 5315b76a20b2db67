//! The bytes of one column chunk, in order: a block at a time, with the next block read ahead, and little beyond
//! the parts that are needed.

use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::super::fetch::{Ahead, FileFetch};
use crate::error::Result;

/// The largest single request while a page larger than a block is put together.
const PIECE: u64 = 8 << 20;
/// Bytes fetched for a page header while pages are skipped.
const HEADER: u64 = 8 << 10;
/// Pages that are smaller are read with the next headers instead of being asked for one by one.
const SMALL_PAGE: u64 = 64 << 10;

/// One column chunk. Clones share the same buffers.
#[derive(Debug, Clone)]
pub(super) struct ColumnBytes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fetch: Arc<FileFetch>,
    chunk: Range<u64>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What is held: bytes of the file from `start` on.
    start: u64,
    buffer: Bytes,
    ahead: Option<Ahead>,
    /// The parts that are needed, in order. What is read beyond them is read as it is asked for.
    spans: Vec<Range<u64>>,
    block: u64,
    /// The page header that was fetched last while pages were skipped.
    last_header: u64,
    /// Whether bytes are read one after the other, so that reading ahead pays.
    sequential: bool,
    /// Where the first read since the last [`ColumnBytes::take_mark`] began.
    mark: Option<u64>,
}

impl State {
    fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// The bytes to ask for from here on, within the part that is needed; `None` outside of these.
    fn block_at(&self, from: u64) -> Option<u64> {
        let after = self.spans.partition_point(|span| span.end <= from);
        let span = self.spans.get(after).filter(|span| span.start <= from)?;
        Some(self.block.min(span.end - from))
    }
}

impl ColumnBytes {
    /// A chunk of which nothing is needed yet.
    pub(super) fn new(fetch: &Arc<FileFetch>, chunk: Range<u64>) -> Self {
        let state = State {
            start: chunk.start,
            buffer: Bytes::new(),
            ahead: None,
            spans: Vec::new(),
            block: 0,
            last_header: 0,
            sequential: true,
            mark: None,
        };
        Self(Arc::new(Inner { fetch: Arc::clone(fetch), chunk, state: Mutex::new(state) }))
    }

    /// Says which parts will be needed, in order, and how many bytes to ask for at once; at most two blocks are
    /// held, and the page asked for.
    pub(super) fn set_spans(&self, spans: Vec<Range<u64>>, block: u64) {
        let mut state = self.0.lock();
        (state.spans, state.block) = (spans, block);
    }

    /// The start of the chunk in the file.
    pub(super) fn start(&self) -> u64 {
        self.0.chunk.start
    }

    /// The end of the chunk in the file.
    pub(super) fn end(&self) -> u64 {
        self.0.chunk.end
    }

    /// Says whether pages are read one after the other, or only their headers.
    pub(super) fn set_sequential(&self, sequential: bool) {
        self.0.lock().sequential = sequential;
    }

    /// Where the first read since the last [`ColumnBytes::take_mark`] began, which is kept.
    pub(super) fn mark(&self) -> Option<u64> {
        self.0.lock().mark
    }

    /// Reads the chunk from an offset on, without a mark.
    pub(super) fn read_from(&self, offset: u64) -> ColumnRead {
        ColumnRead { inner: Arc::clone(&self.0), at: offset, held: Bytes::new() }
    }

    /// Keeps an error that is not the data's for the one who opened the file.
    pub(super) fn keep_fault(&self, error: crate::error::Error) {
        self.0.fetch.keep_fault(error);
    }

    /// Where the first read since the last call began: the header of the page that was read or skipped.
    pub(super) fn take_mark(&self) -> Option<u64> {
        self.0.lock().mark.take()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_ahead(self: &Inner, state: &mut State) {
        let from = state.end();
        if let Some(block) = state.block_at(from)
            && state.sequential
            && state.ahead.is_none()
        {
            state.ahead = Some(self.fetch.read_ahead(from..from + block));
        }
    }

    /// The bytes from `from` on, at least up to `end` or a piece of that.
    fn fetch(&self, state: &mut State, from: u64, end: u64) -> Result<Bytes> {
        if let Some(ahead) = state.ahead.take()
            && ahead.start() == from
        {
            return self.fetch.join(ahead);
        }
        let block = match state.block_at(from).filter(|_| state.sequential) {
            Some(block) => block,
            None if from.saturating_sub(std::mem::replace(&mut state.last_header, from)) < SMALL_PAGE => 4 * SMALL_PAGE,
            None => HEADER,
        };
        let to = end.min(from + PIECE).max(from + block).min(self.chunk.end);
        self.fetch.read(from..to)
    }

    /// Exactly these bytes. What is left of the last block stays for the next call.
    fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        let mut state = self.lock();
        let Range { start, end } = range;
        if start < state.start || start > state.end() {
            (state.start, state.buffer, state.ahead) = (start, Bytes::new(), None);
        }
        let held = (start - state.start) as usize;
        if end > state.end() {
            let mut whole = state.buffer.slice(held..);
            let mut assembly: Option<BytesMut> = None;
            let mut at = state.end();
            while at < end {
                let piece = self.fetch(&mut state, at, end)?;
                let used = piece.len().min((end - at) as usize);
                if whole.is_empty() && assembly.is_none() && used as u64 == end - start {
                    whole = piece.slice(..used);
                } else {
                    let parts = assembly.get_or_insert_with(|| {
                        let mut parts = BytesMut::with_capacity((end - start) as usize);
                        parts.extend_from_slice(&whole);
                        parts
                    });
                    parts.extend_from_slice(&piece[..used]);
                }
                (state.start, state.buffer) = (at, piece);
                at += used as u64;
            }
            self.read_ahead(&mut state);
            // Of a block that a large page used up nothing needs to stay.
            if state.end() == end {
                (state.start, state.buffer) = (end, Bytes::new());
            }
            return Ok(assembly.map_or(whole, BytesMut::freeze));
        }
        Ok(state.buffer.slice(held..held + (end - start) as usize))
    }

    /// What is held from `from` on, at least one byte of it.
    fn some_bytes(&self, from: u64) -> Result<Bytes> {
        {
            let state = self.lock();
            if (state.start..state.end()).contains(&from) {
                return Ok(state.buffer.slice((from - state.start) as usize..));
            }
        }
        self.bytes(from..from + 1)
    }
}

impl Length for ColumnBytes {
    fn len(&self) -> u64 {
        self.0.fetch.size()
    }
}

impl ChunkReader for ColumnBytes {
    type T = ColumnRead;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.0.lock().mark.get_or_insert(start);
        Ok(ColumnRead { inner: Arc::clone(&self.0), at: start, held: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.saturating_add(length as u64);
        if start < self.0.chunk.start || end > self.0.chunk.end {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are outside of the column chunk")));
        }
        self.0.bytes(start..end).map_err(|e| {
            let text = e.to_string();
            self.0.fetch.keep_fault(e);
            ParquetError::General(text)
        })
    }
}

/// Reads a page header from the chunk.
#[derive(Debug)]
pub(super) struct ColumnRead {
    inner: Arc<Inner>,
    at: u64,
    held: Bytes,
}

impl Read for ColumnRead {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if buf.is_empty() || !(self.inner.chunk.start..self.inner.chunk.end).contains(&self.at) {
            return Ok(0);
        }
        if self.held.is_empty() {
            self.held = self.inner.some_bytes(self.at).map_err(|e| {
                let text = e.to_string();
                self.inner.fetch.keep_fault(e);
                std::io::Error::other(text)
            })?;
        }
        let count = buf.len().min(self.held.len());
        buf[..count].copy_from_slice(&self.held.split_to(count));
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use checkpoint_fs::{Location, MemoryStorage, ObjectPath, Storage, WriteOptions};

    use super::*;
    use crate::format::Format;
    use crate::input::{ReadContext, SourceFile};

    fn source(runtime: &tokio::runtime::Runtime, bytes: &[u8]) -> Arc<FileFetch> {
        let storage = Arc::new(MemoryStorage::new("memory://t"));
        let path = ObjectPath::parse("f").expect("valid");
        let outcome = runtime.block_on(storage.write(&path, Bytes::copy_from_slice(bytes), WriteOptions::new()));
        let meta = outcome.and_then(|o| o.into_result("f")).expect("written");
        let location = Location::parse("memory://t/f").expect("valid");
        let file = SourceFile::new(storage, path, location, meta, Format::Parquet);
        FileFetch::new(file, ReadContext::new(runtime.handle().clone()))
    }

    #[test]
    fn gives_the_bytes_asked_for_whatever_the_blocks() {
        let runtime = tokio::runtime::Runtime::new().expect("starts");
        let all: Vec<u8> = (0..50_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let fetch = source(&runtime, &all);
        for block in [1, 7, 1000, 100_000] {
            let column = ColumnBytes::new(&fetch, 100..40_000);
            column.set_spans(std::iter::once(100..40_000).collect(), block);
            let asks =
                [(100, 1), (101, 50), (151, 3000), (3151, 0), (3151, 1), (20_000, 19_999), (5000, 10), (39_999, 1)];
            for (start, length) in asks {
                let bytes = column.get_bytes(start as u64, length).expect("inside");
                assert_eq!(bytes, all[start..start + length], "block={block} start={start}");
            }
            let mut header = [0; 300];
            column.get_read(39_800).expect("inside").read_exact(&mut header[..200]).expect("whole");
            assert_eq!(header[..200], all[39_800..40_000]);
            assert!(column.get_bytes(39_999, 2).is_err(), "beyond the chunk");
            assert!(column.get_bytes(99, 2).is_err(), "before the chunk");
        }
    }

    #[test]
    fn each_byte_is_fetched_once_when_read_in_order() {
        let runtime = tokio::runtime::Runtime::new().expect("starts");
        let fetch = source(&runtime, &[7; 100_000]);
        let column = ColumnBytes::new(&fetch, 0..100_000);
        column.set_spans(std::iter::once(0..100_000).collect(), 4096);
        let (mut at, mut length) = (0, 1);
        while at + length <= 100_000 {
            column.get_bytes(at as u64, length).expect("inside");
            (at, length) = (at + length, (length * 5 + 3) % 9000);
        }
        assert!(fetch.context().bytes_read() <= 100_000, "{}", fetch.context().bytes_read());
        assert!(fetch.context().bytes_read() >= at as u64);
    }

    #[test]
    fn little_is_fetched_beyond_the_parts_that_are_needed() {
        let runtime = tokio::runtime::Runtime::new().expect("starts");
        let all: Vec<u8> = (0..2_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let fetch = source(&runtime, &all);
        let column = ColumnBytes::new(&fetch, 0..2_000_000);
        column.set_spans(vec![0..1000, 1_000_000..1_200_000], 1 << 30);
        let read = || fetch.context().bytes_read();
        assert_eq!(column.get_bytes(0, 10).expect("inside"), all[..10]);
        assert_eq!(read(), 1000, "a whole part");
        assert_eq!(column.get_bytes(1_000_000, 150_000).expect("inside"), all[1_000_000..1_150_000]);
        assert_eq!(read(), 201_000, "the other, and nothing ahead of it");
        assert_eq!(column.get_bytes(1_150_000, 70_000).expect("inside"), all[1_150_000..1_220_000]);
        assert!(read() <= 221_000 + HEADER, "beyond it what is asked for: {}", read());
    }

    #[test]
    fn headers_of_small_pages_come_many_at_once() {
        let runtime = tokio::runtime::Runtime::new().expect("starts");
        let fetch = source(&runtime, &[7; 4 << 20]);
        let column = ColumnBytes::new(&fetch, 0..4 << 20);
        column.set_sequential(false);
        for page in 0..100u64 {
            column.get_read(page * 2000).expect("inside").read_exact(&mut [0; 30]).expect("whole");
        }
        assert!(fetch.context().bytes_read() <= 2 * 4 * SMALL_PAGE, "{}", fetch.context().bytes_read());
        let before = fetch.context().bytes_read();
        for page in 1..4u64 {
            column.get_read(page << 20).expect("inside").read_exact(&mut [0; 30]).expect("whole");
        }
        assert_eq!(fetch.context().bytes_read() - before, 3 * HEADER, "large pages one by one");
    }
}
