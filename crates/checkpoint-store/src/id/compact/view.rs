//! A buffer that was checked, and its partitions.

use super::bits::{load32, load64, load128};
use super::entry::{BEFORE, ENTRY, Entry, Kind};
use super::header::Geometry;
use super::{bitmap, packed, runs};

/// The bytes of a set and where its parts lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) geometry: &'a Geometry,
}

impl<'a> View<'a> {
    /// The bytes of the partition's entry.
    #[inline(always)]
    pub(super) fn line(&self, index: usize) -> Option<&'a [u8; ENTRY]> {
        self.bytes.get(self.geometry.table + index * ENTRY..)?.first_chunk()
    }

    /// The partition `index`.
    #[inline(always)]
    pub(super) fn entry(&self, index: usize) -> Option<Entry> {
        (index < self.geometry.partitions).then(|| Entry::read(self.bytes, self.geometry.table + index * ENTRY))?
    }

    /// How many keys the partition `index` has, which starts after `before` keys.
    pub(super) fn count(&self, index: usize, before: u64) -> u64 {
        let after = if index + 1 < self.geometry.partitions {
            load64(self.bytes, self.geometry.table + (index + 1) * ENTRY + BEFORE)
        } else {
            self.geometry.len
        };
        after.saturating_sub(before)
    }

    /// Which partition is the last that starts at or before the key; `None` before the first key and after the last.
    #[inline(always)]
    pub(super) fn locate(&self, key: u128) -> Option<usize> {
        let geometry = self.geometry;
        let distance = key.wrapping_sub(geometry.first);
        if distance > geometry.last.wrapping_sub(geometry.first) || geometry.partitions == 0 {
            return None;
        }
        let cell = geometry.index + (distance >> geometry.shift) as usize * 4;
        let mut low = (load32(self.bytes, cell) as usize).saturating_sub(1);
        let mut high = (load32(self.bytes, cell + 4) as usize).saturating_sub(1);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if load128(self.bytes, geometry.table + middle * ENTRY) <= key {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Some(low)
    }

    /// How many keys are less than `key`.
    pub(super) fn rank(&self, key: u128) -> u64 {
        if key > self.geometry.last {
            return self.geometry.len;
        }
        let Some(index) = self.locate(key) else { return 0 };
        let Some(entry) = self.entry(index) else { return 0 };
        let (offset, count) = (key - entry.first, self.count(index, entry.before));
        let inside = match entry.kind {
            _ if key > entry.last => count,
            Kind::Bitmap => bitmap::rank(self.bytes, &entry, offset),
            Kind::Packed => packed::rank(self.bytes, &entry, offset, count),
            Kind::Runs => runs::rank(self.bytes, &entry, offset, count),
            Kind::Whole => u64::try_from(offset).unwrap_or(count),
        };
        entry.before + inside
    }

    /// How many keys there are from `first` to `last`, both included.
    pub(super) fn count_between(&self, first: u128, last: u128) -> u64 {
        if first > last {
            return 0;
        }
        let up_to_last = last.checked_add(1).map_or(self.geometry.len, |end| self.rank(end));
        up_to_last.saturating_sub(self.rank(first))
    }
}
