//! Arithmetic on keys: in 64 bits where the range of a set allows it, in 128 where not.

use super::bits::{load64, load128};
use super::cpu::Loads;
use super::entry::ENTRY;

/// How many bits of a number are in a load of 8 bytes, wherever it begins.
pub(super) const WITHIN: u8 = 57;

/// A distance between keys of a set, of which only the low bits need to be known.
pub(super) trait Distance: Copy + Default + Ord {
    /// The low part of a distance, as it is compared with those that are stored.
    type Low: Copy + Default + Ord;

    /// Whether low parts have no more than [`WITHIN`] bits.
    const NARROW: bool;

    /// A low part that says nothing.
    const NO_LOW: Self::Low;

    /// The low bits of a key.
    fn of(key: u128) -> Self;

    /// The low bits of the number at `at` in a line of the table.
    fn load(line: &[u8; ENTRY], at: usize) -> Self;

    /// From `other` to this one, wrapping.
    fn since(self, other: Self) -> Self;

    /// Whether it is as long as another, of which all is known, or longer.
    fn reaches(self, other: u128) -> bool;

    /// Without the low `width` bits, which are fewer than there are.
    fn high(self, width: u8) -> usize;

    /// The low `width` bits.
    fn low(self, width: u8) -> Self::Low;

    /// The low part of `width` bits that is stored from this bit of the buffer on.
    fn stored(loads: Loads<'_>, bit: usize, width: u8) -> Self::Low;

    /// The last byte that [`Distance::stored`] reads.
    fn last_byte(bit: usize, width: u8) -> usize;
}

#[inline(always)]
fn ones(width: u8) -> u64 {
    !(u64::MAX << (width & 63))
}

impl Distance for u64 {
    type Low = u64;

    const NARROW: bool = true;

    const NO_LOW: u64 = 0;

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
    fn reaches(self, other: u128) -> bool {
        (other >> 64) as u64 == 0 && other as u64 <= self
    }

    #[inline(always)]
    fn high(self, width: u8) -> usize {
        (self >> (width & 63)) as usize
    }

    #[inline(always)]
    fn low(self, width: u8) -> u64 {
        self & ones(width)
    }

    #[inline(always)]
    fn stored(loads: Loads<'_>, bit: usize, width: u8) -> u64 {
        loads.load64(bit >> 3) >> (bit & 7) & ones(width)
    }

    #[inline(always)]
    fn last_byte(bit: usize, _width: u8) -> usize {
        (bit >> 3) + 7
    }
}

/// The first bits of a low part, and the last: together all of them, in two loads that read no byte beyond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Halves {
    last: u64,
    first: u64,
}

impl Distance for u128 {
    type Low = Halves;

    const NARROW: bool = false;

    const NO_LOW: Halves = Halves { last: 0, first: 0 };

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
    fn reaches(self, other: u128) -> bool {
        other <= self
    }

    #[inline(always)]
    fn high(self, width: u8) -> usize {
        let upper = (self >> 64) as u64;
        // Which it is, is the same for nearly all of a set.
        if width >= 64 { (upper >> (width & 63)) as usize } else { (self >> (width & 63)) as usize }
    }

    #[inline(always)]
    fn low(self, width: u8) -> Halves {
        let each = width.min(WITHIN);
        Halves { first: self as u64 & ones(each), last: (self >> ((width - each) & 63)) as u64 & ones(each) }
    }

    #[inline(always)]
    fn stored(loads: Loads<'_>, bit: usize, width: u8) -> Halves {
        let each = width.min(WITHIN);
        let part = |bit: usize| loads.load64(bit >> 3) >> (bit & 7) & ones(each);
        Halves { first: part(bit), last: part(bit + usize::from(width - each)) }
    }

    #[inline(always)]
    fn last_byte(bit: usize, width: u8) -> usize {
        ((bit + usize::from(width.saturating_sub(WITHIN))) >> 3) + 7
    }
}

#[cfg(test)]
mod tests {
    use super::super::bits::{MAX_WIDTH, Packer};
    use super::*;

    fn check<D: Distance>(distances: &[u128], width: u8) {
        let mut bytes = Vec::new();
        let mut packer = Packer::new(&mut bytes);
        distances.iter().for_each(|distance| packer.push(*distance, width));
        packer.finish();
        bytes.extend([0xFF; 24]);
        let lows: Vec<D::Low> = distances.iter().map(|distance| D::of(*distance).low(width)).collect();
        for (i, low) in lows.iter().enumerate() {
            let bit = i * usize::from(width);
            assert!(D::stored(Loads::new(&bytes), bit, width) == *low, "{width}");
            assert!(D::last_byte(bit, width) < bytes.len(), "{width}");
        }
        // They are equal, and in order, where the numbers are.
        for pair in distances.windows(2) {
            let cut = |distance: u128| distance & !(u128::MAX << width);
            let (a, b) = (D::of(pair[0]).low(width), D::of(pair[1]).low(width));
            assert_eq!(a.cmp(&b), cut(pair[0]).cmp(&cut(pair[1])), "{width}: {pair:?}");
        }
    }

    #[test]
    fn what_is_stored_compares_as_the_numbers_do() {
        let spread = |i: u128| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        let mut distances: Vec<u128> = (0..60).map(spread).collect();
        // Neighbours that differ in one bit.
        distances.extend((0..112).flat_map(|bit| [spread(7), spread(7) ^ 1 << bit]));
        for width in 0..=MAX_WIDTH {
            check::<u128>(&distances, width);
        }
        for width in 0..=WITHIN {
            check::<u64>(&distances, width);
        }
    }
}
