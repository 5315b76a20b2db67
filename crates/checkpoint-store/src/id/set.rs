//! The set of IDs that are done: what filters the input of a resumed run.

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::{filter_record_batch, not};
use bytes::Bytes;

use super::canonical::{Canonical, Key};
use super::class::IdClass;
use super::key_source::differing;
use super::keys::IdColumn;
use crate::error::{Error, Result};
use crate::row_hash;

/// A set of IDs. Exact for every caller: a wrong "yes" would lose a row.
pub trait IdSet: Debug + Send + Sync {
    /// How many IDs it holds.
    fn len(&self) -> u64;

    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The class of the IDs; `None` while there are none.
    fn class(&self) -> Option<&IdClass>;

    /// About how many bytes of memory it takes.
    fn memory(&self) -> u64;

    /// For each value whether it is in the set; a null is not.
    ///
    /// # Errors
    /// `BadData` when the type cannot be an ID or is of another class: a string never equals a number.
    fn contains(&self, ids: &ArrayRef) -> Result<BooleanArray>;

    /// How many of the values from `first` to `last`, both included, are in the set; `None` where it cannot tell by
    /// value. Integers and booleans count as they are, dates in milliseconds, times and timestamps in nanoseconds.
    fn count_between(&self, first: i128, last: i128) -> Option<u64> {
        let _ = (first, last);
        None
    }

    /// How many of the rows at these positions of the file with this seed have their row hash in the set; `None`
    /// where it does not hold row hashes. See [`crate::row_hash`].
    fn count_rows(&self, seed: u64, positions: Range<u64>) -> Option<u64> {
        let _ = (seed, positions);
        None
    }

    /// All of it as the buffer that [`CompactIdSet::from_bytes`](crate::CompactIdSet::from_bytes) takes, in place; `None`
    /// where it is no such buffer.
    fn buffer(&self) -> Option<&Bytes> {
        None
    }

    /// The rows of a batch whose ID is *not* in the set.
    ///
    /// # Errors
    /// As [`IdSet::contains`], and when the column is missing.
    fn filter(&self, batch: &RecordBatch, id_column: &str) -> Result<RecordBatch> {
        let ids = batch
            .column_by_name(id_column)
            .ok_or_else(|| Error::bad_data(format!("the ID column is missing: column={id_column}")))?;
        let done = self.contains(ids)?;
        if done.true_count() == 0 {
            return Ok(batch.clone());
        }
        let filtered = not(&done).and_then(|keep| filter_record_batch(batch, &keep));
        filtered.map_err(|e| Error::bad_data("a batch cannot be filtered").with_source(e))
    }
}

/// The most values that [`ExactIdSet`] looks up one by one to count a range.
const MOST_COUNTED: u64 = 1 << 20;

/// The plain set: every ID whole, in a hash table. It counts ranges of up to a million values, each with a
/// look-up.
#[derive(Debug, Default)]
pub struct ExactIdSet {
    class: Option<IdClass>,
    ints: HashSet<i128>,
    bytes: HashSet<Box<[u8]>>,
    bytes_len: u64,
}

impl ExactIdSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column; answers how many of its IDs were new.
    ///
    /// # Errors
    /// `BadData` when the class differs from what is there.
    pub fn insert(&mut self, ids: &IdColumn) -> Result<u64> {
        self.agree(ids.class())?;
        self.class.get_or_insert_with(|| ids.class().clone());
        let mut added = 0;
        ids.keys().visit(0..ids.len(), |_, key| match key {
            Key::Int(value) => added += u64::from(self.ints.insert(value)),
            Key::Bytes(bytes) => {
                if !self.bytes.contains(bytes) {
                    self.bytes.insert(bytes.into());
                    added += 1;
                    self.bytes_len += bytes.len() as u64;
                }
            }
        });
        Ok(added)
    }

    /// The first row of a column that is in the set.
    ///
    /// # Errors
    /// As [`IdSet::contains`].
    pub fn first_common(&self, ids: &IdColumn) -> Result<Option<usize>> {
        const BLOCK: usize = 1024;
        self.agree(ids.class())?;
        Ok((0..ids.len()).step_by(BLOCK).find_map(|start| {
            let mut first = None;
            ids.keys().visit(start..ids.len().min(start + BLOCK), |row, key| {
                if first.is_none() && self.has(key) {
                    first = Some(row);
                }
            });
            first
        }))
    }

    fn has(&self, key: Key<'_>) -> bool {
        match key {
            Key::Int(value) => self.ints.contains(&value),
            Key::Bytes(bytes) => self.bytes.contains(bytes),
        }
    }

    fn agree(&self, other: &IdClass) -> Result<()> {
        match &self.class {
            Some(class) if class != other => Err(differing(class, other)),
            _ => Ok(()),
        }
    }
}

