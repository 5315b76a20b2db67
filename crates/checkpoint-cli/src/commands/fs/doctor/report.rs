//! What is told of the checks: a row for each, shown as soon as it is known.

use std::time::Duration;

use serde::Serialize;

use super::verdict::{Checked, Verdict};
use super::{CHECKS, CLEAN_UP, OPEN};
use crate::failure::{Failure, Result, visible};
use crate::output::Output;
use crate::table::{Align, Table};

/// What holds the place of all checks that were not tried.
const REST: &str = "the rest";
const FAILED: &str = "FAIL";
/// The width of six digits of milliseconds, which is as long as a step takes.
const TIME: usize = "999999 ms".len();

/// A check and how it ended.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: &'static str,
    status: &'static str,
    milliseconds: u64,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Row {
    pub(super) fn new(name: &'static str, took: Duration, checked: Checked) -> Self {
        let (status, detail, advice) = match checked.unwrap_or_else(Verdict::from) {
            Verdict::Holds(detail) => ("ok", detail, None),
            Verdict::NotHere(why) => ("n/a", why, None),
            Verdict::Noted(detail, advice) => ("note", detail, Some(advice.to_owned())),
            Verdict::Fails(what, advice) => (FAILED, what, Some(advice)),
        };
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Self { name, status, milliseconds, detail, advice }
    }

    /// The checks that were not tried, and why.
    pub(super) fn untried(why: &str) -> Self {
        Self::new(REST, Duration::ZERO, Ok(Verdict::NotHere(format!("not tried: {why}"))))
    }

    /// Adds to what can be done, where it failed.
    pub(super) fn advised(mut self, more: &str) -> Self {
        if let (FAILED, Some(advice)) = (self.status, &mut self.advice) {
            *advice = format!("{advice}; {more}");
        }
        self
    }

    /// Whether it did not fail.
    pub(super) fn is_well(&self) -> bool {
        self.status != FAILED
    }

    /// The row as text, in columns that are as wide as those of every other.
    fn text(&self) -> String {
        let names = CHECKS.iter().map(|(name, _)| *name).chain([OPEN, CLEAN_UP, REST]);
        let name = names.map(str::len).max().unwrap_or(0);
        let columns = [Align::Left, Align::Left, Align::Right, Align::Left];
        let mut table = Table::new(columns).at_least([FAILED.len(), name, TIME, 0]);
        let took = format!("{} ms", self.milliseconds);
        table.row([self.status.to_owned(), self.name.to_owned(), took, visible(&self.detail)]);
        if let Some(advice) = &self.advice {
            table.row([String::new(), String::new(), String::new(), format!("-> {}", visible(advice))]);
        }
        table.render()
    }
}

/// The rows so far.
pub(super) struct Report<'a> {
    shown_on: Option<&'a Output>,
    failure: Option<Failure>,
    rows: Vec<Row>,
}

impl<'a> Report<'a> {
    /// No rows yet. They are shown on an output, where one is given.
    pub(super) fn new(shown_on: Option<&'a Output>) -> Self {
        Self { shown_on, failure: None, rows: Vec::new() }
    }

    /// Adds a row and shows it. What was begun goes on where it cannot be shown, so that it is cleaned up.
    pub(super) fn add(&mut self, row: Row) {
        if let (Some(out), None) = (self.shown_on, &self.failure) {
            self.failure = out.line(row.text()).err();
        }
        self.rows.push(row);
    }

    /// All rows.
    ///
    /// # Errors
    /// The first failure to show one.
    pub(super) fn end(self) -> Result<Vec<Row>> {
        self.failure.map_or(Ok(self.rows), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_name_and_time_are_aligned() {
        let at = |row: Row, mark: &str| row.text().find(mark).expect("shown");
        let seconds = Duration::from_secs;
        let first = at(Row::new(OPEN, seconds(0), Ok(Verdict::Holds("x".to_owned()))), " x");
        for (name, took) in CHECKS.iter().map(|(name, _)| *name).zip((0..).map(|n| seconds(n * 40))) {
            let row = Row::new(name, took, Ok(Verdict::Noted("x".to_owned(), "do it")));
            assert_eq!(at(row, " x"), first, "{name}");
        }
        assert_eq!(at(Row::untried("x"), " not tried: x"), first);
        let row = Row::new(OPEN, seconds(1), Ok(Verdict::Fails("x\u{1b}".to_owned(), "do it".to_owned())));
        let lines = row.advised("and that").text();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.contains("x\\u{1b}") && lines.ends_with(" -> do it; and that"), "{lines}");
    }
}
