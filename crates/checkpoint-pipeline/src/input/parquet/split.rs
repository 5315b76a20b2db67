//! Large pages of byte arrays, given to the decoder as many small ones.
//!
//! A page can hold a thousand values of megabytes each. It is unpacked as a stream, and cut between
//! records into pages of about a megabyte, or of one record; so is a page of indices into a dictionary
//! that is stored on disk ([`super::dictionary`]), whose values are put in.

use std::io::{BufReader, Error, ErrorKind, Read, Result};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::Page;

use super::dictionary::{StoredDictionary, too_long};
use super::levels::each_run;
use super::page_header::{Content, PLAIN, PageHeader, RLE};
use super::page_size::{ColumnShape, bit_width};
use super::unpack::unpack;

/// Bytes of values after which a small page ends with its record.
const PIECE: usize = 1 << 20;
/// Values after which it ends too.
const MOST_VALUES: usize = 8192;

/// A large page on its way to the decoder.
pub(super) struct SplitPage {
    shape: ColumnShape,
    reps: Option<Vec<u16>>,
    defs: Option<Vec<u16>>,
    count: usize,
    at: usize,
    values: Values,
    ready: Option<Page>,
}

enum Values {
    Plain { stream: Box<dyn Read + Send>, left: u64 },
    Indices { indices: std::vec::IntoIter<u32>, dictionary: Arc<StoredDictionary> },
}

impl SplitPage {
    /// Whether a page can be split: plain values, and levels as all current writers encode them.
    pub(super) fn can_split(content: Content, shape: &ColumnShape) -> bool {
        match content {
            Content::Data { encoding, def_encoding, rep_encoding, .. } => {
                encoding == PLAIN
                    && (shape.max_def == 0 || def_encoding == RLE)
                    && (shape.max_rep == 0 || rep_encoding == RLE)
            }
            Content::DataV2 { encoding, .. } => encoding == PLAIN,
            _ => false,
        }
    }

    /// Opens a page of plain values; `body` is the page as it is stored, without the header.
    pub(super) fn plain(
        header: &PageHeader,
        shape: ColumnShape,
        codec: Compression,
        mut body: impl Read + Send + 'static,
    ) -> Result<Self> {
        let left = header.uncompressed;
        match header.content {
            Content::Data { values, .. } => {
                let mut stream = BufReader::new(unpack(codec, body)?);
                let reps = v1_levels(&mut stream, shape.max_rep, values, left)?;
                let defs = v1_levels(&mut stream, shape.max_def, values, left)?;
                Self::new(shape, reps, defs, values, Values::Plain { stream: Box::new(stream), left })
            }
            Content::DataV2 { values, def_bytes, rep_bytes, compressed, .. } => {
                let reps = levels(&take(&mut body, rep_bytes, left)?, shape.max_rep, values)?;
                let defs = levels(&take(&mut body, def_bytes, left)?, shape.max_def, values)?;
                let codec = if compressed { codec } else { Compression::UNCOMPRESSED };
                let stream = Box::new(BufReader::new(unpack(codec, body)?));
                Self::new(shape, reps, defs, values, Values::Plain { stream, left })
            }
            _ => Err(damaged("not a data page")),
        }
    }

    /// Opens a page of indices that is unpacked already.
    pub(super) fn indices(page: &Page, shape: ColumnShape, dictionary: Arc<StoredDictionary>) -> Result<Self> {
        let values = page.num_values();
        let mut rest = page.buffer().as_ref();
        let size = rest.len() as u64;
        let (reps, defs) = match page {
            Page::DataPageV2 { rep_levels_byte_len, def_levels_byte_len, .. } => {
                let reps = levels(&take(&mut rest, *rep_levels_byte_len, size)?, shape.max_rep, values)?;
                (reps, levels(&take(&mut rest, *def_levels_byte_len, size)?, shape.max_def, values)?)
            }
            _ => {
                let reps = v1_levels(&mut rest, shape.max_rep, values, size)?;
                (reps, v1_levels(&mut rest, shape.max_def, values, size)?)
            }
        };
        let present = match &defs {
            None => values as usize,
            Some(defs) => defs.iter().filter(|level| **level == shape.max_def as u16).count(),
        };
        let mut indices = Vec::with_capacity(present);
        if present > 0 {
            let (width, packed) = rest.split_first().ok_or_else(|| damaged("no indices"))?;
            if *width > 32 {
                return Err(damaged("indices of more than 32 bits"));
            }
            let whole = each_run(packed, *width, present as u64, |index, count| {
                indices.extend(std::iter::repeat_n(index as u32, count as usize));
            });
            whole.ok_or_else(|| damaged("the indices are cut off"))?;
        }
        Self::new(shape, reps, defs, values, Values::Indices { indices: indices.into_iter(), dictionary })
    }

    fn new(
        shape: ColumnShape,
        reps: Option<Vec<u16>>,
        defs: Option<Vec<u16>>,
        values: u32,
        source: Values,
    ) -> Result<Self> {
        Ok(Self { shape, reps, defs, count: values as usize, at: 0, values: source, ready: None })
    }

