//! Partitions of long stretches of keys: where each run starts, and how long it is.

use std::hint::select_unpredictable;

use super::bits::{MAX_WIDTH, Packer, load16, load64, packed, width};
use super::entry::{Entry, Kind};

/// The most runs of a partition: what the directory counts fits 16 bits.
pub(super) const MAX_RUNS: usize = 32_768;
/// Runs of one sample of the counts.
const SAMPLE: usize = 64;
/// Cells of the directory for each run at the least, so that most hold the start of none or of one.
const CELLS_PER_RUN: u128 = 2;
/// The most cells of a directory.
const MAX_CELLS: u128 = 1 << 17;

/// The body for some runs: the widths of its numbers, and how many bytes it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    width: u8,
    length_width: u8,
    shift: u8,
    pub(super) size: usize,
}

/// The body for 1 to [`MAX_RUNS`] runs over a span below 2^[`MAX_WIDTH`], none longer than 2^64.
pub(super) fn plan(intervals: &[(u128, u128)], span: u128) -> Plan {
    let (first, last_start) = match intervals {
        [one] => (one.0, one.0),
        [one, .., other] => (one.0, other.0),
        [] => (0, 0),
    };
    let longest = intervals.iter().map(|(first, last)| last - first).max().unwrap_or(0);
    let shift = width(span).saturating_sub(width(intervals.len() as u128 * CELLS_PER_RUN));
    let (start_width, length_width) = (width(last_start - first), width(longest));
    let shape = Shape::new(intervals.len(), span, start_width, length_width, shift);
    Plan { width: start_width, length_width, shift, size: shape.size }
}

/// Where the parts of a body lie.
struct Shape {
    cells: usize,
    directory: usize,
    numbers: usize,
    size: usize,
}

impl Shape {
    fn new(runs: usize, span: u128, width: u8, length_width: u8, shift: u8) -> Self {
        let cells = (span >> shift) as usize + 1;
        let directory = runs.div_ceil(SAMPLE) * 8;
        let numbers = directory + (cells + 1) * 2;
        let size = numbers + bytes_of(runs, width) + bytes_of(runs, length_width);
        Self { cells, directory, numbers, size: size.next_multiple_of(8) }
    }
}

fn bytes_of(numbers: usize, width: u8) -> usize {
    (numbers * usize::from(width)).div_ceil(8)
}

/// Appends the body of these runs and completes the entry.
pub(super) fn write(intervals: &[(u128, u128)], plan: Plan, entry: &mut Entry, out: &mut Vec<u8>) {
    let shape = Shape::new(intervals.len(), entry.span(), plan.width, plan.length_width, plan.shift);
    let start = out.len();
    let mut before = 0u64;
    for (i, (first, last)) in intervals.iter().enumerate() {
        if i % SAMPLE == 0 {
            out.extend_from_slice(&before.to_le_bytes());
        }
        before += (last - first) as u64 + 1;
    }
    let mut directory = vec![0u16; shape.cells + 1];
    for (first, _) in intervals {
        directory[((first - entry.first) >> plan.shift) as usize + 1] += 1;
    }
    let mut starts_before = 0;
    for count in &mut directory {
        starts_before += *count;
        out.extend_from_slice(&starts_before.to_le_bytes());
    }
    let mut packer = Packer::new(out);
    intervals.iter().for_each(|(first, _)| packer.push(first - entry.first, plan.width));
    packer.finish();
    let mut packer = Packer::new(out);
    intervals.iter().for_each(|(first, last)| packer.push(last - first, plan.length_width));
    packer.finish();
    out.resize(start + shape.size, 0);
    entry.kind = Kind::Runs;
    entry.units = intervals.len() as u32;
    entry.directory = shape.directory as u32;
    entry.numbers = shape.numbers as u32;
    entry.width = plan.width;
    entry.length_width = plan.length_width;
    entry.shift = plan.shift;
}

/// The bytes that the body of an entry takes; `None` where its parts do not fit together.
pub(super) fn size(entry: &Entry) -> Option<usize> {
    let runs = entry.units as usize;
    if runs == 0 || runs > MAX_RUNS || entry.width > MAX_WIDTH || entry.length_width > 64 || entry.shift > 127 {
        return None;
    }
    if entry.span() >> entry.shift >= MAX_CELLS {
        return None;
    }
    let shape = Shape::new(runs, entry.span(), entry.width, entry.length_width, entry.shift);
    let agrees = entry.directory as usize == shape.directory && entry.numbers as usize == shape.numbers;
    agrees.then_some(shape.size)
}

