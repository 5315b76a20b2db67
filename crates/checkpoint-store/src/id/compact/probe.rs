//! Which keys of a column are in the set.
//!
//! A set is larger than the caches, so a probe waits for memory. Each key goes through steps, and each step asks ahead for
//! what the next one reads. Between two steps of one key come steps of others: the waits overlap, and the processor asks
//! for little at any one time, of which it can await no more than some dozens.

use std::hint::select_unpredictable;

use super::bits::{load32, load64};
use super::cpu::{Portable, Select, prefetch};
use super::distance::Distance;
use super::entry::{DIRECTORY, ENTRY, Entry, FIRST, KIND, Kind, LAST, OFFSET};
use super::packed::BLOCK as BUCKETS;
use super::runs;
use super::view::View;

/// Keys that are made at once, whose answers are one word.
const BLOCK: usize = 64;
/// Keys that come between two steps of one.
const APART: usize = 16;
/// Places of keys on their way.
const PLACES: usize = 4 * APART;

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
    row: usize,
}

/// The answers for `rows` keys, a bit for each, the rest of the last word zero. `fill` makes the keys from a row on.
pub(super) fn probe(view: &View<'_>, rows: usize, fill: impl Fn(usize, &mut [u128])) -> Vec<u64> {
    let narrow = view.geometry.last.wrapping_sub(view.geometry.first) <= u128::from(u64::MAX);
    #[cfg(target_arch = "x86_64")]
    if let Some(bmi2) = super::cpu::Bmi2::detect() {
        return match narrow {
            true => bmi2.run(|bmi2| answers::<u64>(view, rows, fill, bmi2)),
            false => bmi2.run(|bmi2| answers::<u128>(view, rows, fill, bmi2)),
        };
    }
    match narrow {
        true => answers::<u64>(view, rows, fill, Portable),
        false => answers::<u128>(view, rows, fill, Portable),
    }
}

/// As [`probe`], for keys whose distances are known to fit.
#[inline(always)]
pub(super) fn answers<D: Distance>(
    view: &View<'_>,
    rows: usize,
    fill: impl Fn(usize, &mut [u128]),
    select: impl Select,
) -> Vec<u64> {
    let parts = Parts::new(view.bytes);
    let (mut cursor, mut keys) = (Cursor::default(), [0u128; BLOCK]);
    let mut way = Way::<D> { items: [Item::default(); PLACES], begun: 0, answers: vec![0; rows.div_ceil(64)] };
    for start in (0..rows).step_by(BLOCK) {
        let keys = &mut keys[..BLOCK.min(rows - start)];
        fill(start, keys);
        let mut known = 0;
        for (i, key) in keys.iter().enumerate() {
            match locate::<D>(view, &parts, *key, &mut cursor) {
                Place::Known(answer) => known |= u64::from(answer) << (i % 64),
                Place::Packed(item) => {
                    way.items[way.begun % PLACES] = Item { row: start + i, ..item };
                    way.begun += 1;
                    way.step(way.begun, view, &parts, select);
                }
            }
        }
        way.answer(start, known);
    }
    for now in way.begun + 1..=way.begun + 3 * APART {
        way.step(now, view, &parts, select);
    }
    way.answers
}

/// Where a key would be.
enum Place<D: Distance> {
    /// Whether it is there is known.
    Known(bool),
    /// In a packed partition.
    Packed(Item<D>),
}

/// Finds the partition of a key.
#[inline(always)]
fn locate<D: Distance>(view: &View<'_>, parts: &Parts<'_>, key: u128, cursor: &mut Cursor) -> Place<D> {
    let geometry = view.geometry;
    if key.wrapping_sub(geometry.first) > geometry.last.wrapping_sub(geometry.first) {
        return Place::Known(false);
    }
    let cell = geometry.index + D::of(key).since(D::of(geometry.first)).high(geometry.shift) * 4;
    // Two cells in one load: partitions that start before this cell, and before the next.
    let cells = load64(view.bytes, cell);
    let mut line = (cells as u32).saturating_sub(1);
    let last = ((cells >> 32) as u32).saturating_sub(1);
    if line < last {
        line = search::<D>(view, key, line, last);
    }
    let Some(line) = parts.lines.get(geometry.table / ENTRY + line as usize) else { return Place::Known(false) };
    let offset = D::of(key).since(D::load(line, FIRST));
    let inside = offset <= D::load(line, LAST).since(D::load(line, FIRST));
    let kind = load32(line, KIND).to_le_bytes();
    if kind[0] == Kind::Whole as u8 {
        return Place::Known(inside);
    }
    if !inside {
        return Place::Known(false);
    }
    let body = load64(line, OFFSET) as usize;
    if kind[0] == Kind::Packed as u8 {
        let (width, numbers) = (kind[1], load64(line, DIRECTORY));
        let bucket = offset.high(width);
        let at = (body + (numbers as u32) as usize) / 2 + bucket / BUCKETS;
        prefetch(view.bytes, at * 2);
        return Place::Packed(Item {
            low: offset.low(width),
            unary: body / 8,
            numbers: body + (numbers >> 32) as usize,
            at,
            bucket: bucket as u32,
            width,
            ..Item::default()
        });
    }
    Place::Known(if kind[0] == Kind::Bitmap as u8 {
        let bit = offset.high(0);
        parts.word(body / 8 + bit / 64) >> (bit % 64) & 1 == 1
    } else {
        in_runs(view, line, key, cursor)
    })
}

