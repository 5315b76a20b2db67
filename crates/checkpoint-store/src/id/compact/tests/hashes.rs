//! How often different IDs are taken for the same, where hashes are cut short on purpose.

use std::sync::Arc;

use arrow::array::StringArray;

use super::*;

fn texts(start: u64, count: u64) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((start..start + count).map(|i| format!("id-{i}"))))
}

/// With n keys of b bits a probe of another ID matches with a chance of n / 2^b.
#[test]
fn false_matches_are_as_rare_as_the_bits_say() {
    for (bits, ids, probes, key) in [(20, 10_000, 200_000, 1), (24, 100_000, 400_000, 2), (32, 200_000, 400_000, 3)] {
        let map = KeyMap::new(IdClass::Text, false, HashKey::new([key; 16])).unwrap().with_cut(bits);
        let done = texts(0, ids);
        let set = build(&map, &done);
        assert_eq!(set.contains(&done).unwrap().true_count() as u64, ids, "none is missed");
        let expected = set.len() as f64 * probes as f64 / 2f64.powi(bits.into());
        let found = set.contains(&texts(ids, probes)).unwrap().true_count() as f64;
        assert!((found - expected).abs() <= 5.0 * expected.sqrt(), "{bits} bits: {found}, expected {expected}");
        // IDs that share a key are one key less: n^2 / 2^(b+1) of them.
        let shared = (ids as f64).powi(2) / 2f64.powi(i32::from(bits) + 1);
        let lost = (ids - set.len()) as f64;
        assert!((lost - shared).abs() <= 5.0 * shared.sqrt() + shared * 0.05, "{bits} bits: {lost}, expected {shared}");
    }
}

#[test]
fn whole_hashes_do_not_collide() {
    let done = texts(0, 300_000);
    let set = build(&text_map(), &done);
    assert_eq!(set.len(), 300_000);
    assert_eq!(set.contains(&texts(300_000, 300_000)).unwrap().true_count(), 0);
    assert_eq!(set.hash_key(), Some(HashKey::new(*b"sixteen bytes ok")));
    assert_eq!(text_map().cut(), 96);
}

/// IDs that were chosen to collide under one key are like any others under another.
#[test]
fn ids_that_collide_under_one_key_do_not_under_another() {
    let short = |key: u8| KeyMap::new(IdClass::Text, false, HashKey::new([key; 16])).unwrap().with_cut(24);
    let mut keys = Vec::new();
    short(1).append(&texts(0, 400_000), &mut keys).unwrap();
    let chosen: Vec<u64> = (0..).zip(&keys).filter(|(_, key)| **key < 1 << 12).map(|(i, _)| i).collect();
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values(chosen.iter().map(|i| format!("id-{i}"))));
    assert!(chosen.len() > 50);
    keys.clear();
    short(2).append(&ids, &mut keys).unwrap();
    assert!(keys.iter().filter(|key| **key < 1 << 12).count() < 5);
}