    /// Whether the page starts with a record.
    pub(super) fn starts_record(&self) -> bool {
        self.reps.as_ref().is_none_or(|reps| reps.first() == Some(&0))
    }

    /// The next small page, left in place.
    pub(super) fn peek(&mut self) -> Result<Option<&Page>> {
        if self.ready.is_none() && self.at < self.count {
            self.ready = Some(self.cut()?);
        }
        Ok(self.ready.as_ref())
    }

    /// The next small page; `None` at the end of the large one.
    pub(super) fn next(&mut self) -> Result<Option<Page>> {
        self.peek()?;
        Ok(self.ready.take())
    }

    fn cut(&mut self) -> Result<Page> {
        let start = self.at;
        // Levels go before the values, and how long they are is known last: leave room for the most.
        let encoded = [&self.reps, &self.defs].into_iter().flatten().count();
        let room = encoded * (4 + 4 * MOST_VALUES);
        let mut buffer = vec![0; room];
        while self.at < self.count {
            let at_record = self.reps.as_ref().is_none_or(|reps| reps[self.at] == 0);
            let full = buffer.len() - room >= PIECE || self.at - start >= MOST_VALUES;
            // A record of more values than there is room for levels goes on in the next page.
            if self.at > start && full && (at_record || self.at - start >= MOST_VALUES) {
                break;
            }
            let present = self.defs.as_ref().is_none_or(|defs| defs[self.at] == self.shape.max_def as u16);
            if present {
                self.values.append(&mut buffer)?;
            }
            self.at += 1;
        }
        let mut head = Vec::new();
        let levels = [(&self.reps, self.shape.max_rep), (&self.defs, self.shape.max_def)];
        for (levels, max) in levels {
            if let Some(levels) = levels {
                encode(&levels[start..self.at], bit_width(max), &mut head);
            }
        }
        let unused = room.checked_sub(head.len()).ok_or_else(|| damaged("its levels do not fit"))?;
        buffer[unused..room].copy_from_slice(&head);
        Ok(Page::DataPage {
            buf: Bytes::from(buffer).slice(unused..),
            num_values: (self.at - start) as u32,
            encoding: Encoding::PLAIN,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }
}

impl Values {
    /// Appends the next value as plain encoding has it: its length, and its bytes.
    fn append(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let mut start_value = |length: usize| {
            let at = buffer.len();
            buffer.reserve_exact(length + 4);
            buffer.extend_from_slice(&(length as u32).to_le_bytes());
            buffer.resize(at + 4 + length, 0);
            at + 4
        };
        match self {
            Values::Plain { stream, left } => {
                let mut length = [0; 4];
                stream.read_exact(&mut length)?;
                let length = u32::from_le_bytes(length);
                *left = left.checked_sub(4 + u64::from(length)).ok_or_else(too_long)?;
                let at = start_value(length as usize);
                stream.read_exact(&mut buffer[at..])
            }
            Values::Indices { indices, dictionary } => {
                let index = indices.next().ok_or_else(|| damaged("there are too few indices"))?;
                let at = start_value(dictionary.length(index)?);
                dictionary.read(index, &mut buffer[at..])
            }
        }
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("a damaged page, {what}"))
}

/// So many bytes, of at most `most`.
fn take(source: &mut impl Read, length: u32, most: u64) -> Result<Vec<u8>> {
    if u64::from(length) > most {
        return Err(damaged("its levels are longer than itself"));
    }
    let mut bytes = vec![0; length as usize];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn v1_levels(source: &mut impl Read, max: i16, values: u32, most: u64) -> Result<Option<Vec<u16>>> {
    if max == 0 {
        return Ok(None);
    }
    let mut length = [0; 4];
    source.read_exact(&mut length)?;
    levels(&take(source, u32::from_le_bytes(length), most)?, max, values)
}

fn levels(bytes: &[u8], max: i16, values: u32) -> Result<Option<Vec<u16>>> {
    if max == 0 {
        return Ok(None);
    }
    let mut levels = Vec::with_capacity(values as usize);
    let whole = each_run(bytes, bit_width(max), u64::from(values), |level, count| {
        levels.extend(std::iter::repeat_n(level as u16, count as usize));
    });
    whole.ok_or_else(|| damaged("its levels are cut off"))?;
    Ok(Some(levels))
}

/// Appends levels as a version 1 page has them: a length, and runs.
fn encode(levels: &[u16], width: u8, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    for run in levels.chunk_by(|a, b| a == b) {
        let mut header = run.len() << 1;
        while header >= 0x80 {
            out.push(header as u8 | 0x80);
            header >>= 7;
        }
        out.push(header as u8);
        let level = run.first().copied().unwrap_or(0).to_le_bytes();
        out.extend_from_slice(&level[..usize::from(width.div_ceil(8)).min(2)]);
    }
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}
