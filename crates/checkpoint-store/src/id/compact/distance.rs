//! Arithmetic on keys: in 64 bits where the range of a set allows it, in 128 where not.

use super::bits::{load64, load128, mask, number};
use super::entry::ENTRY;

/// Distances between keys of a set, of which only the low bits need to be known.
pub(super) trait Distance: Copy + Default + Ord {
    /// The low bits of a key.
    fn of(key: u128) -> Self;

    /// The low bits of the number at `at` in a line of the table.
    fn load(line: &[u8; ENTRY], at: usize) -> Self;

    /// From `other` to this one, wrapping.
    fn since(self, other: Self) -> Self;

    /// Without the low `width` bits, which are fewer than there are.
    fn high(self, width: u8) -> usize;

    /// The low `width` bits.
    fn low(self, width: u8) -> Self;

    /// How many bytes [`Distance::number`] reads, as a rule.
    const READ: usize;

    /// The number of `width` bits that begins at this bit of the buffer.
    fn number(bytes: &[u8], bit: usize, width: u8) -> Self;
}

impl Distance for u64 {
    const READ: usize = 8;

    #[inline(always)]
    fn of(key: u128) -> Self {
        key as u64
    }

    #[inline(always)]
    fn load(line: &[u8; ENTRY], at: usize) -> Self {
        load64(line, at)
    }

    #[inline(always)]
    fn since(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    #[inline(always)]
    fn high(self, width: u8) -> usize {
        (self >> (width & 63)) as usize
    }

    #[inline(always)]
    fn low(self, width: u8) -> Self {
        self & !(u64::MAX << (width & 63))
    }

    #[inline(always)]
    fn number(bytes: &[u8], bit: usize, width: u8) -> Self {
        // Up to 7 bits come before it.
        if width > 57 {
            return number(bytes, bit, width) as u64;
        }
        (load64(bytes, bit >> 3) >> (bit & 7)).low(width)
    }
}

impl Distance for u128 {
    const READ: usize = 16;

    #[inline(always)]
    fn of(key: u128) -> Self {
        key
    }

    #[inline(always)]
    fn load(line: &[u8; ENTRY], at: usize) -> Self {
        load128(line, at)
    }

    #[inline(always)]
    fn since(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    #[inline(always)]
    fn high(self, width: u8) -> usize {
        // The usual case first: which it is, is the same for a whole set.
        let upper = (self >> 64) as u64;
        if width >= 64 { (upper >> (width & 63)) as usize } else { (self >> (width & 63)) as usize }
    }

    #[inline(always)]
    fn low(self, width: u8) -> Self {
        self & mask(width)
    }

    #[inline(always)]
    fn number(bytes: &[u8], bit: usize, width: u8) -> Self {
        number(bytes, bit, width)
    }
}
