//! Which keys of a block are in the set.
//!
//! A set is larger than the caches, so a probe waits for memory. A block of keys goes through the same steps together,
//! and each step asks ahead for what the next one reads: the waits overlap.

use std::hint::select_unpredictable;

use super::bits::{load32, load64};
use super::cpu::{Portable, Select, prefetch};
use super::distance::Distance;
use super::entry::{DIRECTORY, ENTRY, Entry, FIRST, KIND, Kind, LAST, OFFSET};
use super::packed::BLOCK as BUCKETS;
use super::runs;
use super::view::View;

/// Keys of a block, whose answers are the bits of a word.
pub(super) const BLOCK: usize = 64;

/// The stretch of runs that answered last, and its answer: neighbours are often probed one after the other.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    first: u128,
    span: Option<u128>,
    answer: bool,
}

/// A key on its way through a packed partition.
#[derive(Debug, Clone, Copy, Default)]
struct Item<D: Distance> {
    /// The low part that is looked for.
    low: D::Low,
    /// The word of the buffer in which the buckets start.
    unary: usize,
    /// Where the low parts start.
    numbers: usize,
    /// Which half word the directory's entry is; then the bit of the buckets at which the block starts; then the bit of
    /// the buffer at which the bucket's low parts start.
    at: usize,
    /// The bit at which its second low part starts, if there is one.
    second: usize,
    bucket: u32,
    /// How many keys the bucket has.
    keys: u32,
    width: u8,
    row: u8,
}

/// Appends the answers for `rows` keys to `out`, a bit for each, the rest of the last block zero. `fill` makes the keys
/// from a row on; it is asked for at most [`BLOCK`] at once.
pub(super) fn probe(view: &View<'_>, rows: usize, fill: impl Fn(usize, &mut [u128]), out: &mut Vec<u64>) {
    let narrow = view.geometry.last.wrapping_sub(view.geometry.first) <= u128::from(u64::MAX);
    #[cfg(target_arch = "x86_64")]
    if let Some(bmi2) = super::cpu::Bmi2::detect() {
        return match narrow {
            true => bmi2.run(|bmi2| blocks::<u64>(view, rows, fill, out, bmi2)),
            false => bmi2.run(|bmi2| blocks::<u128>(view, rows, fill, out, bmi2)),
        };
    }
    match narrow {
        true => blocks::<u64>(view, rows, fill, out, Portable),
        false => blocks::<u128>(view, rows, fill, out, Portable),
    }
}

/// As [`probe`], for keys whose distances are known to fit.
#[inline(always)]
pub(super) fn blocks<D: Distance>(
    view: &View<'_>,
    rows: usize,
    fill: impl Fn(usize, &mut [u128]),
    out: &mut Vec<u64>,
    select: impl Select,
) {
    let parts = Parts::new(view.bytes);
    let (mut cursor, mut keys) = (Cursor::default(), [0u128; BLOCK]);
    let (mut one, mut two) = (Block::<D>::new(), Block::<D>::new());
    let (mut now, mut before) = (&mut one, &mut two);
    for start in (0..rows).step_by(BLOCK) {
        let keys = &mut keys[..BLOCK.min(rows - start)];
        fill(start, keys);
        now.locate(view, &parts, keys, &mut cursor);
        now.find_blocks(view, &parts);
        // What the block before has asked for has come while this one's keys were made.
        if start > 0 {
            out.push(before.compare(view));
        }
        now.find_buckets(view, &parts, select);
        std::mem::swap(&mut now, &mut before);
    }
    if rows > 0 {
        out.push(before.compare(view));
    }
}

/// Keys that go through the steps together.
struct Block<D: Distance> {
    /// Those that were found to be in packed partitions.
    items: [Item<D>; BLOCK],
    count: usize,
    /// A bit for each key that is there.
    hits: u64,
}

impl<D: Distance> Block<D> {
    fn new() -> Self {
        Self { items: [Item::default(); BLOCK], count: 0, hits: 0 }
    }

