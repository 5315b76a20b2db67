//! Which keys of a column are in the set.
//!
//! A set is larger than the caches, so a probe waits for memory. Each key goes through steps, and each step asks ahead for
//! what the next one reads. Between two steps of one key come steps of others: the waits overlap, and the processor asks
//! for little at any one time, of which it can await no more than some dozens.

use std::hint::select_unpredictable;

use super::bits::{load32, load64};
use super::buckets::{Block, Parts, bucket, bucket_in_load};
use super::cpu::{Body, Loads, Portable, Select, prefetch};
use super::distance::Distance;
use super::entry::{DIRECTORY, ENTRY, Entry, FIRST, KIND, Kind, LAST, OFFSET};
use super::packed::block_bits;
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
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
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
    bucket: u32,
    /// How many buckets come before that one in its block.
    zeros: u32,
    /// How many keys the bucket has.
    keys: u32,
    width: u8,
    row: usize,
}

/// The answers for `rows` keys, a bit for each, the rest of the last word zero. `fill` makes the keys from a row on.
pub(super) fn probe(view: &View<'_>, rows: usize, fill: impl Fn(usize, &mut [u128])) -> Vec<u64> {
    let probe = Probe { view, rows, fill };
    #[cfg(target_arch = "x86_64")]
    if let Some(bmi2) = super::cpu::Bmi2::detect() {
        return bmi2.run(probe);
    }
    probe.run(Portable)
}

/// What [`probe`] is to do.
struct Probe<'a, F> {
    view: &'a View<'a>,
    rows: usize,
    fill: F,
}

