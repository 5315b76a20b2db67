//! The header of a page, read before the page is: Thrift's compact protocol, as far as Parquet uses it.

use std::io::{Error, Read, Result};

/// Nesting of structures beyond which a header is taken for damage.
const DEEPEST: u8 = 8;

/// What a page header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// The bytes of the header itself.
    pub(super) length: u64,
    pub(super) compressed: u64,
    pub(super) uncompressed: u64,
    pub(super) content: Content,
}

/// What kind of page follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Dictionary { values: u32, encoding: i32 },
    Data { values: u32, encoding: i32, def_encoding: i32, rep_encoding: i32 },
    DataV2 { values: u32, encoding: i32, def_bytes: u32, rep_bytes: u32, compressed: bool },
    Other,
}

pub(super) const PLAIN: i32 = 0;
pub(super) const PLAIN_DICTIONARY: i32 = 2;
pub(super) const RLE: i32 = 3;

impl PageHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// What reading meets; `InvalidData` for what is no header.
    pub(super) fn read(source: impl Read) -> Result<Self> {
        let mut input = Compact { source, count: 0 };
        let (mut page_type, mut sizes) = (None, [0i64; 2]);
        let mut contents = [Content::Other; 4];
        input.each_field(|input, id, kind| {
            match id {
                1 => page_type = Some(input.integer(kind)?),
                2 | 3 => sizes[id as usize - 2] = input.integer(kind)?,
                5 => contents[0] = input.data_header()?,
                7 => contents[2] = input.dictionary_header()?,
                8 => contents[3] = input.data_header_v2()?,
                _ => input.skip(kind, 0)?,
            }
            Ok(())
        })?;
        let content = page_type.and_then(|t| usize::try_from(t).ok()).and_then(|t| contents.get(t).copied());
        let size = |size: i64| u64::try_from(size).map_err(|_| broken("a negative size"));
        Ok(Self {
            length: input.count,
            compressed: size(sizes[1])?,
            uncompressed: size(sizes[0])?,
            content: content.ok_or_else(|| broken("no page type"))?,
        })
    }
}

fn broken(what: &str) -> Error {
    Error::new(std::io::ErrorKind::InvalidData, format!("a broken page header, {what}"))
}

struct Compact<R> {
    source: R,
    count: u64,
}

impl<R: Read> Compact<R> {
    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.source.read_exact(&mut byte)?;
        self.count += 1;
        Ok(byte[0])
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(broken("a number without end"))
    }

    fn integer(&mut self, kind: u8) -> Result<i64> {
        match kind {
            4..=6 => self.varint().map(|n| (n >> 1) as i64 ^ -((n & 1) as i64)),
            _ => Err(broken("a number was expected")),
        }
    }

    /// Visits the fields of a structure; the visitor takes each value.
    fn each_field(&mut self, mut visit: impl FnMut(&mut Self, i64, u8) -> Result<()>) -> Result<()> {
        let mut id = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            let (step, kind) = (head >> 4, head & 0x0f);
            id = if step == 0 { self.integer(4)? } else { id + i64::from(step) };
            visit(self, id, kind)?;
        }
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Result<()> {
        if depth > DEEPEST {
            return Err(broken("nested too deeply"));
        }
        match kind {
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => self.skip_bytes(8)?,
            8 => {
                let length = self.varint()?;
                self.skip_bytes(length)?;
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                for _ in 0..count {
                    match head & 0x0f {
                        1 | 2 => drop(self.byte()?),
                        kind => self.skip(kind, depth + 1)?,
                    }
                }
            }
            12 => self.each_field(|input, _, kind| input.skip(kind, depth + 1))?,
            _ => return Err(broken("a type that no header has")),
        }
        Ok(())
    }

    fn skip_bytes(&mut self, length: u64) -> Result<()> {
        let skipped = std::io::copy(&mut (&mut self.source).take(length), &mut std::io::sink())?;
        self.count += skipped;
        if skipped == length { Ok(()) } else { Err(broken("it is cut off")) }
    }

    fn numbers<const N: usize>(&mut self) -> Result<([i64; N], Option<bool>)> {
        let (mut numbers, mut flag) = ([0; N], None);
        self.each_field(|input, id, kind| {
            let slot = usize::try_from(id - 1).ok().and_then(|slot| numbers.get_mut(slot));
            match (slot, kind) {
                (Some(slot), 4..=6) => *slot = input.integer(kind)?,
                (_, 1 | 2) => flag = Some(kind == 1),
                _ => input.skip(kind, 0)?,
            }
            Ok(())
        })?;
        Ok((numbers, flag))
    }

    fn data_header(&mut self) -> Result<Content> {
        let ([values, encoding, def, rep], _) = self.numbers()?;
        Ok(Content::Data {
            values: unsigned(values)?,
            encoding: encoding as i32,
            def_encoding: def as i32,
            rep_encoding: rep as i32,
        })
    }

    fn dictionary_header(&mut self) -> Result<Content> {
        let ([values, encoding], _) = self.numbers()?;
        Ok(Content::Dictionary { values: unsigned(values)?, encoding: encoding as i32 })
    }

    fn data_header_v2(&mut self) -> Result<Content> {
        let ([values, _nulls, _rows, encoding, def, rep], compressed) = self.numbers()?;
        Ok(Content::DataV2 {
            values: unsigned(values)?,
            encoding: encoding as i32,
            def_bytes: unsigned(def)?,
            rep_bytes: unsigned(rep)?,
            compressed: compressed.unwrap_or(true),
        })
    }
}

