//! From IDs to the keys that a compact set holds.

use arrow::array::{Array, ArrayRef};

use super::class::IdClass;
use super::hash::{CUT_BITS, HashKey, IdHasher};
use super::key_source::KeySource;
use crate::error::{Error, Result};

/// How the IDs of a set become keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The value itself, in its own order: integers, booleans, dates, times and timestamps.
    Values,
    /// Row hashes with their mix undone: the rows of a file are one range.
    RowHash,
    /// The keyed hash of the value's canonical bytes.
    Hashed,
}

/// Makes the keys of one set: equal keys mean equal IDs, but for the stated chance where they are hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyMap {
    class: IdClass,
    layout: Layout,
    hash_key: HashKey,
    cut: u8,
}

impl KeyMap {
    /// The map of a class. The hash key is kept only where it is used, so that all else is the same for the same IDs.
    ///
    /// # Errors
    /// `BadData` for row hashes that are not integers.
    pub(crate) fn new(class: IdClass, row_hash: bool, hash_key: HashKey) -> Result<Self> {
        let layout = match &class {
            IdClass::Integer if row_hash => Layout::RowHash,
            other if row_hash => {
                return Err(Error::bad_data(format!("row hashes are integers, and these IDs are not: class={other}")));
            }
            IdClass::Integer | IdClass::Boolean | IdClass::Date | IdClass::Time | IdClass::Timestamp { .. } => {
                Layout::Values
            }
            IdClass::Text | IdClass::Binary | IdClass::Decimal(_) | IdClass::Struct(_) => Layout::Hashed,
        };
        let hashed = layout == Layout::Hashed;
        let hash_key = if hashed { hash_key } else { HashKey::default() };
        Ok(Self { class, layout, hash_key, cut: if hashed { CUT_BITS } else { 0 } })
    }

    /// The same with hashes cut to other than the usual bits.
    pub(crate) fn with_cut(mut self, bits: u8) -> Self {
        if self.layout == Layout::Hashed {
            self.cut = bits;
        }
        self
    }

    pub(crate) fn class(&self) -> &IdClass {
        &self.class
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The key of the hashes; zeros where none are made.
    pub(crate) fn hash_key(&self) -> HashKey {
        self.hash_key
    }

    /// How many bits of a hash are kept; 0 where none are made.
    pub(crate) fn cut(&self) -> u8 {
        self.cut
    }

    pub(super) fn hasher(&self) -> IdHasher {
        IdHasher::new(self.hash_key, self.cut)
    }

    /// Appends the key of every ID, in order. None of them may be null.
    ///
    /// # Errors
    /// `BadData` when the IDs are of another class, or a row hash is negative.
    pub(crate) fn append(&self, ids: &ArrayRef, out: &mut Vec<u128>) -> Result<()> {
        let source = KeySource::new(self, ids)?;
        let start = out.len();
        out.resize(start + ids.len(), 0);
        for (block, keys) in out[start..].chunks_mut(KeySource::BLOCK).enumerate() {
            source.fill(block * KeySource::BLOCK, keys);
        }
        if self.layout == Layout::RowHash && out[start..].iter().any(|key| *key > u128::from(u64::MAX)) {
            return Err(Error::bad_data("a row hash is negative").with_hint("row hashes are unsigned 64-bit integers"));
        }
        Ok(())
    }
}

/// Where the integer `value` is in the order of keys.
#[inline]
pub(super) const fn key_of_value(value: i128) -> u128 {
    (value as u128) ^ (1 << 127)
}
