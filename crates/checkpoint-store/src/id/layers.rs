//! Several compact sets as one.

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::or;

use super::class::IdClass;
use super::compact::CompactIdSet;
use super::set::IdSet;
use crate::error::{Error, Result};

/// A large compact set, and what came later and is not worth the merge. It counts no ranges: where a checkpoint has an
/// ID in two tasks both may hold it, and a range that is not done must never be taken for done.
#[derive(Debug)]
pub(crate) struct Layers(Vec<CompactIdSet>);

impl Layers {
    /// Sets of one class.
    pub(crate) fn new(sets: Vec<CompactIdSet>) -> Self {
        Self(sets)
    }
}

impl IdSet for Layers {
    fn len(&self) -> u64 {
        self.0.iter().map(IdSet::len).sum()
    }

    fn class(&self) -> Option<&IdClass> {
        self.0.iter().find_map(IdSet::class)
    }

    fn memory(&self) -> u64 {
        self.0.iter().map(IdSet::memory).sum()
    }

    fn contains(&self, ids: &ArrayRef) -> Result<BooleanArray> {
        let mut found: Option<BooleanArray> = None;
        for set in &self.0 {
            let more = set.contains(ids)?;
            found = Some(match found {
                None => more,
                Some(found) => {
                    or(&found, &more).map_err(|e| Error::bad_data("IDs could not be looked up").with_source(e))?
                }
            });
        }
        Ok(found.unwrap_or_else(|| BooleanArray::from(vec![false; ids.len()])))
    }
}
