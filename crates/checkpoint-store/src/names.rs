//! Names: jobs, tasks, and which task a data file belongs to. No name is ever used twice.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::runtime::Runtime;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const JOB_LEN: usize = 16;

/// A job: 16 characters of `a-z2-7`, the first a letter; 75 random bits or more.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// A new one.
    pub fn random(runtime: &dyn Runtime) -> Self {
        let (mut low, mut high) = (runtime.random(), runtime.random());
        let text = (0..JOB_LEN).map(|i| {
            let source = if i < 8 { &mut low } else { &mut high };
            let value = (*source & 31) as usize;
            *source >>= 5;
            char::from(ALPHABET[if i == 0 { value % 26 } else { value }])
        });
        Self(text.collect())
    }

    /// Parses one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        (bytes.len() == JOB_LEN && bytes[0].is_ascii_lowercase() && bytes.iter().all(|b| ALPHABET.contains(b)))
            .then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for JobId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("not a job ID: {text:?}"))
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> String {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A task of one of our jobs, `<job>-<attempt>-<number>`; the number has six digits or more.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskName {
    /// The job.
    pub job: JobId,
    /// The attempt that made it, from 1.
    pub attempt: u64,
    /// Its number in the attempt, from 1.
    pub number: u64,
}

impl TaskName {
    /// Parses exactly a task name, in the one form that [`TaskName`] prints.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-');
        let job = JobId::parse(parts.next()?)?;
        let (attempt, number) = (parts.next()?, parts.next()?);
        let canonical = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !canonical(attempt) || !canonical(number) {
            return None;
        }
        let name = Self { job, attempt: attempt.parse().ok()?, number: number.parse().ok()? };
        (name.to_string() == text).then_some(name)
    }

    /// The task that owns a data file: the name up to the separator (`-` or `.`) after the number.
    pub fn of_file(file: &str) -> Option<Self> {
        let second_dash = file.match_indices('-').nth(1)?.0;
        let end = file[second_dash + 1..].find(['-', '.'])? + second_dash + 1;
        Self::parse(&file[..end])
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:06}", self.job, self.attempt, self.number)
    }
}

/// A merged record: the IDs of many tasks in one file, `<job>-merged-<attempt>-<number>`; the number has six
/// digits or more. No task has such a name, and no data file belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MergedName {
    /// The job.
    pub job: JobId,
    /// The attempt that wrote it, from 1.
    pub attempt: u64,
    /// Its number in the attempt, from 1.
    pub number: u64,
}

impl MergedName {
    /// What stands between the job and the attempt.
    const MARK: &str = "merged";

    /// Parses exactly such a name, in the one form that [`MergedName`] prints.
    pub fn parse(text: &str) -> Option<Self> {
        let (job, rest) = text.split_once('-')?;
        let (attempt, number) = rest.strip_prefix(Self::MARK)?.strip_prefix('-')?.split_once('-')?;
        let name = Self { job: JobId::parse(job)?, attempt: attempt.parse().ok()?, number: number.parse().ok()? };
        (name.to_string() == text).then_some(name)
    }
}

impl TryFrom<String> for MergedName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("not the name of a merged record: {text:?}"))
    }
}

impl From<MergedName> for String {
    fn from(name: MergedName) -> String {
        name.to_string()
    }
}

impl fmt::Display for MergedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{:06}", self.job, Self::MARK, self.attempt, self.number)
    }
}

/// The longest of `names` that owns a file: a prefix of it that a separator (`-` or `.`) follows, or the block and the
/// row that Ray puts into the name of a file with one row.
///
/// The separator keeps `x_100000` from claiming the files of `x_1000000`, and `job_1` those of `job_10`.
pub(crate) fn owner<'n>(file: &str, is_known: impl Fn(&str) -> Option<&'n str>) -> Option<&'n str> {
    file.char_indices().rev().filter(|at| is_separator(file, *at)).find_map(|(i, _)| is_known(&file[..i]))
}

/// Whether the name of a task may end before this character of the name of a file.
fn is_separator(file: &str, (at, character): (usize, char)) -> bool {
    matches!(character, '-' | '.') || (character == '_' && is_row(&file[at..]))
}

/// The task that wrote a file, by the name alone, where it is named as Ray names its own.
pub(crate) fn ray_task(file: &str) -> Option<&str> {
    let mut ends = file.char_indices().rev().filter(|at| is_separator(file, *at)).map(|(end, _)| &file[..end]);
    ends.find(|task| ray_write(task).is_some())
}

/// The write that a task is of, where it is named as Ray names its own: `<text>_<32 hexadecimal digits>_<number>`.
pub(crate) fn ray_write(task: &str) -> Option<&str> {
    let (write, number) = task.rsplit_once('_')?;
    let uuid = write.rsplit('_').next().unwrap_or_default();
    let is_number = number.len() >= 6 && number.bytes().all(|b| b.is_ascii_digit());
    (is_number && uuid.len() == 32 && uuid.bytes().all(|b| b.is_ascii_hexdigit())).then_some(write)
}

