//! Compressed pages as streams, for pages that are too large to be unpacked in memory.
//!
//! The block formats of Snappy and LZ4 have no streaming decoder to use, but their copies reach back no
//! further than a block: 64 KiB in LZ4 by definition, and in Snappy in what all its compressors write.

use std::io::{Error, ErrorKind, Read, Result};

use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;

/// How far back copies can reach.
const HISTORY: usize = 64 << 10;
/// Unpacked bytes that are held beyond the history.
const AHEAD: usize = 64 << 10;

/// Whether pages of a codec can be read as a stream.
pub(super) fn can_stream(codec: Compression) -> bool {
    matches!(
        codec,
        Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::LZ4_RAW
            | Compression::ZSTD(_)
            | Compression::GZIP(_)
    )
}

/// The unpacked bytes of a page.
///
/// # Errors
/// `Unsupported` for a codec without a stream.
pub(super) fn unpack(codec: Compression, packed: impl Read + Send + 'static) -> Result<Box<dyn Read + Send>> {
    Ok(match codec {
        Compression::UNCOMPRESSED => Box::new(packed),
        Compression::SNAPPY => Box::new(Blocks::new(packed, Snappy::default())),
        Compression::LZ4_RAW => Box::new(Blocks::new(packed, Lz4::default())),
        Compression::ZSTD(_) => Box::new(zstd::stream::read::Decoder::new(packed)?),
        Compression::GZIP(_) => Box::new(MultiGzDecoder::new(packed)),
        other => return Err(Error::new(ErrorKind::Unsupported, format!("no stream for {other}"))),
    })
}

/// A format of literals and copies.
trait Format: Send {
    /// Unpacks the next element. `false` at the end.
    fn step<R: Read>(&mut self, source: &mut Source<R>, out: &mut Window) -> Result<bool>;
}

/// What was unpacked: history, and what was not read yet.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    read: usize,
    /// Of the current element: literal bytes, or bytes to copy and how far back, that are still to come.
    literals: usize,
    copy: (usize, usize),
}

struct Source<R> {
    inner: R,
    buffer: Vec<u8>,
    at: usize,
}

struct Blocks<R, F> {
    source: Source<R>,
    format: F,
    window: Window,
    ended: bool,
}

impl<R: Read, F: Format> Blocks<R, F> {
    fn new(inner: R, format: F) -> Self {
        let source = Source { inner, buffer: Vec::new(), at: 0 };
        Self { source, format, window: Window::default(), ended: false }
    }

    fn fill(&mut self) -> Result<()> {
        let window = &mut self.window;
        let stale = window.read.saturating_sub(HISTORY);
        if stale >= HISTORY {
            window.bytes.drain(..stale);
            window.read -= stale;
        }
        while !self.ended && window.bytes.len() - window.read < AHEAD {
            if window.literals > 0 {
                let piece = self.source.some(window.literals.min(AHEAD))?;
                window.bytes.extend_from_slice(piece);
                window.literals -= piece.len();
            } else if window.copy.1 > 0 {
                window.copy_piece()?;
            } else {
                self.ended = !self.format.step(&mut self.source, window)?;
            }
        }
        Ok(())
    }
}

impl<R: Read, F: Format> Read for Blocks<R, F> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.window.read == self.window.bytes.len() {
            self.fill()?;
        }
        let window = &mut self.window;
        let count = buf.len().min(window.bytes.len() - window.read);
        buf[..count].copy_from_slice(&window.bytes[window.read..window.read + count]);
        window.read += count;
        Ok(count)
    }
}

impl Window {
    /// Copies a part of what a copy still needs; overlapping copies repeat what they make.
    fn copy_piece(&mut self) -> Result<()> {
        let (offset, length) = self.copy;
        let start = self.bytes.len().checked_sub(offset).filter(|_| offset > 0);
        let start = start.ok_or_else(|| damaged("a copy from before the start"))?;
        let count = length.min(offset).min(AHEAD);
        self.bytes.extend_from_within(start..start + count);
        self.copy.1 -= count;
        Ok(())
    }
}

impl<R: Read> Source<R> {
    /// At least one and at most `most` of the next bytes.
    fn some(&mut self, most: usize) -> Result<&[u8]> {
        if self.at == self.buffer.len() && !self.fill()? {
            return Err(damaged("it is cut off"));
        }
        let end = self.buffer.len().min(self.at + most);
        let piece = &self.buffer[self.at..end];
        self.at = end;
        Ok(piece)
    }

    fn fill(&mut self) -> Result<bool> {
        self.buffer.resize(32 << 10, 0);
        self.at = 0;
        let count = self.inner.read(&mut self.buffer)?;
        self.buffer.truncate(count);
        Ok(count > 0)
    }

    /// The next byte; `None` at the end.
    fn byte_or_end(&mut self) -> Result<Option<u8>> {
        if self.at == self.buffer.len() && !self.fill()? {
            return Ok(None);
        }
        self.some(1).map(|byte| byte.first().copied())
    }

    fn byte(&mut self) -> Result<usize> {
        self.byte_or_end()?.map(usize::from).ok_or_else(|| damaged("it is cut off"))
    }

    /// A little-endian number of this many bytes.
    fn number(&mut self, bytes: usize) -> Result<usize> {
        (0..bytes).try_fold(0, |number, i| Ok(number | self.byte()? << (8 * i)))
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("a damaged compressed page, {what}"))
}

#[derive(Default)]
struct Snappy {
    started: bool,
}

