//! Partitions that hold more of the values in their range than they leave out: one bit for each.

use super::bits::load64;
use super::entry::{Entry, Kind};

/// The longest range.
pub(super) const MAX_RANGE: u128 = 1 << 20;

/// Bytes of a body for a range from the first key to the last; `None` where it is too long.
pub(super) fn size(span: u128) -> Option<usize> {
    (span < MAX_RANGE).then(|| (span as usize / 64 + 1) * 8)
}

/// Appends the body of these intervals and completes the entry.
pub(super) fn write(intervals: &[(u128, u128)], entry: &mut Entry, out: &mut Vec<u8>) {
    let mut words = vec![0u64; entry.span() as usize / 64 + 1];
    for (first, last) in intervals {
        for bit in (first - entry.first) as usize..=(last - entry.first) as usize {
            words[bit / 64] |= 1 << (bit % 64);
        }
    }
    entry.kind = Kind::Bitmap;
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Whether the body is one that [`write`] can have made, of `count` keys.
pub(super) fn is_valid(bytes: &[u8], entry: &Entry, count: u64) -> bool {
    let Some(size) = size(entry.span()) else { return false };
    let word = |i: usize| load64(bytes, entry.offset + i * 8);
    let (words, last) = (size / 8, entry.span() as usize % 64);
    let ones: u64 = (0..words).map(|i| u64::from(word(i).count_ones())).sum();
    let nothing_else = entry.units | entry.directory | entry.numbers == 0
        && entry.width | entry.length_width | entry.shift == 0
        && word(words - 1).checked_shr(last as u32 + 1).unwrap_or(0) == 0;
    nothing_else && ones == count && word(0) & 1 == 1 && word(words - 1) >> last & 1 == 1
}

/// How many keys are less than `offset` from the first.
pub(super) fn rank(bytes: &[u8], entry: &Entry, offset: u128) -> u64 {
    let bits = offset.min(entry.span() + 1) as usize;
    let word = |i: usize| load64(bytes, entry.offset + i * 8);
    let whole: u64 = (0..bits / 64).map(|i| u64::from(word(i).count_ones())).sum();
    let rest = if bits.is_multiple_of(64) { 0 } else { word(bits / 64) & ((1 << (bits % 64)) - 1) };
    whole + u64::from(rest.count_ones())
}

/// Calls `take` with each interval.
pub(super) fn decode(bytes: &[u8], entry: &Entry, mut take: impl FnMut(u128, u128)) {
    let words = entry.span() as usize / 64 + 1;
    let mut open: Option<usize> = None;
    for i in 0..words {
        let word = load64(bytes, entry.offset + i * 8);
        let mut bit = 0;
        while bit < 64 {
            // While a stretch is open its end is looked for, else the start of the next.
            let rest = (if open.is_some() { !word } else { word }) >> bit;
            if rest == 0 {
                break;
            }
            bit += rest.trailing_zeros() as usize;
            match open.take() {
                Some(start) => take(entry.first + start as u128, entry.first + (i * 64 + bit - 1) as u128),
                None => open = Some(i * 64 + bit),
            }
        }
    }
    if let Some(start) = open {
        take(entry.first + start as u128, entry.last);
    }
}