/// Keys in packed partitions, each a few steps behind the next.
struct Way<D: Distance> {
    items: [Item<D>; PLACES],
    /// How many have begun.
    begun: usize,
    /// A bit for each row, set where its key is there.
    answers: Vec<u64>,
}

impl<D: Distance> Way<D> {
    /// Adds the answers for some rows from this one on, all in one word.
    #[inline(always)]
    fn answer(&mut self, row: usize, answers: u64) {
        if let Some(word) = self.answers.get_mut(row / 64) {
            *word |= answers << (row % 64);
        }
    }

    /// The next steps of those that began so many keys before this moment.
    #[inline(always)]
    fn step(&mut self, now: usize, view: &View<'_>, parts: &Parts<'_>, select: impl Select) {
        let which = |ago: usize| now.checked_sub(ago + 1).filter(|which| *which < self.begun).map(|i| i % PLACES);
        let [first, second, third] = [which(APART), which(2 * APART), which(3 * APART)];
        if let Some(i) = first {
            self.items[i].find_block(view, parts);
        }
        if let Some(i) = second {
            self.items[i].find_bucket(view, parts, select);
        }
        if let Some(i) = third {
            let found = self.items[i].compare(view);
            self.answer(self.items[i].row, u64::from(found));
        }
    }
}

impl<D: Distance> Item<D> {
    /// Reads from the directory where the block of the bucket starts.
    #[inline(always)]
    fn find_block(&mut self, view: &View<'_>, parts: &Parts<'_>) {
        let before = usize::from(parts.count(self.at));
        self.at = before + (self.bucket as usize / BUCKETS) * BUCKETS;
        let word = (self.unary + self.at / 64) * 8;
        prefetch(view.bytes, word);
        prefetch(view.bytes, word + 16);
    }

    /// Reads from the bits where the low parts of the bucket are.
    #[inline(always)]
    fn find_bucket(&mut self, view: &View<'_>, parts: &Parts<'_>, select: impl Select) {
        let start = bucket_start(parts, self, select);
        self.keys = ones_from(parts, self.unary, start);
        let index = start.wrapping_sub(self.bucket as usize);
        let first = self.numbers.wrapping_mul(8).wrapping_add(index.wrapping_mul(usize::from(self.width)));
        // Nothing is fetched for an empty bucket: what is read for it is at hand, and means nothing.
        self.at = select_unpredictable(self.keys > 0, first, self.unary * 64);
        self.second = select_unpredictable(self.keys > 1, self.at + usize::from(self.width), self.at);
        prefetch(view.bytes, self.at / 8);
        prefetch(view.bytes, D::last_byte(self.second, self.width));
    }

    /// Looks for the low part in its bucket.
    #[inline(always)]
    fn compare(&self, view: &View<'_>) -> bool {
        let low = |bit: usize| D::stored(view.bytes, bit, self.width);
        // Where there is but one key, the second is the first once more.
        let mut found = (low(self.at) == self.low) | (low(self.second) == self.low);
        found &= self.keys > 0;
        if self.keys > 2 {
            let third = self.second + usize::from(self.width);
            found |= low(third) == self.low;
            found |= (self.keys > 3) & (low(third + usize::from(self.width)) == self.low);
            if self.keys > 4 {
                found |= in_bucket(view.bytes, self);
            }
        }
        found
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
    let [one, two, three] = three.unwrap_or([[0; 8]; 3]);
    let (one, two, three) = (!u64::from_le_bytes(one), !u64::from_le_bytes(two), !u64::from_le_bytes(three));
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
