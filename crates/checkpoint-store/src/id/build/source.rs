//! Sorted lists of keys that a merge takes in: what was sorted before, in blocks; what is still raw; whole sets.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::block::{self, Block, INTERVALS, Interval, Place};
use super::repeats::Repeats;
use super::spill::SpillFile;
use crate::error::Result;
use crate::id::compact::CompactIdSet;

/// The most intervals in a partition of a set, about.
const PARTITION: u64 = 1 << 16;

/// A sorted list of keys, given up from its start as the merge goes on.
#[derive(Debug)]
pub(super) enum Source {
    Blocks(VecDeque<Block>),
    Raw { keys: Arc<Vec<u128>>, from: usize },
    Set(CompactIdSet),
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
    /// `Storage` when it cannot be spilled.
    pub(super) fn pack(keys: &[u128], spill: Option<&Arc<SpillFile>>) -> Result<(Self, u64)> {
        let mut packed = Vec::new();
        let mut intervals: Vec<Interval> = Vec::with_capacity(INTERVALS);
        for key in keys {
            match intervals.last_mut() {
                Some((_, last)) if *last + 1 == *key => *last = *key,
                _ => {
                    if intervals.len() == INTERVALS {
                        packed.push((intervals[0].0, block::encode(&intervals)));
                        intervals.clear();
                    }
                    intervals.push((*key, *key));
                }
            }
        }
        if !intervals.is_empty() {
            packed.push((intervals[0].0, block::encode(&intervals)));
        }
        let places: Vec<Place> = match spill {
            Some(file) => {
                let spilled = file.append(packed.iter().map(|(_, (_, words))| words.as_slice()))?;
                spilled.into_iter().map(Place::File).collect()
            }
            None => packed.iter_mut().map(|(_, (_, words))| Place::Memory(std::mem::take(words).into())).collect(),
        };
        let blocks: VecDeque<Block> =
            packed.into_iter().zip(places).map(|((first, (shape, _)), place)| Block { first, shape, place }).collect();
        let bytes = blocks.iter().map(Block::memory).sum();
        Ok((Self::Blocks(blocks), bytes))
    }

    /// Keys spread over the list, a thousand intervals apart or so: where it may be cut.
    pub(super) fn samples(&self, out: &mut Vec<u128>) {
        match self {
            Self::Blocks(blocks) => out.extend(blocks.iter().map(|block| block.first)),
            Self::Raw { keys, from } => out.extend(keys[*from..].iter().step_by(INTERVALS)),
            Self::Set(set) => {
                for (first, last, keys) in set.partitions() {
                    // How its keys lie is not known: evenly, it is taken, and as runs where there are so many.
                    let steps = u128::from(keys.min(PARTITION)).div_ceil(INTERVALS as u128).max(1);
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