    /// Finds the partition of each key. What is answered at once is; the others become items.
    #[inline(always)]
    fn locate(&mut self, view: &View<'_>, parts: &Parts<'_>, keys: &[u128], cursor: &mut Cursor) {
        let geometry = view.geometry;
        let (first, span) = (D::of(geometry.first), geometry.last.wrapping_sub(geometry.first));
        let (mut count, mut hits, table) = (0, 0u64, geometry.table / ENTRY);
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
            let Some(line) = parts.lines.get(table + line as usize) else { continue };
            let offset = D::of(*key).since(D::load(line, FIRST));
            if offset > D::load(line, LAST).since(D::load(line, FIRST)) {
                continue;
            }
            let body = load64(line, OFFSET) as usize;
            let kind = load32(line, KIND).to_le_bytes();
            let found = if kind[0] == Kind::Packed as u8 {
                let (width, numbers) = (kind[1], load64(line, DIRECTORY));
                let bucket = offset.high(width);
                let at = (body + (numbers as u32) as usize) / 2 + bucket / BUCKETS;
                prefetch(view.bytes, at * 2);
                self.items[count % BLOCK] = Item {
                    low: offset.low(width),
                    unary: body / 8,
                    numbers: body + (numbers >> 32) as usize,
                    at,
                    second: 0,
                    bucket: bucket as u32,
                    keys: 0,
                    width,
                    row: row as u8,
                };
                count += 1;
                continue;
            } else if kind[0] == Kind::Bitmap as u8 {
                let bit = offset.high(0);
                parts.word(body / 8 + bit / 64) >> (bit % 64) & 1 == 1
            } else {
                in_runs(view, line, *key, cursor)
            };
            hits |= u64::from(found) << row;
        }
        (self.count, self.hits) = (count, hits);
    }

    fn items(&mut self) -> &mut [Item<D>] {
        &mut self.items[..self.count.min(BLOCK)]
    }

    /// Reads from the directory where the block of each bucket starts.
    #[inline(always)]
    fn find_blocks(&mut self, view: &View<'_>, parts: &Parts<'_>) {
        for item in self.items() {
            let before = usize::from(parts.count(item.at));
            item.at = before + (item.bucket as usize / BUCKETS) * BUCKETS;
            let word = (item.unary + item.at / 64) * 8;
            prefetch(view.bytes, word);
            prefetch(view.bytes, word + 16);
        }
    }

    /// Reads from the bits where the low parts of each bucket are.
    #[inline(always)]
    fn find_buckets(&mut self, view: &View<'_>, parts: &Parts<'_>, select: impl Select) {
        for item in self.items() {
            let start = bucket_start(parts, item, select);
            item.keys = ones_from(parts, item.unary, start);
            let index = start.wrapping_sub(item.bucket as usize);
            let first = item.numbers.wrapping_mul(8).wrapping_add(index.wrapping_mul(usize::from(item.width)));
            // Nothing is fetched for an empty bucket: what is read for it is at hand, and means nothing.
            item.at = select_unpredictable(item.keys > 0, first, item.unary * 64);
            item.second = select_unpredictable(item.keys > 1, item.at + usize::from(item.width), item.at);
            prefetch(view.bytes, item.at / 8);
            prefetch(view.bytes, D::last_byte(item.second, item.width));
        }
    }

    /// Looks for each low part in its bucket; the answers for all keys of the block.
    #[inline(always)]
    fn compare(&mut self, view: &View<'_>) -> u64 {
        let mut hits = self.hits;
        for item in self.items() {
            let low = |bit: usize| D::stored(view.bytes, bit, item.width);
            // Where there is but one key, the second is the first once more.
            let mut found = (low(item.at) == item.low) | (low(item.second) == item.low);
            found &= item.keys > 0;
            if item.keys > 2 {
                let third = item.second + usize::from(item.width);
                found |= low(third) == item.low;
                found |= (item.keys > 3) & (low(third + usize::from(item.width)) == item.low);
                if item.keys > 4 {
                    found |= in_bucket(view.bytes, item);
                }
            }
            hits |= u64::from(found) << (item.row % 64);
        }
        hits
    }
}

/// The buffer as numbers of one size each: where one lies in it needs one comparison and not two.
struct Parts<'a> {
    lines: &'a [[u8; ENTRY]],
    words: &'a [[u8; 8]],
    halves: &'a [[u8; 2]],
}

impl<'a> Parts<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { lines: bytes.as_chunks().0, words: bytes.as_chunks().0, halves: bytes.as_chunks().0 }
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, |word| u64::from_le_bytes(*word))
    }

    #[inline(always)]
    fn count(&self, index: usize) -> u16 {
        self.halves.get(index).map_or(0, |half| u16::from_le_bytes(*half))
    }
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
fn bucket_start<D: Distance>(parts: &Parts<'_>, item: &Item<D>, select: impl Select) -> usize {
    let zeros = item.bucket % BUCKETS as u32;
    if zeros == 0 {
        return item.at;
    }
    let word = item.at / 64;
    let three = parts.words.get(item.unary + word..).and_then(<[_]>::first_chunk).copied();
    let [one, two, three] = three.unwrap_or([[0; 8]; 3]).map(|word| !u64::from_le_bytes(word));
    // A block is rarely longer than three words: which of them it is needs no branch.
    let one = one & (u64::MAX << (item.at % 64));
    let in_one = one.count_ones();
    let in_two = in_one + two.count_ones();
    let in_three = in_two + three.count_ones();
    let rank = zeros - 1;
    if rank >= in_three {
        return far_bucket_start(parts, item, rank - in_three, word + 3, select);
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
fn far_bucket_start<D: Distance>(
    parts: &Parts<'_>,
    item: &Item<D>,
    mut rank: u32,
    mut word: usize,
    select: impl Select,
) -> usize {
    while item.unary + word < parts.words.len() {
        let zeros = !parts.word(item.unary + word);
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

/// Whether the low part is in a bucket of many keys; they ascend.
#[cold]
fn in_bucket<D: Distance>(bytes: &[u8], item: &Item<D>) -> bool {
    let (mut from, mut to) = (0, item.keys as usize);
    while from < to {
        let middle = (from + to) / 2;
        let there = D::stored(bytes, item.at + middle * usize::from(item.width), item.width);
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
