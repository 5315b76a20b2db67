//! Zombies: a run that is stopped, taken over by another that finishes the job, and then wakes up.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use checkpoint_testkit::When;
use checkpoint_tests::{
    Blow, EffectKind, Ending, Format, Job, Place, Point, Rows, Running, Strike, attempt_path, audit, audit_committed,
    forge_foreign_owner,
};

const CKPT: &str = env!("CARGO_BIN_EXE_ckpt-under-test");
const PIPELINE: &str = env!("CARGO_BIN_EXE_pipeline-under-test");
const ROWS: Rows = Rows { count: 160, files: 2, format: Format::Parquet };

/// The lease of the zombie: its duration, renewal and margin in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// Over by its own clock when it wakes up.
    RunsOut,
    /// Still good by its own clock when it wakes up, as if the takeover had been a mistake; it goes on for a
    /// while, until its next renewal finds the new attempt.
    Holds,
}

impl Lease {
    fn times(self) -> &'static str {
        match self {
            Lease::RunsOut => "2500,1000,500",
            Lease::Holds => "60000,6000,1000",
        }
    }
}

/// Stops a run right before an effect of its third task, lets another take over, finish and delete the
/// checkpoint, and checks that the first then writes nothing at all.
fn zombie_without_a_checkpoint(place: &Place, kind: EffectKind) -> anyhow::Result<()> {
    ROWS.write(place, "input")?;
    let mut job = Job::new(CKPT, place, "job", "input", ROWS);
    let mut zombie = start_zombie(&mut job, kind, Lease::RunsOut)?;
    zombie.wait_stopped()?;
    forge_foreign_owner(&job, 1, 2)?;
    job.run()?.expect(0)?;
    audit(&job, Ending::Deleted)?;
    let before = place.copy_out(&job.name)?;
    zombie.go_on()?;
    zombie.wait()?.expect(3)?;
    ensure!(place.copy_out(&job.name)? == before, "it wrote something");
    let again = job.run()?.expect(0)?;
    ensure!(again.stdout.contains("already complete"), "it did something:\n{}", again.stdout);
    audit(&job, Ending::Deleted)
}

/// Stops a run right before an effect of its third task, and lets another take over and finish.
fn zombie_stopped_before(place: &Place, kind: EffectKind, lease: Lease) -> anyhow::Result<()> {
    ROWS.write(place, "input")?;
    let mut job = Job::new(CKPT, place, "job", "input", ROWS);
    job.keep = true;
    let mut zombie = start_zombie(&mut job, kind, lease)?;
    zombie.wait_stopped()?;

    // It is stopped, and so alive, on this host.
    let refused = job.run()?.expect(3)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for part in [&format!("process {}", zombie.pid()), &host] {
        ensure!(refused.stderr.contains(part), "it does not name {part}:\n{}", refused.stderr);
    }
    ensure!(!refused.stderr.contains("watching"), "it waited:\n{}", refused.stderr);

    // Were it on another host, its lease would be watched, and run out.
    forge_foreign_owner(&job, 1, 2)?;
    let heir = job.run()?.expect(0)?;
    ensure!(heir.stderr.contains("watching its lease for 2 s"), "it did not wait:\n{}", heir.stderr);
    audit(&job, Ending::Kept)?;
    let before = place.copy_out(&job.name)?;

    zombie.go_on()?;
    let ended = zombie.wait()?;
    let reasons = match lease {
        Lease::RunsOut => [(3, "its lease ran out")].as_slice(),
        // It finds the new attempt before or while it commits, or that its pending record is gone.
        Lease::Holds => &[(3, "took over"), (6, "took over"), (3, "was taken away")],
    };
    let fits = |(code, why): &(i32, &str)| ended.status.code() == Some(*code) && ended.stderr.contains(why);
    ensure!(reasons.iter().any(fits), "it ended with {}:\n{}", ended.status, ended.stderr);

    // Nothing that counts has changed, and what it left is known and swept.
    let left = audit_committed(&job)?;
    let after = place.copy_out(&job.name)?;
    // Its own lease it may mark as ended.
    let lease_file = format!("checkpoint/{}", attempt_path(1));
    let changed: Vec<&String> =
        before.iter().filter(|(name, bytes)| after.get(*name) != Some(bytes)).map(|(name, _)| name).collect();
    ensure!(changed.iter().all(|name| **name == lease_file), "changed or deleted: {changed:?}");
    let added: BTreeSet<String> = after.into_keys().filter(|name| !before.contains_key(name)).collect();
    ensure!(left == added, "{left:?} does not count, and {added:?} is new");
    if lease == Lease::RunsOut {
        ensure!(left.is_empty(), "it wrote after the end of its lease: {left:?}");
    }
    let (ok, said) = job.verify()?;
    ensure!(ok == left.is_empty(), "verify does not see what is left, {left:?}:\n{said}");
    let swept = job.run()?.expect(0)?;
    ensure!(swept.stdout.contains("already complete"), "it did something:\n{}", swept.stdout);
    audit(&job, Ending::Kept)
}

fn start_zombie(job: &mut Job<'_>, kind: EffectKind, lease: Lease) -> anyhow::Result<Running> {
    let mut args = job.urls().to_vec();
    args.extend([format!("lease={}", lease.times()), "keep=true".to_owned()]);
    let strike = Strike { blow: Blow::Stop, when: When::Before, point: Point::Nth(kind, 3) };
    // Once awake, slow enough that it is not through with the job before its next renewal.
    job.delay = Duration::from_millis(400);
    let zombie = job.start_program(PIPELINE, &args, Some(strike));
    job.delay = Duration::ZERO;
    zombie
}

#[test]
fn stopped_before_its_pending_record() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::directory()?, EffectKind::Pending, Lease::RunsOut)
}

#[test]
fn stopped_before_its_data() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::directory()?, EffectKind::Data, Lease::RunsOut)
}

#[test]
fn stopped_before_its_commit() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::directory()?, EffectKind::Commit, Lease::RunsOut)
}

#[test]
fn stopped_before_its_pending_record_with_a_lease_that_holds() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::directory()?, EffectKind::Pending, Lease::Holds)
}

#[test]
fn stopped_before_its_data_with_a_lease_that_holds() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::directory()?, EffectKind::Data, Lease::Holds)
}

#[test]
fn stopped_before_its_commit_with_a_lease_that_holds() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::directory()?, EffectKind::Commit, Lease::Holds)
}

#[test]
fn stopped_before_its_commit_and_the_checkpoint_is_deleted() -> anyhow::Result<()> {
    zombie_without_a_checkpoint(&Place::directory()?, EffectKind::Commit)
}

#[test]
fn s3_stopped_before_its_data_and_the_checkpoint_is_deleted() -> anyhow::Result<()> {
    zombie_without_a_checkpoint(&Place::bucket()?, EffectKind::Data)
}

#[test]
fn s3_stopped_before_its_pending_record() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::bucket()?, EffectKind::Pending, Lease::RunsOut)
}

#[test]
fn s3_stopped_before_its_data_with_a_lease_that_holds() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::bucket()?, EffectKind::Data, Lease::Holds)
}

#[test]
fn s3_stopped_before_its_commit_with_a_lease_that_holds() -> anyhow::Result<()> {
    zombie_stopped_before(&Place::bucket()?, EffectKind::Commit, Lease::Holds)
}
