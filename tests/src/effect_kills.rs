//! Killing right before and right after every effect of a job, and of a recovery.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use checkpoint_testkit::When;

use crate::audit::{Ending, audit};
use crate::census::{Census, Row};
use crate::effect_kind::EffectKind;
use crate::job::Job;
use crate::ledger::Ledger;
use crate::orders::{Blow, Point, Strike};
use crate::running::Running;
use crate::trace::{TraceLine, read_trace};

/// What a campaign did.
#[derive(Debug)]
pub struct Report {
    /// The effects of a run that nobody kills, in order.
    pub effects: Vec<TraceLine>,
    /// Kills, two for each effect that was chosen.
    pub kills: usize,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut kinds: BTreeMap<EffectKind, usize> = BTreeMap::new();
        for effect in &self.effects {
            *kinds.entry(effect.kind).or_default() += 1;
        }
        let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        write!(f, "{} kills around {} effects: {}", self.kills, self.effects.len(), kinds.join(", "))
    }
}

/// What is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Struck {
    /// A run.
    Run,
    /// `ckpt compact`.
    Compact,
}

impl Struck {
    fn start(self, job: &Job<'_>, strike: Option<Strike>) -> Result<Running> {
        match self {
            Struck::Run => job.start(strike),
            Struck::Compact => job.start_compact(strike),
        }
    }
}

/// Which effects are struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Every one.
    Every,
    /// All but those that repeat what was struck before: tasks after the second, and of the deletes in a row
    /// the first, the last and the middle one.
    Sampled,
}

/// Strikes the job in `state` (its whole directory): lets what is struck come to its end once, to learn its effects, and
/// then, for each, from the same state, kills it right before or after, runs the job to its end, and checks everything.
///
/// # Errors
/// What did not hold, with the effect.
pub fn run(job: &Job<'_>, state: &BTreeMap<String, Bytes>, struck: Struck, choice: Choice) -> Result<Report> {
    let effects = learn(job, state, struck)?;
    let chosen: Vec<&TraceLine> = match choice {
        Choice::Every => effects.iter().collect(),
        Choice::Sampled => sample(&effects),
    };
    let mut kills = 0;
    for effect in chosen {
        for when in [When::Before, When::After] {
            let strike = Strike { blow: Blow::Kill, when, point: Point::Effect(effect.index) };
            strike_and_resume(job, state, struck, strike).with_context(|| format!("{strike}: {}", effect.what))?;
            kills += 1;
        }
    }
    Ok(Report { effects, kills })
}

fn learn(job: &Job<'_>, state: &BTreeMap<String, Bytes>, struck: Struck) -> Result<Vec<TraceLine>> {
    job.place.put_back(&job.name, state)?;
    let before = Ledger::read(job)?;
    let ended = struck.start(job, None)?.wait()?.expect(0)?;
    match struck {
        Struck::Run => audit(job, ending(job))?,
        Struck::Compact => Ledger::read(job)?.check_since(&before, job)?,
    }
    let mut effects = read_trace(&ended.trace)?;
    effects.retain(|line| line.when == When::Before);
    ensure!(!effects.is_empty(), "the run had no effect");
    Ok(effects)
}

fn strike_and_resume(job: &Job<'_>, state: &BTreeMap<String, Bytes>, struck: Struck, strike: Strike) -> Result<()> {
    job.place.put_back(&job.name, state)?;
    let before = Ledger::read(job)?;
    let ended = struck.start(job, Some(strike))?.wait()?;
    ensure!(ended.was_killed(), "it ended with {} and was not killed:\n{}", ended.status, ended.stderr);
    if !Census::take(job).context("after the kill")?.complete {
        Ledger::read(job)?.check_since(&before, job).context("after the kill")?;
    }
    let ended = job.run()?.expect(0)?;
    ensure!(!ended.stderr.contains("watching"), "it watched the lease of a dead process:\n{}", ended.stderr);
    audit(job, ending(job))
}

fn ending(job: &Job<'_>) -> Ending {
    if job.keep { Ending::Kept } else { Ending::Deleted }
}

fn sample(effects: &[TraceLine]) -> Vec<&TraceLine> {
    let mut chosen = Vec::new();
    let mut tasks = 0;
    for (at, effect) in effects.iter().enumerate() {
        if effect.kind == EffectKind::Pending {
            tasks += 1;
        }
        let of_a_task = matches!(effect.kind, EffectKind::Pending | EffectKind::Data | EffectKind::Commit);
        let repeats = match effect.kind {
            _ if of_a_task => tasks > 2,
            EffectKind::Delete => {
                let run = |step: &mut dyn Iterator<Item = &TraceLine>| {
                    step.take_while(|other| other.kind == EffectKind::Delete).count()
                };
                let before = run(&mut effects[..at].iter().rev());
                let after = run(&mut effects[at + 1..].iter());
                before > 0 && after > 2 && before != after && before != after + 1
            }
            _ => false,
        };
        if !repeats {
            chosen.push(effect);
        }
    }
    chosen
}

