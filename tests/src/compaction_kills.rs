//! Killing compactions at random moments: `ckpt compact`, and the starts of runs that merge records, again and again; and
//! the runs that go on from what they leave.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checkpoint_testkit::When;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::audit::{Ending, audit};
use crate::census::is_complete;
use crate::effect_kind::EffectKind;
use crate::job::Job;
use crate::ledger::Ledger;
use crate::merge_state::{MergeState, MergeTally};
use crate::moments::{Anchor, Moment};
use crate::orders::{Blow, Point, Strike};
use crate::place::Place;
use crate::rows::{Format, Rows};
use crate::running::Running;
use crate::stopwatch::Stopwatch;
use crate::trace::read_trace;

/// Rows of a task: few, so that records are many.
const TASK_ROWS: u64 = 4;
const ROWS: Rows = Rows { count: 240, files: 4, format: Format::Parquet };
/// Kills of one job; after these it may end.
const KILLS_OF_A_JOB: usize = 4;

/// The programs: `ckpt`, and one that runs pipelines.
#[derive(Debug, Clone, Copy)]
pub struct Programs {
    /// The path of `ckpt-under-test`.
    pub ckpt: &'static str,
    /// The path of `pipeline-under-test`.
    pub pipeline: &'static str,
}

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// `ckpt compact`.
    Compact,
    /// The start of a run that merges.
    Start,
    /// A run that has started, in its work.
    Work,
}

/// How long the parts of a compaction are that nobody kills.
#[derive(Debug, Default, Clone, Copy)]
struct Parts {
    whole: Duration,
    gap: Duration,
    /// Lines of its trace up to the first file that it merges into.
    starting: usize,
    /// Lines from there to the closed list.
    merging: usize,
    /// Lines from that to its end.
    sweeping: usize,
}

struct Campaign<'a> {
    programs: Programs,
    place: &'a Place,
    delay: Duration,
    rng: StdRng,
    parts: Parts,
    tally: MergeTally,
}

/// Kills compactions of jobs in a place at `kills` random moments, and runs each job to its end.
///
/// # Errors
/// What did not hold, with the job and its kills.
pub fn run(programs: Programs, place: &Place, delay: Duration, kills: u64, seed: u64) -> Result<MergeTally> {
    ROWS.write(place, "input")?;
    let rng = StdRng::seed_from_u64(seed);
    let (parts, tally) = (Parts::default(), MergeTally::default());
    let mut campaign = Campaign { programs, place, delay, rng, parts, tally };
    campaign.measure().context("the compaction that nobody kills")?;
    let mut number = 0;
    while campaign.tally.kills() < kills {
        ensure!(number < kills + 20, "too few kills hit a compaction:\n{}", campaign.tally);
        number += 1;
        campaign.job(number).with_context(|| format!("job {number} of seed {seed} (CKPT_SEED={seed} replays it)"))?;
    }
    if kills >= 100 {
        campaign.tally.check_all_hit()?;
    }
    Ok(campaign.tally)
}