impl IdSet for ExactIdSet {
    fn len(&self) -> u64 {
        (self.ints.len() + self.bytes.len()) as u64
    }

    fn class(&self) -> Option<&IdClass> {
        self.class.as_ref()
    }

    fn memory(&self) -> u64 {
        (self.ints.capacity() * 17 + self.bytes.capacity() * 17) as u64 + self.bytes_len
    }

    fn count_between(&self, first: i128, last: i128) -> Option<u64> {
        let wide = last.checked_sub(first)?;
        if !self.bytes.is_empty() || wide >= i128::from(MOST_COUNTED) {
            return None;
        }
        Some((first..=last).filter(|value| self.ints.contains(value)).count() as u64)
    }

    fn count_rows(&self, seed: u64, positions: Range<u64>) -> Option<u64> {
        if !self.bytes.is_empty() || positions.end.saturating_sub(positions.start) > MOST_COUNTED {
            return None;
        }
        let has = |position: &u64| self.ints.contains(&i128::from(row_hash::hash(seed, *position)));
        Some(positions.filter(has).count() as u64)
    }

    fn contains(&self, ids: &ArrayRef) -> Result<BooleanArray> {
        self.agree(&IdClass::of(ids.data_type())?)?;
        if self.is_empty() {
            return Ok(BooleanArray::from(vec![false; ids.len()]));
        }
        let (keys, nulls) = (Canonical::new(ids)?, ids.logical_nulls());
        let is_null = |row| nulls.as_ref().is_some_and(|n| n.is_null(row));
        let mut hits = BooleanBufferBuilder::new(ids.len());
        keys.visit(0..ids.len(), |row, key| hits.append(!is_null(row) && self.has(key)));
        Ok(hits.finish().into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array, StringArray};

    use super::*;

    fn set(array: impl Array + 'static) -> ExactIdSet {
        let mut set = ExactIdSet::new();
        let array: ArrayRef = Arc::new(array);
        set.insert(&IdColumn::try_new(&array).unwrap().unwrap()).unwrap();
        set
    }

    #[test]
    fn filters_exactly_and_across_widths() {
        let done = set(Int64Array::from(vec![1, (1 << 53) + 1, -9]));
        let probe: ArrayRef = Arc::new(Int64Array::from(vec![Some(1 << 53), Some((1 << 53) + 1), None]));
        assert_eq!(done.contains(&probe).unwrap(), BooleanArray::from(vec![false, true, false]));
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, -9, 5]));
        let batch = RecordBatch::try_from_iter([("id", narrow)]).unwrap();
        let rest = done.filter(&batch, "id").unwrap();
        assert_eq!(rest.column(0).as_ref(), &Int32Array::from(vec![5]));
    }

    #[test]
    fn counts_ranges_that_are_not_too_wide() {
        let done = set(Int64Array::from(vec![-3, -2, 5]));
        let counts = [done.count_between(-3, 5), done.count_between(-1, 4), done.count_between(5, 4)];
        assert_eq!(counts, [Some(3), Some(0), Some(0)]);
        assert_eq!(done.count_between(-3, 1 << 20), None, "too many to look up");
        assert_eq!(done.count_between(i128::MIN, i128::MAX), None);
        let hashes = set(row_hash::array(u64::MAX, 0, 10));
        assert_eq!((hashes.count_rows(u64::MAX, 3..12), hashes.count_rows(5, 0..10)), (Some(7), Some(4)));
        assert_eq!(set(StringArray::from(vec!["1"])).count_between(0, 1), None, "texts have no value");
    }

    #[test]
    fn a_string_never_equals_a_number() {
        let done = set(StringArray::from(vec!["1"]));
        let probe: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let error = done.contains(&probe).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::BadData);
        assert!(done.filter(&RecordBatch::try_from_iter([("id", probe)]).unwrap(), "uid").is_err());
    }
}
