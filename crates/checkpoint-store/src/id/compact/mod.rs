//! The compact set: one flat buffer, used where it lies.

mod bitmap;
mod bits;
mod buckets;
mod cpu;
mod distance;
mod encoder;
mod entry;
mod header;
mod intervals;
mod map_file;
mod memory;
mod packed;
mod probe;
mod runs;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;

pub(super) use cpu::prefetch;
pub(crate) use encoder::Encoder;
pub(crate) use intervals::Intervals;
pub(crate) use memory::pages;

use self::header::Geometry;
use self::probe::probe;
use self::view::View;
use super::class::IdClass;
use super::hash::HashKey;
use super::key_map::{KeyMap, Layout, key_of_value};
use super::key_source::{KeySource, differing};
use super::set::IdSet;
use crate::error::{Error, Result};

/// A set of IDs in one flat buffer, made for size: ranges cost next to nothing, a random 64-bit integer 5.5 bytes, a
/// string of any length 9.4 bytes at ten million, less the more there are.
///
/// The buffer is used in place, from memory, a mapped file or another library's memory, and holds no pointers. It is
/// specified in `docs/format.md`.
///
/// Integers, booleans, dates, times, timestamps and row hashes are held exactly. All others are held as the leading 96
/// bits of a keyed 128-bit hash: two different IDs have the same with a chance of 2^-96, so with ten billion IDs that are
/// done and ten billion that are not, the chance that one of these is taken for done is below 1.3e-9. The key is random,
/// so no choice of IDs changes this.
#[derive(Clone)]
pub struct CompactIdSet {
    bytes: Bytes,
    map: Option<KeyMap>,
    geometry: Geometry,
}

impl CompactIdSet {
    /// The set without IDs.
    pub fn empty() -> Self {
        let mut bytes = header::write(None, &mut [], 0);
        bytes.extend_from_slice(&header::TRAILER);
        let sum = header::checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let geometry = Geometry::default();
        Self { bytes: bytes.into(), map: None, geometry }
    }

    /// The set in these bytes, which stay where they are: `Bytes::from_owner` takes foreign memory. All of them are read
    /// once, for the checksum and the structure.
    ///
    /// # Errors
    /// `BadData` when they are damaged, or of a newer version.
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        let (map, geometry) = header::read(&bytes)?;
        Ok(Self { bytes, map, geometry })
    }

    /// The set in bytes that were made just now.
    fn trusted(bytes: Bytes, map: Option<KeyMap>) -> Result<Self> {
        let geometry =
            header::geometry(&bytes).ok_or_else(|| Error::bad_data("an ID set that was just built cannot be read"))?;
        Ok(Self { bytes, map, geometry })
    }

    /// The buffer: what [`CompactIdSet::from_bytes`] takes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The key of the hashes; `None` where none are made. Sets that are merged have the same.
    pub fn hash_key(&self) -> Option<HashKey> {
        self.map.as_ref().filter(|map| map.layout() == Layout::Hashed).map(KeyMap::hash_key)
    }

    /// How keys are made; `None` for the empty set of no class.
    pub(crate) fn map(&self) -> Option<&KeyMap> {
        self.map.as_ref()
    }

    /// The first key, the last, and the number of keys of each partition, in order.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (u128, u128, u64)> + '_ {
        let view = self.view();
        (0..self.geometry.partitions).filter_map(move |index| {
            let entry = view.entry(index)?;
            Some((entry.first, entry.last, view.count(index, entry.before)))
        })
    }

    /// The stretches of keys from `from` to `to`, both included, in order; decoded a partition at a time.
    pub(crate) fn intervals(&self, from: u128, to: u128) -> Intervals<'_> {
        Intervals::new(self.view(), from, to)
    }

    fn view(&self) -> View<'_> {
        View { bytes: &self.bytes, geometry: &self.geometry }
    }

    /// Which values are there; what is said of nulls means nothing.
    fn probe_all(&self, map: &KeyMap, ids: &ArrayRef) -> Result<BooleanBuffer> {
        let source = KeySource::new(map, ids)?;
        let mut words = probe(&self.view(), ids.len(), |start, keys| source.fill(start, keys));
        words.iter_mut().for_each(|word| *word = word.to_le());
        Ok(BooleanBuffer::new(Buffer::from_vec(words), 0, ids.len()))
    }
}

impl fmt::Debug for CompactIdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactIdSet")
            .field("len", &self.geometry.len)
            .field("class", &self.map.as_ref().map(KeyMap::class))
            .field("partitions", &self.geometry.partitions)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl IdSet for CompactIdSet {
    fn buffer(&self) -> Option<&Bytes> {
        Some(&self.bytes)
    }

    fn len(&self) -> u64 {
        self.geometry.len
    }

    fn class(&self) -> Option<&IdClass> {
        self.map.as_ref().map(KeyMap::class)
    }

    fn memory(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn contains(&self, ids: &ArrayRef) -> Result<BooleanArray> {
        let class = IdClass::of(ids.data_type())?;
        let map = match &self.map {
            Some(map) if *map.class() != class => return Err(differing(map.class(), &class)),
            Some(map) if self.geometry.len > 0 => map,
            _ => return Ok(BooleanBuffer::new_unset(ids.len()).into()),
        };
        // Each value of a dictionary or of a run is probed once, unless there are more of them than rows.
        let values = match ids.data_type() {
            DataType::Dictionary(..) => ids.as_any_dictionary_opt().map(|a| a.values()),
            DataType::RunEndEncoded(..) => ids.as_any_ree_opt().map(|a| a.values()),
            _ => None,
        };
        if let Some(values) = values.filter(|values| values.len() <= ids.len()) {
            let hits: ArrayRef = std::sync::Arc::new(self.contains(values)?);
            let each = match ids.data_type() {
                DataType::Dictionary(..) => ids.as_any_dictionary_opt().map(|a| a.with_values(hits)),
                _ => ids.as_any_ree_opt().map(|a| a.with_values(hits)),
            };
            let each = each.ok_or_else(|| Error::bad_data("an ID column cannot be taken apart"))?;
            let each = cast(&each, &DataType::Boolean)
                .map_err(|e| Error::bad_data("an ID column cannot be taken apart").with_source(e))?;
            return Ok(without_nulls(each.as_boolean().values(), each.nulls()));
        }
        let hits = self.probe_all(map, ids)?;
        Ok(without_nulls(&hits, ids.logical_nulls().as_ref()))
    }

    fn count_between(&self, first: i128, last: i128) -> Option<u64> {
        self.map.as_ref().filter(|map| map.layout() == Layout::Values)?;
        if first > last {
            return Some(0);
        }
        Some(self.view().count_between(key_of_value(first), key_of_value(last)))
    }

    fn count_rows(&self, seed: u64, positions: Range<u64>) -> Option<u64> {
        self.map.as_ref().filter(|map| map.layout() == Layout::RowHash)?;
        let Some(rows) = positions.end.checked_sub(positions.start).filter(|rows| *rows > 0) else { return Some(0) };
        let (first, view) = (seed.wrapping_add(positions.start), self.view());
        let count = |first: u64, last: u64| view.count_between(first.into(), last.into());
        Some(match first.checked_add(rows - 1) {
            Some(last) => count(first, last),
            None => count(first, u64::MAX) + count(0, first.wrapping_add(rows - 1)),
        })
    }
}

/// A null is in no set.
fn without_nulls(hits: &BooleanBuffer, nulls: Option<&NullBuffer>) -> BooleanArray {
    match nulls {
        Some(nulls) => (hits & nulls.inner()).into(),
        None => hits.clone().into(),
    }
}
