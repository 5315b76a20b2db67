//! Building a buffer from the keys in their order.
//!
//! Where one partition ends and the next begins depends on the keys alone, so the same keys make the same bytes
//! however they came together.

use super::bits::MAX_WIDTH;
use super::entry::{Entry, Kind};
use super::memory::Chunks;
use super::{CompactIdSet, bitmap, header, packed, runs};
use crate::error::{Error, Result};
use crate::id::key_map::KeyMap;

/// A stretch of so many keys is a partition: that costs a line of the table, and spares a probe the search.
const WHOLE: u64 = 1 << 14;
/// A stretch of so many keys opens a partition of runs.
const LONG: u64 = 1024;
/// So many shorter stretches in a row stay among long ones.
const ABSORBED: usize = 16;
/// From so many keys on a gap this many times as wide as all before it ends a partition.
const CLUSTER: (u64, u32) = (256, 6);

/// Takes ascending stretches of keys, and makes the set of them.
#[derive(Debug)]
pub(crate) struct Encoder {
    map: KeyMap,
    /// The stretch that the next one may go on with.
    open: Option<(u128, u128)>,
    group: Group,
    entries: Vec<Entry>,
    bodies: Chunks,
    len: u64,
    fault: Option<&'static str>,
}

/// The stretches of the partition that is being collected.
#[derive(Debug, Default)]
struct Group {
    intervals: Vec<(u128, u128)>,
    keys: u64,
    /// Whether one of them is long.
    long: bool,
    /// How many short ones came after the last long one.
    trailing: usize,
}

impl Group {
    fn push(&mut self, interval: (u128, u128), keys: u64) {
        self.intervals.push(interval);
        self.keys = self.keys.saturating_add(keys);
        self.long |= keys >= LONG;
        self.trailing = if keys >= LONG { 0 } else { self.trailing + 1 };
    }
}

impl Encoder {
    /// An encoder of keys that this map makes.
    pub(crate) fn new(map: &KeyMap) -> Self {
        Self {
            map: map.clone(),
            open: None,
            group: Group::default(),
            entries: Vec::new(),
            bodies: Chunks::default(),
            len: 0,
            fault: None,
        }
    }

    /// Adds the keys from `first` to `last`, both included. Stretches ascend and do not overlap; those that touch
    /// become one. What breaks this is an error at the end.
    pub(crate) fn push(&mut self, first: u128, last: u128) {
        if first > last {
            self.fault = Some("a stretch of keys ends before it starts");
            return;
        }
        match &mut self.open {
            Some((_, end)) if *end >= first => self.fault = Some("keys are not in ascending order"),
            Some((_, end)) if *end + 1 == first => *end = last,
            open => {
                if let Some(interval) = open.replace((first, last)) {
                    self.add(interval);
                }
            }
        }
    }

    /// The set of all keys.
    ///
    /// # Errors
    /// `BadData` when the keys did not ascend, or are more than a set can count.
    pub(crate) fn finish(mut self) -> Result<CompactIdSet> {
        if let Some(interval) = self.open.take() {
            self.add(interval);
        }
        let all = self.group.intervals.len();
        self.cut(all);
        if let Some(fault) = self.fault {
            return Err(Error::bad_data(format!("an ID set cannot be built: {fault}")));
        }
        let head = header::write(Some(&self.map), &mut self.entries, self.len);
        let bytes = self.bodies.assemble(&head, &header::TRAILER, header::checksum)?;
        CompactIdSet::trusted(bytes, Some(self.map))
    }

    /// Takes a stretch that nothing more joins, and ends partitions where it is time.
    fn add(&mut self, interval: (u128, u128)) {
        let Some(keys) = u64::try_from(interval.1 - interval.0).ok().and_then(|keys| keys.checked_add(1)) else {
            self.fault = Some("a stretch has more keys than can be counted");
            return;
        };
        let group = &self.group;
        let long = keys >= LONG;
        if let Some((first, _)) = group.intervals.first() {
            let count = group.intervals.len();
            let before = group.intervals.last().map_or(*first, |last| last.1);
            let (span, gap) = (before - first, interval.0 - before);
            let full = match (group.long, long) {
                _ if keys >= WHOLE || group.keys >= WHOLE && count == 1 => true,
                (true, _) => count >= runs::MAX_RUNS,
                (false, true) => count > ABSORBED,
                (false, false) => {
                    let apart = group.keys >= CLUSTER.0 && gap >> CLUSTER.1 > span;
                    group.keys + keys > packed::MAX_KEYS || apart
                }
            };
            if full || (interval.1 - first) >> MAX_WIDTH > 0 {
                self.cut(count);
            } else if group.long && !long && group.trailing >= ABSORBED {
                self.cut(count - group.trailing);
            }
        }
        self.group.push(interval, keys);
    }

    /// Ends a partition after the first `count` stretches of the group; the others begin the next.
    fn cut(&mut self, count: usize) {
        let mut rest = Group::default();
        for interval in self.group.intervals.drain(count..) {
            // Shorter than 2^64: it was counted when it came.
            rest.push(interval, (interval.1 - interval.0) as u64 + 1);
        }
        let done = std::mem::replace(&mut self.group, rest);
        let keys = done.keys - self.group.keys;
        let (Some(first), Some(last)) = (done.intervals.first(), done.intervals.last()) else { return };
        let mut entry = Entry {
            first: first.0,
            last: last.1,
            offset: self.bodies.len(),
            before: self.len,
            units: 0,
            directory: 0,
            numbers: 0,
            kind: Kind::Bitmap,
            width: 0,
            length_width: 0,
            shift: 0,
        };
        match self.len.checked_add(keys) {
            Some(len) => self.len = len,
            None => self.fault = Some("there are more keys than can be counted"),
        }
        if done.intervals.len() == 1 {
            entry.kind = Kind::Whole;
            self.entries.push(entry);
            return;
        }
        let (bits, some_runs) = (bitmap::size(entry.span()), runs::plan(&done.intervals, entry.span()));
        let scattered = (keys <= packed::MAX_KEYS).then(|| packed::plan(keys, entry.span()));
        let as_bitmap = bits.filter(|_| keys <= packed::MAX_KEYS).unwrap_or(usize::MAX);
        let as_packed = scattered.map_or(usize::MAX, |plan| plan.size);
        let out = self.bodies.body();
        match scattered {
            _ if as_bitmap <= as_packed.min(some_runs.size) => bitmap::write(&done.intervals, &mut entry, out),
            Some(plan) if plan.size <= some_runs.size => packed::write(&done.intervals, keys, plan, &mut entry, out),
            _ => runs::write(&done.intervals, some_runs, &mut entry, out),
        }
        self.entries.push(entry);
    }
}
