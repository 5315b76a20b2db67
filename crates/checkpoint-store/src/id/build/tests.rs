//! Builders against a plain `HashSet`, over all types of IDs, any shares, any order, and any limit.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Int16Array,
    Int64Array, StringArray, StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{IdSetBuilder, IdSetOptions, Repeats};
use crate::ErrorKind;
use crate::id::{CompactIdSet, HashKey, IdColumn, IdSet};
use crate::row_hash;

const KEY: HashKey = HashKey::new(*b"sixteen bytes ok");

fn column(array: &ArrayRef) -> IdColumn {
    IdColumn::try_new(array).unwrap().unwrap()
}

fn options(row_hash: bool) -> IdSetOptions {
    IdSetOptions { row_hash, hash_key: Some(KEY), threads: NonZeroUsize::new(3), ..IdSetOptions::default() }
}

fn build(options: IdSetOptions, batch: usize, pieces: &[ArrayRef]) -> (CompactIdSet, Repeats) {
    let builder = IdSetBuilder::new(options).with_batch(batch);
    pieces.iter().for_each(|piece| builder.push(&column(piece)).unwrap());
    builder.finish_counted().unwrap()
}

/// Columns of one type each, dense, scattered and repeated, and whether they are row hashes.
fn columns(random: &mut StdRng) -> Vec<(ArrayRef, bool)> {
    let count = random.random_range(0..6_000);
    let number = |random: &mut StdRng| match random.random_range(0..4) {
        0 => random.random_range(-50..3_000),
        1 => i64::MAX - random.random_range(0..900),
        2 => random.random_range(0..1 << 40) * 1000 + random.random_range(0..7),
        _ => random.random(),
    };
    let numbers: Vec<i64> = (0..count).map(|_| number(random)).collect();
    let texts: Vec<String> = numbers.iter().map(|n| format!("id-{n}")).collect();
    let bytes = || numbers.iter().map(|n| n.to_be_bytes());
    let narrow = || numbers.iter().map(|n| (*n % 20_000) as i16);
    let hashes = numbers.iter().map(|n| row_hash::hash(1 << 60, (*n as u64) % 9_000));
    let pair: Vec<(Arc<Field>, ArrayRef)> = vec![
        (Arc::new(Field::new("n", DataType::Int64, false)), Arc::new(Int64Array::from(numbers.clone()))),
        (Arc::new(Field::new("t", DataType::Utf8, false)), Arc::new(StringArray::from(texts.clone()))),
    ];
    let mut columns: Vec<(ArrayRef, bool)> = vec![
        (Arc::new(Int64Array::from(numbers.clone())), false),
        (Arc::new(Int16Array::from_iter_values(narrow())), false),
        (Arc::new(UInt64Array::from_iter_values(numbers.iter().map(|n| *n as u64))), false),
        (Arc::new(UInt64Array::from_iter_values(hashes)), true),
        (Arc::new(BooleanArray::from_iter(numbers.iter().map(|n| Some(n % 2 == 0)))), false),
        (Arc::new(Date32Array::from_iter_values(numbers.iter().map(|n| (*n % 40_000) as i32))), false),
        (Arc::new(TimestampMicrosecondArray::from(numbers.clone())), false),
        (Arc::new(StringArray::from(texts)), false),
        (Arc::new(BinaryArray::from_iter_values(bytes())), false),
        (
            Arc::new(
                Decimal128Array::from_iter_values(numbers.iter().map(|n| i128::from(*n)))
                    .with_precision_and_scale(38, 2)
                    .unwrap(),
            ),
            false,
        ),
    ];
    if count > 0 {
        columns.push((Arc::new(FixedSizeBinaryArray::try_from_iter(bytes()).unwrap()), false));
        columns.push((Arc::new(StructArray::from(pair)), false));
    }
    columns
}

/// The column in pieces of any length, some of them shuffled.
fn pieces(random: &mut StdRng, ids: &ArrayRef) -> Vec<ArrayRef> {
    let mut pieces = Vec::new();
    let mut row = 0;
    while row < ids.len() {
        let piece = random.random_range(1..=(ids.len() - row).min(2_500));
        pieces.push(ids.slice(row, piece));
        row += piece;
    }
    pieces
}

