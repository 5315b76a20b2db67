//! `kill -9` of compactions: of `ckpt compact` and of the starts of runs that merge records, at random moments, again and
//! again, and right before and right after every effect. Each row once, and each ID counts once at every moment.

use std::time::Duration;

use anyhow::ensure;
use checkpoint_tests::compaction_kills::{Programs, run};
use checkpoint_tests::effect_kills::{self, Choice, Struck, state_to_recover};
use checkpoint_tests::{EffectKind, Ending, Format, Job, Place, Rows, VendorClient, audit, random_kills};

const CKPT: &str = env!("CARGO_BIN_EXE_ckpt-under-test");
const PIPELINE: &str = env!("CARGO_BIN_EXE_pipeline-under-test");

#[expect(clippy::print_stdout, reason = "says what the kills hit")]
fn campaign(what: &str, place: &Place) -> anyhow::Result<()> {
    let seed = random_kills::seed()?;
    let programs = Programs { ckpt: CKPT, pipeline: PIPELINE };
    let tally = run(programs, place, Duration::from_millis(3), random_kills::kills_wanted()?, seed)?;
    println!("on {what}, seed {seed}: {tally}");
    Ok(())
}

/// Twenty tasks of four rows, eight or more of which are done.
fn job<'a>(place: &'a Place, name: &str) -> anyhow::Result<Job<'a>> {
    let rows = Rows { count: 80, files: 2, format: Format::Parquet };
    rows.write(place, "input")?;
    let mut job = Job::new(CKPT, place, name, "input", rows);
    (job.workers, job.task_rows, job.keep) = (1, 4, true);
    Ok(job)
}

/// Kills around the effects of `ckpt compact`, or of a run that merges records first.
#[expect(clippy::print_stdout, reason = "says how many kills there were")]
fn around_effects(place: &Place, struck: Struck, choice: Choice) -> anyhow::Result<()> {
    let mut job = job(place, if struck == Struck::Run { "started" } else { "compacted" })?;
    let state = state_to_recover(&job, 10)?;
    if struck == Struck::Run {
        job.merging = Some((PIPELINE, 4));
    }
    let report = effect_kills::run(&job, &state, struck, choice)?;
    for (kind, least) in [(EffectKind::Merge, 3), (EffectKind::Closing, 1), (EffectKind::Delete, 12)] {
        let count = report.effects.iter().filter(|effect| effect.kind == kind).count();
        ensure!(count >= least, "{count} effects of kind {kind}: {report}");
    }
    println!("{report}");
    Ok(())
}

#[test]
fn kill_compactions_at_random_moments() -> anyhow::Result<()> {
    campaign("POSIX", &Place::directory()?)
}

#[test]
fn kill_compactions_on_object_store_at_random_moments() -> anyhow::Result<()> {
    campaign("the S3 server", &Place::bucket()?)
}

#[test]
fn kill_around_every_effect_of_a_compaction() -> anyhow::Result<()> {
    around_effects(&Place::directory()?, Struck::Compact, Choice::Every)
}

#[test]
fn kill_around_effects_of_a_start_that_merges() -> anyhow::Result<()> {
    around_effects(&Place::directory()?, Struck::Run, Choice::Sampled)
}

#[test]
fn kill_on_object_store_around_effects_of_a_compaction() -> anyhow::Result<()> {
    around_effects(&Place::bucket()?, Struck::Compact, Choice::Sampled)
}

#[test]
fn kill_on_object_store_around_effects_of_a_start_that_merges() -> anyhow::Result<()> {
    around_effects(&Place::bucket()?, Struck::Run, Choice::Sampled)
}

#[test]
fn pyarrow_reads_each_id_once_after_compactions() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let mut job = job(&place, "read")?;
    state_to_recover(&job, 10)?;
    job.start_compact(None)?.wait()?.expect(0)?;
    job.merging = Some((PIPELINE, 2));
    job.run()?.expect(0)?;
    audit(&job, Ending::Kept)?;
    let [_, _, checkpoint] = job.urls();
    let said = VendorClient::script("flat_ids.py", &[])?.run(&[&checkpoint])?;
    ensure!(said.trim() == "80 80 True", "{said}");
    Ok(())
}
