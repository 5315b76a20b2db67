//! Closed lists: the irrevocable word on what counts of the attempts so far.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::merged::{self, MergedRecord, SavedIds, SideFile, names_of};
use crate::names::{JobId, MergedName, TaskName};

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
        self.0.iter().map(|(first, last)| (last - first).saturating_add(1)).fold(0, u64::saturating_add)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of many ranges that do not overlap.
    pub(crate) fn union(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if end.checked_add(1).is_none_or(|next| first <= next) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
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
#[serde(try_from = "Written", into = "Written")]
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
    pub records: BTreeSet<String>,
    /// Names of others that never count, whatever record appears under them.
    pub void: BTreeSet<String>,
    /// The merged records. Of what they cover, and which is in `tasks` and `records` too, they have the IDs.
    pub merged: Vec<MergedRecord>,
    /// The saved set of IDs; none where there is none that is of use.
    pub saved: Option<SavedIds>,
    /// The attempt whose recorded fingerprint held when this was written; none for that of `job.json`. One
    /// that appears later under a number that is closed does not count.
    pub fingerprint: Option<u64>,
}

/// A closed list as it is spelled.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    format: u32,
    attempt: u64,
    by: u64,
    rows: u64,
    tasks: BTreeMap<u64, TaskRanges>,
    #[serde(default)]
    records: Vec<String>,
    #[serde(default)]
    void: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    merged: Vec<WrittenMerged>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ids: Option<SavedIds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<u64>,
}

/// A merged record as a closed list spells it.
#[derive(Debug, Serialize, Deserialize)]
struct WrittenMerged {
    name: MergedName,
    write_token: String,
    rows: u64,
    bytes: u64,
    facts: SideFile,
    tasks: BTreeMap<u64, TaskRanges>,
    /// Places in the list's own `records`, from 0: names are long, and there may be very many.
    #[serde(default, skip_serializing_if = "TaskRanges::is_empty")]
    records: TaskRanges,
}

impl From<ClosedList> for Written {
    fn from(list: ClosedList) -> Self {
        let records: Vec<String> = list.records.into_iter().collect();
        let place = |name: String| records.binary_search(&name).ok().map(|place| place as u64);
        let merged = list.merged.into_iter().map(|one| WrittenMerged {
            name: one.name,
            write_token: one.write_token,
            rows: one.rows,
            bytes: one.bytes,
            facts: one.facts,
            tasks: one.tasks,
            records: one.records.into_iter().filter_map(place).collect(),
        });
        Self {
            merged: merged.collect(),
            format: list.format,
            attempt: list.attempt,
            by: list.by,
            rows: list.rows,
            tasks: list.tasks,
            void: list.void,
            ids: list.saved,
            fingerprint: list.fingerprint,
            records,
        }
    }
}

impl TryFrom<Written> for ClosedList {
    type Error = String;