#[test]
fn the_same_ids_make_the_same_bytes_however_they_are_shared_out() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(seed);
        for (ids, row_hash) in columns(&mut random) {
            let what = format!("seed={seed} type={}", ids.data_type());
            let distinct: HashSet<Vec<u8>> = column(&ids).canonical_keys().collect();
            let all = pieces(&mut random, &ids);
            let (whole, repeats) = build(options(row_hash), 1 << 20, &all);
            assert_eq!(whole.len(), distinct.len() as u64, "{what}");
            assert_eq!(repeats.count(), (ids.len() - distinct.len()) as u64, "{what}");
            assert_eq!(whole.contains(&ids).unwrap().true_count(), ids.len(), "{what}");
            assert_eq!(CompactIdSet::from_bytes(whole.as_bytes().clone()).unwrap().len(), whole.len());

            let mut shuffled = all.clone();
            shuffled.shuffle(&mut random);
            let (small, repeated) = build(options(row_hash), random.random_range(1..3_000), &shuffled);
            assert!(small.as_bytes() == whole.as_bytes(), "in small batches: {what}");
            assert_eq!((repeated.count(), repeated.examples()), (repeats.count(), repeats.examples()), "{what}");

            let limits =
                IdSetOptions { memory_limit: Some(1), spill_dir: Some(dir.path().into()), ..options(row_hash) };
            assert!(build(limits, 1_200, &shuffled).0.as_bytes() == whole.as_bytes(), "spilled: {what}");

            // Shares of several machines, some IDs in more than one of them, each set there twice.
            let merged = IdSetBuilder::new(options(row_hash)).with_batch(2_000);
            let mut given = 0;
            for share in shuffled.chunks(random.random_range(1..4)) {
                let (set, _) = build(options(row_hash), random.random_range(1..3_000), share);
                given += 2 * set.len();
                merged.push_set(&set).unwrap();
                merged.push_set(&set).unwrap();
            }
            let (merged, twice) = merged.finish_counted().unwrap();
            assert!(merged.as_bytes() == whole.as_bytes(), "merged: {what}");
            assert_eq!(twice.count(), given - whole.len(), "{what}");
        }
    }
}

#[test]
fn threads_push_at_once() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..40_000).map(|n: i64| n * n % 70_001)));
    let all: Vec<ArrayRef> = (0..40).map(|i| ids.slice(i * 1000, 1000)).collect();
    let builder = IdSetBuilder::new(options(false)).with_batch(1_700);
    thread::scope(|scope| {
        for share in all.chunks(10) {
            let builder = &builder;
            scope.spawn(move || share.iter().for_each(|piece| builder.push(&column(piece)).unwrap()));
        }
    });
    assert!(builder.finish().unwrap().as_bytes() == build(options(false), 1 << 20, &all).0.as_bytes());
}

#[test]
fn nothing_makes_the_empty_set() {
    let (set, repeats) = build(options(false), 10, &[]);
    assert!(set.is_empty() && set.class().is_none() && repeats.is_empty());
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    assert_eq!(set.contains(&ids).unwrap().true_count(), 0);
    let builder = IdSetBuilder::new(options(false));
    builder.push_set(&set).unwrap();
    builder.push(&column(&ids)).unwrap();
    assert_eq!(builder.finish().unwrap().len(), 1);
}

#[test]
fn repeated_ids_are_found_again() {
    let text = |range: std::ops::Range<u32>| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(range.map(|n| format!("row {n}"))))
    };
    let all = [text(0..500), text(700..900), text(497..701)];
    for batch in [64, 100_000] {
        let (set, repeats) = build(options(false), batch, &all);
        assert_eq!((set.len(), repeats.count()), (900, 4));
        let found: Vec<Vec<usize>> = all.iter().map(|ids| repeats.find(&column(ids)).unwrap()).collect();
        assert_eq!(found, [vec![497, 498, 499], vec![0], vec![0, 1, 2, 203]]);
    }
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let (_, repeats) = build(options(false), 64, &all);
    assert_eq!(repeats.find(&column(&other)).unwrap_err().kind(), ErrorKind::BadData);
}