fn unsigned(number: i64) -> Result<u32> {
    u32::try_from(number).map_err(|_| broken("a negative count"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn reads_the_headers_that_are_written() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let text: StringArray = (0..1000).map(|i| (i % 3 > 0).then(|| format!("value {}", i % 10))).collect();
            let column: ArrayRef = Arc::new(text);
            let batch = RecordBatch::try_from_iter_with_nullable([("c", column, true)]).expect("one column");
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_statistics_enabled(EnabledStatistics::Page)
                .set_write_page_header_statistics(true)
                .build();
            let mut file = Vec::new();
            let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).expect("opens");
            writer.write(&batch).expect("writes");
            writer.close().expect("closes");
            let bytes = Bytes::from(file);
            let reader = SerializedFileReader::new(bytes.clone()).expect("opens");
            let chunk = reader.metadata().row_group(0).column(0);
            let (start, length) = chunk.byte_range();
            let (mut at, end) = (start as usize, (start + length) as usize);

            let dictionary = PageHeader::read(&bytes[at..]).expect("a header");
            assert!(matches!(dictionary.content, Content::Dictionary { values: 7..=10, encoding: PLAIN }));
            at += (dictionary.length + dictionary.compressed) as usize;
            let data = PageHeader::read(&bytes[at..]).expect("a header");
            match data.content {
                Content::Data { values: 1000, encoding: 8, def_encoding: RLE, .. } => {
                    assert_eq!(version, WriterVersion::PARQUET_1_0);
                }
                Content::DataV2 { values: 1000, encoding: 8, def_bytes: 1.., rep_bytes: 0, .. } => {
                    assert_eq!(version, WriterVersion::PARQUET_2_0);
                }
                other => assert_eq!(other, Content::Other, "neither"),
            }
            assert_eq!(at + (data.length + data.compressed) as usize, end);
            assert!(PageHeader::read(&bytes[at..at + data.length as usize - 1]).is_err(), "cut off");
        }
    }

    #[test]
    fn rubbish_is_an_error() {
        assert!(PageHeader::read(&[0xff; 100][..]).is_err());
        assert!(PageHeader::read(&[0][..]).is_err(), "no type");
        let nested = [0x5c].repeat(100);
        assert!(PageHeader::read(&nested[..]).is_err());
    }
}
