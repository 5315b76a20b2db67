//! The compact set against a plain one.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};

use super::*;

fn build(map: &KeyMap, ids: &ArrayRef) -> CompactIdSet {
    let mut keys = Vec::new();
    map.append(ids, &mut keys).unwrap();
    keys.sort_unstable();
    keys.dedup();
    let mut encoder = Encoder::new(map);
    keys.iter().for_each(|key| encoder.push(*key, *key));
    encoder.finish().unwrap()
}

#[test]
fn smoke() {
    let map = KeyMap::new(IdClass::Integer, false, HashKey::default()).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(|i: i64| i * i * 31 - 5)));
    let set = build(&map, &ids);
    assert_eq!(set.len(), 200_000);
    assert_eq!(set.contains(&ids).unwrap().true_count(), 200_000);
    let again = CompactIdSet::from_bytes(set.as_bytes().clone()).unwrap();
    let others: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(|i: i64| i * i * 31 - 4)));
    assert_eq!(again.contains(&others).unwrap().true_count(), 0);
    let map = KeyMap::new(IdClass::Text, false, HashKey::default()).unwrap();
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values((0..200_000).map(|i| format!("id-{i}"))));
    let set = build(&map, &ids);
    assert_eq!(set.contains(&ids).unwrap().true_count(), 200_000);
    CompactIdSet::from_bytes(set.as_bytes().clone()).unwrap();
}
