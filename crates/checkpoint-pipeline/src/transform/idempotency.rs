//! A batch's key: the same for the same IDs, whoever asks, in every attempt.

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal256Type, Int64Type, TimeUnit, UInt64Type, i256};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use sha2::{Digest, Sha256};

/// The key of a batch with these IDs: 32 hex digits of a SHA-256 over their number and their values in order.
///
/// Equal values give equal keys whatever Arrow makes of them: dictionary, large, view or run-end encoded,
/// any integer width, any decimal precision and scale, any unit of time and any zone. A number and a text
/// never agree. The encoding below is fixed: keys live on in other people's databases.
pub fn idempotency_key(id_column: &ArrayRef) -> String {
    let mut hash = Sha256::new();
    hash.update(b"ckpt batch 1");
    hash.update((id_column.len() as u64).to_le_bytes());
    let values = Values::new(id_column);
    for row in 0..id_column.len() {
        values.hash(row, &mut hash);
    }
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A column in the one form that its values are hashed in: a tag for the kind, then the value. Lengths
/// precede what varies, so no two sequences of values run into the same bytes.
enum Values {
    /// `i`, 16 bytes little-endian.
    Signed(ArrayRef),
    /// As `Signed`.
    Unsigned(ArrayRef),
    /// `s` (text) or `b` (binary), length, bytes.
    Bytes(u8, LargeBinaryArray),
    /// `o`, one byte.
    Bool(ArrayRef),
    /// `d`, length, unscaled digits without trailing zeros, scale.
    Decimal(ArrayRef, i8),
    /// `t` (instant), `y` (date) or `c` (time of day): nanoseconds, 16 bytes little-endian.
    Time(u8, ArrayRef, i128),
    /// `r`, number of fields, each field.
    Struct(StructArray, Vec<Values>),
    /// `x`, length, text: anything else, none of which can be an ID.
    Other(ArrayRef),
}

impl Values {
    fn new(array: &ArrayRef) -> Self {
        Self::try_new(array).unwrap_or_else(|_| Values::Other(array.clone()))
    }

    fn try_new(array: &ArrayRef) -> Result<Self, ArrowError> {
        use DataType as T;
        let data_type = array.data_type();
        Ok(match data_type {
            T::Dictionary(_, values) => Self::new(&cast(array, values)?),
            T::RunEndEncoded(_, values) => Self::new(&cast(array, values.data_type())?),
            t if t.is_signed_integer() => Values::Signed(cast(array, &T::Int64)?),
            t if t.is_unsigned_integer() => Values::Unsigned(cast(array, &T::UInt64)?),
            T::Utf8 | T::LargeUtf8 | T::Utf8View => Self::bytes(b's', &cast(array, &T::LargeUtf8)?)?,
            T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => Self::bytes(b'b', array)?,
            T::Boolean => Values::Bool(array.clone()),
            T::Decimal32(_, scale) | T::Decimal64(_, scale) | T::Decimal128(_, scale) | T::Decimal256(_, scale) => {
                Values::Decimal(cast(array, &T::Decimal256(76, *scale))?, *scale)
            }
            T::Timestamp(unit, _) => {
                let plain = cast(array, &T::Timestamp(*unit, None))?;
                Values::Time(b't', cast(&plain, &T::Int64)?, nanos(*unit))
            }
            T::Date32 => Values::Time(b'y', cast(&cast(array, &T::Int32)?, &T::Int64)?, 86_400 * 1_000_000_000),
            T::Date64 => Values::Time(b'y', cast(array, &T::Int64)?, 1_000_000),
            T::Time32(unit) => Values::Time(b'c', cast(&cast(array, &T::Int32)?, &T::Int64)?, nanos(*unit)),
            T::Time64(unit) => Values::Time(b'c', cast(array, &T::Int64)?, nanos(*unit)),
            T::Struct(_) => {
                let rows = array.as_struct();
                Values::Struct(rows.clone(), rows.columns().iter().map(Values::new).collect())
            }
            _ => Values::Other(array.clone()),
        })
    }

    fn bytes(tag: u8, array: &ArrayRef) -> Result<Self, ArrowError> {
        Ok(Values::Bytes(tag, cast(array, &DataType::LargeBinary)?.as_binary::<i64>().clone()))
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Values::Bytes(_, array) => array.is_null(row),
            Values::Struct(array, _) => array.is_null(row),
            Values::Signed(array)
            | Values::Unsigned(array)
            | Values::Bool(array)
            | Values::Decimal(array, _)
            | Values::Time(_, array, _)
            | Values::Other(array) => array.is_null(row),
        }
    }

    fn hash(&self, row: usize, hash: &mut Sha256) {
        if self.is_null(row) {
            return hash.update(b"n");
        }
        match self {
            Values::Signed(array) => integer(b'i', array.as_primitive::<Int64Type>().value(row).into(), hash),
            Values::Unsigned(array) => integer(b'i', array.as_primitive::<UInt64Type>().value(row).into(), hash),
            Values::Bytes(tag, array) => text(*tag, array.value(row), hash),
            Values::Bool(array) => hash.update([b'o', u8::from(array.as_boolean().value(row))]),
            Values::Decimal(array, scale) => {
                let (value, scale) = plain_decimal(array.as_primitive::<Decimal256Type>().value(row), *scale);
                text(b'd', value.to_string().as_bytes(), hash);
                hash.update(scale.to_le_bytes());
            }
            Values::Time(tag, array, scale) => {
                integer(*tag, i128::from(array.as_primitive::<Int64Type>().value(row)) * scale, hash);
            }
            Values::Struct(_, fields) => {
                hash.update(b"r");
                hash.update((fields.len() as u64).to_le_bytes());
                fields.iter().for_each(|field| field.hash(row, hash));
            }
            Values::Other(array) => {
                let shown = ArrayFormatter::try_new(array.as_ref(), &FormatOptions::new())
                    .and_then(|formatter| formatter.value(row).try_to_string());
                text(b'x', shown.unwrap_or_default().as_bytes(), hash);
            }
        }
    }
}

