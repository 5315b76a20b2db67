//! Sorted lists of keys that a merge takes in: what was sorted before, in blocks; what is still raw; whole sets.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::MmapMut;

use super::block::{self, Block, INTERVALS, Interval, Place, Shape};
use super::repeats::Repeats;
use super::spill::SpillFile;
use crate::error::{Error, ErrorKind, Result};
use crate::id::compact::CompactIdSet;

/// The most intervals in a partition of a set, about.
const PARTITION: u64 = 1 << 16;

/// The least bytes of packed blocks that are kept, and given up, together.
const CHUNK: usize = 1 << 20;
/// From so many bytes on they lie in pages of their own.
const OWN_PAGES: usize = 1 << 18;

/// A sorted list of keys, given up from its start as the merge goes on.
#[derive(Debug)]
pub(super) enum Source {
    Blocks(VecDeque<Block>),
    Raw { keys: Arc<Vec<u128>>, from: usize },
    Set(CompactIdSet),
}

/// Packs blocks into chunks of memory, or of a file, that many of them share.
struct Packer<'a> {
    spill: Option<&'a Arc<SpillFile>>,
    chunk: usize,
    bytes: Vec<u8>,
    /// Blocks whose bits are in `bytes`: the first key, the shape, and the length of the bits.
    waiting: Vec<(u128, Shape, usize)>,
    blocks: VecDeque<Block>,
    memory: usize,
}

impl<'a> Packer<'a> {
    fn new(spill: Option<&'a Arc<SpillFile>>, chunk: usize) -> Self {
        Self { spill, chunk, bytes: Vec::new(), waiting: Vec::new(), blocks: VecDeque::new(), memory: 0 }
    }

    fn push(&mut self, intervals: &[Interval]) -> Result<()> {
        let before = self.bytes.len();
        let shape = block::encode(intervals, &mut self.bytes);
        self.waiting.push((intervals[0].0, shape, self.bytes.len() - before));
        if self.bytes.len() >= self.chunk { self.put_away() } else { Ok(()) }
    }

    fn put_away(&mut self) -> Result<()> {
        let lengths = self.waiting.iter().map(|(_, _, length)| *length);
        let places: Vec<Place> = match self.spill {
            Some(file) => file.append(&self.bytes, lengths)?.into_iter().map(Place::File).collect(),
            None => {
                let mut rest = pages(&self.bytes)?;
                self.memory += rest.len();
                lengths.map(|length| Place::Memory(rest.split_to(length))).collect()
            }
        };
        let blocks = self.waiting.drain(..).zip(places);
        self.blocks.extend(blocks.map(|((first, shape, _), place)| Block { first, shape, place }));
        self.bytes.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(Source, u64)> {
        self.put_away()?;
        self.blocks.shrink_to_fit();
        let memory = self.memory + self.blocks.len() * size_of::<Block>();
        Ok((Source::Blocks(self.blocks), memory as u64))
    }
}

/// The bytes in pages of their own, which the system has back at once when the last part of them is dropped,
/// whichever thread does it. An allocator may keep them for the thread that asked for them.
fn pages(bytes: &[u8]) -> Result<Bytes> {
    if bytes.len() < OWN_PAGES {
        return Ok(Bytes::copy_from_slice(bytes));
    }
    let no_memory = |e: std::io::Error| {
        Error::new(ErrorKind::Storage, format!("there is no memory to build an ID set: bytes={}", bytes.len()))
            .with_hint("give the process more memory, or set a limit and a directory to spill to")
            .with_source(e)
    };
    let mut pages = MmapMut::map_anon(bytes.len()).map_err(no_memory)?;
    pages.copy_from_slice(bytes);
    Ok(Bytes::from_owner(pages.make_read_only().map_err(no_memory)?))
}

/// What a source holds between two cuts.
#[derive(Debug)]
pub(super) enum Piece {
    Blocks(Vec<Block>),
    Raw(Arc<Vec<u128>>, Range<usize>),
    Set(CompactIdSet),
}

/// Sorts keys and drops what is there more than once.
pub(super) fn sort(keys: &mut Vec<u128>, repeats: &mut Repeats) {
    keys.sort_unstable();
    repeats.dedup(keys);
}

impl Source {
    /// Packs sorted keys, each there once, in memory or on disk; answers how many bytes of memory it takes.
    ///
    /// # Errors
    /// `Storage` when there is no memory for it, or it cannot be spilled.
    pub(super) fn pack(keys: &[u128], spill: Option<&Arc<SpillFile>>) -> Result<(Self, u64)> {
        // Small enough that a merge gives up memory early, large enough that there are not too many of them.
        let mut packer = Packer::new(spill, keys.len().max(CHUNK));
        let mut intervals: Vec<Interval> = Vec::with_capacity(INTERVALS);
        for key in keys {
            match intervals.last_mut() {
                Some((_, last)) if *last + 1 == *key => *last = *key,
                _ => {
                    if intervals.len() == INTERVALS {
                        packer.push(&intervals)?;
                        intervals.clear();
                    }
                    intervals.push((*key, *key));
                }
            }
        }
        if !intervals.is_empty() {
            packer.push(&intervals)?;
        }
        packer.finish()
    }

