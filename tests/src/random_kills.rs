//! Killing at random moments: of the first run, of the recovery of the next, of the deletion at the end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::audit::{Ending, audit};
use crate::census::{Census, Row, Tally};
use crate::effect_kind::EffectKind;
use crate::job::Job;
use crate::moments::{Anchor, Moment, Phases};
use crate::place::Place;
use crate::rows::{Format, Rows};
use crate::running::Ended;
use crate::trace::read_trace;

/// The variable that replays a run.
const SEED: &str = "CKPT_SEED";
/// The variable that says how many kills there are.
const KILLS: &str = "CKPT_KILLS";
/// Kills of one job; after these it may end.
const KILLS_OF_A_JOB: usize = 3;
/// Rows of a task, as jobs run here.
const TASK_ROWS: usize = 20;

/// A campaign of kills against one program in one place.
#[derive(Debug)]
pub struct Siege<'a> {
    program: &'static str,
    place: &'a Place,
    inputs: Vec<(String, Rows)>,
    delay: Duration,
    rng: StdRng,
    phases: Phases,
    tally: Tally,
}

/// How many kills the environment asks for.
///
/// # Errors
/// When it asks for no number.
pub fn kills_wanted() -> Result<u64> {
    std::env::var(KILLS).map_or(Ok(20), |text| text.parse()).context(KILLS)
}

/// The seed that the environment gives, or a new one.
///
/// # Errors
/// When it is no number.
pub fn seed() -> Result<u64> {
    match std::env::var(SEED) {
        Ok(text) => text.parse().context(SEED),
        Err(_) => Ok(rand::rng().random::<u32>().into()),
    }
}

/// Kills jobs of a program in a place at `kills` random moments and runs each to its end.
///
/// # Errors
/// What did not hold, with the job and its kills; too few kills where they count.
pub fn run(program: &'static str, place: &Place, delay: Duration, kills: u64, seed: u64) -> Result<Tally> {
    let mut siege = Siege {
        program,
        place,
        inputs: vec![
            ("input-parquet".to_owned(), Rows { count: 240, files: 4, format: Format::Parquet }),
            ("input-jsonl".to_owned(), Rows { count: 240, files: 3, format: Format::JsonLines }),
        ],
        delay,
        rng: StdRng::seed_from_u64(seed),
        phases: Phases::default(),
        tally: Tally::default(),
    };
    for (dir, rows) in &siege.inputs {
        rows.write(place, dir)?;
    }
    siege.measure()?;
    // Three quarters must hit between the first pending record and the last commit; kills that come early
    // or late on a busy machine are made up for.
    let enough = |tally: &Tally| tally.kills >= kills && tally.hits_often();
    let mut number = 0;
    while !enough(&siege.tally) {
        ensure!(siege.tally.kills < kills * 2 + 20, "too few kills in the window:\n{}", siege.tally);
        number += 1;
        siege.job(number).with_context(|| format!("job {number} of seed {seed} ({SEED}={seed} replays it)"))?;
    }
    if kills >= 100 {
        let rare: Vec<Row> = Row::TABLE.into_iter().filter(|row| siege.tally.of(*row) < 3).collect();
        ensure!(rare.is_empty(), "rows of the closing table that hardly occurred: {rare:?}\n{}", siege.tally);
    }
    Ok(siege.tally)
}

