//! Partitions of scattered keys: Elias-Fano. A key's distance from the first is cut in two. The low bits are packed
//! without gaps; the rest is the number of its bucket, and the buckets are one string of bits: a one for each key, a
//! zero at the end of each bucket. For every 16 or 64 buckets a directory says how many keys come before them.

use super::bits::{MAX_WIDTH, Packer, load16, load64, mask, packed, width};
use super::distance::WITHIN;
use super::entry::{Entry, Kind};

/// The most keys of a partition: what the directory counts fits 16 bits.
pub(super) const MAX_KEYS: u64 = 65_535;
/// The shift of a directory with an entry for 16 buckets; without one it is for 64.
const FINE: u8 = 4;
/// The most buckets; the width is chosen so that there are far fewer.
const MAX_BUCKETS: u128 = 1 << 20;

/// The body for some keys: how wide its low parts are, and how many bytes it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    width: u8,
    shift: u8,
    buckets: usize,
    pub(super) size: usize,
}

/// How many low bits of a bucket's number do not count for its entry of the directory, by the shift of a partition.
#[inline(always)]
pub(super) const fn block_bits(shift: u8) -> u8 {
    if shift == 0 { 6 } else { shift }
}

/// The smallest body for `keys` keys, 1 to [`MAX_KEYS`], over a span below 2^[`MAX_WIDTH`].
pub(super) fn plan(keys: u64, span: u128) -> Plan {
    let middle = width(span / u128::from(keys)).saturating_sub(1);
    // There are two buckets at least, but for a single key.
    let widest = (middle + 2).min(MAX_WIDTH).min(width(span).saturating_sub(1));
    let plans = (middle.saturating_sub(1).min(widest)..=widest).map(|width| {
        let buckets = (span >> width) as usize + 1;
        // Of narrow keys a probe costs little but the search for the bucket: there the directory is fine.
        let shift = if width <= WITHIN { FINE } else { 0 };
        let layout = Shape::new(keys as usize, buckets, width, shift);
        Plan { width, shift, buckets, size: layout.size }
    });
    plans.min_by_key(|plan| plan.size).unwrap_or(Plan { width: 0, shift: 0, buckets: 0, size: usize::MAX })
}

/// Where the parts of a body lie.
struct Shape {
    words: usize,
    directory: usize,
    numbers: usize,
    size: usize,
}

impl Shape {
    fn new(keys: usize, buckets: usize, width: u8, shift: u8) -> Self {
        let words = (keys + buckets).div_ceil(64);
        let directory = words * 8;
        let numbers = directory + buckets.div_ceil(1 << block_bits(shift)) * 2;
        let size = (numbers + (keys * usize::from(width)).div_ceil(8)).next_multiple_of(8);
        Self { words, directory, numbers, size }
    }
}

/// Appends the body of these intervals and completes the entry.
pub(super) fn write(intervals: &[(u128, u128)], keys: u64, plan: Plan, entry: &mut Entry, out: &mut Vec<u8>) {
    let shape = Shape::new(keys as usize, plan.buckets, plan.width, plan.shift);
    let block = 1 << block_bits(plan.shift);
    let start = out.len();
    let mut words = vec![0u64; shape.words];
    let mut directory = vec![0u16; plan.buckets.div_ceil(block)];
    let each = || intervals.iter().flat_map(|(first, last)| *first..=*last).map(|key| key - entry.first);
    for (i, offset) in each().enumerate() {
        let bucket = (offset >> plan.width) as usize;
        words[(i + bucket) / 64] |= 1 << ((i + bucket) % 64);
        if let Some(next) = directory.get_mut(bucket / block + 1) {
            *next += 1;
        }
    }
    let mut before = 0;
    for count in &mut directory {
        before += *count;
        *count = before;
    }
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    directory.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
    let mut packer = Packer::new(out);
    each().for_each(|offset| packer.push(offset, plan.width));
    packer.finish();
    out.resize(start + shape.size, 0);
    entry.kind = Kind::Packed;
    entry.units = plan.buckets as u32;
    entry.directory = shape.directory as u32;
    entry.numbers = shape.numbers as u32;
    entry.width = plan.width;
    entry.shift = plan.shift;
}

