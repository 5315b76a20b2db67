//! Buffers of earlier versions, as the code of their time wrote them.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, UInt64Array};

use super::*;
use crate::row_hash::hash;

fn saved(name: &str) -> CompactIdSet {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/id-set-1").join(name);
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes[8], 1, "the version");
    CompactIdSet::from_bytes(bytes.into()).unwrap()
}

/// Each of the IDs is there, none of the others is, and today's set of the same IDs has the same keys.
fn check(set: &CompactIdSet, ids: ArrayRef, others: ArrayRef, kind: u8) {
    assert_eq!(set.view().entry(0).map(|entry| entry.kind as u8), Some(kind));
    assert_eq!(set.len(), ids.len() as u64);
    assert_eq!(set.contains(&ids).unwrap().true_count(), ids.len());
    assert_eq!(set.contains(&others).unwrap().true_count(), 0);
    let today = build(set.map().unwrap(), &ids);
    assert!(today.intervals(0, u128::MAX).eq(set.intervals(0, u128::MAX)));
    for (first, last) in today.intervals(0, u128::MAX) {
        assert_eq!(set.view().rank(first), today.view().rank(first));
        assert_eq!(set.view().rank(last), today.view().rank(last));
    }
    assert_eq!(today.as_bytes()[8], 2, "the version");
}

#[test]
fn packed_keys_of_version_1_are_read() {
    let ids = |from: u64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((from..from + 300).map(|n| hash(0x6368_6563_6b70_6f69, n).cast_signed())))
    };
    check(&saved("int64.ids"), ids(0), ids(300), 1);
}

#[test]
fn runs_of_version_1_are_read() {
    let ids = |files: std::ops::Range<u64>| -> ArrayRef {
        let rows = files.flat_map(|file| (0..2_000).map(move |row| hash(hash(77, file), row)));
        Arc::new(UInt64Array::from_iter_values(rows))
    };
    check(&saved("row-hash.ids"), ids(0..15), ids(15..30), 2);
}
