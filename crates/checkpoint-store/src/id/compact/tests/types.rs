//! Columns of every type and encoding against a plain set.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, TimeUnit, i256};

use super::*;
use crate::id::{ExactIdSet, IdColumn};

/// Columns of each class: the IDs of a set, and others that may be in it. Some hold nulls.
fn columns(rng: &mut StdRng) -> Vec<(ArrayRef, ArrayRef)> {
    let mut out: Vec<(ArrayRef, ArrayRef)> = Vec::new();
    macro_rules! both {
        ($array:ty, $value:expr) => {{
            let value = $value;
            let ids = <$array>::from_iter((0..600).map(|_| Some(value(rng))));
            let probes = <$array>::from_iter((0..900).map(|_| rng.random_bool(0.9).then(|| value(rng))));
            out.push((Arc::new(ids), Arc::new(probes)));
        }};
    }
    both!(Int8Array, |rng: &mut StdRng| rng.random::<i8>());
    both!(Int16Array, |rng: &mut StdRng| rng.random_range(-400i16..400));
    both!(Int32Array, |rng: &mut StdRng| rng.random_range(-900i32..900) * 1_000_003);
    both!(Int64Array, |rng: &mut StdRng| [i64::MIN, i64::MAX, -1, 0][rng.random_range(0..4)]
        ^ rng.random_range(0..800));
    both!(UInt8Array, |rng: &mut StdRng| rng.random::<u8>());
    both!(UInt16Array, |rng: &mut StdRng| rng.random_range(0..2_000u16));
    both!(UInt32Array, |rng: &mut StdRng| u32::MAX - rng.random_range(0..2_000));
    both!(UInt64Array, |rng: &mut StdRng| u64::MAX - (rng.random_range(0..40) << rng.random_range(0..20)));
    both!(BooleanArray, |_: &mut StdRng| true);
    both!(Date32Array, |rng: &mut StdRng| i32::MAX - rng.random_range(0..2_000));
    both!(Date64Array, |rng: &mut StdRng| rng.random_range(-1_000..1_000) * 86_400_000);
    both!(Time32SecondArray, |rng: &mut StdRng| rng.random_range(0..2_000));
    both!(Time32MillisecondArray, |rng: &mut StdRng| rng.random_range(0..2_000) * 500);
    both!(Time64MicrosecondArray, |rng: &mut StdRng| rng.random_range(0..2_000) * 500_000);
    both!(Time64NanosecondArray, |rng: &mut StdRng| rng.random_range(0..2_000) * 500_000_000);
    both!(TimestampSecondArray, |rng: &mut StdRng| i64::MAX - rng.random_range(0..2_000));
    both!(TimestampMillisecondArray, |rng: &mut StdRng| i64::MIN + rng.random_range(0..2_000));
    both!(TimestampMicrosecondArray, |rng: &mut StdRng| rng.random_range(-1_000..1_000) * 1_000_000);
    both!(TimestampNanosecondArray, |rng: &mut StdRng| rng.random_range(-1_000..1_000) * 1_000_000_000);
    both!(StringArray, |rng: &mut StdRng| text(rng));
    both!(LargeStringArray, |rng: &mut StdRng| text(rng));
    both!(StringViewArray, |rng: &mut StdRng| text(rng));
    both!(BinaryArray, |rng: &mut StdRng| text(rng).into_bytes());
    both!(LargeBinaryArray, |rng: &mut StdRng| text(rng).into_bytes());
    both!(BinaryViewArray, |rng: &mut StdRng| text(rng).into_bytes());
    both!(Decimal32Array, |rng: &mut StdRng| rng.random_range(-900..900));
    both!(Decimal64Array, |rng: &mut StdRng| rng.random_range(-900..900) * 1_000_000_007);
    both!(Decimal128Array, |rng: &mut StdRng| rng.random_range(-900..900) << 100);
    both!(Decimal256Array, |rng: &mut StdRng| i256::from_parts(rng.random_range(0..900), rng.random_range(-1..1)));
    let fixed = |rng: &mut StdRng, rows: usize, nulls: f64| -> ArrayRef {
        let values =
            (0..rows).map(|_| (!rng.random_bool(nulls)).then(|| [rng.random_range(0..40), 0, rng.random_range(0..40)]));
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 3).unwrap())
    };
    out.push((fixed(rng, 600, 0.0), fixed(rng, 900, 0.1)));
    let pair = |rng: &mut StdRng, rows: usize| -> ArrayRef {
        let a = Int32Array::from_iter((0..rows).map(|_| rng.random_bool(0.9).then(|| rng.random_range(0..40))));
        let b = StringArray::from_iter_values((0..rows).map(|_| ["", "x", "y"][rng.random_range(0..3)]));
        Arc::new(StructArray::from(vec![
            (Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(a) as ArrayRef),
            (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(b) as ArrayRef),
        ]))
    };
    out.push((pair(rng, 300), pair(rng, 900)));
    out
}

