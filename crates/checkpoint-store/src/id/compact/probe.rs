//! Which keys of a block are in the set.
//!
//! A set is larger than the caches, so a probe waits for memory. A block of keys goes through the same steps together,
//! and each step asks ahead for what the next one reads: the waits overlap.

use super::bits::{load16, load32, load64};
use super::cpu::{Portable, Select, prefetch};
use super::distance::Distance;
use super::entry::{DIRECTORY, ENTRY, Entry, FIRST, KIND, Kind, LAST, OFFSET};
use super::packed::BLOCK as BUCKETS;
use super::runs;
use super::view::View;

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
struct Item<D> {
    /// The low part that is looked for.
    low: D,
    /// Where the buckets start.
    unary: usize,
    /// Where the low parts start.
    numbers: usize,
    /// Where the directory's entry is; then the bit at which the block of buckets starts; then the first index.
    at: usize,
    bucket: u32,
    /// How many keys the bucket has.
    keys: u32,
    width: u8,
    row: u8,
}

/// Sets the bit of every key that is there, in two words of 64. There are at most [`BLOCK`] keys.
pub(super) fn probe(view: &View<'_>, keys: &[u128], cursor: &mut Cursor) -> [u64; BLOCK / 64] {
    let narrow = view.geometry.last.wrapping_sub(view.geometry.first) <= u128::from(u64::MAX);
    #[cfg(target_arch = "x86_64")]
    if let Some(bmi2) = super::cpu::Bmi2::detect() {
        return match narrow {
            true => bmi2.run(|bmi2| probe_with::<u64>(view, keys, cursor, bmi2)),
            false => bmi2.run(|bmi2| probe_with::<u128>(view, keys, cursor, bmi2)),
        };
    }
    match narrow {
        true => probe_with::<u64>(view, keys, cursor, Portable),
        false => probe_with::<u128>(view, keys, cursor, Portable),
    }
}

#[inline(always)]
fn probe_with<D: Distance>(
    view: &View<'_>,
    keys: &[u128],
    cursor: &mut Cursor,
    select: impl Select,
) -> [u64; BLOCK / 64] {
    let mut hits = [0u64; BLOCK / 64];
    let mut items = [Item::<D>::default(); BLOCK];
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
        let (one, two) = D::two(view.bytes, item.numbers, item.at, item.width);
        let mut found = (one == item.low) & (item.keys > 0) | (two == item.low) & (item.keys > 1);
        if item.keys > 2 {
            found |= in_bucket(view.bytes, item);
        }
        hits[usize::from(item.row / 64)] |= u64::from(found) << (item.row % 64);
    }
    hits
}

/// Finds the partition of each key. What is answered at once is set in `hits`; the others become items.
#[inline(always)]
fn locate<D: Distance>(
    view: &View<'_>,
    keys: &[u128],
    cursor: &mut Cursor,
    items: &mut [Item<D>; BLOCK],
    hits: &mut [u64; BLOCK / 64],
) -> usize {
    let geometry = view.geometry;
    let (first, span) = (D::of(geometry.first), geometry.last.wrapping_sub(geometry.first));
    let mut count = 0;
    for (row, key) in keys.iter().enumerate().take(BLOCK) {
        if key.wrapping_sub(geometry.first) > span {
            continue;
        }
        let cell = geometry.index + D::of(*key).since(first).high(geometry.shift) * 4;
        // Two cells in one load: partitions that start before this cell, and before the next.
        let cells = load64(view.bytes, cell);
        let mut line = (cells as u32).saturating_sub(1);
        let last = ((cells >> 32) as u32).saturating_sub(1);
        if line < last {
            line = search::<D>(view, *key, line, last);
        }
        let Some(line) = view.line(line as usize) else { continue };
        let offset = D::of(*key).since(D::load(line, FIRST));
        if offset > D::load(line, LAST).since(D::load(line, FIRST)) {
            continue;
        }
        let body = load64(line, OFFSET) as usize;
        let kind = load32(line, KIND).to_le_bytes();
        let found = if kind[0] == Kind::Packed as u8 {
            let (width, numbers) = (kind[1], load64(line, DIRECTORY));
            let bucket = offset.high(width);
            let at = body + (numbers as u32) as usize + bucket / BUCKETS * 2;
            prefetch(view.bytes, at);
            items[count % BLOCK] = Item {
                low: offset.low(width),
                unary: body,
                numbers: body + (numbers >> 32) as usize,
                at,
                bucket: bucket as u32,
                keys: 0,
                width,
                row: row as u8,
            };
            count += 1;
            continue;
        } else if kind[0] == Kind::Bitmap as u8 {
            let bit = offset.high(0);
            load64(view.bytes, body + bit / 64 * 8) >> (bit % 64) & 1 == 1
        } else {
            in_runs(view, line, *key, cursor)
        };
        hits[row / 64] |= u64::from(found) << (row % 64);
    }
    count
}

/// The last partition from `low` to `high` that starts at or before the key.
#[inline]
fn search<D: Distance>(view: &View<'_>, key: u128, mut low: u32, mut high: u32) -> u32 {
    let first = D::of(view.geometry.first);
    let distance = D::of(key).since(first);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if view.line(middle as usize).is_some_and(|line| D::load(line, FIRST).since(first) <= distance) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[inline]
fn in_runs(view: &View<'_>, line: &[u8; ENTRY], key: u128, cursor: &mut Cursor) -> bool {
    if cursor.span.is_none_or(|span| key.wrapping_sub(cursor.first) > span) {
        let Some(entry) = Entry::read(line, 0) else { return false };
        let (answer, first, last) = runs::stretch(view.bytes, &entry, key.wrapping_sub(entry.first));
        *cursor = Cursor { first: entry.first.wrapping_add(first), span: Some(last.wrapping_sub(first)), answer };
    }
    cursor.answer
}

/// Where the bits of the item's bucket start: after as many zeros as there are buckets before it in its block.
#[inline(always)]
fn bucket_start<D>(bytes: &[u8], item: &Item<D>, select: impl Select) -> usize {
    let zeros = item.bucket % BUCKETS as u32;
    if zeros == 0 {
        return item.at;
    }
    let word = item.at / 64;
    let three = bytes.get(item.unary + word * 8..).and_then(<[u8]>::first_chunk::<24>).unwrap_or(&[0; 24]);
    // A block is rarely longer than three words: which of them it is needs no branch.
    let words = [!load64(three, 0) & (u64::MAX << (item.at % 64)), !load64(three, 8), !load64(three, 16)];
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
fn far_bucket_start<D>(bytes: &[u8], item: &Item<D>, mut rank: u32, mut word: usize, select: impl Select) -> usize {
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

/// Whether the low part is in a bucket of more than two keys; they ascend.
#[cold]
fn in_bucket<D: Distance>(bytes: &[u8], item: &Item<D>) -> bool {
    let (mut from, mut to) = (0, item.keys as usize);
    while from < to {
        let middle = (from + to) / 2;
        let (there, _) = D::two(bytes, item.numbers, item.at + middle, item.width);
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
