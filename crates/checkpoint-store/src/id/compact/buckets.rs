//! Where a bucket of packed keys is in the bits that say how many keys each has.

use super::cpu::{Loads, Select};
use super::distance::WITHIN;
use super::entry::ENTRY;

/// The buffer as numbers of one size each: where one lies in it needs one comparison and not two.
pub(super) struct Parts<'a> {
    pub(super) loads: Loads<'a>,
    pub(super) lines: &'a [[u8; ENTRY]],
    words: &'a [[u8; 8]],
    halves: &'a [[u8; 2]],
}

impl<'a> Parts<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            loads: Loads::new(bytes),
            lines: bytes.as_chunks().0,
            words: bytes.as_chunks().0,
            halves: bytes.as_chunks().0,
        }
    }

    #[inline(always)]
    pub(super) fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, |word| u64::from_le_bytes(*word))
    }

    #[inline(always)]
    pub(super) fn count(&self, index: usize) -> u16 {
        self.halves.get(index).map_or(0, |half| u16::from_le_bytes(*half))
    }
}

/// A block of buckets, and one of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// The word of the buffer in which the buckets of the partition start.
    pub(super) unary: usize,
    /// The bit, from there on, at which the block starts.
    pub(super) at: usize,
    /// How many buckets of the block come before the one.
    pub(super) zeros: u32,
}

/// Where the bits of the bucket start, and how many keys it has. Nearly always the block is in one load.
#[inline(always)]
pub(super) fn bucket_in_load(parts: &Parts<'_>, block: &Block, select: impl Select) -> (usize, u32) {
    let bits = parts.loads.load64(block.unary * 8 + block.at / 8) >> (block.at % 8);
    // A bucket starts after a zero, or where its block does.
    let start = select.select(!bits << 1 | 1, block.zeros & 63);
    let keys = (!(bits >> (start & 63))).trailing_zeros();
    // So many bits were read, wherever they begin; the last is the zero at its end.
    if start + keys < u32::from(WITHIN) { (block.at + start as usize, keys) } else { far_bucket(parts, block, select) }
}

/// As [`bucket_in_load`], of any block.
#[inline(always)]
pub(super) fn bucket(parts: &Parts<'_>, block: &Block, select: impl Select) -> (usize, u32) {
    let start = bucket_start(parts, block, select);
    (start, ones_from(parts, block.unary, start))
}

#[cold]
fn far_bucket(parts: &Parts<'_>, block: &Block, select: impl Select) -> (usize, u32) {
    bucket(parts, block, select)
}

/// Where the bits of the bucket start: after as many zeros as there are buckets before it in its block.
#[inline(always)]
fn bucket_start(parts: &Parts<'_>, block: &Block, select: impl Select) -> usize {
    let zeros = block.zeros;
    if zeros == 0 {
        return block.at;
    }
    let word = block.at / 64;
    let [one, two, three] = parts.loads.three((block.unary + word) * 8).map(|word| !word);
    // A block is rarely longer than three words: which of them it is needs no branch.
    let one = one & (u64::MAX << (block.at % 64));
    let in_one = one.count_ones();
    let in_two = in_one + two.count_ones();
    let in_three = in_two + three.count_ones();
    let rank = zeros - 1;
    if rank >= in_three {
        return far_bucket_start(parts, block, rank - in_three, word + 3, select);
    }
    let (mut chosen, mut before, mut zeros) = (word, 0, one);
    if rank >= in_one {
        (chosen, before, zeros) = (word + 1, in_one, two);
    }
    if rank >= in_two {
        (chosen, before, zeros) = (word + 2, in_two, three);
    }
    chosen * 64 + select.select(zeros, rank - before) as usize + 1
}

/// As [`bucket_start`], when there are many keys in one bucket.
#[cold]
fn far_bucket_start(parts: &Parts<'_>, block: &Block, mut rank: u32, mut word: usize, select: impl Select) -> usize {
    while block.unary + word < parts.words.len() {
        let zeros = !parts.word(block.unary + word);
        let here = zeros.count_ones();
        if rank < here {
            return word * 64 + select.select(zeros, rank) as usize + 1;
        }
        rank -= here;
        word += 1;
    }
    0
}

/// How many ones follow each other from this bit on.
#[inline(always)]
fn ones_from(parts: &Parts<'_>, unary: usize, bit: usize) -> u32 {
    let ones = (parts.word(unary + bit / 64) >> (bit % 64)).trailing_ones();
    if ones < 64 - (bit % 64) as u32 { ones } else { ones + ones_of_words(parts, unary + bit / 64 + 1) }
}

/// How many ones follow each other from this word on.
#[cold]
fn ones_of_words(parts: &Parts<'_>, from: usize) -> u32 {
    let words = parts.words.get(from..).unwrap_or(&[]);
    let whole = words.iter().take_while(|word| **word == [0xFF; 8]).count();
    whole as u32 * 64 + parts.word(from + whole).trailing_ones()
}