/// Where the run `index` starts, from the first key of the partition.
#[inline]
fn start(bytes: &[u8], entry: &Entry, index: usize) -> u128 {
    packed(bytes, entry.offset + entry.numbers as usize, index, entry.width)
}

/// From the first key of the run `index` to its last.
#[inline]
fn length(bytes: &[u8], entry: &Entry, index: usize) -> u128 {
    let at = entry.offset + entry.numbers as usize + bytes_of(entry.units as usize, entry.width);
    packed(bytes, at, index, entry.length_width)
}

#[inline]
fn directory(bytes: &[u8], entry: &Entry, cell: usize) -> usize {
    usize::from(load16(bytes, entry.offset + entry.directory as usize + cell * 2))
}

/// Whether runs, samples and directory are those of `count` keys. The size was checked before.
pub(super) fn is_valid(bytes: &[u8], entry: &Entry, count: u64) -> bool {
    let (runs, mut before, mut free, mut cell) = (entry.units as usize, 0u64, 0u128, 0usize);
    for run in 0..runs {
        if run % SAMPLE == 0 && load64(bytes, entry.offset + run / SAMPLE * 8) != before {
            return false;
        }
        let (start, length) = (start(bytes, entry, run), length(bytes, entry, run));
        // The first starts where the entry says; no other touches the one before it.
        if (run == 0) != (start == 0) || start < free || start > entry.span() - length.min(entry.span()) {
            return false;
        }
        let Some(sum) = u64::try_from(length + 1).ok().and_then(|length| before.checked_add(length)) else {
            return false;
        };
        before = sum;
        while cell as u128 <= start >> entry.shift {
            if directory(bytes, entry, cell) != run {
                return false;
            }
            cell += 1;
        }
        free = start + length + 2;
    }
    let cells = (entry.span() >> entry.shift) as usize + 1;
    let rest = (cell..=cells).all(|cell| directory(bytes, entry, cell) == runs);
    rest && before == count && free == entry.span() + 2
}

/// The last run that starts at or before `offset` from the first key.
#[inline]
fn find(bytes: &[u8], entry: &Entry, offset: u128) -> usize {
    let cell = (offset >> entry.shift) as usize;
    let mut low = directory(bytes, entry, cell).saturating_sub(1);
    let mut high = directory(bytes, entry, cell + 1).saturating_sub(1);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if start(bytes, entry, middle) <= offset {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The stretch around the key at `offset` from the first, at most the span: whether its keys are there, its first
/// offset and its last.
#[inline]
pub(super) fn stretch(bytes: &[u8], entry: &Entry, offset: u128) -> (bool, u128, u128) {
    let run = find(bytes, entry, offset);
    let start_of_run = start(bytes, entry, run);
    let end = start_of_run + length(bytes, entry, run);
    // Within the span something comes after every gap. Which of both it is cannot be foreseen.
    let next = start(bytes, entry, run + 1);
    let inside = offset <= end;
    (
        inside,
        select_unpredictable(inside, start_of_run, end + 1),
        select_unpredictable(inside, end, next.wrapping_sub(1)),
    )
}

/// How many keys are less than `offset` from the first.
pub(super) fn rank(bytes: &[u8], entry: &Entry, offset: u128, count: u64) -> u64 {
    if offset > entry.span() {
        return count;
    }
    let run = find(bytes, entry, offset);
    let sample = run / SAMPLE;
    let before = load64(bytes, entry.offset + sample * 8);
    let whole = (sample * SAMPLE..run).map(|run| length(bytes, entry, run) as u64 + 1);
    let inside = (offset - start(bytes, entry, run)).min(length(bytes, entry, run) + 1) as u64;
    whole.fold(before, u64::wrapping_add).wrapping_add(inside)
}

/// Calls `take` with each run.
pub(super) fn decode(bytes: &[u8], entry: &Entry, mut take: impl FnMut(u128, u128)) {
    for run in 0..entry.units as usize {
        let first = entry.first + start(bytes, entry, run);
        take(first, first + length(bytes, entry, run));
    }
}