/// Text of 1 to 40 bytes, of which there is not much choice.
fn text(rng: &mut StdRng) -> String {
    let length = [1, 7, 8, 12, 13, 36, 40][rng.random_range(0..7)];
    let mut text = format!("{:04}é", rng.random_range(0..150));
    text.push_str(&"-".repeat(length));
    text
}

/// The same values in every other encoding that there is for them, and pieces of them.
fn encodings(array: &ArrayRef) -> Vec<ArrayRef> {
    use DataType::*;
    let wider: &[DataType] = match array.data_type() {
        Int8 | Int16 | Int32 => &[Int64],
        UInt8 | UInt16 | UInt32 => &[Int64, UInt64],
        Utf8 | LargeUtf8 | Utf8View => &[Utf8, LargeUtf8, Utf8View],
        Binary | LargeBinary | BinaryView => &[Binary, LargeBinary, BinaryView],
        FixedSizeBinary(_) => &[Binary],
        Date32 => &[],
        Time32(_) => &[Time64(TimeUnit::Nanosecond)],
        Timestamp(TimeUnit::Microsecond, None) => &[Timestamp(TimeUnit::Nanosecond, None)],
        _ => &[],
    };
    let mut all: Vec<ArrayRef> = vec![array.clone()];
    all.extend(wider.iter().map(|t| cast(array, t).unwrap()));
    if !matches!(array.data_type(), Boolean | Struct(_)) {
        for whole in all.clone() {
            let keys = Int32Array::from_iter((0..array.len() as i32).map(|i| (i % 11 != 5).then_some(i / 3)));
            all.push(Arc::new(DictionaryArray::<Int32Type>::new(keys, whole.clone())));
            // More values than rows.
            let keys = Int32Array::from_iter_values([3, 0, 3, 8]);
            all.push(Arc::new(DictionaryArray::<Int32Type>::new(keys, whole.clone())));
            let ends = Int32Array::from_iter_values((1..=array.len() as i32).map(|end| end * 2));
            all.push(Arc::new(RunArray::<Int32Type>::try_new(&ends, &whole).unwrap()));
        }
    }
    let pieces: Vec<ArrayRef> = all.iter().filter(|a| a.len() > 200).map(|a| a.slice(7, a.len() - 70)).collect();
    all.extend(pieces);
    all
}

#[test]
fn every_type_and_encoding_answers_as_a_plain_set() {
    let mut rng = generator(21);
    for (ids, probes) in columns(&mut rng) {
        let column = IdColumn::try_new(&ids).unwrap().unwrap_or_else(|p| panic!("{p}"));
        let mut plain = ExactIdSet::new();
        plain.insert(&column).unwrap();
        let map = KeyMap::new(column.class().clone(), false, HashKey::new(*b"sixteen bytes ok")).unwrap();
        let set = build(&map, &ids);
        assert_eq!(set.len(), plain.len(), "{}", ids.data_type());
        for ids in encodings(&ids).iter().filter(|ids| ids.null_count() == 0 && ids.data_type().is_nested()) {
            assert_eq!(set.contains(ids).unwrap().true_count(), ids.len() - ids.logical_null_count());
        }
        for probes in encodings(&probes) {
            let expected = plain.contains(&probes).unwrap();
            let found = set.contains(&probes).unwrap();
            assert_eq!(found, expected, "{} in {}", probes.data_type(), ids.data_type());
            assert_eq!(found.null_count(), 0);
        }
        assert!(plain.contains(&probes).unwrap().true_count() > 20, "some are there: {}", ids.data_type());
    }
}

