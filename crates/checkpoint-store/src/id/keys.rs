//! One canonical key per ID value, equal exactly where the values are equal.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Decimal256Array, Int64Array, StringArray, UInt64Array, downcast_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::class::IdClass;
use crate::error::{Error, Result};

/// The canonical keys of one array.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// Types that fit a wide integer.
    Int(Vec<i128>),
    /// All others, by their bytes.
    Bytes {
        /// Where each value ends in `data`.
        ends: Vec<usize>,
        /// The values, one after the other.
        data: Vec<u8>,
    },
}

impl Keys {
    pub(crate) fn bytes(&self, row: usize) -> Option<&[u8]> {
        match self {
            Keys::Int(_) => None,
            Keys::Bytes { ends, data } => Some(&data[if row == 0 { 0 } else { ends[row - 1] }..ends[row]]),
        }
    }
}

/// A column of IDs that is fit to name rows: a permitted type, no nulls, no empty values.
#[derive(Debug, Clone)]
pub struct IdColumn {
    array: ArrayRef,
    class: IdClass,
    keys: Keys,
}

/// What is wrong with a column of IDs, by row in the array.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdProblem {
    /// The ID is null.
    Null {
        /// The row.
        row: usize,
    },
    /// The ID is an empty string or an empty binary.
    Empty {
        /// The row.
        row: usize,
    },
    /// Two rows have the same ID.
    Duplicate {
        /// The row that came first.
        first: usize,
        /// The row that repeats it.
        second: usize,
        /// The ID, as people read it.
        id: String,
    },
}

impl fmt::Display for IdProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null { row } => write!(f, "the ID is null: row={row}"),
            Self::Empty { row } => write!(f, "the ID is empty: row={row}"),
            Self::Duplicate { first, second, id } => write!(f, "an ID occurs twice: id={id} rows={first},{second}"),
        }
    }
}

impl IdColumn {
    /// Checks and encodes a column.
    ///
    /// # Errors
    /// The outer error for a type that cannot be the ID; the inner problem for a null or empty value.
    pub fn try_new(array: &ArrayRef) -> Result<Result<Self, IdProblem>> {
        let class = IdClass::of(array.data_type())?;
        let array = plain(array)?;
        if array.null_count() > 0 {
            let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or_default();
            return Ok(Err(IdProblem::Null { row }));
        }
        let keys = encode(&array)?;
        if matches!(class, IdClass::Text | IdClass::Binary)
            && let Some(row) = (0..array.len()).find(|row| keys.bytes(*row).is_some_and(<[u8]>::is_empty))
        {
            return Ok(Err(IdProblem::Empty { row }));
        }
        Ok(Ok(Self { array, class, keys }))
    }

    /// The keys of an array that may hold nulls; what a null's key is means nothing.
    pub(crate) fn encode_any(array: &ArrayRef) -> Result<Keys> {
        encode(&plain(array)?)
    }

    /// The values, dictionaries and views made plain.
    pub fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// How the values compare.
    pub fn class(&self) -> &IdClass {
        &self.class
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.array.is_empty()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The canonical key of each value, as bytes: equal exactly where the values are equal, among columns
    /// of one class.
    pub fn canonical_keys(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        (0..self.len()).map(|row| match &self.keys {
            Keys::Int(keys) => keys[row].to_be_bytes().to_vec(),
            keys => keys.bytes(row).unwrap_or(&[]).to_vec(),
        })
    }

    /// Every value's canonical key in turn, the length of those that vary before them.
    pub(crate) fn each_key(&self, mut take: impl FnMut(&[u8])) {
        match &self.keys {
            Keys::Int(keys) => keys.iter().for_each(|key| take(&key.to_be_bytes())),
            keys => (0..self.len()).filter_map(|row| keys.bytes(row)).for_each(|key| {
                take(&(key.len() as u64).to_be_bytes());
                take(key);
            }),
        }
    }

    /// The first ID that occurs twice.
    pub fn duplicate(&self) -> Option<IdProblem> {
        let (first, second) = match &self.keys {
            Keys::Int(keys) => first_repeat(keys.iter())?,
            Keys::Bytes { .. } => first_repeat((0..self.len()).map(|row| self.keys.bytes(row)))?,
        };
        Some(IdProblem::Duplicate { first, second, id: show_id(&self.array, second) })
    }
}

fn first_repeat<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> Option<(usize, usize)> {
    let mut seen = HashMap::new();
    keys.enumerate().find_map(|(row, key)| Some((seen.insert(key, row)?, row)))
}

/// An ID as people read it, cut at 80 characters.
pub fn show_id(array: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default();
    let text = match ArrayFormatter::try_new(array.as_ref(), &options) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => String::from("?"),
    };
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Takes dictionaries, runs and views apart; nothing changes its value.
pub(crate) fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    let target = match array.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        _ => return Ok(array.clone()),
    };
    let cast_array = match cast(array, &target) {
        Ok(array) => array,
        // More than 2 GiB of text in one batch does not fit 32-bit offsets.
        Err(_) if target == DataType::Utf8 => cast(array, &DataType::LargeUtf8).map_err(not_encoded)?,
        Err(_) if target == DataType::Binary => cast(array, &DataType::LargeBinary).map_err(not_encoded)?,
        Err(error) => return Err(not_encoded(error)),
    };
    plain(&cast_array)
}

