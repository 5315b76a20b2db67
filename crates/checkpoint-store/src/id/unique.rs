//! IDs that must not repeat, such as those of a task.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use super::canonical::Key;
use super::keys::{IdColumn, IdProblem};
use super::same::joined;
use super::seen::Seen;
use super::show::show_id;
use crate::error::{Error, Result};

/// Columns of IDs, taken in one after the other, that have no ID twice.
///
/// IDs that ascend, as sequences and sorted keys do, cost a comparison each and no memory. Others cost a hash
/// of 64 bits each; where two hashes are equal the IDs themselves decide.
#[derive(Debug, Default)]
pub struct UniqueIds {
    columns: Vec<IdColumn>,
    /// The greatest ID, while all of them ascend; of no use once there are hashes.
    last: Option<OwnKey>,
    hashes: Option<Hashes>,
    /// The first column that repeats an ID.
    repeated: Option<usize>,
}

/// Where an ID stands that was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepeatedId {
    /// The column that has it first, in the order in which they were added.
    pub column: usize,
    /// Its row there.
    pub first: usize,
    /// The row that repeats it, in the column that is being added.
    pub second: usize,
}

impl RepeatedId {
    /// In words, for one that is twice in the one column that there is.
    pub(crate) fn problem(self, ids: &IdColumn) -> IdProblem {
        IdProblem::Duplicate { first: self.first, second: self.second, id: show_id(ids.array(), self.second) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnKey {
    Int(i128),
    Bytes(Vec<u8>),
}

#[derive(Debug, Default)]
struct Hashes {
    /// Seeded at random, so that nobody can choose IDs that collide.
    state: RandomState,
    seen: Seen,
    /// Those of the column that is being added.
    batch: Vec<u64>,
}

impl UniqueIds {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a column in, of the class of those before, and answers the first of its IDs that was there
    /// already. After one was found this is of no further use.
    pub fn add(&mut self, ids: &IdColumn) -> Option<RepeatedId> {
        if self.hashes.is_none() {
            if ascends(&mut self.last, ids) {
                self.columns.push(ids.released());
                return None;
            }
            let hashes = self.hashes.insert(Hashes::default());
            for column in &self.columns {
                hashes.add(column);
            }
        }
        let suspects = self.hashes.as_mut().map_or_else(Vec::new, |hashes| hashes.add(ids));
        let repeated = suspects.into_iter().find_map(|row| find(&self.columns, ids, row));
        if repeated.is_some() {
            self.repeated.get_or_insert(self.columns.len());
        }
        self.columns.push(ids.released());
        repeated
    }

    /// Lets go of the columns after the first so many, with a repeat that was found in them. Nothing can be added
    /// after that.
    pub fn keep(&mut self, columns: usize) {
        self.columns.truncate(columns);
        self.repeated = self.repeated.filter(|column| *column < columns);
    }

    /// All of them as one column.
    ///
    /// # Errors
    /// `BadData` when an ID was there twice, or they are not of one class, or no type holds them all.
    pub(crate) fn into_column(self) -> Result<IdColumn> {
        if self.repeated.is_some() {
            return Err(Error::bad_data("an ID occurs twice"));
        }
        let Some(first) = self.columns.first() else {
            return Err(Error::bad_data("there are no IDs, and no type of them"));
        };
        if let Some(other) = self.columns.iter().find(|column| column.class() != first.class()) {
            let message = format!("the IDs of a task are of two types: {} and {}", first.class(), other.class());
            return Err(Error::bad_data(message));
        }
        if let [only] = &self.columns[..] {
            return Ok(only.clone());
        }
        let arrays: Vec<_> = self.columns.iter().map(IdColumn::array).collect();
        IdColumn::checked(&joined(&arrays)?)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.columns.iter().map(IdColumn::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Hashes {
    /// Adds every ID; answers the rows whose hash was there.
    fn add(&mut self, ids: &IdColumn) -> Vec<usize> {
        self.batch.clear();
        self.batch.reserve(ids.len());
        ids.keys().visit(0..ids.len(), |_, key| {
            self.batch.push(match key {
                Key::Int(value) => self.state.hash_one(value),
                Key::Bytes(bytes) => self.state.hash_one(bytes),
            });
        });
        let mut there = Vec::new();
        self.seen.insert(&self.batch, |row| there.push(row));
        there
    }
}

/// Whether every ID is greater than the one before it, the first than `last`, which the greatest becomes.
fn ascends(last: &mut Option<OwnKey>, ids: &IdColumn) -> bool {
    let mut ascending = true;
    ids.keys().visit(0..ids.len(), |_, key| {
        if !ascending {
            return;
        }
        match (key, &mut *last) {
            (Key::Int(value), Some(OwnKey::Int(last))) => {
                ascending = value > *last;
                *last = value;
            }
            (Key::Bytes(bytes), Some(OwnKey::Bytes(last))) => {
                ascending = bytes > last.as_slice();
                last.clear();
                last.extend_from_slice(bytes);
            }
            (key, last) => *last = Some(OwnKey::of(key)),
        }
    });
    ascending
}

impl OwnKey {
    fn of(key: Key<'_>) -> Self {
        match key {
            Key::Int(value) => Self::Int(value),
            Key::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    fn is(&self, key: Key<'_>) -> bool {
        match (self, key) {
            (Self::Int(own), Key::Int(value)) => *own == value,
            (Self::Bytes(own), Key::Bytes(bytes)) => own == bytes,
            _ => false,
        }
    }
}

/// Where the ID of a row stands before that row.
fn find(columns: &[IdColumn], ids: &IdColumn, row: usize) -> Option<RepeatedId> {
    let mut wanted = None;
    ids.keys().visit(row..row + 1, |_, key| wanted = Some(OwnKey::of(key)));
    let wanted = wanted?;
    let within = |ids: &IdColumn, rows: usize| {
        let mut first = None;
        ids.keys().visit(0..rows, |at, key| {
            if first.is_none() && wanted.is(key) {
                first = Some(at);
            }
        });
        first
    };
    let earlier = columns.iter().enumerate().map(|(column, ids)| (column, within(ids, ids.len())));
    earlier
        .chain(std::iter::once_with(|| (columns.len(), within(ids, row))))
        .find_map(|(column, first)| Some(RepeatedId { column, first: first?, second: row }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, StringArray};
    use arrow::compute::concat;

    use super::*;

    fn column(array: impl arrow::array::Array + 'static) -> IdColumn {
        let array: ArrayRef = Arc::new(array);
        IdColumn::try_new(&array).unwrap().unwrap()
    }

    fn numbers(values: &[i64]) -> IdColumn {
        column(Int64Array::from(values.to_vec()))
    }

    #[test]
    fn ascending_ids_need_no_memory_and_repeats_are_found_all_the_same() {
        let mut ids = UniqueIds::new();
        assert_eq!(ids.add(&numbers(&[-5, 1, 2])), None);
        assert_eq!(ids.add(&numbers(&[])), None);
        assert_eq!(ids.add(&column(Int32Array::from(vec![7, 9]))), None);
        assert!(ids.hashes.is_none());
        let repeat = ids.add(&numbers(&[10, 1]));
        assert_eq!(repeat, Some(RepeatedId { column: 0, first: 1, second: 1 }));

        let mut equal = UniqueIds::new();
        assert_eq!(equal.add(&numbers(&[1, 2])), None);
        assert_eq!(equal.add(&numbers(&[2])), Some(RepeatedId { column: 0, first: 1, second: 0 }));
    }

    #[test]
    fn ids_in_any_order_are_remembered_across_columns() {
        let mut ids = UniqueIds::new();
        assert_eq!(ids.add(&numbers(&[5, 3])), None);
        assert_eq!(ids.add(&numbers(&[4, 9, -1])), None);
        assert_eq!(ids.add(&numbers(&[8, 9])), Some(RepeatedId { column: 1, first: 1, second: 1 }));
        let mut words = UniqueIds::new();
        assert_eq!(words.add(&column(StringArray::from(vec!["a", "b", "c"]))), None);
        assert!(words.hashes.is_none());
        assert_eq!(words.add(&column(StringArray::from(vec!["aa"]))), None);
        let repeat = words.add(&column(StringArray::from(vec!["d", "aa"])));
        assert_eq!(repeat, Some(RepeatedId { column: 1, first: 0, second: 1 }));
        let mut alone = UniqueIds::new();
        let repeat = alone.add(&column(StringArray::from(vec!["x", "a", "x", "a"])));
        assert_eq!(repeat, Some(RepeatedId { column: 0, first: 0, second: 2 }), "the first of them");
    }

    #[test]
    fn only_columns_without_a_repeat_come_together() {
        let two = |second: &[i64]| {
            let mut ids = UniqueIds::new();
            assert_eq!(ids.add(&numbers(&[3, 1])), None);
            let _ = ids.add(&numbers(second));
            ids
        };
        assert_eq!(two(&[2, 4]).into_column().unwrap().len(), 4);
        assert!(two(&[2, 1]).into_column().is_err());
        for second in [&[2, 4], &[2, 1]] {
            let mut ids = two(second);
            ids.keep(2);
            assert_eq!(ids.len(), 4);
            ids.keep(1);
            assert_eq!(ids.len(), 2);
            let kept = ids.into_column().unwrap();
            assert_eq!(kept.array().as_ref(), numbers(&[3, 1]).array().as_ref());
        }
        assert!(UniqueIds::new().into_column().is_err());
        let mut ids = two(&[1]);
        assert_eq!(ids.add(&numbers(&[7])), None);
        ids.keep(2);
        assert!(ids.into_column().is_err(), "1 is there twice in what was kept");
        let mut ids = two(&[4]);
        assert_eq!(ids.add(&column(StringArray::from(vec!["4"]))), None);
        assert!(ids.into_column().unwrap_err().to_string().contains("two types"), "a text is no number");
    }

    #[test]
    fn what_is_kept_of_a_column_is_what_it_shows() {
        let many: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1_000_000).rev()));
        let mut ids = UniqueIds::new();
        for start in [5, 400_000] {
            let few = IdColumn::try_new(&many.slice(start, 100)).unwrap().unwrap();
            assert_eq!(ids.add(&few), None);
        }
        let held: usize = ids.columns.iter().map(|column| column.array().get_buffer_memory_size()).sum();
        assert!(held < 10_000, "{held}");
        let together = ids.into_column().unwrap();
        assert_eq!(
            together.array().as_ref(),
            concat(&[&many.slice(5, 100), &many.slice(400_000, 100)]).unwrap().as_ref()
        );
    }

    #[test]
    fn equal_hashes_of_different_ids_are_no_repeat() {
        let mut ids = UniqueIds::new();
        assert_eq!(ids.add(&numbers(&[2, 1])), None);
        let hashes = ids.hashes.as_mut().unwrap();
        let other = hashes.state.hash_one(3_i128);
        // As though another ID had the hash of 3.
        hashes.seen.insert(&[other], |_| panic!("it is new"));
        assert_eq!(ids.add(&numbers(&[3])), None);
    }
}
