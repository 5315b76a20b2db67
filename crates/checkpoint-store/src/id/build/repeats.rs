//! Keys that were there more than once.

use std::collections::BTreeSet;

use super::block::Interval;
use crate::error::Result;
use crate::id::IdColumn;
use crate::id::key_map::KeyMap;

/// How many repeated IDs are remembered.
const EXAMPLES: usize = 10;

/// IDs that went into a set more than once.
#[derive(Debug, Clone, Default)]
pub struct Repeats {
    count: u128,
    /// The smallest of the keys.
    examples: BTreeSet<u128>,
    map: Option<KeyMap>,
}

impl Repeats {
    /// How many IDs too many there were: an ID that went in three times counts twice.
    pub fn count(&self) -> u64 {
        u64::try_from(self.count).unwrap_or(u64::MAX)
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The rows of a column whose IDs are among the examples: a few of the repeated ones, always the same of the
    /// same IDs under the same hash key.
    ///
    /// # Errors
    /// `BadData` when the column is of another class than the set.
    pub fn find(&self, ids: &IdColumn) -> Result<Vec<usize>> {
        let Some(map) = self.map.as_ref().filter(|_| !self.examples.is_empty()) else { return Ok(Vec::new()) };
        let mut keys = Vec::new();
        map.append(ids.array(), &mut keys)?;
        Ok((0..keys.len()).filter(|row| self.examples.contains(&keys[*row])).collect())
    }

    #[cfg(test)]
    pub(super) fn examples(&self) -> &BTreeSet<u128> {
        &self.examples
    }

    pub(super) fn with_map(mut self, map: KeyMap) -> Self {
        self.map = Some(map);
        self
    }

    pub(super) fn add(&mut self, more: Repeats) {
        self.count += more.count;
        more.examples.into_iter().for_each(|key| self.note(key));
    }

    fn note(&mut self, key: u128) {
        if self.examples.len() < EXAMPLES {
            self.examples.insert(key);
        } else if self.examples.last().is_some_and(|last| *last > key) && self.examples.insert(key) {
            self.examples.pop_last();
        }
    }

    /// Drops keys that a sorted list has already.
    pub(super) fn dedup(&mut self, keys: &mut Vec<u128>) {
        let before = keys.len();
        keys.dedup_by(|next, kept| {
            let same = next == kept;
            if same {
                self.note(*kept);
            }
            same
        });
        self.count += (before - keys.len()) as u128;
    }

    /// Makes one sorted list of intervals of sorted intervals that overlap or touch.
    pub(super) fn union(&mut self, sorted: impl Iterator<Item = Interval>) -> Vec<Interval> {
        let mut union: Vec<Interval> = Vec::new();
        for (first, last) in sorted {
            match union.last_mut() {
                Some((_, end)) if first <= *end => {
                    let common = last.min(*end);
                    self.count = self.count.saturating_add((common - first).saturating_add(1));
                    (first..=common).take(EXAMPLES).for_each(|key| self.note(key));
                    *end = last.max(*end);
                }
                Some((_, end)) if *end + 1 == first => *end = last,
                _ => union.push((first, last)),
            }
        }
        union
    }
}
