//! Which keys of a block are in the set.
//!
//! A set is larger than the caches, so a probe waits for memory. A block of keys goes through the same steps together,
//! and each step asks ahead for what the next one reads: the waits overlap.

use super::bits::{load16, load64, mask, packed as packed_number};
use super::cpu::{Portable, Select, prefetch};
use super::entry::Kind;
use super::packed::BLOCK as BUCKETS;
use super::view::View;
use super::{bitmap, runs};

/// Keys of a block.
pub(super) const BLOCK: usize = 128;

/// The stretch of runs that answered last, and its answer: neighbours are often probed one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    first: u128,
    span: Option<u128>,
    answer: bool,
}

/// A key on its way through a packed partition.
#[derive(Debug, Clone, Copy, Default)]
struct Item {
    /// The low part that is looked for.
    low: u128,
    /// Where buckets, directory and low parts start.
    unary: usize,
    numbers: usize,
    /// Where the directory's entry is; then where the bucket's block starts in the bits; then the first index.
    at: usize,
    bucket: u32,
    /// How many keys the bucket has.
    keys: u32,
    width: u8,
    row: u8,
}

/// Sets the bit of every key that is there, in two words of 64. There are at most [`BLOCK`] keys.
pub(super) fn probe(view: &View<'_>, keys: &[u128], cursor: &mut Cursor) -> [u64; BLOCK / 64] {
    #[cfg(target_arch = "x86_64")]
    if let Some(bmi2) = super::cpu::Bmi2::detect() {
        return bmi2.run(|bmi2| probe_with(view, keys, cursor, bmi2));
    }
    probe_with(view, keys, cursor, Portable)
}

#[inline(always)]
fn probe_with(view: &View<'_>, keys: &[u128], cursor: &mut Cursor, select: impl Select) -> [u64; BLOCK / 64] {
    let mut hits = [0u64; BLOCK / 64];
    let mut items = [Item::default(); BLOCK];
    let count = locate(view, keys, cursor, &mut items, &mut hits);
    let items = &mut items[..count];
    for item in items.iter_mut() {
        let before = usize::from(load16(view.bytes, item.at));
        item.at = before + (item.bucket as usize / BUCKETS) * BUCKETS;
        let word = item.unary + item.at / 64 * 8;
        prefetch(view.bytes, word);
        prefetch(view.bytes, word + 16);
    }
    for item in items.iter_mut() {
        let start = bucket_start(view.bytes, item, select);
        item.at = start.saturating_sub(item.bucket as usize);
        item.keys = ones_from(view.bytes, item.unary, start);
        let first = item.numbers + (item.at * usize::from(item.width)) / 8;
        prefetch(view.bytes, first);
        prefetch(view.bytes, first + 15);
    }
    for item in items.iter() {
        let low = |i: usize| packed_number(view.bytes, item.numbers, item.at + i, item.width);
        let mut found = (low(0) == item.low) & (item.keys > 0) | (low(1) == item.low) & (item.keys > 1);
        if item.keys > 2 {
            found |= in_bucket(item, low);
        }
        hits[usize::from(item.row / 64)] |= u64::from(found) << (item.row % 64);
    }
    hits
}

/// Finds the partition of each key. What is answered at once is set in `hits`; the others become items.
#[inline(always)]
fn locate(
    view: &View<'_>,
    keys: &[u128],
    cursor: &mut Cursor,
    items: &mut [Item; BLOCK],
    hits: &mut [u64; BLOCK / 64],
) -> usize {
    let mut count = 0;
    for (row, key) in keys.iter().enumerate().take(BLOCK) {
        let Some(entry) = view.partition_of(*key) else { continue };
        let offset = key - entry.first;
        let found = match entry.kind {
            Kind::Packed => {
                let bucket = (offset >> entry.width) as usize;
                let directory = entry.offset + entry.directory as usize + bucket / BUCKETS * 2;
                prefetch(view.bytes, directory);
                items[count] = Item {
                    low: offset & mask(entry.width),
                    unary: entry.offset,
                    numbers: entry.offset + entry.numbers as usize,
                    at: directory,
                    bucket: bucket as u32,
                    keys: 0,
                    width: entry.width,
                    row: row as u8,
                };
                count += 1;
                false
            }
            Kind::Bitmap => bitmap::contains(view.bytes, &entry, offset),
            Kind::Runs => {
                if cursor.span.is_none_or(|span| key.wrapping_sub(cursor.first) > span) {
                    let (answer, first, last) = runs::stretch(view.bytes, &entry, offset);
                    *cursor =
                        Cursor { first: entry.first.wrapping_add(first), span: Some(last.wrapping_sub(first)), answer };
                }
                cursor.answer
            }
        };
        hits[row / 64] |= u64::from(found) << (row % 64);
    }
    count
}

/// Where the bits of the item's bucket start: after as many zeros as there are buckets before it in its block.
#[inline(always)]
fn bucket_start(bytes: &[u8], item: &Item, select: impl Select) -> usize {
    let zeros = item.bucket % BUCKETS as u32;
    if zeros == 0 {
        return item.at;
    }
    let word = item.at / 64;
    let load = |i: usize| !load64(bytes, item.unary + (word + i) * 8);
    // A block is rarely longer than three words: which of them it is needs no branch.
    let words = [load(0) & (u64::MAX << (item.at % 64)), load(1), load(2)];
    let in_one = words[0].count_ones();
    let in_two = in_one + words[1].count_ones();
    let in_three = in_two + words[2].count_ones();
    let rank = zeros - 1;
    if rank < in_three {
        let (second, third) = (rank >= in_one, rank >= in_two);
        let before = if third { in_two } else { in_one * u32::from(second) };
        let chosen = usize::from(second) + usize::from(third);
        let bit = select.select(words[chosen], rank - before);
        return (word + chosen) * 64 + bit as usize + 1;
    }
    far_bucket_start(bytes, item, rank - in_three, word + 3, select)
}

/// As [`bucket_start`], when there are many keys in one bucket.
#[cold]
fn far_bucket_start(bytes: &[u8], item: &Item, mut rank: u32, mut word: usize, select: impl Select) -> usize {
    while item.unary + word * 8 < bytes.len() {
        let zeros = !load64(bytes, item.unary + word * 8);
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
fn ones_from(bytes: &[u8], unary: usize, bit: usize) -> u32 {
    let ones = (load64(bytes, unary + bit / 8) >> (bit % 8)).trailing_ones();
    if ones < 57 { ones } else { many_ones_from(bytes, unary, bit) }
}

#[cold]
fn many_ones_from(bytes: &[u8], unary: usize, bit: usize) -> u32 {
    let first = (load64(bytes, unary + bit / 64 * 8) >> (bit % 64)).trailing_ones();
    if first < 64 - (bit % 64) as u32 {
        return first;
    }
    let (mut ones, mut word) = (first, bit / 64 + 1);
    loop {
        let here = load64(bytes, unary + word * 8).trailing_ones();
        ones += here;
        if here < 64 {
            return ones;
        }
        word += 1;
    }
}

/// Whether a low part is in a bucket of more than two keys; they ascend.
#[cold]
fn in_bucket(item: &Item, low: impl Fn(usize) -> u128) -> bool {
    let (mut from, mut to) = (0, item.keys as usize);
    while from < to {
        let middle = (from + to) / 2;
        let there = low(middle);
        if there == item.low {
            return true;
        }
        if there < item.low {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    false
}