    fn try_from(list: Written) -> Result<Self, String> {
        let mut merged = Vec::with_capacity(list.merged.len());
        for one in list.merged {
            let name = |place: u64| usize::try_from(place).ok().and_then(|place| list.records.get(place)).cloned();
            let records: Option<BTreeSet<String>> = one.records.iter().map(name).collect();
            let records = records.ok_or_else(|| format!("a merged record covers what does not count: {}", one.name))?;
            merged.push(MergedRecord {
                name: one.name,
                write_token: one.write_token,
                rows: one.rows,
                bytes: one.bytes,
                facts: one.facts,
                tasks: one.tasks,
                records,
            });
        }
        let list = Self {
            merged,
            format: list.format,
            attempt: list.attempt,
            by: list.by,
            rows: list.rows,
            tasks: list.tasks,
            records: list.records.into_iter().collect(),
            void: list.void,
            saved: list.ids,
            fingerprint: list.fingerprint,
        };
        list.check_merged().map(|()| list)
    }
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
            merged: Vec::new(),
            saved: None,
            fingerprint: None,
        }
    }

    /// The format that a list with these merged records is written in: older programs read those without.
    pub(crate) fn format_of(merged: &[MergedRecord]) -> u32 {
        if merged.is_empty() { 1 } else { merged::FORMAT }
    }

    /// Whether each merged record covers only what counts, and no task is covered twice.
    fn check_merged(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        let mut records = HashSet::new();
        let mut tasks: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for one in &self.merged {
            if !names.insert(&one.name) || one.is_empty() {
                return Err(format!("a merged record covers nothing, or is there twice: {}", one.name));
            }
            if let Some(twice) = one.records.iter().find(|name| !records.insert(*name)) {
                return Err(format!("two merged records cover a task: {twice}"));
            }
            for (attempt, numbers) in &one.tasks {
                tasks.entry(*attempt).or_default().extend(&numbers.0);
            }
        }
        for (attempt, mut ranges) in tasks {
            ranges.sort_unstable();
            let apart = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
            let counting = self.tasks.get(&attempt).map_or(&[][..], |numbers| &numbers.0);
            let counts = |(first, last): &(u64, u64)| {
                let after = counting.partition_point(|(start, _)| start <= first);
                after > 0 && counting[after - 1].1 >= *last
            };
            if !apart || !ranges.iter().all(counts) {
                return Err(format!("merged records cover tasks twice, or such as do not count: attempt={attempt}"));
            }
        }
        Ok(())
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
        let own = job.into_iter().flat_map(|job| names_of(job, &self.tasks));
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

    fn merged(number: u64, tasks: &[u64], records: &[&str]) -> MergedRecord {
        MergedRecord {
            name: MergedName { job: JobId::parse("abcdefghijklmnop").unwrap(), attempt: 2, number },
            write_token: "t".into(),
            rows: 3,
            bytes: 100,
            facts: SideFile { bytes: 10, crc32: "00000000".into() },
            tasks: [(1, tasks.iter().copied().collect())].into(),
            records: records.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn a_list_with_merged_records_comes_back_and_names_each_record_once() {
        let mut list = ClosedList::empty();
        list.attempt = 1;
        list.tasks.insert(1, (1..=9).collect());
        list.records = ["a", "b", "c", "d"].map(str::to_owned).into();
        list.merged = vec![merged(1, &[1, 2, 3], &["b", "c"]), merged(2, &[5], &[]), merged(3, &[4, 9], &["a"])];
        list.format = ClosedList::format_of(&list.merged);
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(serde_json::from_str::<ClosedList>(&text).unwrap(), list);
        assert!(text.contains("\"records\":[[1,2]]") && text.matches("\"b\"").count() == 1, "{text}");
        list.merged.clear();
        assert_eq!(ClosedList::format_of(&list.merged), 1);
        assert!(!serde_json::to_string(&list).unwrap().contains("merged"));
    }

    #[test]
    fn merged_records_cover_what_counts_and_once() {
        let mut list = ClosedList::empty();
        list.tasks.insert(1, (1..=9).collect());
        list.records = ["a", "b"].map(str::to_owned).into();
        for bad in [
            vec![merged(1, &[10], &[])],
            vec![merged(1, &[1, 2], &[]), merged(2, &[2, 3], &[])],
            vec![merged(1, &[1], &[]), merged(1, &[2], &[])],
            vec![merged(1, &[1], &["a"]), merged(2, &[2], &["a"])],
            vec![merged(1, &[], &[])],
        ] {
            let list = ClosedList { merged: bad.clone(), ..list.clone() };
            let text = serde_json::to_string(&list).unwrap();
            assert!(serde_json::from_str::<ClosedList>(&text).is_err(), "{bad:?}");
        }
        let beyond = serde_json::to_string(&ClosedList { merged: vec![merged(1, &[1], &["b"])], ..list }).unwrap();
        assert!(serde_json::from_str::<ClosedList>(&beyond).is_ok());
        assert!(serde_json::from_str::<ClosedList>(&beyond.replace("[[1,1]]}]", "[[2,2]]}]")).is_err());
    }
}
