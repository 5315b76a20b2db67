//! Arithmetic on keys: in 64 bits where the range of a set allows it, in 128 where not.

use super::bits::{load64, load128, mask, packed};
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

    /// The numbers `index` and `index + 1` of those that are packed from `start` on.
    fn two(bytes: &[u8], start: usize, index: usize, width: u8) -> (Self, Self);
}

impl Distance for u64 {
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
    fn two(bytes: &[u8], start: usize, index: usize, width: u8) -> (Self, Self) {
        if width > 60 {
            return (packed(bytes, start, index, width) as u64, packed(bytes, start, index + 1, width) as u64);
        }
        // Both are within one load.
        let bit = index * usize::from(width);
        let both = load128(bytes, start + (bit >> 3)) >> (bit & 7);
        ((both as u64).low(width), ((both >> width) as u64).low(width))
    }
}

impl Distance for u128 {
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
        (self >> (width & 127)) as usize
    }

    #[inline(always)]
    fn low(self, width: u8) -> Self {
        self & mask(width)
    }

    #[inline(always)]
    fn two(bytes: &[u8], start: usize, index: usize, width: u8) -> (Self, Self) {
        (packed(bytes, start, index, width), packed(bytes, start, index + 1, width))
    }
}
