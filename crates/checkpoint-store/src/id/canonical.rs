//! What each ID of an array is known by, equal exactly where the IDs are equal: read from the array's own buffers.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};

use super::class::IdClass;
use crate::error::{Error, Result};

/// What one ID is known by, among IDs of its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    /// Types that fit a wide integer.
    Int(i128),
    /// All others, by their bytes.
    Bytes(&'a [u8]),
}

/// The keys of one array. What the key of a null is means nothing.
#[derive(Debug, Clone)]
pub(crate) struct Canonical {
    array: ArrayRef,
    /// The bytes of structs, which no buffer holds.
    structs: Option<Joined>,
}

/// Values one after the other.
#[derive(Debug, Clone, Default)]
struct Joined {
    ends: Vec<usize>,
    data: Vec<u8>,
}

impl Canonical {
    /// The keys of an array of any encoding.
    ///
    /// # Errors
    /// `BadData` for a type that cannot be the ID.
    pub(crate) fn new(array: &ArrayRef) -> Result<Self> {
        IdClass::of(array.data_type())?;
        let array = apart(array)?;
        let structs = match array.data_type() {
            DataType::Struct(_) => Some(join_structs(&array)?),
            _ => None,
        };
        Ok(Self { array, structs })
    }

    /// Calls `take` with each row of these and its key, in order.
    pub(crate) fn visit(&self, rows: Range<usize>, mut take: impl FnMut(usize, Key<'_>)) {
        const BLOCK: usize = 64;
        if are_values(self.array.data_type()) {
            for start in rows.clone().step_by(BLOCK) {
                let mut values = [0i128; BLOCK];
                let values = &mut values[..BLOCK.min(rows.end - start)];
                fill_values(&self.array, start, values, |value| value, i128::MAX);
                values.iter().enumerate().for_each(|(i, value)| take(start + i, Key::Int(*value)));
            }
            return;
        }
        self.visit_bytes(rows, |row, bytes| take(row, Key::Bytes(bytes)));
    }

    /// As [`Canonical::visit`], for types that do not fit an integer; does nothing for those that do.
    #[inline(always)]
    pub(super) fn visit_bytes(&self, rows: Range<usize>, mut take: impl FnMut(usize, &[u8])) {
        match &self.structs {
            None => each_bytes(&self.array, rows, take),
            Some(joined) => {
                for row in rows {
                    let start = if row == 0 { 0 } else { joined.ends[row - 1] };
                    take(row, &joined.data[start..joined.ends[row]]);
                }
            }
        }
    }

    /// The array whose values these are: no dictionary, no run-end encoding.
    pub(super) fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// The key of each row, copied.
    pub(crate) fn copied(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        const BLOCK: usize = 1024;
        (0..self.array.len()).step_by(BLOCK).flat_map(move |start| {
            let end = self.array.len().min(start + BLOCK);
            let mut keys = Vec::with_capacity(end - start);
            self.visit(start..end, |_, key| {
                keys.push(match key {
                    Key::Int(value) => value.to_be_bytes().to_vec(),
                    Key::Bytes(bytes) => bytes.to_vec(),
                });
            });
            keys
        })
    }
}

/// Whether IDs of a type are known by an integer.
fn are_values(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Time32, Time64, Timestamp};
    data_type.is_integer() || matches!(data_type, Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..))
}

/// Takes dictionaries and runs apart; nothing changes its value.
pub(super) fn apart(array: &ArrayRef) -> Result<ArrayRef> {
    let target = match array.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        _ => return Ok(array.clone()),
    };
    apart(&cast_to(array, &target)?)
}

/// Makes another type of the same values; more than 2 GiB of text or binary in one array gets wide offsets.
pub(super) fn cast_to(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let wide = match target {
        DataType::Utf8 => DataType::LargeUtf8,
        DataType::Binary => DataType::LargeBinary,
        other => other.clone(),
    };
    let made = cast(array, target).or_else(|_| cast(array, &wide));
    made.map_err(|e| Error::bad_data("an ID column cannot be encoded").with_source(e))
}

