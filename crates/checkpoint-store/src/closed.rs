//! Closed lists: the irrevocable word on what counts of the attempts so far.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::names::{JobId, TaskName};

/// A set of task numbers, kept as ranges since most are dense.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct TaskRanges(Vec<(u64, u64)>);

impl TryFrom<Vec<(u64, u64)>> for TaskRanges {
    type Error = String;

    /// Ranges as they are written: each from its first to its last number, in order, none touching another.
    fn try_from(ranges: Vec<(u64, u64)>) -> Result<Self, String> {
        let ordered = ranges.windows(2).all(|pair| pair[0].1 < u64::MAX && pair[0].1 + 1 < pair[1].0);
        if ordered && ranges.iter().all(|(first, last)| first <= last) {
            Ok(Self(ranges))
        } else {
            Err(format!("these are no ranges of task numbers: {ranges:?}"))
        }
    }
}

impl From<TaskRanges> for Vec<(u64, u64)> {
    fn from(ranges: TaskRanges) -> Self {
        ranges.0
    }
}

impl TaskRanges {
    /// Whether the number is in it.
    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after > 0 && self.0[after - 1].1 >= number
    }

    /// How many numbers are in it.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl FromIterator<u64> for TaskRanges {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        let sorted: BTreeSet<u64> = numbers.into_iter().collect();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in sorted {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        Self(ranges)
    }
}

/// The file `_meta/closed/<k>`: what counts of attempt `k` and all before it. Created once, never changed;
/// the list of the highest `k` is the one that holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedList {
    /// The version of the format.
    pub format: u32,
    /// The last attempt that it closes; 0 closes only what Ray left before the first.
    pub attempt: u64,
    /// The attempt that wrote it.
    pub by: u64,
    /// Rows of all that counts.
    pub rows: u64,
    /// Our tasks that count, by attempt.
    pub tasks: BTreeMap<u64, TaskRanges>,
    /// Records of others (Ray) that count, without `.parquet`.
    #[serde(default)]
    pub records: BTreeSet<String>,
    /// Names of others that never count, whatever record appears under them.
    #[serde(default)]
    pub void: BTreeSet<String>,
    /// The attempt whose recorded fingerprint held when this was written; none for that of `job.json`. One
    /// that appears later under a number that is closed does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<u64>,
}

impl ClosedList {
    /// The list before anything was closed.
    pub(crate) fn empty() -> Self {
        Self {
            format: 1,
            attempt: 0,
            by: 0,
            rows: 0,
            tasks: BTreeMap::new(),
            records: BTreeSet::new(),
            void: BTreeSet::new(),
            fingerprint: None,
        }
    }

    /// Whether anything counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.tasks.values().all(TaskRanges::is_empty)
    }

    /// Whether a task of our job counts.
    pub(crate) fn counts(&self, task: &TaskName) -> bool {
        self.tasks.get(&task.attempt).is_some_and(|t| t.contains(task.number))
    }

    /// The names of all records that count.
    pub(crate) fn record_names_of(&self, job: Option<&JobId>) -> HashSet<String> {
        let own = job.into_iter().flat_map(|job| {
            self.tasks.iter().flat_map(move |(attempt, numbers)| {
                numbers.iter().map(|number| TaskName { job: job.clone(), attempt: *attempt, number }.to_string())
            })
        });
        own.chain(self.records.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_exactly_their_numbers() {
        let ranges: TaskRanges = [5, 1, 2, 3, 9, 10].into_iter().collect();
        assert_eq!(serde_json::to_string(&ranges).unwrap(), "[[1,3],[5,5],[9,10]]");
        let held: Vec<u64> = (0..12).filter(|n| ranges.contains(*n)).collect();
        assert_eq!(held, [1, 2, 3, 5, 9, 10]);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), held);
        assert_eq!(ranges.len(), 6);
        assert!(!TaskRanges::default().contains(0));
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for bad in ["[[3,1]]", "[[1,3],[4,5]]", "[[5,6],[1,2]]", "[[1,18446744073709551615],[7,8]]", "[[-1,2]]"] {
            assert!(serde_json::from_str::<TaskRanges>(bad).is_err(), "{bad}");
        }
        assert_eq!(serde_json::from_str::<TaskRanges>("[[1,3],[5,5]]").unwrap().len(), 4);
    }
}
