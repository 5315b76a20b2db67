//! Repetition levels: how many records a page starts, and whether it starts with one.

/// What the repetition levels of a page say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Records {
    /// Records that start in the page.
    pub(super) started: u64,
    /// Whether the first value starts one, instead of going on with one of the page before.
    pub(super) at_start: bool,
}

/// Counts the records of a page from its levels in the RLE and bit-packing hybrid. `None` for damaged
/// data, which the decoder will refuse with better words.
pub(super) fn count_records(data: &[u8], bit_width: u8, values: u64) -> Option<Records> {
    let mut records = Records { started: 0, at_start: false };
    let mut seen = 0;
    each_run(data, bit_width, values, |level, count| {
        if level == 0 {
            records.at_start |= seen == 0;
            records.started += count;
        }
        seen += count;
    })?;
    Some(records)
}

/// Visits runs of equal values, bit-packed ones value by value. `None` when the data ends before.
pub(super) fn each_run(mut data: &[u8], bit_width: u8, values: u64, mut visit: impl FnMut(u64, u64)) -> Option<()> {
    let mut left = values;
    while left > 0 {
        let header = varint(&mut data)?;
        if header & 1 == 0 {
            let count = (header >> 1).min(left);
            let width = usize::from(bit_width.div_ceil(8));
            let (level, rest) = data.split_at_checked(width)?;
            data = rest;
            let level = level.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            if count == 0 {
                return None;
            }
            visit(level, count);
            left -= count;
        } else {
            let groups = usize::try_from(header >> 1).ok()?;
            let length = groups.checked_mul(usize::from(bit_width))?.min(data.len());
            let (packed, rest) = data.split_at(length);
            data = rest;
            let there = (groups as u64).saturating_mul(8).min(left);
            if there == 0 {
                return None;
            }
            for index in 0..there {
                visit(bits(packed, index, bit_width)?, 1);
            }
            left -= there;
        }
    }
    Some(())
}

/// The value at `index` of values packed from the lowest bit on; at most 64 bits wide.
pub(super) fn bits(packed: &[u8], index: u64, width: u8) -> Option<u64> {
    let mut value = 0;
    let first = index.checked_mul(u64::from(width))?;
    let (mut at, mut got) = (first, 0u8);
    while got < width {
        let byte = *packed.get(usize::try_from(at / 8).ok()?)?;
        let offset = (at % 8) as u8;
        let take = (8 - offset).min(width - got);
        let part = u64::from(byte >> offset) & ((1 << take) - 1);
        value |= part << got;
        got += take;
        at += u64::from(take);
    }
    Some(value)
}

/// An unsigned LEB128 number, taken off the front.
pub(super) fn varint(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = data.split_first()?;
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_runs_and_packed_levels() {
        // A run of 5 zeros, then one group of eight packed one-bit levels: 0,1,1,0,0,0,1,1.
        let data = [5 << 1, 0, (1 << 1) | 1, 0b1100_0110];
        assert_eq!(count_records(&data, 1, 13), Some(Records { started: 9, at_start: true }));
        assert_eq!(count_records(&data, 1, 7), Some(Records { started: 6, at_start: true }));
        assert_eq!(count_records(&data[2..], 1, 8), Some(Records { started: 4, at_start: true }));
        // A page that goes on with a record.
        assert_eq!(count_records(&[3 << 1, 2, 1 << 1, 0], 2, 4), Some(Records { started: 1, at_start: false }));
    }

    #[test]
    fn damaged_levels_are_no_answer() {
        assert_eq!(count_records(&[], 1, 1), None);
        assert_eq!(count_records(&[0, 0], 1, 1), None);
        assert_eq!(count_records(&[0xff; 12], 1, 10), None);
        assert_eq!(count_records(&[3], 1, 8), None);
    }

    #[test]
    fn unpacks_across_bytes() {
        let packed = [0b1010_1101, 0b0110_0011, 0b1111_0000];
        let whole = 0b1111_0000_0110_0011_1010_1101u32;
        for (width, count) in [(3u8, 8u64), (5, 4), (12, 2)] {
            for i in 0..count {
                let expected = u64::from(whole >> (i as u32 * u32::from(width))) & ((1 << width) - 1);
                assert_eq!(bits(&packed, i, width), Some(expected), "{width} {i}");
            }
        }
        assert_eq!(bits(&packed, 2, 12), None);
    }
}