/// Makes what `make` says of the integers of the rows from `start` on: dates in milliseconds, times and timestamps in
/// nanoseconds. `none` for all of them where the array has no integers.
#[inline]
pub(super) fn fill_values<T: Copy>(
    array: &dyn Array,
    start: usize,
    out: &mut [T],
    make: impl Fn(i128) -> T + Copy,
    none: T,
) {
    const DAY: i128 = 86_400_000;
    fn scaled<P, T>(array: &dyn Array, start: usize, out: &mut [T], factor: i128, make: impl Fn(i128) -> T)
    where
        P: ArrowPrimitiveType<Native: Into<i128>>,
    {
        let values = &array.as_primitive::<P>().values()[start..start + out.len()];
        for (made, value) in out.iter_mut().zip(values) {
            let value: i128 = (*value).into();
            *made = make(value * factor);
        }
    }
    macro_rules! each {
        ($primitive:ty, $factor:expr) => {
            scaled::<$primitive, T>(array, start, out, $factor, make)
        };
    }
    match array.data_type() {
        DataType::Int8 => each!(Int8Type, 1),
        DataType::Int16 => each!(Int16Type, 1),
        DataType::Int32 => each!(Int32Type, 1),
        DataType::Int64 => each!(Int64Type, 1),
        DataType::UInt8 => each!(UInt8Type, 1),
        DataType::UInt16 => each!(UInt16Type, 1),
        DataType::UInt32 => each!(UInt32Type, 1),
        DataType::UInt64 => each!(UInt64Type, 1),
        DataType::Date32 => each!(Date32Type, DAY),
        DataType::Date64 => each!(Date64Type, 1),
        DataType::Time32(TimeUnit::Second) => each!(Time32SecondType, 1_000_000_000),
        DataType::Time32(_) => each!(Time32MillisecondType, 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => each!(Time64MicrosecondType, 1_000),
        DataType::Time64(_) => each!(Time64NanosecondType, 1),
        DataType::Timestamp(TimeUnit::Second, _) => each!(TimestampSecondType, 1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => each!(TimestampMillisecondType, 1_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => each!(TimestampMicrosecondType, 1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => each!(TimestampNanosecondType, 1),
        _ => {
            let values = array.as_boolean_opt();
            for (i, made) in out.iter_mut().enumerate() {
                *made = values.map_or(none, |values| make(i128::from(values.value(start + i))));
            }
        }
    }
}

/// Calls `take` with each row of these and the bytes that it is known by; does nothing for types that are known by an
/// integer, and for structs.
#[inline(always)]
fn each_bytes(array: &dyn Array, rows: Range<usize>, mut take: impl FnMut(usize, &[u8])) {
    macro_rules! each {
        ($array:expr, |$value:ident| $bytes:expr) => {{
            let array = $array;
            for row in rows {
                let $value = array.value(row);
                take(row, $bytes.as_ref());
            }
        }};
    }
    match array.data_type() {
        DataType::Utf8 => each!(array.as_string::<i32>(), |v| v),
        DataType::LargeUtf8 => each!(array.as_string::<i64>(), |v| v),
        DataType::Utf8View => each!(array.as_string_view(), |v| v),
        DataType::Binary => each!(array.as_binary::<i32>(), |v| v),
        DataType::LargeBinary => each!(array.as_binary::<i64>(), |v| v),
        DataType::BinaryView => each!(array.as_binary_view(), |v| v),
        DataType::FixedSizeBinary(_) => each!(array.as_fixed_size_binary(), |v| v),
        DataType::Decimal32(..) => {
            each!(array.as_primitive::<Decimal32Type>(), |v| i256::from_i128(v.into()).to_be_bytes())
        }
        DataType::Decimal64(..) => {
            each!(array.as_primitive::<Decimal64Type>(), |v| i256::from_i128(v.into()).to_be_bytes())
        }
        DataType::Decimal128(..) => each!(array.as_primitive::<Decimal128Type>(), |v| i256::from_i128(v).to_be_bytes()),
        DataType::Decimal256(..) => each!(array.as_primitive::<Decimal256Type>(), |v| v.to_be_bytes()),
        _ => {}
    }
}

/// A struct is its fields in order, each with a mark for null and its length, so that no two differ in nothing but
/// where one field ends.
fn join_structs(array: &ArrayRef) -> Result<Joined> {
    let mut fields = Vec::new();
    for column in array.as_struct().columns() {
        fields.push((column.logical_nulls(), Canonical::new(column)?));
    }
    let mut joined = Joined::default();
    for row in 0..array.len() {
        for (nulls, field) in &fields {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                joined.data.push(0);
                continue;
            }
            joined.data.push(1);
            field.visit(row..row + 1, |_, key| match key {
                Key::Int(value) => joined.data.extend_from_slice(&value.to_be_bytes()),
                Key::Bytes(bytes) => {
                    joined.data.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
                    joined.data.extend_from_slice(bytes);
                }
            });
        }
        joined.ends.push(joined.data.len());
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Date32Array, Date64Array, Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array,
        FixedSizeBinaryArray, Int8Array, Int32Array, Int64Array, StringArray, StringViewArray, StructArray,
        Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray,
        TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
        UInt64Array,
    };
    use arrow::datatypes::Field;

    use super::*;

    fn keys(array: impl Array + 'static) -> Vec<Vec<u8>> {
        let array: ArrayRef = Arc::new(array);
        Canonical::new(&array).unwrap().copied().collect()
    }

    /// Checksums of records and the hashes of saved sets are made of these: they never change.
    #[test]
    fn the_keys_are_those_that_are_written_down() {
        let int = |value: i128| vec![value.to_be_bytes().to_vec()];
        let extreme = i64::MIN;
        assert_eq!(keys(Int8Array::from(vec![-128])), int(-128));
        assert_eq!(keys(Int64Array::from(vec![extreme])), int(extreme.into()));
        assert_eq!(keys(UInt64Array::from(vec![u64::MAX])), int(u64::MAX.into()));
        assert_eq!(keys(BooleanArray::from(vec![true])), int(1));
        assert_eq!(keys(Date32Array::from(vec![i32::MIN])), int(i128::from(i32::MIN) * 86_400_000));
        assert_eq!(keys(Date64Array::from(vec![-7])), int(-7));
        assert_eq!(keys(Time32SecondArray::from(vec![7])), int(7_000_000_000));
        assert_eq!(keys(Time32MillisecondArray::from(vec![7])), int(7_000_000));
        assert_eq!(keys(Time64MicrosecondArray::from(vec![7])), int(7_000));
        assert_eq!(keys(Time64NanosecondArray::from(vec![7])), int(7));
        assert_eq!(keys(TimestampSecondArray::from(vec![extreme])), int(i128::from(extreme) * 1_000_000_000));
        assert_eq!(keys(TimestampMillisecondArray::from(vec![extreme])), int(i128::from(extreme) * 1_000_000));
        assert_eq!(keys(TimestampMicrosecondArray::from(vec![extreme])), int(i128::from(extreme) * 1_000));
        assert_eq!(keys(TimestampNanosecondArray::from(vec![extreme])), int(extreme.into()));
        let wide = |value: i128| vec![i256::from_i128(value).to_be_bytes().to_vec()];
        assert_eq!(keys(Decimal32Array::from(vec![-5])), wide(-5));
        assert_eq!(keys(Decimal64Array::from(vec![-5])), wide(-5));
        assert_eq!(keys(Decimal128Array::from(vec![-(1 << 100)])), wide(-(1 << 100)));
        assert_eq!(keys(Decimal256Array::from(vec![i256::MIN])), vec![i256::MIN.to_be_bytes().to_vec()]);
        assert_eq!(keys(StringArray::from(vec!["é", ""])), [vec![0xC3, 0xA9], vec![]]);
        assert_eq!(keys(StringViewArray::from(vec!["longer than a view holds"])), [b"longer than a view holds"]);
        let fixed = FixedSizeBinaryArray::try_from_iter([[0u8, 1]].into_iter()).unwrap();
        assert_eq!(keys(fixed), [[0, 1]]);
    }

    #[test]
    fn structs_are_their_fields_with_marks_and_lengths() {
        let a: ArrayRef = Arc::new(Int32Array::from(vec![Some(258), None]));
        let b: ArrayRef = Arc::new(StringArray::from(vec!["xy", ""]));
        let fields = StructArray::from(vec![
            (Arc::new(Field::new("a", DataType::Int32, true)), a),
            (Arc::new(Field::new("b", DataType::Utf8, true)), b),
        ]);
        let first = [&[1][..], &258i128.to_be_bytes(), &[1], &2u64.to_be_bytes(), b"xy"].concat();
        let second = [&[0, 1][..], &0u64.to_be_bytes()].concat();
        assert_eq!(keys(fields.clone()), [first.clone(), second.clone()]);
        assert_eq!(keys(fields.slice(1, 1)), std::slice::from_ref(&second));
        let outer = StructArray::from(vec![(
            Arc::new(Field::new("s", fields.data_type().clone(), true)),
            Arc::new(fields) as ArrayRef,
        )]);
        let inner = [&[1][..], &(first.len() as u64).to_be_bytes(), &first].concat();
        assert_eq!(keys(outer)[0], inner);
    }

    #[test]
    fn floats_and_lists_have_no_keys() {
        let floats: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![1.0]));
        assert_eq!(Canonical::new(&floats).unwrap_err().kind(), crate::ErrorKind::BadData);
    }
}
