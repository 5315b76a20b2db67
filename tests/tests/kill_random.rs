//! `kill -9` of the whole process group at random moments, and again while it recovers: each row once.

use std::time::Duration;

use checkpoint_tests::{Place, random_kills};

const CKPT: &str = env!("CARGO_BIN_EXE_ckpt-under-test");

#[expect(clippy::print_stdout, reason = "says what the kills hit")]
fn siege(what: &str, place: &Place) -> anyhow::Result<()> {
    let seed = random_kills::seed()?;
    let tally = random_kills::run(CKPT, place, Duration::from_millis(3), random_kills::kills_wanted()?, seed)?;
    println!("on {what}, seed {seed}: {tally}");
    Ok(())
}

#[test]
fn kill_at_random_moments() -> anyhow::Result<()> {
    siege("POSIX", &Place::directory()?)
}

#[test]
fn kill_on_object_store_at_random_moments() -> anyhow::Result<()> {
    siege("the S3 server", &Place::bucket()?)
}

#[test]
fn kill_on_cos_at_random_moments() -> anyhow::Result<()> {
    siege("the mock of COS", &Place::cos()?)
}

#[test]
fn kill_on_oss_at_random_moments() -> anyhow::Result<()> {
    siege("the mock of OSS", &Place::oss()?)
}

#[test]
fn kill_gs_at_random_moments() -> anyhow::Result<()> {
    siege("fake-gcs-server", &Place::gs()?)
}

#[test]
fn kill_on_tclake_at_random_moments() -> anyhow::Result<()> {
    siege("the mock of TCLake", &Place::tclake()?)
}

#[test]
fn kill_az_at_random_moments() -> anyhow::Result<()> {
    siege("Azurite", &Place::az()?)
}
