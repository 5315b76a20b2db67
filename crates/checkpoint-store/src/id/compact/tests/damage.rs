//! Damaged buffers: an error, never a fault, and never an answer.

use std::sync::Arc;

use arrow::array::Int64Array;

use super::*;

/// Small sets with every kind of partition.
fn sets() -> Vec<CompactIdSet> {
    let mut rng = generator(31);
    let mixed: BTreeSet<u128> = (0..1_500u128)
        .chain((0..20).map(|i| 9_000 + i * i * 7))
        .chain((1 << 40)..(1 << 40) + 1_200)
        .chain((0..40).map(|i| (1 << 60) + i * 3))
        .collect();
    let random: BTreeSet<u128> = (0..150).map(|_| rng.random::<u128>() >> 32).collect();
    let mut clusters: BTreeSet<u128> = (0..300).map(|i| i * 2).collect();
    clusters.extend((0..300u128).map(|i| (1 << 70) + i * i));
    vec![
        CompactIdSet::empty(),
        set_of(&value_map(false), &mixed),
        set_of(&value_map(true), &(5..90).chain(1_000..4_000).chain(9_000..12_000).collect()),
        set_of(&text_map(), &random),
        set_of(&value_map(false), &clusters),
        set_of(&value_map(true), &(3..20_003).chain(50_000..50_100).chain(60_000..80_000).collect()),
    ]
}

fn open(bytes: Vec<u8>) -> Result<CompactIdSet> {
    CompactIdSet::from_bytes(bytes.into())
}

#[test]
fn the_sets_here_hold_every_kind_of_partition() {
    let mut kinds: Vec<u8> = sets()
        .iter()
        .flat_map(|set| {
            (0..set.geometry.partitions).map(|i| set.view().entry(i).unwrap().kind as u8).collect::<Vec<_>>()
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, [0, 1, 2, 3]);
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    for set in sets() {
        let bytes = set.as_bytes().to_vec();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert_eq!(open(damaged).unwrap_err().kind(), crate::ErrorKind::BadData, "byte {at} of {set:?}");
        }
    }
}

#[test]
fn a_buffer_that_is_cut_or_longer_is_found() {
    for set in sets() {
        let bytes = set.as_bytes().to_vec();
        for len in 0..bytes.len() {
            assert_eq!(open(bytes[..len].to_vec()).unwrap_err().kind(), crate::ErrorKind::BadData, "{len} of {set:?}");
        }
        assert!(open([&bytes[..], &[0]].concat()).is_err());
        assert!(open([&bytes[..], &bytes[..]].concat()).is_err());
    }
    assert!(open(Vec::new()).is_err());
}

/// Whatever a buffer holds whose checksum was made to hold, using it ends without a fault.
fn use_it(set: &CompactIdSet) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3_000).map(|i| i * 37 - 99)));
    let _ = set.contains(&ids);
    let keys: Vec<u128> = (0..128).map(|i| u128::MAX / 127 * i).collect();
    hits(set, &keys);
    let around: Vec<u128> = set.partitions().flat_map(|(first, last, _)| [first, last, last / 2 + first / 2]).collect();
    for keys in around.chunks(100) {
        hits(set, keys);
        set.view().count_between(keys[0], keys[keys.len() - 1]);
    }
    let mut encoder = Encoder::new(&value_map(false));
    set.intervals(0, u128::MAX).take(1 << 20).for_each(|(first, last)| encoder.push(first, last));
    let _ = encoder.finish();
    assert!(set.count_between(i128::MIN, i128::MAX).is_none_or(|count| count == set.len()));
}

#[test]
fn no_bytes_whatever_are_a_fault() {
    let (mut accepted, mut tried) = (0, 0);
    for set in sets() {
        let bytes = set.as_bytes().to_vec();
        let body = bytes.len() - 8;
        for at in 0..body {
            for change in [1, 0x80, 0xFF, 0x10] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                let sum = header::checksum(&damaged[..body]);
                damaged[body..].copy_from_slice(&sum.to_le_bytes());
                tried += 1;
                if let Ok(set) = open(damaged) {
                    accepted += 1;
                    use_it(&set);
                }
            }
        }
        for len in 0..body {
            let mut cut = bytes[..len].to_vec();
            let sum = header::checksum(&cut);
            cut.extend_from_slice(&sum.to_le_bytes());
            assert!(open(cut).is_err(), "{len}");
        }
    }
    // What remains to be changed unseen: the hash key, low parts, and bits of equal number.
    assert!(accepted > 0 && accepted < tried, "{accepted} of {tried}");
}

#[test]
fn random_numbers_in_the_table_are_no_fault() {
    let mut rng = generator(32);
    for set in sets().into_iter().filter(|set| set.len() > 0) {
        let bytes = set.as_bytes().to_vec();
        let (body, table) = (bytes.len() - 8, set.geometry.table);
        for _ in 0..3_000 {
            let mut damaged = bytes.clone();
            for _ in 0..rng.random_range(1..4) {
                let at = if rng.random_bool(0.5) { rng.random_range(table..body) } else { rng.random_range(8..table) };
                let number: u64 = rng.random::<u64>() >> rng.random_range(0..64);
                let end = (at + rng.random_range(1..9)).min(body);
                damaged[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
            let sum = header::checksum(&damaged[..body]);
            damaged[body..].copy_from_slice(&sum.to_le_bytes());
            if let Ok(set) = open(damaged) {
                use_it(&set);
            }
        }
    }
}

#[test]
fn another_version_is_named() {
    for (version, hint) in [(3, "newer"), (1, "build it again"), (0, "build it again")] {
        let mut bytes = sets()[1].as_bytes().to_vec();
        bytes[8] = version;
        // A whole buffer, as code of that version would have written it.
        let body = bytes.len() - 8;
        let sum = header::checksum(&bytes[..body]);
        bytes[body..].copy_from_slice(&sum.to_le_bytes());
        let error = open(bytes).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::BadData);
        assert!(error.to_string().contains(&format!("version={version}")), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{error}");
    }
}

#[test]
fn a_set_is_used_from_a_file_and_from_foreign_memory_at_any_alignment() {
    let set = &sets()[1];
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let expected = set.contains(&ids).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ids");
    std::fs::write(&path, set.as_bytes()).unwrap();
    let mapped = CompactIdSet::map_file(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(mapped.contains(&ids).unwrap(), expected);
    assert_eq!(mapped.as_bytes(), set.as_bytes());
    for shift in 0..8 {
        let owned = [vec![0xFF; shift], set.as_bytes().to_vec()].concat();
        let foreign = Bytes::from_owner(owned).slice(shift..);
        let place = foreign.as_ptr();
        let opened = CompactIdSet::from_bytes(foreign).unwrap();
        assert_eq!(opened.as_bytes().as_ptr(), place, "nothing is copied");
        assert_eq!(opened.contains(&ids).unwrap(), expected);
    }
    assert_eq!(CompactIdSet::map_file(&path).unwrap_err().kind(), crate::ErrorKind::Storage);
    std::fs::write(&path, b"").unwrap();
    assert!(CompactIdSet::map_file(&path).is_err());
}