impl<'a> Siege<'a> {
    fn new_job(&self, name: String, input: usize) -> Job<'a> {
        let (dir, rows) = &self.inputs[input];
        let mut job = Job::new(self.program, self.place, name, dir, *rows);
        job.delay = self.delay;
        job
    }

    /// Runs a job without a kill, to know its parts.
    fn measure(&mut self) -> Result<()> {
        let job = self.new_job("measured".to_owned(), 0);
        let mut running = job.start(None)?;
        self.phases = Phases::measure(&mut running)?;
        running.wait()?.expect(0)?;
        audit(&job, Ending::Deleted)
    }

    fn job(&mut self, number: u64) -> Result<()> {
        let input = usize::from(number.is_multiple_of(5));
        let mut job = self.new_job(format!("job-{number}"), input);
        job.keep = number.is_multiple_of(3);
        let first = self.first_moment(number);
        let mut story = Vec::new();
        self.live(&job, first, &mut story).with_context(|| format!("its story: {}", story.join(", then ")))
    }

    /// Kills a job again and again, and lets it end.
    fn live(&mut self, job: &Job<'_>, first: Moment, story: &mut Vec<String>) -> Result<()> {
        let mut moment = Some(first);
        while let Some(now) = moment {
            story.push(format!("{now:?}"));
            let mut running = job.start(None)?;
            now.wait(&mut running)?;
            let ended = running.kill()?;
            if !ended.was_killed() {
                story.push("it was faster".to_owned());
                ended.expect(0)?;
                break;
            }
            let census = self.look(job, &ended, story.len() > 1)?;
            moment = (story.len() < KILLS_OF_A_JOB).then(|| self.next_moment(job, &census)).flatten();
        }
        story.push("run to its end".to_owned());
        let ended = job.run()?.expect(0)?;
        ensure!(!ended.stderr.contains("watching"), "it watched the lease of a dead process:\n{}", ended.stderr);
        audit(job, if job.keep { Ending::Kept } else { Ending::Deleted })
    }

    /// Mostly while the first run works; now and then at any time, or while it ends. When too many kills came
    /// late, as on a busy machine, early in its work.
    fn first_moment(&mut self, number: u64) -> Moment {
        let is_late = !self.tally.hits_often();
        let (phases, rng) = (self.phases, &mut self.rng);
        match number % 8 {
            _ if is_late => phases.after(Anchor::Prepared, phases.working / 2, rng),
            3 => phases.after(Anchor::Ending, phases.ending, rng),
            7 => phases.any_time(rng),
            _ => phases.after(Anchor::Prepared, phases.working, rng),
        }
    }

    /// Half of the time a later run is killed too, mostly while it recovers; more often when it has a task
    /// to roll forward.
    fn next_moment(&mut self, job: &Job<'_>, census: &Census) -> Option<Moment> {
        let (phases, rng) = (self.phases, &mut self.rng);
        let is_finished = census.tasks.values().any(|row| *row == Row::PendingComplete);
        if !rng.random_bool(if is_finished { 0.75 } else { 0.5 }) {
            return None;
        }
        let left = tasks_of(job).saturating_sub(census.counting);
        Some(match rng.random_range(0..3) {
            0 => phases.after(Anchor::Prepared, phases.working * left / tasks_of(job), rng),
            1 if is_finished => phases.after(Anchor::RollForward, phases.starting / 2, rng),
            _ => phases.after(Anchor::FirstEffect, phases.starting * 2, rng),
        })
    }

    /// Counts what a kill left, and sometimes adds what a late request of the dead would.
    fn look(&mut self, job: &Job<'_>, ended: &Ended, is_resumed: bool) -> Result<Census> {
        if !Census::take(job)?.complete {
            self.plant_late_data(job)?;
        }
        let census = Census::take(job)?;
        let lines = read_trace(&ended.trace)?;
        let has = |kind| lines.iter().any(|line| line.kind == kind);
        self.tally.kills += 1;
        self.tally.add(&census);
        if census.complete {
            self.tally.in_deletion += 1;
        } else if !census.tasks.is_empty() && census.counting < tasks_of(job) {
            self.tally.in_window += 1;
        }
        if is_resumed && has(EffectKind::Lease) && !has(EffectKind::Pending) && !census.complete {
            self.tally.in_recovery += 1;
        }
        Ok(census)
    }

    /// A data file of the killed attempt whose request outlived it: rows that are elsewhere too.
    fn plant_late_data(&mut self, job: &Job<'_>) -> Result<()> {
        if !self.rng.random_bool(0.25) {
            return Ok(());
        }
        let output = job.place.list(&job.output(""))?;
        let attempts = job.place.list(&job.checkpoint("_meta/attempts"))?;
        let newest = attempts.keys().filter_map(|name| name.strip_suffix(".json")?.parse::<u64>().ok()).max();
        let data = output.keys().find(|name| name.ends_with(job.rows.format.extension()));
        if let (Some(attempt), Some(name)) = (newest, data) {
            let (id, _) = name.split_once('-').context("no job's file")?;
            let late = format!("{id}-{attempt}-009999.{}", job.rows.format.extension());
            job.place.write(&job.output(&late), job.place.existing(&job.output(name))?)?;
        }
        Ok(())
    }
}

/// Tasks that a job has at least: they may end early, never late.
fn tasks_of(job: &Job<'_>) -> usize {
    usize::try_from(job.rows.count).unwrap_or(0) / TASK_ROWS
}
