//! One file as a blocking stream: a block at a time, with the next block read ahead.

use std::io::{Error, Read, Result, Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;

use super::fetch::{Ahead, FileFetch};

/// Reads a file from front to back, or from where it was sought to. Holds at most two blocks.
///
/// A failed read is kept in the [`FileFetch`], whose `blame` gives it back in place of the decoder's words.
#[derive(Debug)]
pub(super) struct SequentialRead {
    fetch: Arc<FileFetch>,
    block: u64,
    read_ahead: bool,
    /// The position of the first byte of `held`.
    at: u64,
    held: Bytes,
    ahead: Option<Ahead>,
}

impl SequentialRead {
    /// A stream in blocks of this many bytes.
    pub(super) fn new(fetch: &Arc<FileFetch>, block: u64, read_ahead: bool) -> Self {
        Self { fetch: Arc::clone(fetch), block, read_ahead, at: 0, held: Bytes::new(), ahead: None }
    }

    fn fill(&mut self) -> Result<()> {
        let size = self.fetch.size();
        let end = |from: u64| size.min(from + self.block);
        let block = match self.ahead.take().filter(|ahead| ahead.start() == self.at) {
            Some(ahead) => self.fetch.join(ahead),
            None => self.fetch.read(self.at..end(self.at)),
        };
        self.held = block.map_err(|e| {
            let text = e.to_string();
            self.fetch.keep_fault(e);
            Error::other(text)
        })?;
        let next = self.at + self.held.len() as u64;
        if self.read_ahead && next < size {
            self.ahead = Some(self.fetch.read_ahead(next..end(next)));
        }
        Ok(())
    }
}

impl Read for SequentialRead {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if buf.is_empty() || (self.held.is_empty() && self.at >= self.fetch.size()) {
            return Ok(0);
        }
        if self.held.is_empty() {
            self.fill()?;
        }
        let count = buf.len().min(self.held.len());
        buf[..count].copy_from_slice(&self.held.split_to(count));
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for SequentialRead {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let target = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.fetch.size().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        let target = target.ok_or_else(|| Error::other("a position before the start of the file"))?;
        let skipped = target.checked_sub(self.at).and_then(|n| usize::try_from(n).ok());
        match skipped {
            Some(count) if count <= self.held.len() => drop(self.held.split_to(count)),
            _ => self.held = Bytes::new(),
        }
        self.at = target;
        Ok(target)
    }
}
