//! A thousand or so intervals of keys in few bits: the gaps and lengths of a sorted list, Rice-coded.
//!
//! Sorted random keys cost about `log2(span / keys) + 2` bits each, so that the memory of a build stays near that
//! of the finished set, and dense keys cost next to nothing.

use bytes::Bytes;

use super::spill::Spilled;
use crate::error::Result;

/// The most intervals in one block.
pub(super) const INTERVALS: usize = 1024;

/// An inclusive range of keys.
pub(super) type Interval = (u128, u128);

/// Where a block's bits are.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Memory(Bytes),
    File(Spilled),
}

/// Sorted intervals that neither touch nor overlap.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) first: u128,
    pub(super) shape: Shape,
    pub(super) place: Place,
}

/// How the bits of a block are to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    intervals: u32,
    /// Low bits of a gap.
    gap: u8,
    /// Low bits of a length; `None` where each interval is a single key.
    length: Option<u8>,
}

/// Packs at least one interval, sorted, each beginning at least two after the end of the one before, and appends the
/// bits to `out`.
pub(super) fn encode(intervals: &[Interval], out: &mut Vec<u8>) -> Shape {
    let count = intervals.len() as u128;
    let (first, last) = (intervals[0].0, intervals[intervals.len() - 1].1);
    let lengths: u128 = intervals.iter().map(|(first, last)| last - first).sum();
    // The mean rounded down to a power of two: the unary parts then come to less than two bits each.
    let low_bits = |sum: u128| (sum / count).checked_ilog2().unwrap_or(0) as u8;
    let gap = low_bits(last - first - lengths);
    let length = (lengths > 0).then(|| low_bits(lengths));
    let mut bits = BitWriter::default();
    let mut before = first;
    for (i, (first, last)) in intervals.iter().enumerate() {
        if i > 0 {
            bits.put(first - before - 2, gap);
        }
        if let Some(length) = length {
            bits.put(last - first, length);
        }
        before = *last;
    }
    out.extend(bits.words.iter().flat_map(|word| word.to_le_bytes()));
    Shape { intervals: intervals.len() as u32, gap, length }
}

