//! The table of a buffer: one line of 64 bytes for each partition.

use super::bits::{load32, load64, load128};

/// Bytes of an entry.
pub(super) const ENTRY: usize = 64;

/// Where the fields of an entry are in its line.
pub(super) const FIRST: usize = 0;
pub(super) const LAST: usize = 16;
pub(super) const OFFSET: usize = 32;
pub(super) const BEFORE: usize = 40;
const UNITS: usize = 48;
/// The directory, and the numbers right behind it.
pub(super) const DIRECTORY: usize = 52;
const NUMBERS: usize = 56;
/// Kind, width, width of lengths and shift, a byte each.
pub(super) const KIND: usize = 60;

/// How the keys of a partition are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One bit for each value from the first key to the last.
    Bitmap = 0,
    /// Low bits packed, the rest in unary.
    Packed = 1,
    /// Where each stretch of keys starts and how long it is.
    Runs = 2,
    /// Nothing: all keys from the first to the last are there.
    Whole = 3,
}

impl Kind {
    #[inline(always)]
    fn of(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Bitmap),
            1 => Some(Self::Packed),
            2 => Some(Self::Runs),
            3 => Some(Self::Whole),
            _ => None,
        }
    }
}

/// A partition: which keys it covers, where its body lies, and how that is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// The first key.
    pub(super) first: u128,
    /// The last key.
    pub(super) last: u128,
    /// Where the body starts in the buffer.
    pub(super) offset: usize,
    /// How many keys of the set come before the first one.
    pub(super) before: u64,
    /// Buckets of packed keys; runs; 0.
    pub(super) units: u32,
    /// Where the directory starts in the body.
    pub(super) directory: u32,
    /// Where the packed numbers start in the body.
    pub(super) numbers: u32,
    /// How the keys are stored.
    pub(super) kind: Kind,
    /// Bits of a low part; of a run's start.
    pub(super) width: u8,
    /// Bits of a run's length.
    pub(super) length_width: u8,
    /// A run's start without this many low bits is its cell in the directory; of packed keys see
    /// [`super::packed::block_bits`].
    pub(super) shift: u8,
}

impl Entry {
    /// From the last key to the first.
    #[inline(always)]
    pub(super) fn span(&self) -> u128 {
        self.last.wrapping_sub(self.first)
    }

    /// Whether it is a partition of nothing but so many keys from the first to the last.
    pub(super) fn is_whole(&self, count: u64) -> bool {
        let nothing_else =
            self.units | self.directory | self.numbers == 0 && self.width | self.length_width | self.shift == 0;
        nothing_else && self.span() == u128::from(count) - 1
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.last.to_le_bytes());
        out.extend_from_slice(&(self.offset as u64).to_le_bytes());
        out.extend_from_slice(&self.before.to_le_bytes());
        for number in [self.units, self.directory, self.numbers] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&[self.kind as u8, self.width, self.length_width, self.shift]);
    }

    /// The entry at `at`; `None` where there is none, or one of no known kind.
    #[inline(always)]
    pub(super) fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let line: &[u8; ENTRY] = bytes.get(at..)?.first_chunk()?;
        let kinds = load32(line, KIND).to_le_bytes();
        Some(Self {
            first: load128(line, FIRST),
            last: load128(line, LAST),
            offset: usize::try_from(load64(line, OFFSET)).ok()?,
            before: load64(line, BEFORE),
            units: load32(line, UNITS),
            directory: load32(line, DIRECTORY),
            numbers: load32(line, NUMBERS),
            kind: Kind::of(kinds[0])?,
            width: kinds[1],
            length_width: kinds[2],
            shift: kinds[3],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let entry = Entry {
            first: 1 << 100,
            last: (1 << 100) + 77,
            offset: 4096,
            before: 12,
            units: 3,
            directory: 8,
            numbers: 24,
            kind: Kind::Runs,
            width: 7,
            length_width: 9,
            shift: 2,
        };
        let mut bytes = vec![0];
        entry.write(&mut bytes);
        assert_eq!(bytes.len(), 1 + ENTRY);
        assert_eq!(Entry::read(&bytes, 1), Some(entry));
        assert_eq!(entry.span(), 77);
        assert_eq!(Entry::read(&bytes, 2), None);
        bytes[61] = 4;
        assert_eq!(Entry::read(&bytes, 1), None);
    }
}