fn integer(tag: u8, value: i128, hash: &mut Sha256) {
    hash.update([tag]);
    hash.update(value.to_le_bytes());
}

fn text(tag: u8, bytes: &[u8], hash: &mut Sha256) {
    hash.update([tag]);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// The same number without trailing zeros.
fn plain_decimal(mut value: i256, scale: i8) -> (i256, i16) {
    let (zero, ten) = (i256::from_i128(0), i256::from_i128(10));
    let mut scale = i16::from(scale);
    if value == zero {
        return (value, 0);
    }
    while value % ten == zero {
        value /= ten;
        scale -= 1;
    }
    (value, scale)
}

fn nanos(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::*;
    use arrow::datatypes::{Field, Int8Type};

    use super::*;

    fn key(array: impl Array + 'static) -> String {
        idempotency_key(&(Arc::new(array) as ArrayRef))
    }

    fn as_type(array: impl Array + 'static, data_type: &DataType) -> String {
        idempotency_key(&cast(&array, data_type).expect("casts"))
    }

    #[test]
    fn the_encoding_is_fixed() {
        assert_eq!(key(Int64Array::from(vec![1, -2, i64::MAX])), "414807193fdfc309c8417895a6f58d46");
        assert_eq!(key(StringArray::from(vec!["a", "\u{e9}"])), "c212e5feaec86cbf403da27fad5f917b");
    }

    #[test]
    fn equal_values_have_equal_keys_whatever_holds_them() {
        let ints = || Int64Array::from(vec![Some(1), None, Some(100)]);
        for t in [DataType::Int8, DataType::Int32, DataType::UInt8, DataType::UInt64] {
            assert_eq!(as_type(ints(), &t), key(ints()), "{t}");
        }
        let words = || StringArray::from(vec![Some("b"), None, Some(""), Some("b")]);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8View));
        for t in [DataType::LargeUtf8, DataType::Utf8View, dictionary] {
            assert_eq!(as_type(words(), &t), key(words()), "{t}");
        }
        let blobs = || BinaryArray::from(vec![&b"ab"[..], b"\x00\xff"]);
        for t in [DataType::LargeBinary, DataType::BinaryView, DataType::FixedSizeBinary(2)] {
            assert_eq!(as_type(blobs(), &t), key(blobs()), "{t}");
        }
        let decimals = || Decimal128Array::from(vec![150, 0, -1000]).with_precision_and_scale(9, 2).expect("valid");
        for t in [DataType::Decimal32(9, 2), DataType::Decimal128(38, 10), DataType::Decimal256(76, 3)] {
            assert_eq!(as_type(decimals(), &t), key(decimals()), "{t}");
        }
        let stamps = || TimestampSecondArray::from(vec![0, 1_700_000_000]);
        assert_eq!(as_type(stamps(), &DataType::Timestamp(TimeUnit::Nanosecond, None)), key(stamps()));
        assert_eq!(key(stamps().with_timezone("Asia/Tokyo")), key(stamps()));
        assert_eq!(as_type(Date32Array::from(vec![1, -1]), &DataType::Date64), key(Date32Array::from(vec![1, -1])));
        assert_eq!(
            as_type(Time32SecondArray::from(vec![5]), &DataType::Time64(TimeUnit::Nanosecond)),
            key(Time32SecondArray::from(vec![5]))
        );
        let sliced = StringArray::from(vec!["x", "a", "b"]).slice(1, 2);
        assert_eq!(key(sliced), key(StringArray::from(vec!["a", "b"])));
    }

    #[test]
    fn different_batches_have_different_keys() {
        let pair = |a: i8, b: &str| {
            StructArray::from(vec![
                (Arc::new(Field::new("a", DataType::Int8, true)), Arc::new(Int8Array::from(vec![a])) as ArrayRef),
                (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from(vec![b]))),
            ])
        };
        let keys = [
            key(Int64Array::from(vec![1, 2])),
            key(Int64Array::from(vec![2, 1])),
            key(Int64Array::from(vec![1])),
            key(Int64Array::from(vec![Some(1), None])),
            key(UInt64Array::from(vec![u64::MAX])),
            key(Int64Array::from(vec![-1])),
            key(StringArray::from(vec!["1", "2"])),
            key(StringArray::from(vec!["12", ""])),
            key(BinaryArray::from(vec![&b"1"[..], b"2"])),
            key(StringArray::from(vec!["\u{e9}"])),
            key(StringArray::from(vec!["e\u{301}"])),
            key(BooleanArray::from(vec![true])),
            key(Date32Array::from(vec![1])),
            key(TimestampSecondArray::from(vec![86_400])),
            key(pair(1, "2")),
            key(pair(12, "")),
            key(Float64Array::from(vec![1.0])),
            key(Float64Array::from(vec![2.0])),
            key(Int64Array::from(Vec::<i64>::new())),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert_eq!(a.len(), 32);
            assert!(keys[..i].iter().all(|b| b != a), "{i}");
        }
        let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
        dictionary.append_value("1");
        dictionary.append_value("2");
        assert_eq!(key(dictionary.finish()), keys[6]);
    }
}
