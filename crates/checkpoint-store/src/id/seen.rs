//! Hashes that were seen: a table for many of them at a time.

use super::compact::prefetch;

/// How many places are fetched before their turn: a table of many hashes is beyond the caches.
const AHEAD: usize = 16;
/// The least places of a table that has any.
const SMALLEST: usize = 1 << 10;

/// 64-bit hashes in a table that is never more than half full. A hash's leading bits say where it is, or that it is
/// next behind those that were there first.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// A power of two; nought is a free place.
    places: Vec<u64>,
    count: usize,
}

impl Seen {
    /// Takes hashes in; tells those that were there already, or may have been: one in 2^63 is taken for another.
    pub(super) fn insert(&mut self, hashes: &[u64], mut is_there: impl FnMut(usize)) {
        self.reserve(hashes.len());
        for (at, hash) in hashes.iter().enumerate() {
            if let Some(later) = hashes.get(at + AHEAD) {
                prefetch(&self.places, self.home(*later));
            }
            if !self.put((*hash).max(1)) {
                is_there(at);
            }
        }
    }

    fn reserve(&mut self, more: usize) {
        let needed = ((self.count + more) * 2).next_power_of_two().max(SMALLEST);
        if needed <= self.places.len() {
            return;
        }
        // Twice as many again, where it grows: each growth takes all of them over.
        let needed = if self.places.is_empty() { needed } else { needed * 2 };
        // They go over in their order, from one end of the new table to the other.
        let before = std::mem::replace(&mut self.places, vec![0; needed]);
        self.count = 0;
        for hash in before.into_iter().filter(|hash| *hash != 0) {
            self.put(hash);
        }
    }

    /// Whether the hash is new.
    fn put(&mut self, hash: u64) -> bool {
        let mut at = self.home(hash);
        loop {
            match self.places[at] {
                0 => {
                    self.places[at] = hash;
                    self.count += 1;
                    return true;
                }
                there if there == hash => return false,
                _ => at = (at + 1) & (self.places.len() - 1),
            }
        }
    }

    fn home(&self, hash: u64) -> usize {
        (hash >> (64 - self.places.len().trailing_zeros())) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn repeats(seen: &mut Seen, hashes: &[u64]) -> Vec<usize> {
        let mut there = Vec::new();
        seen.insert(hashes, |at| there.push(at));
        there
    }

    #[test]
    fn what_was_there_is_told_as_a_set_of_the_standard_library_tells_it() {
        let (mut seen, mut plain) = (Seen::default(), HashSet::new());
        let mut hash = 7_u64;
        for batch in 0..60 {
            let hashes: Vec<u64> = (0..batch * 37)
                .map(|n| {
                    hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
                    // Few enough that some come again, at both ends of the table and close together.
                    [hash >> 48, hash | 0xffff_ffff_ffff_0000, hash % 5, hash][(hash >> 33) as usize % 4]
                })
                .collect();
            let expected: Vec<usize> = hashes
                .iter()
                .enumerate()
                .filter(|(_, hash)| !plain.insert((**hash).max(1)))
                .map(|(at, _)| at)
                .collect();
            assert_eq!(repeats(&mut seen, &hashes), expected, "batch {batch}");
            assert_eq!(seen.count, plain.len());
        }
    }

    #[test]
    fn a_table_wraps_around_its_end() {
        let mut seen = Seen::default();
        let last: Vec<u64> = (0..400).map(|n| u64::MAX - n).collect();
        assert!(repeats(&mut seen, &last).is_empty());
        assert_eq!(repeats(&mut seen, &last), (0..400).collect::<Vec<_>>());
    }
}