fn not_encoded(error: arrow::error::ArrowError) -> Error {
    Error::bad_data("an ID column cannot be encoded").with_source(error)
}

/// Encodes a plain array; values under a null are whatever they are.
fn encode(array: &ArrayRef) -> Result<Keys> {
    let scaled = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let as_int64 = |factor: i128| -> Result<Keys> {
        let wide: Int64Array = downcast_array(&cast(array, &DataType::Int64).map_err(not_encoded)?);
        Ok(Keys::Int(wide.values().iter().map(|v| i128::from(*v) * factor).collect()))
    };
    match array.data_type() {
        DataType::UInt64 => {
            let wide: UInt64Array = downcast_array(array);
            Ok(Keys::Int(wide.values().iter().map(|v| i128::from(*v)).collect()))
        }
        data_type if data_type.is_integer() => as_int64(1),
        DataType::Boolean => {
            let values = array.as_boolean().values();
            Ok(Keys::Int(values.iter().map(i128::from).collect()))
        }
        DataType::Date32 => {
            let days = cast(array, &DataType::Int32).map_err(not_encoded)?;
            let days = days.as_primitive::<arrow::datatypes::Int32Type>();
            Ok(Keys::Int(days.values().iter().map(|v| i128::from(*v) * 86_400_000).collect()))
        }
        DataType::Date64 => as_int64(1),
        DataType::Time32(unit) => {
            let values = cast(array, &DataType::Int32).map_err(not_encoded)?;
            let values = values.as_primitive::<arrow::datatypes::Int32Type>();
            Ok(Keys::Int(values.values().iter().map(|v| i128::from(*v) * scaled(unit)).collect()))
        }
        DataType::Time64(unit) => as_int64(scaled(unit)),
        DataType::Timestamp(unit, _) => as_int64(scaled(unit)),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let scale = match IdClass::of(array.data_type())? {
                IdClass::Decimal(scale) => scale,
                _ => 0,
            };
            let wide: Decimal256Array =
                downcast_array(&cast(array, &DataType::Decimal256(76, scale)).map_err(not_encoded)?);
            Ok(join(wide.values().iter().map(|v| v.to_be_bytes())))
        }
        DataType::Utf8 => {
            Ok(join(downcast_array::<StringArray>(array).iter().map(|v| v.unwrap_or("").as_bytes().to_vec())))
        }
        DataType::LargeUtf8 => Ok(join(array.as_string::<i64>().iter().map(|v| v.unwrap_or("").as_bytes()))),
        DataType::Binary => Ok(join(downcast_array::<BinaryArray>(array).iter().map(|v| v.unwrap_or(&[]).to_vec()))),
        DataType::LargeBinary => Ok(join(array.as_binary::<i64>().iter().map(|v| v.unwrap_or(&[])))),
        DataType::FixedSizeBinary(_) => Ok(join(array.as_fixed_size_binary().iter().map(|v| v.unwrap_or(&[])))),
        DataType::Struct(_) => encode_struct(array),
        other => Err(Error::bad_data(format!("this type cannot be the ID: type={other}"))),
    }
}

