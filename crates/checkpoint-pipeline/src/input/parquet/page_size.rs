//! How much a page decodes to, told before anything is decoded.
//!
//! A page of a few kilobytes can decode to gigabytes: a dictionary index names a value of any length, and
//! front-coded strings repeat a prefix for nothing. What is measured here bounds each decoding step.

use parquet::basic::{Encoding, Type};
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

use super::levels::{Records, bits, count_records, varint};

/// What is fixed for a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnShape {
    pub(super) byte_array: bool,
    /// Decoded bytes of a value of fixed width.
    width: u64,
    pub(super) max_def: i16,
    pub(super) max_rep: i16,
}

/// What a data page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageSize {
    /// An upper bound of the decoded bytes of all values.
    pub(super) decoded: u64,
    /// Records that start in the page, and whether it starts with one; `None` where it cannot be told.
    pub(super) records: Option<Records>,
}

impl ColumnShape {
    pub(super) fn new(column: &ColumnDescriptor) -> Self {
        let (byte_array, width) = match column.physical_type() {
            Type::BOOLEAN => (false, 1),
            Type::INT32 | Type::FLOAT => (false, 4),
            Type::INT64 | Type::DOUBLE | Type::INT96 => (false, 8),
            Type::BYTE_ARRAY => (true, 0),
            Type::FIXED_LEN_BYTE_ARRAY => (false, u64::try_from(column.type_length()).unwrap_or(0).max(4)),
        };
        Self { byte_array, width, max_def: column.max_def_level(), max_rep: column.max_rep_level() }
    }

    /// Decoded bytes of a value of fixed width; zero for byte arrays.
    pub(super) fn fixed_width(&self) -> u64 {
        self.width
    }

    /// The longest value of a dictionary page, or the fixed width.
    pub(super) fn longest(&self, dictionary: &[u8], values: u32) -> u64 {
        if !self.byte_array {
            return self.width;
        }
        let (mut rest, mut longest) = (dictionary, 0);
        for _ in 0..values {
            let Some((length, tail)) = rest.split_first_chunk::<4>() else { break };
            let length = u32::from_le_bytes(*length) as usize;
            longest = longest.max(length as u64);
            let Some(tail) = tail.get(length..) else { break };
            rest = tail;
        }
        longest
    }

    /// Measures a data page. `longest` is the longest value of the chunk's dictionary.
    pub(super) fn measure(&self, page: &Page, longest: u64) -> PageSize {
        let values = u64::from(page.num_values());
        let layout = self.layout(page, values);
        let decoded = if !self.byte_array {
            values.saturating_mul(self.width)
        } else {
            let bytes = match page.encoding() {
                Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => values.saturating_mul(longest),
                Encoding::DELTA_BYTE_ARRAY => {
                    let data = page.buffer().get(layout.values_at..).unwrap_or_default();
                    front_coded_size(data).unwrap_or(page.buffer().len() as u64)
                }
                _ => page.buffer().len() as u64,
            };
            bytes.saturating_add(values.saturating_mul(4))
        };
        PageSize { decoded, records: layout.records }
    }

    fn layout(&self, page: &Page, values: u64) -> Layout {
        let whole = |started| Some(Records { started, at_start: true });
        match page {
            Page::DataPage { buf, rep_level_encoding, def_level_encoding, .. } => {
                let (records, at) = match self.max_rep {
                    0 => (whole(values), 0),
                    max => v1_levels(buf, 0, *rep_level_encoding, bit_width(max), values).map_or(
                        (None, 0),
                        |(levels, end)| {
                            let rle = *rep_level_encoding == Encoding::RLE;
                            (rle.then(|| count_records(levels, bit_width(max), values)).flatten(), end)
                        },
                    ),
                };
                let values_at = match self.max_def {
                    0 => at,
                    max => v1_levels(buf, at, *def_level_encoding, bit_width(max), values).map_or(at, |(_, end)| end),
                };
                Layout { records, values_at }
            }
            Page::DataPageV2 { buf, rep_levels_byte_len, def_levels_byte_len, num_rows, .. } => {
                let rep = *rep_levels_byte_len as usize;
                let records = match self.max_rep {
                    0 => whole(values),
                    max => buf
                        .get(..rep)
                        .and_then(|levels| count_records(levels, bit_width(max), values))
                        .or_else(|| whole(u64::from(*num_rows))),
                };
                Layout { records, values_at: rep + *def_levels_byte_len as usize }
            }
            Page::DictionaryPage { .. } => Layout { records: None, values_at: 0 },
        }
    }
}

struct Layout {
    records: Option<Records>,
    values_at: usize,
}

/// The levels of a version 1 page that start at `at`, and where they end.
fn v1_levels(buf: &[u8], at: usize, encoding: Encoding, width: u8, values: u64) -> Option<(&[u8], usize)> {
    let rest = buf.get(at..)?;
    if encoding == Encoding::RLE {
        let (length, data) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        Some((data.get(..length)?, at + 4 + length))
    } else {
        let length = usize::try_from(values.checked_mul(u64::from(width))?.div_ceil(8)).ok()?;
        Some((rest.get(..length)?, at + length))
    }
}