impl<'a> Campaign<'a> {
    fn new_job(&self, name: String) -> Job<'a> {
        let mut job = Job::new(self.programs.ckpt, self.place, name, "input", ROWS);
        job.task_rows = TASK_ROWS;
        job.delay = self.delay;
        job
    }

    /// Compacts a job without a kill, to know the parts of that.
    fn measure(&mut self) -> Result<()> {
        let mut job = self.new_job("measured".to_owned());
        job.keep = true;
        self.work_until(&job, 40)?;
        let before = Ledger::read(&job)?;
        let mut running = job.start_compact(None)?;
        let watch = Stopwatch::start();
        while !running.has_ended()? {
            std::thread::sleep(Duration::from_millis(1));
        }
        let whole = watch.elapsed();
        let lines = read_trace(running.trace())?;
        running.wait()?.expect(0)?;
        let first = |kind| lines.iter().position(|line| line.kind == kind);
        let starting = first(EffectKind::Merge).context("it merged nothing")?;
        let closing = first(EffectKind::Closing).context("it closed nothing")?;
        let gap = whole / u32::try_from(lines.len())?.max(1);
        self.parts = Parts { whole, gap, starting, merging: closing - starting, sweeping: lines.len() - closing };
        Ledger::read(&job)?.check_since(&before, &job)?;
        job.run()?.expect(0)?;
        audit(&job, Ending::Kept)
    }

    fn job(&mut self, number: u64) -> Result<()> {
        let mut job = self.new_job(format!("job-{number}"));
        job.keep = !number.is_multiple_of(3);
        let mut story = Vec::new();
        self.live(&mut job, number, &mut story).with_context(|| format!("its story: {}", story.join(", then ")))
    }

    /// Runs a job for a while, kills compactions of it and runs after them again and again, and lets it end.
    fn live(&mut self, job: &mut Job<'a>, number: u64, story: &mut Vec<String>) -> Result<()> {
        let commits = self.rng.random_range(5..50);
        story.push(format!("killed at commit {commits}"));
        self.work_until(job, commits)?;
        if number.is_multiple_of(2) {
            job.merging = Some((self.programs.pipeline, self.rng.random_range(1..8)));
        }
        let mut leftovers = false;
        let mut is_done = false;
        while story.len() <= KILLS_OF_A_JOB && !is_done && (story.len() < 2 || self.rng.random_bool(0.7)) {
            let act = match self.rng.random_range(0..4) {
                0 if story.len() > 1 => Act::Work,
                1 | 2 if job.merging.is_some() => Act::Start,
                _ => Act::Compact,
            };
            is_done = self.strike(job, act, &mut leftovers, story)?;
        }
        story.push("run to its end".to_owned());
        let ended = job.run()?.expect(0)?;
        ensure!(!ended.stderr.contains("watching"), "it watched the lease of a dead process:\n{}", ended.stderr);
        if !job.keep {
            return audit(job, Ending::Deleted);
        }
        audit(job, Ending::Kept)?;
        story.push("compacted at last".to_owned());
        job.start_compact(None)?.wait()?.expect(0)?;
        audit(job, Ending::Kept)
    }

    /// Does one thing to a job and kills it; answers whether the job was done before that.
    fn strike(&mut self, job: &Job<'_>, act: Act, leftovers: &mut bool, story: &mut Vec<String>) -> Result<bool> {
        let files = job.place.list(&job.checkpoint(""))?;
        let before = Ledger::read(job)?;
        let ended = if act == Act::Work {
            let commits = self.rng.random_range(1..12);
            story.push(format!("a run killed at commit {commits}"));
            self.run_until(job, commits)?.wait()?
        } else {
            let moment = self.moment();
            story.push(format!("{act:?} killed at {moment:?}"));
            let mut running = if act == Act::Compact { job.start_compact(None)? } else { job.start(None)? };
            moment.wait(&mut running)?;
            running.kill()?
        };
        if !ended.was_killed() {
            story.push("it was faster".to_owned());
            ended.expect(0)?;
            return Ok(act != Act::Compact);
        }
        if is_complete(&job.place.list(&job.checkpoint(""))?, &job.place.list(&job.output(""))?) {
            story.push("it was at its end".to_owned());
            return Ok(true);
        }
        Ledger::read(job)?.check_since(&before, job).context("after the kill")?;
        let worked = read_trace(&ended.trace)?.iter().any(|line| line.kind == EffectKind::Pending);
        if worked {
            self.tally.of_work += 1;
            *leftovers = false;
            return Ok(false);
        }
        let state = MergeState::tell(job, &files)?;
        self.tally.in_a_row += u64::from(*leftovers);
        match act {
            Act::Compact => self.tally.of_compact += 1,
            Act::Start | Act::Work => self.tally.of_starts += 1,
        }
        self.tally.add(state);
        *leftovers = !matches!(state, MergeState::Untouched | MergeState::Swept);
        story.push(format!("which left {state:?}"));
        Ok(false)
    }

    /// Mostly while it merges, or while the deletions follow; now and then at any time.
    fn moment(&mut self) -> Moment {
        let Parts { whole, gap, starting, merging, sweeping } = self.parts;
        let rng = &mut self.rng;
        let pause = gap.mul_f64(rng.random_range(0.0..1.5));
        match rng.random_range(0..10) {
            0 => Moment::new(Anchor::Start, 0, whole.mul_f64(rng.random_range(0.0..1.0))),
            1 => Moment::new(Anchor::FirstEffect, rng.random_range(0..starting.max(1)), pause),
            2..=4 => Moment::new(Anchor::Merge, rng.random_range(0..merging.max(1)), pause),
            5 => Moment::new(Anchor::LeaseAfterClosing, 0, Duration::ZERO),
            _ => Moment::new(Anchor::Closing, rng.random_range(0..sweeping.max(1)), pause),
        }
    }

    /// Kills a run before a commit. With fewer tasks left than that it ends.
    fn run_until(&self, job: &Job<'_>, commits: u64) -> Result<Running> {
        let point = Point::Nth(EffectKind::Commit, commits);
        job.start(Some(Strike { blow: Blow::Kill, when: When::Before, point }))
    }

    /// As [`Campaign::run_until`], for the first run of a job.
    fn work_until(&self, job: &Job<'_>, commits: u64) -> Result<()> {
        let ended = self.run_until(job, commits)?.wait()?;
        ensure!(ended.was_killed(), "it ended with {}:\n{}", ended.status, ended.stderr);
        Ledger::read(job)?.check_since(&Ledger::default(), job)
    }
}