impl Format for Snappy {
    fn step<R: Read>(&mut self, source: &mut Source<R>, out: &mut Window) -> Result<bool> {
        if !self.started {
            self.started = true;
            // The unpacked length; the page header has it too.
            while source.byte()? & 0x80 != 0 {}
        }
        let Some(tag) = source.byte_or_end()? else { return Ok(false) };
        let tag = usize::from(tag);
        match tag & 3 {
            0 => {
                let length = tag >> 2;
                out.literals = 1 + if length < 60 { length } else { source.number(length - 59)? };
            }
            1 => out.copy = ((tag >> 5) << 8 | source.byte()?, 4 + (tag >> 2 & 7)),
            wide => {
                let offset = source.number(if wide == 2 { 2 } else { 4 })?;
                if offset > HISTORY {
                    return Err(Error::new(ErrorKind::Unsupported, "a Snappy copy that reaches back beyond 64 KiB"));
                }
                out.copy = (offset, 1 + (tag >> 2));
            }
        }
        Ok(true)
    }
}

/// Sequences of literals and a copy; the last one has no copy.
#[derive(Default)]
struct Lz4 {
    /// The token of a sequence whose literals are being passed on.
    token: Option<u8>,
}

impl Format for Lz4 {
    fn step<R: Read>(&mut self, source: &mut Source<R>, out: &mut Window) -> Result<bool> {
        let Some(token) = self.token.take() else {
            let Some(token) = source.byte_or_end()? else { return Ok(false) };
            out.literals = extended(source, usize::from(token >> 4))?;
            self.token = Some(token);
            return Ok(true);
        };
        let Some(low) = source.byte_or_end()? else { return Ok(false) };
        let offset = usize::from(low) | source.byte()? << 8;
        out.copy = (offset, 4 + extended(source, usize::from(token & 15))?);
        Ok(true)
    }
}

/// A length of four bits, which 15 extends by bytes.
fn extended<R: Read>(source: &mut Source<R>, length: usize) -> Result<usize> {
    let mut length = length;
    if length == 15 {
        loop {
            let byte = source.byte()?;
            length = length.saturating_add(byte);
            if byte != 255 {
                break;
            }
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{GzipLevel, ZstdLevel};
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::super::page_header::PageHeader;
    use super::*;

    /// The only page of a file that is written with this codec, as it is stored.
    fn page(text: &StringArray, codec: Compression) -> (PageHeader, Bytes) {
        let column: ArrayRef = Arc::new(text.clone());
        let batch = RecordBatch::try_from_iter([("c", column)]).expect("one column");
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(1 << 30)
            .build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).expect("opens");
        writer.write(&batch).expect("writes");
        writer.close().expect("closes");
        let bytes = Bytes::from(file);
        let reader = SerializedFileReader::new(bytes.clone()).expect("opens");
        let start = reader.metadata().row_group(0).column(0).byte_range().0 as usize;
        let header = PageHeader::read(&bytes[start..]).expect("a header");
        let body = start + header.length as usize;
        let page = bytes.slice(body..body + header.compressed as usize);
        (header, page)
    }

    #[test]
    fn every_codec_unpacks_to_what_was_packed() {
        let mut random = 7u64;
        let mut noise = move |length: usize| -> String {
            let letter = |_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'!' + ((random >> 40) % 90) as u8)
            };
            (0..length).map(letter).collect()
        };
        let unit = noise(70_000);
        let text: StringArray = (0..300)
            .map(|i| match i % 4 {
                0 => Some(noise(3000 + i)),
                1 => Some("abc".repeat(i * 30)),
                2 => Some(unit[..20_000 + i * 100].to_owned()),
                _ => Some("z".repeat(i * 500)),
            })
            .collect();
        let (_, plain) = page(&text, Compression::UNCOMPRESSED);
        assert!(plain.len() > 5 << 20);
        let codecs = [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::LZ4_RAW,
            Compression::ZSTD(ZstdLevel::default()),
            Compression::GZIP(GzipLevel::default()),
        ];
        for codec in codecs {
            assert!(can_stream(codec));
            let (header, packed) = page(&text, codec);
            assert_eq!(header.uncompressed, plain.len() as u64);
            let mut unpacked = Vec::new();
            let source = std::io::Cursor::new(packed.clone());
            unpack(codec, source).expect("opens").read_to_end(&mut unpacked).expect("unpacks");
            assert!(unpacked == plain, "{codec}");
            let cut = std::io::Cursor::new(packed.slice(..packed.len() / 2));
            let mut part = Vec::new();
            let ended = unpack(codec, cut).and_then(|mut stream| stream.read_to_end(&mut part));
            assert!(ended.is_err() || part.len() < plain.len(), "{codec}: half of it is not the whole");
            assert!(plain.starts_with(&part), "{codec}");
        }
        assert!(!can_stream(Compression::BROTLI(Default::default())));
    }

    #[test]
    fn damaged_pages_are_errors() {
        let read = |codec, bytes: &'static [u8]| {
            unpack(codec, bytes).and_then(|mut stream| std::io::copy(&mut stream, &mut std::io::sink()))
        };
        assert!(read(Compression::SNAPPY, &[8, 0x09, 0x01]).is_err(), "a copy from before the start");
        assert!(read(Compression::SNAPPY, &[8, 0xf0]).is_err(), "cut off");
        assert!(read(Compression::LZ4_RAW, &[0x10, b'a', 0, 0]).is_err(), "a copy of nothing");
        assert!(read(Compression::LZ4_RAW, &[0xf0, 255]).is_err(), "cut off");
    }
}
