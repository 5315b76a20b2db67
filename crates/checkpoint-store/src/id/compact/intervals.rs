//! The keys of a set in their order, as stretches.

use super::entry::Kind;
use super::view::View;
use super::{bitmap, packed, runs};

/// Iterates over the stretches of a range, one decoded partition at a time.
#[derive(Debug)]
pub(crate) struct Intervals<'a> {
    view: View<'a>,
    from: u128,
    to: u128,
    next: usize,
    ready: std::vec::IntoIter<(u128, u128)>,
}

impl<'a> Intervals<'a> {
    pub(super) fn new(view: View<'a>, from: u128, to: u128) -> Self {
        let next = match view.locate(from) {
            Some(index) => index,
            None if from > view.geometry.last => view.geometry.partitions,
            None => 0,
        };
        Self { view, from, to, next, ready: Vec::new().into_iter() }
    }

    /// Decodes the next partition; false where there is none within the range.
    fn refill(&mut self) -> bool {
        let Some(entry) = self.view.entry(self.next).filter(|entry| entry.first <= self.to) else { return false };
        let count = self.view.count(self.next, entry.before);
        self.next += 1;
        let (from, to) = (self.from, self.to);
        let mut out: Vec<(u128, u128)> = Vec::new();
        let mut take = |first: u128, last: u128| {
            if last < from || first > to {
                return;
            }
            let (first, last) = (first.max(from), last.min(to));
            match out.last_mut() {
                Some(open) if open.1.wrapping_add(1) == first => open.1 = last,
                _ => out.push((first, last)),
            }
        };
        match entry.kind {
            Kind::Bitmap => bitmap::decode(self.view.bytes, &entry, take),
            Kind::Packed => packed::decode(self.view.bytes, &entry, count, take),
            Kind::Runs => runs::decode(self.view.bytes, &entry, take),
            Kind::Whole => take(entry.first, entry.last),
        }
        self.ready = out.into_iter();
        true
    }
}

impl Iterator for Intervals<'_> {
    type Item = (u128, u128);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(interval) = self.ready.next() {
                return Some(interval);
            }
            if self.from > self.to || !self.refill() {
                return None;
            }
        }
    }
}
