//! The bytes of one column chunk, in order: a block at a time, with the next block read ahead.

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

/// One column chunk. Clones share the same buffers.
#[derive(Debug, Clone)]
pub(super) struct ColumnBytes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fetch: Arc<FileFetch>,
    chunk: Range<u64>,
    block: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What is held: bytes of the file from `start` on.
    start: u64,
    buffer: Bytes,
    ahead: Option<Ahead>,
    /// Whether bytes are read one after the other, so that reading ahead pays.
    sequential: bool,
    /// Where the first read since the last [`ColumnBytes::take_mark`] began.
    mark: Option<u64>,
}

impl State {
    fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }
}

impl ColumnBytes {
    /// A chunk read in blocks of `block` bytes; at most two blocks are held, and the page asked for.
    pub(super) fn new(fetch: &Arc<FileFetch>, chunk: Range<u64>, block: u64) -> Self {
        Self::with_buffer(fetch, chunk.clone(), block, chunk.start, Bytes::new())
    }

    /// A chunk that is held whole already.
    pub(super) fn whole(fetch: &Arc<FileFetch>, chunk: Range<u64>, bytes: Bytes) -> Self {
        let start = chunk.start;
        Self::with_buffer(fetch, chunk, HEADER, start, bytes)
    }

    fn with_buffer(fetch: &Arc<FileFetch>, chunk: Range<u64>, block: u64, start: u64, buffer: Bytes) -> Self {
        let state = State { start, buffer, ahead: None, sequential: true, mark: None };
        Self(Arc::new(Inner { fetch: Arc::clone(fetch), chunk, block, state: Mutex::new(state) }))
    }

    /// The end of the chunk in the file.
    pub(super) fn end(&self) -> u64 {
        self.0.chunk.end
    }

    /// Starts to read the first block, before anything asks for it.
    pub(super) fn start_reading(&self) {
        self.0.read_ahead(&mut self.0.lock());
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
        if state.sequential && state.ahead.is_none() && from < self.chunk.end {
            state.ahead = Some(self.fetch.read_ahead(from..self.chunk.end.min(from + self.block)));
        }
    }

    /// The bytes from `from` on, at least up to `end` or a piece of that.
    fn fetch(&self, state: &mut State, from: u64, end: u64) -> Result<Bytes> {
        if let Some(ahead) = state.ahead.take()
            && ahead.start() == from
        {
            return self.fetch.join(ahead);
        }
        let block = if state.sequential { self.block } else { HEADER };
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
            let column = ColumnBytes::new(&fetch, 100..40_000, block);
            column.start_reading();
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
        let column = ColumnBytes::new(&fetch, 0..100_000, 4096);
        let (mut at, mut length) = (0, 1);
        while at + length <= 100_000 {
            column.get_bytes(at as u64, length).expect("inside");
            (at, length) = (at + length, (length * 5 + 3) % 9000);
        }
        assert!(fetch.context().bytes_read() <= 100_000, "{}", fetch.context().bytes_read());
        assert!(fetch.context().bytes_read() >= at as u64);
    }
}