/// The bytes that the body of an entry takes; `None` where its parts do not fit together.
pub(super) fn size(entry: &Entry, count: u64) -> Option<usize> {
    if count == 0 || count > MAX_KEYS || entry.width > MAX_WIDTH || entry.length_width != 0 {
        return None;
    }
    if entry.shift != 0 && entry.shift != FINE {
        return None;
    }
    let buckets = (entry.span() >> entry.width).checked_add(1).filter(|buckets| *buckets <= MAX_BUCKETS)?;
    if buckets == 1 && entry.width > 0 {
        return None;
    }
    let shape = Shape::new(count as usize, buckets as usize, entry.width, entry.shift);
    let agrees = u128::from(entry.units) == buckets
        && entry.directory as usize == shape.directory
        && entry.numbers as usize == shape.numbers;
    agrees.then_some(shape.size)
}

/// Whether buckets and directory are those of `count` keys, of which the first and the last are where the entry says.
/// The size was checked before.
pub(super) fn is_valid(bytes: &[u8], entry: &Entry, count: u64) -> bool {
    let (count, buckets) = (count as usize, entry.units as usize);
    let word = |i: usize| load64(bytes, entry.offset + i * 8);
    let bit = |i: usize| word(i / 64) >> (i % 64) & 1 == 1;
    let bits = count + buckets;
    if !bit(0) || bits < 2 || !bit(bits - 2) || bit(bits - 1) {
        return false;
    }
    let low = |i: usize| packed(bytes, entry.offset + entry.numbers as usize, i, entry.width);
    if low(0) != 0 || low(count - 1) != entry.span() & mask(entry.width) {
        return false;
    }
    let each = 1 << block_bits(entry.shift);
    let (mut ones, mut next_word, blocks) = (0usize, 0, buckets.div_ceil(each));
    for block in 0..blocks {
        let before = usize::from(load16(bytes, entry.offset + entry.directory as usize + block * 2));
        let position = before + block * each;
        if position >= bits || position / 64 < next_word || (block > 0 && bit(position - 1)) {
            return false;
        }
        while next_word < position / 64 {
            ones += word(next_word).count_ones() as usize;
            next_word += 1;
        }
        let partial = word(next_word) & ((1 << (position % 64)) - 1);
        if ones + partial.count_ones() as usize != before {
            return false;
        }
    }
    let rest: usize = (next_word..bits.div_ceil(64)).map(|i| word(i).count_ones() as usize).sum();
    let beyond = if bits.is_multiple_of(64) { 0 } else { word(bits / 64) >> (bits % 64) };
    ones + rest == count && beyond == 0
}

/// How many keys are less than `offset` from the first.
pub(super) fn rank(bytes: &[u8], entry: &Entry, offset: u128, count: u64) -> u64 {
    if offset > entry.span() {
        return count;
    }
    let (wanted, low) = ((offset >> entry.width) as usize, offset & mask(entry.width));
    let each = 1 << block_bits(entry.shift);
    let block = wanted / each;
    let mut index = usize::from(load16(bytes, entry.offset + entry.directory as usize + block * 2));
    let (mut bucket, mut at) = (block * each, index + block * each);
    let end = count as usize + entry.units as usize;
    while at < end {
        let one = load64(bytes, entry.offset + at / 64 * 8) >> (at % 64) & 1 == 1;
        if !one {
            bucket += 1;
            if bucket > wanted {
                break;
            }
        } else if bucket < wanted || packed_low(bytes, entry, index) < low {
            index += 1;
        } else {
            break;
        }
        at += 1;
    }
    index as u64
}

#[inline]
fn packed_low(bytes: &[u8], entry: &Entry, index: usize) -> u128 {
    packed(bytes, entry.offset + entry.numbers as usize, index, entry.width)
}

/// Calls `take` with each key, in order, as an interval of one.
pub(super) fn decode(bytes: &[u8], entry: &Entry, count: u64, mut take: impl FnMut(u128, u128)) {
    let words = (count as usize + entry.units as usize).div_ceil(64);
    let mut index = 0;
    for i in 0..words {
        let mut word = load64(bytes, entry.offset + i * 8);
        while word != 0 {
            let position = i * 64 + word.trailing_zeros() as usize;
            let bucket = position.saturating_sub(index) as u128;
            let key = entry.first.wrapping_add(bucket << entry.width | packed_low(bytes, entry, index));
            take(key, key);
            index += 1;
            word &= word - 1;
        }
    }
}
