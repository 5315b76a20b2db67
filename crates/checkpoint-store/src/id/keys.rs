//! Columns of IDs that are fit to name rows, and what can be wrong with them.

use std::fmt;

use arrow::array::{Array, ArrayRef, MutableArrayData, make_array};
use arrow::datatypes::DataType;

use super::canonical::{Canonical, Key, apart, cast_to};
use super::class::IdClass;
use super::unique::UniqueIds;
use crate::error::{Error, Result};

/// What may be held in vain without a copy.
const SLACK: usize = 4 << 10;

/// A column of IDs that is fit to name rows: a permitted type, no nulls, no empty values.
#[derive(Debug, Clone)]
pub struct IdColumn {
    array: ArrayRef,
    class: IdClass,
    keys: Canonical,
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
        let keys = Canonical::new(&array)?;
        if matches!(class, IdClass::Text | IdClass::Binary) {
            let mut empty = None;
            keys.visit_bytes(0..array.len(), |row, bytes| {
                if bytes.is_empty() && empty.is_none() {
                    empty = Some(row);
                }
            });
            if let Some(row) = empty {
                return Ok(Err(IdProblem::Empty { row }));
            }
        }
        Ok(Ok(Self { array, class, keys }))
    }

    /// As [`IdColumn::try_new`], where any problem is an error.
    ///
    /// # Errors
    /// `BadData` too for a null or empty value.
    pub fn checked(array: &ArrayRef) -> Result<Self> {
        Self::try_new(array)?.map_err(|problem| Error::bad_data(problem.to_string()))
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

    /// The same values in memory of their own, where they are a small part of what is held for them: all columns of a
    /// batch of Arrow IPC are parts of one buffer.
    pub(crate) fn released(&self) -> Self {
        let data = self.array.to_data();
        let shown = data.get_slice_memory_size().unwrap_or(usize::MAX);
        if self.array.get_buffer_memory_size() / 2 <= shown.saturating_add(SLACK) {
            return self.clone();
        }
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        let copied = copy.try_extend(0, 0, data.len()).ok().map(|()| make_array(copy.freeze()));
        // The same values were fit before.
        copied.and_then(|array| Self::checked(&array).ok()).unwrap_or_else(|| self.clone())
    }

    /// What each ID is known by.
    pub(crate) fn keys(&self) -> &Canonical {
        &self.keys
    }

    /// The canonical key of each value, as bytes: equal exactly where the values are equal, among columns
    /// of one class.
    pub fn canonical_keys(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.keys.copied()
    }

    /// Every value's canonical key in turn, the length of those that vary before them.
    pub(crate) fn each_key(&self, mut take: impl FnMut(&[u8])) {
        self.keys.visit(0..self.len(), |_, key| match key {
            Key::Int(value) => take(&value.to_be_bytes()),
            Key::Bytes(bytes) => {
                take(&(bytes.len() as u64).to_be_bytes());
                take(bytes);
            }
        });
    }

    /// The first ID that occurs twice. Costs next to nothing where the IDs ascend.
    pub fn duplicate(&self) -> Option<IdProblem> {
        UniqueIds::new().add(self).map(|repeat| repeat.problem(self))
    }
}

/// Takes dictionaries, runs and views apart; nothing changes its value.
pub(crate) fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    let array = apart(array)?;
    match array.data_type() {
        DataType::Utf8View => cast_to(&array, &DataType::Utf8),
        DataType::BinaryView => cast_to(&array, &DataType::Binary),
        _ => Ok(array),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, Int32Array, Int64Array, StringArray, StringViewArray, StructArray, TimestampMillisecondArray,
        TimestampSecondArray, UInt64Array,
    };
    use arrow::datatypes::{Field, Int8Type};

    use super::*;

    fn keys(array: impl Array + 'static) -> Vec<Vec<u8>> {
        let array: ArrayRef = Arc::new(array);
        IdColumn::try_new(&array).unwrap().unwrap().canonical_keys().collect()
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