#[test]
fn sets_that_were_not_built_alike_do_not_merge() {
    let ints: ArrayRef = Arc::new(UInt64Array::from(vec![1, 2]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let set = |options: IdSetOptions, ids: &ArrayRef| build(options, 10, std::slice::from_ref(ids)).0;
    let into = |options: IdSetOptions, first: &ArrayRef, then: &CompactIdSet| {
        let builder = IdSetBuilder::new(options);
        builder.push(&column(first)).unwrap();
        builder.push_set(then).map_err(|e| e.kind())
    };
    let other_key = || IdSetOptions { hash_key: Some(HashKey::new([7; 16])), ..options(false) };
    assert_eq!(into(options(false), &ints, &set(options(false), &texts)), Err(ErrorKind::BadData));
    assert_eq!(into(options(false), &ints, &set(options(true), &ints)), Err(ErrorKind::InvalidConfig));
    assert_eq!(into(options(false), &texts, &set(other_key(), &texts)), Err(ErrorKind::InvalidConfig));
    assert_eq!(into(options(false), &ints, &set(other_key(), &ints)), Ok(()), "integers are not hashed");
    let first = IdSetBuilder::new(options(false));
    assert_eq!(first.push_set(&set(other_key(), &texts)).unwrap_err().kind(), ErrorKind::InvalidConfig);
    let adopting = IdSetBuilder::new(IdSetOptions::default());
    adopting.push_set(&set(other_key(), &texts)).unwrap();
    adopting.push(&column(&texts)).unwrap();
    assert_eq!(adopting.finish().unwrap().hash_key(), other_key().hash_key);
}

#[test]
fn other_classes_and_a_limit_without_a_way_out_are_errors() {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50_000));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let builder = IdSetBuilder::new(options(false));
    builder.push(&column(&texts)).unwrap();
    assert_eq!(builder.push(&column(&ints)).unwrap_err().kind(), ErrorKind::BadData);
    let limited = IdSetBuilder::new(IdSetOptions { memory_limit: Some(1), ..options(false) });
    assert_eq!(limited.push(&column(&ints)).unwrap_err().kind(), ErrorKind::InvalidConfig);
    let negative: ArrayRef = Arc::new(Int64Array::from(vec![3, -1]));
    let hashes = IdSetBuilder::new(options(true));
    assert_eq!(hashes.push(&column(&negative)).unwrap_err().kind(), ErrorKind::BadData);
    assert!(hashes.finish().unwrap().is_empty(), "nothing of a refused column stays");
}

#[test]
fn cut_hashes_collide_as_often_as_they_must() {
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values((0..20_000).map(|n| format!("{n}"))));
    let mut collisions = 0;
    for seed in 0..8 {
        let options = IdSetOptions { hash_key: Some(HashKey::new([seed; 16])), ..options(false) };
        let builder = IdSetBuilder::new(options).with_batch(3_000).with_cut(24);
        builder.push(&column(&ids)).unwrap();
        let (set, repeats) = builder.finish_counted().unwrap();
        assert_eq!(set.len() + repeats.count(), 20_000);
        collisions += repeats.count();
    }
    // Pairs of 20,000 over 2^24, eight times: 95, and a standard deviation of 10.
    assert!((45..=145).contains(&collisions), "{collisions}");
}

#[test]
fn a_shuffle_of_dense_ids_stays_small_while_it_is_built() {
    let mut numbers: Vec<i64> = (0..200_000).collect();
    numbers.shuffle(&mut StdRng::seed_from_u64(5));
    let all: Vec<ArrayRef> =
        numbers.chunks(1 << 14).map(|c| Arc::new(Int64Array::from(c.to_vec())) as ArrayRef).collect();
    let builder = IdSetBuilder::new(options(false)).with_batch(1 << 14);
    all.iter().for_each(|piece| builder.push(&column(piece)).unwrap());
    let held = builder.held();
    assert!(held < 200_000, "{held} bytes");
    let set = builder.finish().unwrap();
    assert!(set.len() == 200_000 && set.memory() < 1_000, "{set:?}");
}

#[test]
fn concatenated_and_taken_arrays_are_as_good_as_any() {
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values((0..3_000).map(|n| format!("{n:036}"))));
    let mut order: Vec<u64> = (0..3_000).collect();
    order.shuffle(&mut StdRng::seed_from_u64(9));
    let shuffled = take(&ids, &UInt64Array::from(order), None).unwrap();
    let doubled = concat(&[&ids.slice(100, 2_900), &shuffled.slice(0, 1_500)]).unwrap();
    let one = build(options(false), 333, &[ids.slice(0, 100), doubled]).0;
    assert!(one.as_bytes() == build(options(false), 1 << 20, &[shuffled]).0.as_bytes());
}