impl Block {
    /// Calls `take` with each interval in order, until it answers `false`.
    ///
    /// # Errors
    /// `Storage` when a spilled block cannot be read back.
    pub(super) fn each(&self, mut take: impl FnMut(u128, u128) -> bool) -> Result<()> {
        let read;
        let bytes: &[u8] = match &self.place {
            Place::Memory(bytes) => bytes,
            Place::File(spilled) => {
                read = spilled.read()?;
                &read
            }
        };
        let mut bits = BitReader { bytes, at: 0 };
        let mut next = self.first;
        for i in 0..self.shape.intervals {
            if i > 0 {
                next = next.wrapping_add(2).wrapping_add(bits.get(self.shape.gap));
            }
            let last = match self.shape.length {
                Some(length) => next.wrapping_add(bits.get(length)),
                None => next,
            };
            if !take(next, last) {
                break;
            }
            next = last;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct BitWriter {
    words: Vec<u64>,
    /// Bits used of the last word; 64 while there is none.
    used: u32,
}

impl BitWriter {
    /// A value as its high part in unary and its `low` low bits.
    fn put(&mut self, value: u128, low: u8) {
        let mut zeros = (value >> low) as u64;
        while zeros >= 63 {
            self.bits(0, 63);
            zeros -= 63;
        }
        self.bits(1 << zeros, zeros as u32 + 1);
        let low = u32::from(low);
        self.bits(value as u64 & mask(low.min(64)), low.min(64));
        if low > 64 {
            self.bits((value >> 64) as u64 & mask(low - 64), low - 64);
        }
    }

    fn bits(&mut self, value: u64, count: u32) {
        if count == 0 {
            return;
        }
        if self.words.is_empty() || self.used == 64 {
            self.words.push(0);
            self.used = 0;
        }
        let free = 64 - self.used;
        if let Some(last) = self.words.last_mut() {
            *last |= value << self.used;
        }
        if count > free {
            self.words.push(value >> free);
            self.used = count - free;
        } else {
            self.used += count;
        }
    }
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Reads what [`BitWriter`] wrote; beyond the end there are only ones, so that damaged bits end somewhere.
struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    fn get(&mut self, low: u8) -> u128 {
        let high = u128::from(self.unary());
        let low = u32::from(low);
        let mut value = u128::from(self.bits(low.min(64)));
        if low > 64 {
            value |= u128::from(self.bits(low - 64)) << 64;
        }
        value | high.checked_shl(low).unwrap_or(0)
    }

    fn word(&self, index: usize) -> u64 {
        let word = self.bytes.get(index * 8..).and_then(<[u8]>::first_chunk);
        word.map_or(u64::MAX, |word| u64::from_le_bytes(*word))
    }

    /// Zeros up to the next one, which is read too.
    fn unary(&mut self) -> u64 {
        let mut zeros = 0;
        loop {
            let offset = (self.at % 64) as u32;
            let rest = self.word(self.at / 64) >> offset;
            if rest != 0 {
                let more = rest.trailing_zeros();
                self.at += more as usize + 1;
                return zeros + u64::from(more);
            }
            zeros += u64::from(64 - offset);
            self.at += 64 - offset as usize;
        }
    }

    fn bits(&mut self, count: u32) -> u64 {
        if count == 0 {
            return 0;
        }
        let (index, offset) = (self.at / 64, (self.at % 64) as u32);
        self.at += count as usize;
        let mut value = self.word(index) >> offset;
        if offset + count > 64 {
            value |= self.word(index + 1) << (64 - offset);
        }
        value & mask(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(intervals: &[Interval]) -> (Vec<Interval>, usize) {
        let mut bytes = Vec::new();
        let shape = encode(intervals, &mut bytes);
        let size = bytes.len();
        let block = Block { first: intervals[0].0, shape, place: Place::Memory(bytes.into()) };
        let mut found = Vec::new();
        block
            .each(|first, last| {
                found.push((first, last));
                true
            })
            .unwrap();
        (found, size)
    }

    #[test]
    fn intervals_come_back_as_they_were() {
        let lists: [&[Interval]; 7] = [
            &[(0, 0)],
            &[(5, 5), (7, 7), (9, 9)],
            &[(0, u128::MAX)],
            &[(0, 0), (u128::MAX, u128::MAX)],
            &[(0, 9), (11, 11), (1 << 100, (1 << 100) + 3)],
            &[(3, 3), (1 << 64, 1 << 65), (u128::MAX - 1, u128::MAX)],
            &[(0, 0), (2, 1 << 127), ((1 << 127) + 2, u128::MAX)],
        ];
        for list in lists {
            assert_eq!(back(list).0, list);
        }
    }

    #[test]
    fn random_keys_cost_little_more_than_they_must_and_skewed_ones_no_more() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 11
        };
        let mut keys: Vec<u128> = (0..1000).map(|_| u128::from(random()) << 43 | u128::from(random() >> 10)).collect();
        keys.sort_unstable();
        let list: Vec<Interval> = keys.iter().map(|k| (*k, *k)).collect();
        let (found, size) = back(&list);
        assert_eq!(found, list);
        assert!(size * 8 <= 1000 * (96 - 9 + 2) + 128, "{size} bytes");
        // All near the start but one: no unary part grows long.
        let mut skewed: Vec<Interval> = (0..999).map(|i| (i * 3, i * 3)).collect();
        skewed.push((u128::MAX, u128::MAX));
        let (found, size) = back(&skewed);
        assert_eq!(found, skewed);
        assert!(size <= 1000 * 16, "{size} bytes");
    }

    #[test]
    fn cut_off_bits_end_somewhere() {
        let list: Vec<Interval> = (0..500).map(|i| (i * 1000, i * 1000 + i % 7)).collect();
        let mut bytes = Vec::new();
        let shape = encode(&list, &mut bytes);
        bytes.truncate(bytes.len() / 2);
        let block = Block { first: 0, shape, place: Place::Memory(bytes.into()) };
        let mut count = 0;
        block
            .each(|_, _| {
                count += 1;
                true
            })
            .unwrap();
        assert_eq!(count, 500);
    }
}