#[test]
fn keys_are_the_same_in_every_encoding() {
    let mut rng = generator(22);
    for (ids, _) in columns(&mut rng) {
        let map = KeyMap::new(IdClass::of(ids.data_type()).unwrap(), false, HashKey::default()).unwrap();
        let mut plain = Vec::new();
        map.append(&ids, &mut plain).unwrap();
        let canonical: Vec<_> = IdColumn::try_new(&ids).unwrap().unwrap().canonical_keys().collect();
        let distinct: HashSet<_> = canonical.iter().zip(&plain).collect();
        assert_eq!(distinct.len(), canonical.iter().collect::<HashSet<_>>().len());
        assert_eq!(distinct.len(), plain.iter().collect::<HashSet<_>>().len());
        for whole in encodings(&ids).iter().filter(|a| a.len() == ids.len() && !a.data_type().is_nested()) {
            if !matches!(whole.data_type(), DataType::Dictionary(..)) {
                let mut keys = vec![1];
                map.append(whole, &mut keys).unwrap();
                assert_eq!(keys[1..], plain, "{}", whole.data_type());
            }
        }
    }
}

#[test]
fn classes_do_not_mix() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1", "2"]));
    let set = build(&value_map(false), &numbers);
    assert_eq!(set.contains(&texts).unwrap_err().kind(), crate::ErrorKind::BadData);
    assert_eq!(value_map(false).append(&texts, &mut Vec::new()).unwrap_err().kind(), crate::ErrorKind::BadData);
    assert!(KeyMap::new(IdClass::Text, true, HashKey::default()).is_err());
    let none = CompactIdSet::empty();
    assert_eq!((none.len(), none.class(), none.hash_key()), (0, None, None));
    assert_eq!(none.contains(&texts).unwrap().true_count(), 0);
    let again = CompactIdSet::from_bytes(none.as_bytes().clone()).unwrap();
    assert_eq!((again.len(), again.class()), (0, None));
    assert_eq!(again.intervals(0, u128::MAX).count() + again.partitions().count(), 0);
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    assert!(none.contains(&floats).is_err());
}

#[test]
fn integers_are_counted_by_value() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((-500..500).chain([i64::MAX, i64::MIN])));
    let set = build(&value_map(false), &ids);
    assert_eq!(set.count_between(-10, 9), Some(20));
    assert_eq!(set.count_between(9, -10), Some(0));
    assert_eq!(set.count_between(i128::MIN, i128::MAX), Some(1_002));
    assert_eq!(set.count_between(i64::MAX.into(), i128::from(u64::MAX)), Some(1));
    assert_eq!(set.count_rows(0, 0..10), None);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    assert_eq!(build(&text_map(), &texts).count_between(0, 1), None);
}

#[test]
fn rows_are_counted_by_their_file() {
    let (a, b) = (crate::row_hash::seed("bucket/a"), u64::MAX - 99);
    let hashes = UInt64Array::from_iter_values(
        (0..50_000).map(|i| crate::row_hash::hash(a, i)).chain((50..400).map(|i| crate::row_hash::hash(b, i))),
    );
    let ids: ArrayRef = Arc::new(hashes);
    let set = build(&value_map(true), &ids);
    assert!(set.as_bytes().len() < 1_000, "{}", set.as_bytes().len());
    assert_eq!(set.contains(&ids).unwrap().true_count(), ids.len());
    assert_eq!(set.count_rows(a, 0..50_000), Some(50_000));
    assert_eq!(set.count_rows(a, 49_990..50_010), Some(10));
    assert_eq!(set.count_rows(b, 0..1_000), Some(350));
    assert_eq!(set.count_rows(b, 0..51), Some(1));
    assert_eq!(set.count_rows(b, 90..110), Some(20));
    assert_eq!(set.count_rows(b, 400..500), Some(0));
    #[allow(clippy::reversed_empty_ranges, reason = "this is what is tested")]
    let backwards = set.count_rows(a, 10..5);
    assert_eq!((backwards, set.count_rows(a, 5..5)), (Some(0), Some(0)));
    assert_eq!(set.count_rows(a, 0..u64::MAX), Some(50_350));
    assert_eq!(set.count_between(0, 10), None);
    let other_widths: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), Some(5), None]));
    assert_eq!(set.contains(&other_widths).unwrap().true_count(), 0);
    assert!(value_map(true).append(&other_widths, &mut Vec::new()).is_err());
    let signed: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    assert_eq!(build(&value_map(true), &signed).contains(&other_widths).unwrap().true_count(), 1);
}
