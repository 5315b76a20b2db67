//! `kill -9` of the whole process group at random moments, and again while it recovers: each row once.

use std::time::Duration;

use checkpoint_tests::{Place, random_kills};

const CKPT: &str = env!("CARGO_BIN_EXE_ckpt-under-test");

#[test]
fn kill_at_random_moments() -> anyhow::Result<()> {
    let seed = random_kills::seed()?;
    let place = Place::directory()?;
    let tally = random_kills::run(CKPT, &place, Duration::from_millis(3), random_kills::kills_wanted()?, seed)?;
    println!("on POSIX, seed {seed}: {tally}");
    Ok(())
}

#[test]
fn kill_on_object_store_at_random_moments() -> anyhow::Result<()> {
    let seed = random_kills::seed()?;
    let place = Place::bucket()?;
    let tally = random_kills::run(CKPT, &place, Duration::from_millis(3), random_kills::kills_wanted()?, seed)?;
    println!("on the S3 server, seed {seed}: {tally}");
    Ok(())
}
