//! Ranges of bytes: joined where what lies between is cheaper to read than to ask for again.

use std::ops::Range;

/// Bytes between two wanted ranges that are read through: a request costs about as much as so many bytes.
pub(super) const READ_THROUGH: u64 = 64 << 10;

/// The ranges in order, those joined that overlap or lie at most `gap` apart. Empty ones are left out.
pub(super) fn join(mut ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// The bytes of all ranges together.
pub(super) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_joined_and_far_ones_stay_apart() {
        let ranges = vec![90..100, 0..10, 5..20, 25..30, 40..40, 36..37];
        assert_eq!(join(ranges.clone(), 5), [0..30, 36..37, 90..100]);
        assert_eq!(join(ranges.clone(), 6), [0..37, 90..100]);
        assert!(join(ranges, u64::MAX).into_iter().eq(std::iter::once(0..100)));
        assert_eq!(total(&[0..30, 36..37]), 31);
    }
}
