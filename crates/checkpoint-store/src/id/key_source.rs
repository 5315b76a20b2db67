//! The keys of an Arrow array, block by block, straight from its buffers.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::UInt64Type;

use super::canonical::{Canonical, fill_values};
use super::class::IdClass;
use super::hash::IdHasher;
use super::key_map::{KeyMap, Layout, key_of_value};
use crate::error::{Error, Result};
use crate::row_hash::unmix;

/// The key of no ID at all.
const NO_KEY: u128 = u128::MAX;

/// The keys of one array. What the key of a null is means nothing.
#[derive(Debug)]
pub(super) struct KeySource {
    layout: Layout,
    hasher: IdHasher,
    ids: Canonical,
}

impl KeySource {
    /// How many rows are best made at once.
    pub(super) const BLOCK: usize = 128;

    /// The source for an array of the map's class.
    pub(super) fn new(map: &KeyMap, array: &ArrayRef) -> Result<Self> {
        let class = IdClass::of(array.data_type())?;
        if class != *map.class() {
            return Err(differing(map.class(), &class));
        }
        Ok(Self { layout: map.layout(), hasher: map.hasher(), ids: Canonical::new(array)? })
    }

    /// Makes the keys of the rows from `start` on.
    pub(super) fn fill(&self, start: usize, out: &mut [u128]) {
        match self.layout {
            Layout::Values => fill_values(self.ids.array(), start, out, key_of_value, NO_KEY),
            Layout::RowHash => self.fill_row_hashes(start, out),
            Layout::Hashed => {
                let rows = start..start + out.len();
                out.fill(NO_KEY);
                self.ids.visit_bytes(rows, |row, bytes| out[row - start] = self.hasher.key(bytes));
            }
        }
    }

    fn fill_row_hashes(&self, start: usize, out: &mut [u128]) {
        let array = self.ids.array();
        if let Some(hashes) = array.as_primitive_opt::<UInt64Type>() {
            let hashes = &hashes.values()[start..start + out.len()];
            for (key, hash) in out.iter_mut().zip(hashes) {
                *key = u128::from(unmix(*hash));
            }
            return;
        }
        let of_hash = |hash: i128| u64::try_from(hash).map_or(NO_KEY, |hash| u128::from(unmix(hash)));
        fill_values(array, start, out, of_hash, NO_KEY);
    }
}

/// Two classes where one was meant.
pub(super) fn differing(committed: &IdClass, given: &IdClass) -> Error {
    Error::bad_data(format!("IDs of different types do not compare: committed={committed} given={given}"))
        .with_hint("the ID column changed its type since the checkpoint began; use a fresh checkpoint and output")
}
