//! The compact set against plain ones, over all types, shapes of key, and damage.

mod damage;
mod hashes;
mod keys;
mod types;

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// Keys as they are: of integers, or of row hashes.
fn value_map(row_hash: bool) -> KeyMap {
    KeyMap::new(IdClass::Integer, row_hash, HashKey::default()).unwrap()
}

fn text_map() -> KeyMap {
    KeyMap::new(IdClass::Text, false, HashKey::new(*b"sixteen bytes ok")).unwrap()
}

/// The set of these keys, pushed one by one.
fn set_of(map: &KeyMap, keys: &BTreeSet<u128>) -> CompactIdSet {
    let mut encoder = Encoder::new(map);
    keys.iter().for_each(|key| encoder.push(*key, *key));
    encoder.finish().unwrap()
}

/// The set of a column's IDs.
fn build(map: &KeyMap, ids: &ArrayRef) -> CompactIdSet {
    let mut keys = Vec::new();
    map.append(ids, &mut keys).unwrap();
    set_of(map, &keys.into_iter().collect())
}

fn generator(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Which of the keys are there.
fn hits(set: &CompactIdSet, keys: &[u128]) -> Vec<bool> {
    let words = probe(&set.view(), keys.len(), |start, out| out.copy_from_slice(&keys[start..start + out.len()]));
    (0..keys.len()).map(|row| words[row / 64] >> (row % 64) & 1 == 1).collect()
}
