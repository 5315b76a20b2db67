//! `kill -9` right before and right after every effect of a job, and of the recovery of a killed one.

use std::collections::BTreeMap;

use checkpoint_tests::effect_kills::{Choice, Report, Struck, run, state_half_deleted, state_to_recover};
use checkpoint_tests::{EffectKind, Format, Job, Place, Rows};

const CKPT: &str = env!("CARGO_BIN_EXE_ckpt-under-test");
const ROWS: Rows = Rows { count: 80, files: 2, format: Format::Parquet };

/// A job whose effects come in the same order in every run.
fn job<'a>(place: &'a Place, name: &str) -> anyhow::Result<Job<'a>> {
    ROWS.write(place, "input")?;
    let mut job = Job::new(CKPT, place, name, "input", ROWS);
    job.workers = 1;
    Ok(job)
}

fn has(report: &Report, kind: EffectKind, at_least: usize) {
    let count = report.effects.iter().filter(|effect| effect.kind == kind).count();
    assert!(count >= at_least, "{count} effects of kind {kind}: {report}");
}

fn around_a_fresh_run(place: &Place, choice: Choice) -> anyhow::Result<Report> {
    let job = job(place, "fresh")?;
    let report = run(&job, &BTreeMap::new(), Struck::Run, choice)?;
    for kind in [EffectKind::Pending, EffectKind::Data, EffectKind::Commit] {
        has(&report, kind, 4);
    }
    for kind in [EffectKind::Lease, EffectKind::Meta, EffectKind::Closing, EffectKind::Complete, EffectKind::Mark] {
        has(&report, kind, 1);
    }
    has(&report, EffectKind::Delete, 8);
    Ok(report)
}

fn around_a_recovery(place: &Place, choice: Choice, keep: bool) -> anyhow::Result<Report> {
    let mut job = job(place, if keep { "kept" } else { "recovered" })?;
    job.keep = keep;
    let state = state_to_recover(&job, 3)?;
    let report = run(&job, &state, Struck::Run, choice)?;
    // The roll-forward and the last task; two void data files, two void pending records, a served one.
    has(&report, EffectKind::Commit, 2);
    has(&report, EffectKind::Closing, 1);
    has(&report, EffectKind::Delete, 5);
    Ok(report)
}

fn around_a_resumed_deletion(place: &Place, choice: Choice) -> anyhow::Result<Report> {
    let job = job(place, "ended")?;
    let state = state_half_deleted(&job)?;
    let report = run(&job, &state, Struck::Run, choice)?;
    has(&report, EffectKind::Delete, 4);
    let of_work = |kind| matches!(kind, EffectKind::Pending | EffectKind::Data | EffectKind::Commit);
    assert!(!report.effects.iter().any(|effect| of_work(effect.kind)), "a finished job did work: {report}");
    Ok(report)
}

#[test]
fn kill_around_every_effect() -> anyhow::Result<()> {
    println!("{}", around_a_fresh_run(&Place::directory()?, Choice::Every)?);
    Ok(())
}

#[test]
fn kill_around_every_effect_of_a_recovery() -> anyhow::Result<()> {
    println!("{}", around_a_recovery(&Place::directory()?, Choice::Every, false)?);
    Ok(())
}

#[test]
fn kill_around_every_effect_of_a_recovery_that_keeps_its_checkpoint() -> anyhow::Result<()> {
    println!("{}", around_a_recovery(&Place::directory()?, Choice::Every, true)?);
    Ok(())
}

#[test]
fn kill_around_every_effect_of_a_resumed_deletion() -> anyhow::Result<()> {
    println!("{}", around_a_resumed_deletion(&Place::directory()?, Choice::Every)?);
    Ok(())
}

#[test]
fn kill_on_object_store_around_every_effect() -> anyhow::Result<()> {
    println!("{}", around_a_fresh_run(&Place::bucket()?, Choice::Sampled)?);
    Ok(())
}

#[test]
fn kill_on_object_store_around_every_effect_of_a_recovery() -> anyhow::Result<()> {
    println!("{}", around_a_recovery(&Place::bucket()?, Choice::Sampled, false)?);
    Ok(())
}

#[test]
fn kill_on_object_store_around_every_effect_of_a_resumed_deletion() -> anyhow::Result<()> {
    println!("{}", around_a_resumed_deletion(&Place::bucket()?, Choice::Sampled)?);
    Ok(())
}