    /// Keys spread over the list, a thousand intervals apart or so: where it may be cut.
    pub(super) fn samples(&self, out: &mut Vec<u128>) {
        match self {
            Self::Blocks(blocks) => out.extend(blocks.iter().map(|block| block.first)),
            Self::Raw { keys, from } => out.extend(keys[*from..].iter().step_by(INTERVALS)),
            Self::Set(set) => {
                for (first, last, keys) in set.partitions() {
                    // How its keys lie is not known: evenly, it is taken, and as runs where there are so many.
                    let intervals = if last - first < u128::from(keys) { 1 } else { keys.min(PARTITION) };
                    let steps = u128::from(intervals).div_ceil(INTERVALS as u128).max(1);
                    let step = (last - first) / steps;
                    out.extend((0..steps).map(|i| first + i * step));
                }
            }
        }
    }

    /// How many samples a slice should hold of it: what is at a cut is unpacked on both sides of it.
    pub(super) fn least(&self) -> usize {
        match self {
            Self::Blocks(_) | Self::Raw { .. } => 4,
            Self::Set(_) => PARTITION as usize / INTERVALS,
        }
    }

    /// Gives up what is below `end` and was not given up before; everything, without one. A block that is cut is
    /// given now and once more.
    pub(super) fn take_below(&mut self, end: Option<u128>) -> Option<Piece> {
        match self {
            Self::Blocks(blocks) => {
                let below = end.map_or(blocks.len(), |end| blocks.partition_point(|block| block.first < end));
                let piece: Vec<Block> = blocks.drain(..below).collect();
                if let (Some(_), Some(last)) = (end, piece.last()) {
                    blocks.push_front(last.clone());
                }
                (!piece.is_empty()).then_some(Piece::Blocks(piece))
            }
            Self::Raw { keys, from } => {
                let start = *from;
                *from = end.map_or(keys.len(), |end| start + keys[start..].partition_point(|key| *key < end));
                (start < *from).then(|| Piece::Raw(keys.clone(), start..*from))
            }
            Self::Set(set) => Some(Piece::Set(set.clone())),
        }
    }
}

impl Piece {
    /// How many intervals it has at the most, about.
    pub(super) fn intervals(&self) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.len() * INTERVALS,
            Self::Raw(_, range) => range.len(),
            Self::Set(_) => 0,
        }
    }

    /// Calls `take` with each interval from `from` on and below `end`, cut to fit.
    ///
    /// # Errors
    /// `Storage` when a spilled block cannot be read back.
    pub(super) fn each(&self, from: u128, end: Option<u128>, mut take: impl FnMut(u128, u128)) -> Result<()> {
        let to = end.map_or(u128::MAX, |end| end - 1);
        let mut cut = |first: u128, last: u128| {
            if first > to {
                return false;
            }
            if last >= from {
                take(first.max(from), last.min(to));
            }
            last < to
        };
        match self {
            Self::Blocks(blocks) => blocks.iter().try_for_each(|block| block.each(&mut cut)),
            Self::Raw(keys, range) => {
                for key in &keys[range.clone()] {
                    cut(*key, *key);
                }
                Ok(())
            }
            Self::Set(set) => {
                for (first, last) in set.intervals(from, to) {
                    cut(first, last);
                }
                Ok(())
            }
        }
    }
}
