//! A set that can be asked while it grows.

use super::builder::IdSetBuilder;
use super::options::IdSetOptions;
use crate::error::Result;
use crate::id::{CompactIdSet, ExactIdSet, IdClass, IdColumn, IdSet};

/// IDs that are kept whole before they are packed.
const LOOSE: u64 = 1 << 20;
/// A packed set is merged with the next one unless it is more than so many times as large.
const FACTOR: u64 = 4;

/// IDs that come one column after the other, each of which is looked up before it is added. The last million is kept
/// whole, all others in a few compact sets, each several times as large as the next.
///
/// An ID costs a few merges of a tenth of a microsecond each, and takes what it does in a [`CompactIdSet`], twice
/// while the largest sets are merged.
#[derive(Debug, Default)]
pub struct GrowingIdSet {
    options: IdSetOptions,
    sets: Vec<CompactIdSet>,
    loose: ExactIdSet,
    /// What is loose, once more.
    packing: Option<IdSetBuilder>,
    /// How much is kept loose, where it is not the usual.
    limit: Option<u64>,
}

impl GrowingIdSet {
    /// The empty set.
    pub fn new(options: IdSetOptions) -> Self {
        let hash_key = Some(options.key_or_random());
        Self { options: IdSetOptions { hash_key, ..options }, ..Self::default() }
    }

    /// How many IDs it holds.
    pub fn len(&self) -> u64 {
        self.sets.iter().map(IdSet::len).sum::<u64>() + self.loose.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The class of the IDs; `None` while there are none.
    pub fn class(&self) -> Option<&IdClass> {
        self.sets.iter().find_map(IdSet::class).or_else(|| self.loose.class())
    }

    /// The first row of a column that is in the set.
    ///
    /// # Errors
    /// `BadData` when it is of another class.
    pub fn first_common(&self, ids: &IdColumn) -> Result<Option<usize>> {
        let mut first = self.loose.first_common(ids)?;
        for set in &self.sets {
            let found = set.contains(ids.array())?.iter().position(|found| found == Some(true));
            first = first.into_iter().chain(found).min();
        }
        Ok(first)
    }

    /// Adds a column of IDs that are not in the set. Packs and merges when it is time for it.
    ///
    /// # Errors
    /// `BadData` when it is of another class; otherwise as [`IdSetBuilder`].
    pub fn insert(&mut self, ids: &IdColumn) -> Result<()> {
        self.add(ids)?;
        if self.is_due() { self.pack() } else { Ok(()) }
    }

    /// Adds without packing.
    pub(crate) fn add(&mut self, ids: &IdColumn) -> Result<()> {
        self.loose.insert(ids)?;
        let options = &self.options;
        self.packing.get_or_insert_with(|| IdSetBuilder::new(options.clone())).push(ids)
    }

    /// Adds a set that has nothing in common with what is there and was built with the same options.
    pub(crate) fn add_set(&mut self, set: CompactIdSet) {
        if !set.is_empty() {
            self.sets.push(set);
        }
    }

    /// Whether it is time to pack.
    pub(crate) fn is_due(&self) -> bool {
        self.loose.len() >= self.limit.unwrap_or(LOOSE)
    }

    /// Packs what is loose, and merges sets of like size.
    pub(crate) fn pack(&mut self) -> Result<()> {
        if let Some(builder) = self.packing.take() {
            self.sets.push(builder.finish()?);
            self.loose = ExactIdSet::new();
        }
        while let [.., one, other] = self.sets.as_slice()
            && one.len() / FACTOR <= other.len()
        {
            let both = self.sets.split_off(self.sets.len() - 2);
            let merged = merge(&self.options, both)?;
            self.sets.push(merged);
        }
        Ok(())
    }

    /// Everything in compact sets that have nothing in common, the largest first.
    pub(crate) fn into_sets(mut self) -> Result<(Vec<CompactIdSet>, IdSetOptions)> {
        self.pack()?;
        self.sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
        Ok((self.sets, self.options))
    }
}

/// One set of several that were built with the same options.
pub(crate) fn merge(options: &IdSetOptions, sets: Vec<CompactIdSet>) -> Result<CompactIdSet> {
    let builder = IdSetBuilder::new(options.clone());
    sets.into_iter().try_for_each(|set| builder.push_set(&set))?;
    builder.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn what_was_added_is_found_whether_it_is_packed_or_not() {
        let mut random = StdRng::seed_from_u64(3);
        let mut set = GrowingIdSet { limit: Some(150), ..GrowingIdSet::new(IdSetOptions::default()) };
        let mut model = HashSet::new();
        for _ in 0..200 {
            let count = random.random_range(1..60);
            let numbers: Vec<i64> = (0..count).map(|_| random.random_range(0..20_000)).collect();
            let ids: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
            let common = set.first_common(&IdColumn::try_new(&ids).unwrap().unwrap()).unwrap();
            assert_eq!(common, numbers.iter().position(|n| model.contains(n)));
            let fresh: Vec<i64> = numbers.into_iter().filter(|n| model.insert(*n)).collect();
            let ids: ArrayRef = Arc::new(Int64Array::from(fresh));
            set.insert(&IdColumn::try_new(&ids).unwrap().unwrap()).unwrap();
            assert_eq!(set.len(), model.len() as u64);
            assert!(set.sets.windows(2).all(|pair| pair[0].len() / FACTOR > pair[1].len()));
        }
        assert!(set.sets.len() > 1, "several sets were looked into");
        let (sets, options) = set.into_sets().unwrap();
        let all = merge(&options, sets).unwrap();
        let probe: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
        let found = all.contains(&probe).unwrap();
        assert!((0..20_000).all(|n| found.value(n as usize) == model.contains(&n)));
    }
}