impl<F: Fn(usize, &mut [u128])> Body for Probe<'_, F> {
    type Answer = Vec<u64>;

    #[inline(always)]
    fn run(self, select: impl Select) -> Vec<u64> {
        match self.view.geometry.narrow {
            true => answers::<u64>(self.view, self.rows, self.fill, select),
            false => answers::<u128>(self.view, self.rows, self.fill, select),
        }
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
    let mut way = Way::<D> { items: [Item::IDLE; PLACES], begun: 0, answers: vec![0; rows.div_ceil(64)] };
    for start in (0..rows).step_by(BLOCK) {
        let keys = &mut keys[..BLOCK.min(rows - start)];
        fill(start, keys);
        let mut known = 0;
        for (i, key) in keys.iter().enumerate() {
            match locate::<D>(view, &parts, *key, &mut cursor) {
                Place::Known(answer) => known |= u64::from(answer) << (i % 64),
                Place::Packed(item) => {
                    way.begin(Item { row: start + i, ..item }, view, &parts, select);
                }
            }
        }
        way.answer(start, known);
    }
    if way.begun > 0 {
        for _ in 0..3 * APART {
            way.begin(Item::IDLE, view, &parts, select);
        }
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
    if !D::of(geometry.last).since(D::of(geometry.first)).reaches(key.wrapping_sub(geometry.first)) {
        return Place::Known(false);
    }
    let cell = geometry.index + D::of(key).since(D::of(geometry.first)).high(geometry.shift) * 4;
    // Two cells in one load: partitions that start before this cell, and before the next.
    let cells = parts.loads.load64(cell);
    let mut line = (cells as u32).saturating_sub(1);
    let last = ((cells >> 32) as u32).saturating_sub(1);
    if line < last {
        line = search::<D>(view, key, line, last);
    }
    let Some(line) = parts.lines.get(geometry.table / ENTRY + line as usize) else { return Place::Known(false) };
    let offset = D::of(key).since(D::load(line, FIRST));
    let inside = offset <= D::load(line, LAST).since(D::load(line, FIRST));
    let kind = load32(line, KIND).to_le_bytes();
    let body = load64(line, OFFSET) as usize;
    if kind[0] == Kind::Packed as u8 {
        if !inside {
            return Place::Known(false);
        }
        let (width, numbers) = (kind[1], load64(line, DIRECTORY));
        let (bucket, bits) = (offset.high(width), block_bits(kind[3]) & 7);
        let at = (body + (numbers as u32) as usize) / 2 + (bucket >> bits);
        prefetch(view.bytes, at * 2);
        return Place::Packed(Item {
            low: offset.low(width),
            unary: body / 8,
            numbers: body + (numbers >> 32) as usize,
            at,
            bucket: bucket as u32,
            zeros: bucket as u32 & ((1 << bits) - 1),
            width,
            ..Item::IDLE
        });
    }
    if kind[0] == Kind::Whole as u8 {
        return Place::Known(inside);
    }
    if !inside {
        return Place::Known(false);
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

    /// Begins one, and takes the next steps of those that began so many before.
    #[inline(always)]
    fn begin(&mut self, item: Item<D>, view: &View<'_>, parts: &Parts<'_>, select: impl Select) {
        let at = |ago: usize| self.begun.wrapping_sub(ago) % PLACES;
        let [now, first, second, third] = [at(0), at(APART), at(2 * APART), at(3 * APART)];
        self.items[now] = item;
        self.items[first].find_block(view, parts);
        self.items[second].find_bucket(view, parts, select);
        let found = self.items[third].compare(parts);
        self.answer(self.items[third].row, u64::from(found));
        self.begun += 1;
    }
}

impl<D: Distance> Item<D> {
    /// No key: its steps do nothing that is seen.
    const IDLE: Self =
        Self { low: D::NO_LOW, unary: 0, numbers: 0, at: 0, bucket: 0, zeros: 0, keys: 0, width: 0, row: usize::MAX };

    /// Reads from the directory where the block of the bucket starts.
    #[inline(always)]
    fn find_block(&mut self, view: &View<'_>, parts: &Parts<'_>) {
        let before = usize::from(parts.count(self.at));
        self.at = before + (self.bucket - self.zeros) as usize;
        let byte = self.unary * 8 + self.at / 8;
        prefetch(view.bytes, byte);
        // What is read of a block that is short, and of one that is not.
        prefetch(view.bytes, byte + if D::NARROW { 7 } else { 16 });
    }

    /// Reads from the bits where the low parts of the bucket are.
    #[inline(always)]
    fn find_bucket(&mut self, view: &View<'_>, parts: &Parts<'_>, select: impl Select) {
        let block = Block { unary: self.unary, at: self.at, zeros: self.zeros };
        let (start, keys) =
            if D::NARROW { bucket_in_load(parts, &block, select) } else { bucket(parts, &block, select) };
        self.keys = keys;
        let index = start.wrapping_sub(self.bucket as usize);
        let first = self.numbers.wrapping_mul(8).wrapping_add(index.wrapping_mul(usize::from(self.width)));
        // Nothing is fetched for an empty bucket: what is read for it is at hand, and means nothing.
        self.at = select_unpredictable(self.keys > 0, first, self.unary * 64);
        prefetch(view.bytes, self.at / 8);
        prefetch(view.bytes, D::last_byte(self.nth(3), self.width));
    }

    /// The bit at which the low part of this number starts, or the last of the bucket.
    #[inline(always)]
    fn nth(&self, number: u32) -> usize {
        self.at.wrapping_add((number.min(self.keys.saturating_sub(1)) * u32::from(self.width)) as usize)
    }

    /// Looks for the low part in its bucket.
    #[inline(always)]
    fn compare(&self, parts: &Parts<'_>) -> bool {
        let is = |number: u32| D::stored(parts.loads, self.nth(number), self.width) == self.low;
        // Where there are fewer keys, the last is compared once more.
        let mut found = is(0) | is(1) | is(2);
        found &= self.keys > 0;
        if self.keys > 3 {
            found |= is(3);
            if self.keys > 4 {
                found |= in_bucket(parts.loads, self);
            }
        }
        found
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

/// Whether the low part is in a bucket of many keys; they ascend.
#[cold]
fn in_bucket<D: Distance>(loads: Loads<'_>, item: &Item<D>) -> bool {
    let (mut from, mut to) = (0, item.keys as usize);
    while from < to {
        let middle = (from + to) / 2;
        let there = D::stored(loads, item.at + middle * usize::from(item.width), item.width);
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
