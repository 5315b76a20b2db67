//! `ckpt demo`: the promise, shown on this machine in a few seconds, without a server.

mod child;
mod count;
mod input;

use std::path::{Path, PathBuf};
use std::time::Duration;

use checkpoint_store::{Checkpoint, ErrorKind, Status};
use clap::Args;

use self::child::Job;
use crate::amount::{count, counted, seconds};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::session::Session;

/// Rows of the input.
const ROWS: u64 = 2_000;
/// Files of the input.
const FILES: u64 = 4;
/// How long the job may take to get half way.
const PATIENCE: Duration = Duration::from_secs(60);

/// `ckpt demo`.
#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Where to work: a directory that is empty or does not exist [default: a new temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Shows it, and answers whether the promise held.
pub(crate) async fn run(args: &DemoArgs, session: &Session) -> Result<Exit> {
    let out = &session.out;
    let dir = demo_dir(args.dir.as_deref())?;
    let shown = dir.display();
    out.line(format!("Working in {shown}"))?;
    input::write(&dir.join("input"), ROWS, FILES)?;
    out.line(format!("An input of {} in {FILES} files, and a job that takes a few seconds:", counted(ROWS, "row")))?;
    out.line("")?;
    let job = Job::new(&dir)?;
    out.line(format!("  $ {}", job.shown()))?;

    let first = job.start()?;
    let half_way = half_way(session, &dir).await;
    if let Some(ended) = first.kill().await? {
        return Err(ended);
    }
    half_way?;
    let left = status(session, &dir).await?;
    out.line("  kill -9 half way, the program and its workers at once")?;
    out.line(format!("  left behind: {}", describe(&left, count::files(&dir.join("output"))?)))?;
    out.line("")?;

    out.line("The same command again:")?;
    out.line("")?;
    out.line(format!("  $ {}", job.shown()))?;
    let report = job.finish().await?;
    out.line(format!(
        "  {} skipped, they were done; {} computed, in {}",
        counted(report.skipped_rows, "row"),
        count(report.processed_rows),
        seconds(report.seconds)
    ))?;
    out.line("")?;

    let found = count::read(&dir.join("output"), ROWS)?;
    let once = format!("{} of {}", count(found.once), counted(ROWS, "row"));
    out.line(format!(
        "Counting the output: {once} there exactly once, {} missing, {} doubled",
        found.missing, found.doubled
    ))?;
    if !found.is_right() {
        return Err(Failure::new(Exit::No, format!("the promise did not hold: dir={shown}"))
            .with_hint("this is a bug; please report it with the content of that directory"));
    }
    out.line("Kill it anywhere, run it again, and every row is in the output exactly once.")?;
    out.line(format!("All of it is still in {shown}"))?;
    Ok(Exit::Done)
}

/// What a killed job left, given the number of its data files.
fn describe(status: &Status, files: u64) -> String {
    let rows = format!("{} of {} rows", count(status.committed_rows), count(ROWS));
    let tasks = counted(status.committed_tasks, "committed task");
    match files.saturating_sub(status.committed_tasks) {
        0 => format!("{rows} in {tasks}, the rest cut off"),
        uncommitted => format!("{rows} in {tasks}, and {} without a commit", counted(uncommitted, "data file")),
    }
}

/// An empty directory, absolute.
fn demo_dir(given: Option<&Path>) -> Result<PathBuf> {
    let wrong = |dir: &Path, error: &std::io::Error| {
        Failure::usage(format!("the demo's directory cannot be used: {error}: dir={}", dir.display()))
            .with_hint("give another with --dir")
    };
    let Some(dir) = given else {
        let made = tempfile::Builder::new().prefix("ckpt-demo-").tempdir();
        return made.map(tempfile::TempDir::keep).map_err(|error| wrong(&std::env::temp_dir(), &error));
    };
    let make = || {
        std::fs::create_dir_all(dir)?;
        let is_empty = std::fs::read_dir(dir)?.next().is_none();
        Ok((is_empty, std::path::absolute(dir)?))
    };
    match make() {
        Ok((true, dir)) => Ok(dir),
        Ok((false, _)) => Err(Failure::usage(format!("the demo's directory is not empty: dir={}", dir.display()))
            .with_hint("give a directory that is empty or does not exist")),
        Err(error) => Err(wrong(dir, &error)),
    }
}

/// Returns once half of the rows are committed.
async fn half_way(session: &Session, dir: &Path) -> Result<()> {
    let began = session.runtime.elapsed();
    loop {
        match status(session, dir).await {
            Ok(status) if status.committed_rows >= ROWS / 2 => return Ok(()),
            Ok(_) => {}
            Err(failure) if failure.exit() == Exit::Usage => {}
            Err(failure) => return Err(failure),
        }
        if session.runtime.elapsed() - began > PATIENCE {
            return Err(Failure::new(Exit::No, "the job did not get half way in a minute")
                .with_hint(format!("try it by hand in {}", dir.display())));
        }
        session.runtime.sleep(Duration::from_millis(50)).await;
    }
}

async fn status(session: &Session, dir: &Path) -> Result<Status> {
    let url = dir.join("checkpoint");
    let storage = session.open_dir(&url.to_string_lossy()).await?;
    let checkpoint = Checkpoint::new(storage, session.runtime.clone());
    match checkpoint_store::status(&checkpoint).await {
        Err(error) if error.kind() == ErrorKind::NoCheckpoint => Err(Failure::usage("the job has not begun yet")),
        other => Ok(other?),
    }
}
