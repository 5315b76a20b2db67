//! The decompressed bytes of a text file.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Result};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::super::fetch::FileFetch;
use super::super::sequential::SequentialRead;
use super::super::source::Compression;

/// The longest row that is read, in bytes. Longer ones are taken for damage, such as a quote that is never
/// closed, before they fill the memory.
pub(super) const LONGEST_ROW: u64 = 256 << 20;

const BLOCK: u64 = 4 << 20;
const SAMPLE_BLOCK: u64 = 1 << 20;

/// A buffered stream without compression and without a byte order mark.
pub(super) struct TextStream(BufReader<Box<dyn Read + Send>>);

impl TextStream {
    /// Opens a file for reading it to its end.
    pub(super) fn open(fetch: &Arc<FileFetch>) -> Result<Self> {
        Self::over(fetch, SequentialRead::new(fetch, BLOCK, true))
    }

    /// Opens a file of which only the start is wanted.
    pub(super) fn sample(fetch: &Arc<FileFetch>) -> Result<Self> {
        Self::over(fetch, SequentialRead::new(fetch, SAMPLE_BLOCK, false))
    }

    fn over(fetch: &Arc<FileFetch>, raw: SequentialRead) -> Result<Self> {
        let plain: Box<dyn Read + Send> = match fetch.file().compression() {
            Compression::None => Box::new(raw),
            // Nothing at all is an empty file, compressed or not.
            _ if fetch.size() == 0 => Box::new(raw),
            Compression::Gzip => Box::new(MultiGzDecoder::new(raw)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(raw)?),
        };
        let mut stream = BufReader::with_capacity(64 << 10, plain);
        if stream.fill_buf()?.starts_with(b"\xEF\xBB\xBF") {
            stream.consume(3);
        }
        Ok(Self(stream))
    }
}

impl Read for TextStream {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf)
    }
}

impl BufRead for TextStream {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }
}

impl fmt::Debug for TextStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TextStream")
    }
}
