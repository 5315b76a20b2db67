//! The keys of an Arrow array, block by block, straight from its buffers.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};

use super::class::IdClass;
use super::hash::IdHasher;
use super::key_map::{KeyMap, Layout, key_of_value};
use super::keys::{self, IdColumn};
use crate::error::{Error, Result};
use crate::row_hash::unmix;

/// The key of no ID at all.
const NO_KEY: u128 = u128::MAX;

/// The keys of one array. What the key of a null is means nothing.
#[derive(Debug)]
pub(super) struct KeySource {
    layout: Layout,
    hasher: IdHasher,
    array: ArrayRef,
    /// The keys, where they cannot be made from the buffers in place.
    ready: Option<Vec<u128>>,
}

impl KeySource {
    /// How many rows are best made at once.
    pub(super) const BLOCK: usize = 128;

    /// The source for an array of the map's class.
    pub(super) fn new(map: &KeyMap, array: &ArrayRef) -> Result<Self> {
        let class = IdClass::of(array.data_type())?;
        if class != *map.class() {
            return Err(differing(map.class(), &class));
        }
        let array = match array.data_type() {
            DataType::Dictionary(..) | DataType::RunEndEncoded(..) => keys::plain(array)?,
            _ => array.clone(),
        };
        let hasher = map.hasher();
        let ready = match array.data_type() {
            DataType::Struct(_) => {
                let keys = IdColumn::encode_any(&array)?;
                Some((0..array.len()).map(|row| hasher.key(keys.bytes(row).unwrap_or(&[]))).collect())
            }
            _ => None,
        };
        Ok(Self { layout: map.layout(), hasher, array, ready })
    }

    /// Makes the keys of the rows from `start` on.
    pub(super) fn fill(&self, start: usize, out: &mut [u128]) {
        if let Some(ready) = &self.ready {
            return out.copy_from_slice(&ready[start..start + out.len()]);
        }
        match self.layout {
            Layout::Values => self.fill_values(start, out),
            Layout::RowHash => self.fill_row_hashes(start, out),
            Layout::Hashed => self.fill_hashes(start, out),
        }
    }

    fn scaled<T: ArrowPrimitiveType<Native: Into<i128>>>(&self, start: usize, out: &mut [u128], factor: i128) {
        let values = &self.array.as_primitive::<T>().values()[start..start + out.len()];
        for (key, value) in out.iter_mut().zip(values) {
            let value: i128 = (*value).into();
            *key = key_of_value(value * factor);
        }
    }

    fn fill_values(&self, start: usize, out: &mut [u128]) {
        const DAY: i128 = 86_400_000;
        match self.array.data_type() {
            DataType::Int8 => self.scaled::<Int8Type>(start, out, 1),
            DataType::Int16 => self.scaled::<Int16Type>(start, out, 1),
            DataType::Int32 => self.scaled::<Int32Type>(start, out, 1),
            DataType::Int64 => self.scaled::<Int64Type>(start, out, 1),
            DataType::UInt8 => self.scaled::<UInt8Type>(start, out, 1),
            DataType::UInt16 => self.scaled::<UInt16Type>(start, out, 1),
            DataType::UInt32 => self.scaled::<UInt32Type>(start, out, 1),
            DataType::UInt64 => self.scaled::<UInt64Type>(start, out, 1),
            DataType::Date32 => self.scaled::<Date32Type>(start, out, DAY),
            DataType::Date64 => self.scaled::<Date64Type>(start, out, 1),
            DataType::Time32(TimeUnit::Second) => self.scaled::<Time32SecondType>(start, out, 1_000_000_000),
            DataType::Time32(_) => self.scaled::<Time32MillisecondType>(start, out, 1_000_000),
            DataType::Time64(TimeUnit::Microsecond) => self.scaled::<Time64MicrosecondType>(start, out, 1_000),
            DataType::Time64(_) => self.scaled::<Time64NanosecondType>(start, out, 1),
            DataType::Timestamp(TimeUnit::Second, _) => self.scaled::<TimestampSecondType>(start, out, 1_000_000_000),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.scaled::<TimestampMillisecondType>(start, out, 1_000_000);
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => self.scaled::<TimestampMicrosecondType>(start, out, 1_000),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => self.scaled::<TimestampNanosecondType>(start, out, 1),
            // Booleans: what else is of these classes is above.
            _ => {
                let values = self.array.as_boolean_opt();
                for (i, key) in out.iter_mut().enumerate() {
                    *key = values.map_or(NO_KEY, |v| key_of_value(i128::from(v.value(start + i))));
                }
            }
        }
    }

    fn fill_row_hashes(&self, start: usize, out: &mut [u128]) {
        if let Some(hashes) = self.array.as_primitive_opt::<UInt64Type>() {
            let hashes = &hashes.values()[start..start + out.len()];
            for (key, hash) in out.iter_mut().zip(hashes) {
                *key = u128::from(unmix(*hash));
            }
            return;
        }
        self.fill_values(start, out);
        for key in out {
            *key = u64::try_from(key_of_value(*key as i128)).map_or(NO_KEY, |hash| u128::from(unmix(hash)));
        }
    }

    fn decimals<T: ArrowPrimitiveType>(&self, start: usize, out: &mut [u128], wide: impl Fn(T::Native) -> i256) {
        let values = &self.array.as_primitive::<T>().values()[start..start + out.len()];
        for (key, value) in out.iter_mut().zip(values) {
            *key = self.hasher.key(&wide(*value).to_be_bytes());
        }
    }

    fn fill_hashes(&self, start: usize, out: &mut [u128]) {
        let (array, hasher) = (&self.array, &self.hasher);
        macro_rules! each {
            ($values:expr) => {{
                let values = $values;
                for (i, key) in out.iter_mut().enumerate() {
                    *key = hasher.key(values.value(start + i).as_ref());
                }
            }};
        }
        match array.data_type() {
            DataType::Utf8 => each!(array.as_string::<i32>()),
            DataType::LargeUtf8 => each!(array.as_string::<i64>()),
            DataType::Utf8View => each!(array.as_string_view()),
            DataType::Binary => each!(array.as_binary::<i32>()),
            DataType::LargeBinary => each!(array.as_binary::<i64>()),
            DataType::BinaryView => each!(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => each!(array.as_fixed_size_binary()),
            DataType::Decimal32(..) => self.decimals::<Decimal32Type>(start, out, |v| i256::from_i128(v.into())),
            DataType::Decimal64(..) => self.decimals::<Decimal64Type>(start, out, |v| i256::from_i128(v.into())),
            DataType::Decimal128(..) => self.decimals::<Decimal128Type>(start, out, i256::from_i128),
            // Decimal256: what else is of these classes is above, or ready.
            _ if array.as_primitive_opt::<Decimal256Type>().is_some() => {
                self.decimals::<Decimal256Type>(start, out, |v| v);
            }
            _ => out.fill(NO_KEY),
        }
    }
}

/// Two classes where one was meant.
pub(super) fn differing(committed: &IdClass, given: &IdClass) -> Error {
    Error::bad_data(format!("IDs of different types do not compare: committed={committed} given={given}"))
        .with_hint("the ID column changed its type since the checkpoint began; use a fresh checkpoint and output")
}