/// A state of a killed job in which a start has everything to do: a task to roll forward, tasks that count,
/// a void task with a pending record and data, one with a pending record alone, and data without a record. It was killed
/// before its commit of the number `commits`, from 3 on.
///
/// # Errors
/// When the job does not come to that.
pub fn state_to_recover(job: &Job<'_>, commits: u64) -> Result<BTreeMap<String, Bytes>> {
    let counts = [Row::Committed, Row::CommittedWithTwin];
    let strike = Strike { blow: Blow::Kill, when: When::Before, point: Point::Nth(EffectKind::Commit, commits) };
    let ended = job.start(Some(strike))?.wait()?;
    ensure!(ended.was_killed(), "it ended with {}:\n{}", ended.status, ended.stderr);
    // Commits are under way together: those begun before the last may not have come to their end. One is published by
    // hand then, as its worker would have done.
    let before = Census::take(job)?;
    let published = before.tasks.values().any(|row| counts.contains(row));
    let mut ready = before.tasks.iter().filter(|(_, row)| **row == Row::PendingComplete).map(|(task, _)| task);
    let copy = |from: String, to: String| job.place.write(&to, job.place.existing(&from)?);
    let pending = |name: &str| job.checkpoint(&format!("_meta/pending/{name}"));
    if !published {
        let record = format!("{}.parquet", ready.next().context("no task is ready to be committed")?);
        copy(pending(&record), job.checkpoint(&record))?;
    }
    let task = ready.next().context("no second task is ready to be committed")?;
    let (prefix, _) = task.rsplit_once('-').context("a task has a number")?;
    let output = job.place.list(&job.output(""))?;
    let data = output.keys().find(|name| name.starts_with(&format!("{task}."))).context("no data of the task")?;
    // Under other names than the record's own they prove nothing, as what a dying process wrote by half.
    let rename = |name: &str, number: &str| name.replace(&format!("{task}."), &format!("{prefix}-{number}."));
    let record = format!("{task}.parquet");
    for number in ["000101", "000102"] {
        copy(pending(&record), pending(&rename(&record, number)))?;
    }
    for number in ["000101", "000103"] {
        copy(job.output(data), job.output(&rename(data, number)))?;
    }
    let census = Census::take(job)?;
    let occurs = |rows: &[Row]| census.tasks.values().any(|found| rows.contains(found));
    for rows in [&counts[..], &[Row::PendingComplete], &[Row::PendingIncomplete], &[Row::DataOnly]] {
        ensure!(occurs(rows), "the state lacks {rows:?}: {census:?}");
    }
    job.place.copy_out(&job.name)
}

/// A state of a job that was killed in the middle of the deletion of its checkpoint.
///
/// # Errors
/// When the job does not come to that.
pub fn state_half_deleted(job: &Job<'_>) -> Result<BTreeMap<String, Bytes>> {
    let effects = learn(job, &BTreeMap::new(), Struck::Run)?;
    let mark = effects.iter().find(|effect| effect.kind == EffectKind::Mark).context("the job left no mark")?;
    let strike = Strike { blow: Blow::Kill, when: When::After, point: Point::Effect(mark.index + 3) };
    job.place.put_back(&job.name, &BTreeMap::new())?;
    let ended = job.start(Some(strike))?.wait()?;
    ensure!(ended.was_killed(), "it ended with {}:\n{}", ended.status, ended.stderr);
    ensure!(Census::take(job)?.complete, "the job was not complete yet");
    job.place.copy_out(&job.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_two_tasks_and_the_edges_of_deletions() {
        use EffectKind::{Commit, Complete, Data, Delete, Lease, Pending};
        let kinds = [Lease, Pending, Data, Commit, Pending, Data, Commit, Pending, Data, Commit, Complete]
            .into_iter()
            .chain([Delete; 9]);
        let effects: Vec<TraceLine> = (0..)
            .zip(kinds)
            .map(|(index, kind)| TraceLine { index, when: When::Before, kind, what: String::new() })
            .collect();
        let chosen: Vec<u64> = sample(&effects).into_iter().map(|effect| effect.index).collect();
        assert_eq!(chosen, [0, 1, 2, 3, 4, 5, 6, 10, 11, 15, 17, 18, 19]);
    }
}