/// Whether the rest of a name is `_<block>_<row>.<ending>`, or that without an ending.
fn is_row(rest: &str) -> bool {
    let number = |text: &str| text.len() >= 6 && text.bytes().all(|b| b.is_ascii_digit());
    let name = rest.split_once('.').map_or(rest, |(name, _)| name);
    let numbers: Vec<&str> = name.split('_').skip(1).collect();
    matches!(numbers[..], [block, row] if number(block) && number(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::SystemRuntime;

    #[test]
    fn job_ids_are_random_and_parse() {
        let (a, b) = (JobId::random(&SystemRuntime), JobId::random(&SystemRuntime));
        assert_ne!(a, b);
        assert_eq!(JobId::parse(a.as_str()), Some(a));
        for bad in ["", "abc", "2bcdefghijklmnop", "Abcdefghijklmnop", "abcdefghijklmno1"] {
            assert_eq!(JobId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_task_name_has_one_spelling() {
        let name = TaskName { job: JobId::parse("abcdefghijklmnop").unwrap(), attempt: 3, number: 42 };
        assert_eq!(name.to_string(), "abcdefghijklmnop-3-000042");
        assert_eq!(TaskName::parse("abcdefghijklmnop-3-000042"), Some(name.clone()));
        for bad in [
            "abcdefghijklmnop-3-42",
            "abcdefghijklmnop-03-000042",
            "abcdefghijklmnop-3-0000042",
            "abcdefghijklmnop-3-000042-0",
        ] {
            assert_eq!(TaskName::parse(bad), None, "{bad}");
        }
        let wide = TaskName { number: 1_000_000, ..name };
        assert_eq!(TaskName::parse(&wide.to_string()), Some(wide));
    }

    #[test]
    fn a_merged_record_is_no_task_and_owns_no_file() {
        let name = MergedName { job: JobId::parse("abcdefghijklmnop").unwrap(), attempt: 3, number: 42 };
        assert_eq!(name.to_string(), "abcdefghijklmnop-merged-3-000042");
        assert_eq!(MergedName::parse(&name.to_string()), Some(name.clone()));
        assert_eq!(TaskName::parse(&name.to_string()), None);
        for file in [format!("{name}.parquet"), format!("{name}-0.parquet")] {
            assert_eq!(TaskName::of_file(&file), None, "{file}");
        }
        for bad in [
            "abcdefghijklmnop-3-000042",
            "abcdefghijklmnop-merged-3-42",
            "abcdefghijklmnop-merged-03-000042",
            "abcdefghijklmnop-merged-3-+00042",
            "abcdefghijklmnop-merged-3-000042-1",
            "merged-3-000042",
        ] {
            assert_eq!(MergedName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_of_rays_are_known_and_others_are_not() {
        let write = "428f260a9ad9277e0a3c2f_990ebcd139d8990e5e9cd897a1a4af23";
        assert_eq!(ray_write(&format!("{write}_000005")), Some(write));
        let alone = "990ebcd139d8990e5e9cd897a1a4af23";
        assert_eq!(ray_write(&format!("{alone}_1000000")), Some(alone));
        for name in ["a", "part-00001", "part_000001", "data_990ebcd139d8990e5e9cd897a1a4af23", "_000001", ""] {
            assert_eq!(ray_write(name), None, "{name}");
        }
        let task = format!("{write}_000005");
        for rest in ["-0.parquet", ".csv", "_000000_000001.png"] {
            assert_eq!(ray_task(&format!("{task}{rest}")), Some(task.as_str()));
        }
        for other in [format!("{task}_0_1.png"), format!("{write}-0.parquet"), task.clone(), format!("{task}x-0.csv")] {
            assert_eq!(ray_task(&other), None, "{other}");
        }
    }

    #[test]
    fn files_belong_to_exactly_one_task() {
        let of = |f: &str| TaskName::of_file(f).map(|t| t.number);
        assert_eq!(of("abcdefghijklmnop-3-100000.parquet"), Some(100_000));
        assert_eq!(of("abcdefghijklmnop-3-1000000-0.parquet"), Some(1_000_000));
        assert_eq!(of("abcdefghijklmnop-3-100000"), None, "no separator");
        assert_eq!(of("other-3-100000.parquet"), None);
    }

    #[test]
    fn the_longest_known_name_owns_a_file() {
        let known = ["x_100000", "x_1000000", "job_1", "job_10", "a-b", "a"];
        let of = |f: &str| owner(f, |s| known.into_iter().find(|k| *k == s));
        assert_eq!(of("x_1000000-0.parquet"), Some("x_1000000"));
        assert_eq!(of("x_100000-0.parquet"), Some("x_100000"));
        assert_eq!(of("job_10.parquet"), Some("job_10"));
        assert_eq!(of("job_11-0.parquet"), None);
        assert_eq!(of("a-b-0.parquet"), Some("a-b"));
        assert_eq!(of("a-c-0.parquet"), Some("a"));
        assert_eq!(of("x_100000"), None);
        assert_eq!(of("x_100000_000000_000012.png"), Some("x_100000"), "a file with one row");
        assert_eq!(of("a_000000_0000012"), Some("a"));
        for other in ["x_100000_0_12.png", "x_100000_000000.png", "x_100000_000000_000012_3.png", "a_00000x_000000.png"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