pub(super) fn bit_width(max_level: i16) -> u8 {
    (i16::BITS - max_level.leading_zeros()) as u8
}

/// Decoded bytes of front-coded strings: the sum of all prefix and suffix lengths.
fn front_coded_size(mut data: &[u8]) -> Option<u64> {
    let prefixes = delta_sum(&mut data)?;
    let suffixes = delta_sum(&mut data)?;
    prefixes.checked_add(suffixes)
}

/// The sum of delta-packed numbers, which are taken off the front.
fn delta_sum(data: &mut &[u8]) -> Option<u64> {
    let block = varint(data)?;
    let miniblocks = varint(data)?;
    let mut left = varint(data)?;
    let mut value = zigzag(varint(data)?);
    if miniblocks == 0 || miniblocks > 512 || block % miniblocks != 0 || block > 1 << 20 {
        return None;
    }
    let each = block / miniblocks;
    let mut sum = 0i64;
    if left > 0 {
        sum = value;
        left -= 1;
    }
    while left > 0 {
        let smallest = zigzag(varint(data)?);
        let (widths, rest) = data.split_at_checked(miniblocks as usize)?;
        *data = rest;
        for width in widths.iter().copied() {
            if left == 0 {
                break;
            }
            if width > 64 {
                return None;
            }
            let length = usize::try_from(each * u64::from(width) / 8).ok()?;
            let (packed, rest) = data.split_at_checked(length)?;
            *data = rest;
            let there = each.min(left);
            for index in 0..there {
                let delta = bits(packed, index, width)? as i64;
                value = value.wrapping_add(smallest).wrapping_add(delta);
                sum = sum.checked_add(value)?;
            }
            left -= there;
        }
    }
    u64::try_from(sum).ok()
}

fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, ListArray, RecordBatch, StringArray};
    use arrow::datatypes::Int64Type;
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    /// The first dictionary's longest value, and the sizes of all data pages.
    fn pages(column: ArrayRef, properties: WriterProperties) -> (u64, Vec<PageSize>) {
        let batch = RecordBatch::try_from_iter_with_nullable([("c", column, true)]).expect("one column");
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).expect("opens");
        writer.write(&batch).expect("writes");
        writer.close().expect("closes");
        let reader = SerializedFileReader::new(Bytes::from(file)).expect("opens");
        let shape = ColumnShape::new(&reader.metadata().file_metadata().schema_descr().column(0));
        let group = reader.get_row_group(0).expect("there");
        let (mut longest, mut sizes) = (0, Vec::new());
        for page in group.get_column_page_reader(0).expect("opens") {
            match page.expect("reads") {
                Page::DictionaryPage { buf, num_values, .. } => longest = shape.longest(&buf, num_values),
                page => sizes.push(shape.measure(&page, longest)),
            }
        }
        (longest, sizes)
    }

    #[test]
    fn a_dictionary_counts_by_its_longest_value() {
        let words: Vec<Option<String>> = (0..1000).map(|i| (i % 5 > 0).then(|| "x".repeat(i % 5 * 100))).collect();
        let (longest, sizes) = pages(Arc::new(StringArray::from(words)), WriterProperties::builder().build());
        assert_eq!(longest, 400);
        assert_eq!(sizes.len(), 1);
        assert_eq!(
            sizes[0],
            PageSize { decoded: 1000 * 404, records: Some(Records { started: 1000, at_start: true }) }
        );
    }

    #[test]
    fn front_coded_strings_count_whole() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let words: Vec<Option<String>> =
                (0..500).map(|i| (i % 7 > 0).then(|| format!("{}{i}", "p".repeat(1000)))).collect();
            let bytes: u64 = words.iter().flatten().map(|w| w.len() as u64).sum();
            let properties = WriterProperties::builder()
                .set_dictionary_enabled(false)
                .set_writer_version(version)
                .set_column_encoding("c".into(), Encoding::DELTA_BYTE_ARRAY)
                .build();
            let (_, sizes) = pages(Arc::new(StringArray::from(words)), properties);
            assert_eq!(sizes.iter().map(|s| s.decoded).sum::<u64>(), bytes + 500 * 4);
        }
    }

    #[test]
    fn lists_count_by_their_records() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let lists = (0..3000i64).map(|i| (i % 11 > 0).then(|| (0..i % 11).map(Some).collect::<Vec<_>>()));
            let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
            let values: u64 = (0..3000u64).map(|i| (i % 11).max(1)).sum();
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_data_page_row_count_limit(700)
                .set_write_batch_size(100)
                .build();
            let (_, sizes) = pages(Arc::new(lists), properties);
            assert!(sizes.len() > 2, "{}", sizes.len());
            assert_eq!(sizes.iter().map(|s| s.decoded).sum::<u64>(), values * 8);
            let records: Vec<Records> = sizes.iter().map(|s| s.records.expect("told")).collect();
            assert_eq!(records.iter().map(|r| r.started).sum::<u64>(), 3000);
            assert!(records[0].at_start);
        }
    }
}
