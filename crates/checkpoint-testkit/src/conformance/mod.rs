//! One suite that every backend passes: what the storage trait says, tried.
//!
//! Cases are selected by capability. One that a storage cannot have is reported as not applicable, and the
//! refusal of what it lacks is a case too; a capability that is claimed and does not hold fails.

mod conditional;
mod creating;
mod deleting;
mod guarding;
mod listing;
mod moving;
mod naming;
mod reading;
mod streaming;
mod subject;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use checkpoint_fs::{Capabilities, DeleteOptions, ObjectPath, Result, StorageExt, StorageRef};
use futures::future::BoxFuture;
use rand::Rng;

use self::subject::Subject;

/// How hard the suite tries.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Objects of the case that needs several pages of a listing.
    pub keys: usize,
    /// Bytes of the object that needs several parts.
    pub large: usize,
    /// Racers of each conditional write, and how often they race.
    pub racers: usize,
    /// See `racers`.
    pub rounds: usize,
    /// The time that one case may take.
    pub timeout: Duration,
    /// Only cases whose names hold this text.
    pub only: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keys: 2500,
            large: 17 * 1024 * 1024,
            racers: 20,
            rounds: 5,
            timeout: Duration::from_secs(180),
            only: None,
        }
    }
}

/// When a case applies, and how that is written.
#[derive(Debug, Clone, Copy)]
struct Needs {
    text: &'static str,
    held: fn(&Capabilities) -> bool,
}

const NOTHING: Needs = Needs { text: "nothing", held: |_| true };

type Run = for<'a> fn(&'a Subject) -> BoxFuture<'a, anyhow::Result<()>>;

/// One case: a name that says what holds, what it needs, and how it is tried.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    needs: Needs,
    run: Run,
}

/// Makes a [`Case`] of an `async fn(&Subject) -> anyhow::Result<()>` and its name.
macro_rules! case {
    ($function:ident) => {
        case!($function, $crate::conformance::NOTHING)
    };
    ($function:ident, $needs:expr) => {
        $crate::conformance::Case {
            name: stringify!($function),
            needs: $needs,
            run: |subject| Box::pin($function(subject)),
        }
    };
}
use case;

fn cases() -> Vec<Case> {
    [
        creating::CASES,
        naming::CASES,
        reading::CASES,
        conditional::CASES,
        streaming::CASES,
        listing::CASES,
        deleting::CASES,
        moving::CASES,
        guarding::CASES,
    ]
    .concat()
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// The storage does not claim what it needs, which is named.
    NotApplicable(&'static str),
    /// It does not hold, and why.
    Failed(String),
}

/// What a run of the suite found.
#[derive(Debug, Clone)]
pub struct Report {
    storage: String,
    results: Vec<(&'static str, Verdict)>,
}

impl Report {
    /// Names and verdicts, in the order of the suite.
    pub fn results(&self) -> &[(&'static str, Verdict)] {
        &self.results
    }

    /// The verdict of one case.
    pub fn verdict(&self, name: &str) -> Option<&Verdict> {
        self.results.iter().find(|(n, _)| *n == name).map(|(_, verdict)| verdict)
    }

    /// The names of the cases that failed.
    pub fn failed(&self) -> Vec<&'static str> {
        self.results.iter().filter(|(_, v)| matches!(v, Verdict::Failed(_))).map(|(name, _)| *name).collect()
    }

    /// The report, or an error that shows it when a case failed or none passed.
    ///
    /// # Errors
    /// See above.
    pub fn into_result(self) -> anyhow::Result<Self> {
        let passed = self.results.iter().any(|(_, v)| *v == Verdict::Passed);
        anyhow::ensure!(passed && self.failed().is_empty(), "the storage does not conform:\n{self}");
        Ok(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}", self.storage)?;
        for (name, verdict) in &self.results {
            match verdict {
                Verdict::Passed => writeln!(f, "  pass  {name}")?,
                Verdict::NotApplicable(needs) => writeln!(f, "  n/a   {name} (needs {needs})")?,
                Verdict::Failed(why) => writeln!(f, "  FAIL  {name}: {why}")?,
            }
        }
        Ok(())
    }
}

/// Runs every case. `open` gives a storage rooted at the directory named, below a place of the caller's
/// choice; each case has one of its own, with a random part in its name, and is cleaned up after. It is opened
/// twice, as by two clients.
pub async fn run_all<F, Fut>(settings: &Settings, open: F) -> Report
where
    F: Fn(String) -> Fut,
    Fut: Future<Output = Result<StorageRef>>,
{
    let run = format!("conformance-{:016x}", rand::rng().next_u64());
    let mut report = Report { storage: String::new(), results: Vec::new() };
    for case in cases() {
        if settings.only.as_ref().is_some_and(|only| !case.name.contains(only.as_str())) {
            continue;
        }
        let dir = format!("{run}/{}", case.name);
        let opened = match open(dir.clone()).await {
            Ok(storage) => open(dir).await.map(|other| (storage, other)),
            Err(error) => Err(error),
        };
        let verdict = match opened {
            Ok((storage, other)) => {
                if report.storage.is_empty() {
                    report.storage = storage.url().trim_end_matches(case.name).trim_end_matches('/').to_owned();
                }
                Box::pin(run_case(case, storage, other, settings)).await
            }
            Err(error) => Verdict::Failed(format!("cannot be opened: {error}")),
        };
        report.results.push((case.name, verdict));
    }
    report
}

async fn run_case(case: Case, storage: StorageRef, other: StorageRef, settings: &Settings) -> Verdict {
    if !(case.needs.held)(storage.capabilities()) {
        return Verdict::NotApplicable(case.needs.text);
    }
    let subject = Subject::new(storage, other, settings.clone());
    let verdict = match tokio::time::timeout(settings.timeout, (case.run)(&subject)).await {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(error)) => Verdict::Failed(format!("{error:#}")),
        Err(_) => Verdict::Failed(format!("not done in time: seconds={}", settings.timeout.as_secs())),
    };
    clean_up(&subject.storage).await;
    verdict
}

/// Best effort: what stays behind has a name of its own, and harms nobody.
async fn clean_up(storage: &StorageRef) {
    let Ok(files) = storage.list_files(&ObjectPath::root(), true).await else { return };
    for batch in files.chunks(1000) {
        let paths = batch.iter().map(|(path, _)| path.clone()).collect();
        if storage.delete_many(paths, DeleteOptions::new()).await.is_err() {
            return;
        }
    }
}
