//! Merging sorted lists of keys into one: cut into slices of the key space, each sorted by a thread of its own,
//! and handed on in order.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::block::{INTERVALS, Interval};
use super::repeats::Repeats;
use super::source::{Piece, Source};
use crate::error::{Error, Result};

/// Intervals that a slice has at least, so that a thread has something to do.
const SLICE: usize = 1 << 17;

/// Calls `take` with the intervals of all sources in order; one may touch the next. What has been merged is given
/// up, so the sources' memory goes as the receiver's grows. A thread merges about `slice` intervals at a time, or a
/// sensible number.
///
/// # Errors
/// `Storage` when spilled keys cannot be read back.
pub(super) fn merge(
    sources: Vec<Source>,
    threads: usize,
    slice: Option<usize>,
    mut take: impl FnMut(u128, u128),
) -> Result<Repeats> {
    let mut cutter = Cutter::new(sources, slice);
    let mut repeats = Repeats::default();
    if threads < 2 || cutter.cuts.len() < 2 {
        while let Some(slice) = cutter.next() {
            slice.merge()?.hand_on(&mut repeats, &mut take);
        }
        return Ok(repeats);
    }
    let cutter = Mutex::new(cutter);
    let (allow, allowed) = mpsc::channel();
    let allowed = Mutex::new(allowed);
    let (ready, merged) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (cutter, allowed, ready) = (&cutter, &allowed, ready.clone());
            scope.spawn(move || work(cutter, allowed, &ready));
        }
        drop(ready);
        feed(threads + 1, allow, merged, |merged| merged.hand_on(&mut repeats, &mut take))
    })?;
    Ok(repeats)
}

/// The promise of a merged slice.
type Promise = Receiver<Result<Merged>>;

/// Merges slices while it is allowed to. Promises are made in the order of the slices.
fn work(cutter: &Mutex<Cutter>, allowed: &Mutex<Receiver<()>>, ready: &Sender<Promise>) {
    loop {
        if lock(allowed).recv().is_err() {
            return;
        }
        let mut cutter = lock(cutter);
        let Some(slice) = cutter.next() else { return };
        let (done, promise) = mpsc::channel();
        if ready.send(promise).is_err() {
            return;
        }
        drop(cutter);
        if done.send(slice.merge()).is_err() {
            return;
        }
    }
}

/// Takes slices in order as they are promised, with at most `ahead` of them under way. However it ends, the
/// threads find that nobody allows or awaits anything any more.
fn feed(ahead: usize, allow: Sender<()>, merged: Receiver<Promise>, mut take: impl FnMut(Merged)) -> Result<()> {
    for _ in 0..ahead {
        let _ = allow.send(());
    }
    for promise in merged {
        let next = promise.recv().map_err(|_| Error::bad_data("a thread that merged IDs ended early"))?;
        take(next?);
        let _ = allow.send(());
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cuts sources into slices, from the smallest key on.
struct Cutter {
    sources: Vec<Source>,
    /// Where each slice that is left begins.
    cuts: VecDeque<u128>,
}

impl Cutter {
    fn new(sources: Vec<Source>, slice: Option<usize>) -> Self {
        let mut samples = Vec::new();
        sources.iter().for_each(|source| source.samples(&mut samples));
        samples.sort_unstable();
        let enough = || SLICE.max(INTERVALS * sources.iter().map(Source::least).sum::<usize>());
        let each = (slice.unwrap_or_else(enough) / INTERVALS).max(1);
        let mut cuts: Vec<u128> = samples.into_iter().step_by(each).collect();
        cuts.dedup();
        Self { sources, cuts: cuts.into() }
    }

    fn next(&mut self) -> Option<Slice> {
        let from = self.cuts.pop_front()?;
        let end = self.cuts.front().copied();
        let pieces = self.sources.iter_mut().filter_map(|source| source.take_below(end)).collect();
        Some(Slice { from, end, pieces })
    }
}

/// What all sources hold from one key on and below another.
struct Slice {
    from: u128,
    end: Option<u128>,
    pieces: Vec<Piece>,
}

/// A slice, sorted, each key there once.
struct Merged {
    keys: Keys,
    repeats: Repeats,
}

enum Keys {
    Single(Vec<u128>),
    Intervals(Vec<Interval>),
}

impl Slice {
    fn merge(self) -> Result<Merged> {
        let Self { from, end, pieces } = self;
        let mut points: Vec<u128> = Vec::with_capacity(pieces.iter().map(Piece::intervals).sum());
        let mut ranges: Vec<Interval> = Vec::new();
        for piece in pieces {
            piece.each(from, end, |first, last| {
                if first == last {
                    points.push(first);
                } else {
                    ranges.push((first, last));
                }
            })?;
        }
        let mut repeats = Repeats::default();
        // Stable sorting finds the lists that are sorted already and merges them.
        points.sort();
        if ranges.is_empty() {
            repeats.dedup(&mut points);
            return Ok(Merged { keys: Keys::Single(points), repeats });
        }
        ranges.sort();
        let union = repeats.union(both(&points, &ranges));
        Ok(Merged { keys: Keys::Intervals(union), repeats })
    }
}

/// Two sorted lists as one.
fn both(points: &[u128], ranges: &[Interval]) -> impl Iterator<Item = Interval> {
    let mut points = points.iter().map(|key| (*key, *key)).peekable();
    let mut ranges = ranges.iter().copied().peekable();
    std::iter::from_fn(move || match (points.peek(), ranges.peek()) {
        (Some(point), Some(range)) if point <= range => points.next(),
        (_, Some(_)) => ranges.next(),
        (_, None) => points.next(),
    })
}

impl Merged {
    fn hand_on(self, repeats: &mut Repeats, take: &mut impl FnMut(u128, u128)) {
        repeats.add(self.repeats);
        match self.keys {
            Keys::Single(keys) => keys.into_iter().for_each(|key| take(key, key)),
            Keys::Intervals(intervals) => intervals.into_iter().for_each(|(first, last)| take(first, last)),
        }
    }
}