/// A struct is its fields in order, each with a mark for null and its length, so that no two differ in
/// nothing but where one field ends.
fn encode_struct(array: &ArrayRef) -> Result<Keys> {
    let parts = array.as_struct();
    let mut fields = Vec::with_capacity(parts.num_columns());
    for column in parts.columns() {
        let column = plain(column)?;
        let keys = encode(&column)?;
        fields.push((column, keys));
    }
    Ok(join((0..array.len()).map(|row| {
        let mut value = Vec::new();
        for (column, keys) in &fields {
            if column.is_null(row) {
                value.push(0);
                continue;
            }
            value.push(1);
            match keys {
                Keys::Int(keys) => value.extend_from_slice(&keys[row].to_be_bytes()),
                Keys::Bytes { .. } => {
                    let bytes = keys.bytes(row).unwrap_or(&[]);
                    value.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
                    value.extend_from_slice(bytes);
                }
            }
        }
        value
    })))
}

fn join(values: impl Iterator<Item = impl AsRef<[u8]>>) -> Keys {
    let (mut ends, mut data) = (Vec::with_capacity(values.size_hint().0), Vec::new());
    for value in values {
        data.extend_from_slice(value.as_ref());
        ends.push(data.len());
    }
    Keys::Bytes { ends, data }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, Int32Array, StringViewArray, StructArray, TimestampMillisecondArray, TimestampSecondArray,
    };
    use arrow::datatypes::{Field, Int8Type};

    use super::*;

    fn keys(array: impl Array + 'static) -> Vec<Vec<u8>> {
        let array: ArrayRef = Arc::new(array);
        let column = IdColumn::try_new(&array).unwrap().unwrap();
        (0..column.len())
            .map(|row| match column.keys() {
                Keys::Int(keys) => keys[row].to_be_bytes().to_vec(),
                keys => keys.bytes(row).unwrap().to_vec(),
            })
            .collect()
    }

    #[test]
    fn values_compare_across_widths_and_encodings() {
        assert_eq!(keys(Int32Array::from(vec![-1, 7])), keys(Int64Array::from(vec![-1, 7])));
        assert_eq!(keys(UInt64Array::from(vec![7])), keys(Int32Array::from(vec![7])));
        assert_ne!(keys(UInt64Array::from(vec![u64::MAX])), keys(Int64Array::from(vec![-1])));
        let dictionary: DictionaryArray<Int8Type> = vec!["b", "a", "b"].into_iter().collect();
        assert_eq!(keys(dictionary), keys(StringArray::from(vec!["b", "a", "b"])));
        assert_eq!(keys(StringViewArray::from(vec!["é"])), keys(StringArray::from(vec!["é"])));
        assert_ne!(keys(StringArray::from(vec!["é"])), keys(StringArray::from(vec!["e\u{301}"])));
        assert_eq!(keys(TimestampSecondArray::from(vec![5])), keys(TimestampMillisecondArray::from(vec![5000])));
    }

    #[test]
    fn integers_above_2_to_the_53_stay_apart() {
        let wide = keys(Int64Array::from(vec![1 << 53, (1 << 53) + 1, i64::MAX, i64::MAX - 1]));
        assert_eq!(wide.iter().collect::<std::collections::HashSet<_>>().len(), 4);
    }

    #[test]
    fn structs_do_not_run_into_each_other() {
        let of = |a: &str, b: &str| {
            keys(StructArray::from(vec![
                (Arc::new(Field::new("a", DataType::Utf8, true)), Arc::new(StringArray::from(vec![a])) as ArrayRef),
                (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from(vec![b])) as ArrayRef),
            ]))
        };
        assert_ne!(of("ab", "c"), of("a", "bc"));
        assert_eq!(of("ab", "c"), of("ab", "c"));
    }

    #[test]
    fn nulls_empties_and_repeats_are_found_by_row() {
        let problem = |a: ArrayRef| IdColumn::try_new(&a).unwrap().expect_err("has a problem");
        assert_eq!(problem(Arc::new(Int64Array::from(vec![Some(1), None]))), IdProblem::Null { row: 1 });
        assert_eq!(problem(Arc::new(StringArray::from(vec!["a", ""]))), IdProblem::Empty { row: 1 });
        let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a"]));
        let column = IdColumn::try_new(&ids).unwrap().unwrap();
        assert_eq!(column.duplicate(), Some(IdProblem::Duplicate { first: 0, second: 2, id: "a".into() }));
        let dictionary: DictionaryArray<Int8Type> = vec![Some("a"), None].into_iter().collect();
        assert_eq!(problem(Arc::new(dictionary)), IdProblem::Null { row: 1 });
    }
}
