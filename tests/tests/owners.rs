//! One owner at a time: who may start, who is kept out, and who need not wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use checkpoint_pipeline::transform::{Batch, FnTransform, TransformError};
use checkpoint_pipeline::{ErrorKind, Ids, Pipeline};
use checkpoint_testkit::When;
use checkpoint_tests::{
    Blow, EffectKind, Ended, Ending, Format, Job, Place, Point, Rows, Running, Strike, audit, forge_foreign_owner,
    read_trace, renew, wait_until,
};

const CKPT: &str = env!("CARGO_BIN_EXE_ckpt-under-test");
const ROWS: Rows = Rows { count: 120, files: 2, format: Format::Parquet };

fn job<'a>(place: &'a Place, name: &str) -> anyhow::Result<Job<'a>> {
    ROWS.write(place, "input")?;
    Ok(Job::new(CKPT, place, name, "input", ROWS))
}

fn killed_before(job: &Job<'_>, kind: EffectKind, number: u64) -> anyhow::Result<()> {
    let strike = Strike { blow: Blow::Kill, when: When::Before, point: Point::Nth(kind, number) };
    let ended = job.start(Some(strike))?.wait()?;
    ensure!(ended.was_killed(), "it ended with {}:\n{}", ended.status, ended.stderr);
    Ok(())
}

/// Waits until a run has prepared a task.
fn wait_until_at_work(running: &mut Running) -> anyhow::Result<()> {
    wait_until("the first pending record", || {
        ensure!(!running.has_ended()?, "it ended:\n{}", running.stderr()?);
        Ok(read_trace(running.trace())?.iter().any(|line| line.kind == EffectKind::Pending).then_some(()))
    })
}

fn says(ended: &Ended, parts: &[&str]) -> anyhow::Result<()> {
    for part in parts {
        ensure!(ended.stderr.contains(part), "it does not say {part:?}:\n{}", ended.stderr);
    }
    Ok(())
}

#[test]
fn a_second_run_is_refused_by_name_while_one_runs() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let mut slow = job(&place, "job")?;
    slow.delay = Duration::from_millis(100);
    let mut running = slow.start(None)?;
    wait_until_at_work(&mut running)?;
    let second = job(&place, "job")?.run()?.expect(3)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    says(&second, &[&format!("process {}", running.pid()), &host, "running on this host"])?;
    ensure!(!second.stderr.contains("watching"), "it waited:\n{}", second.stderr);
    ensure!(read_trace(&second.trace)?.is_empty(), "it wrote something");
    running.wait()?.expect(0)?;
    audit(&slow, Ending::Deleted)
}

#[test]
fn after_a_kill_the_rerun_does_not_wait() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let mut job = job(&place, "job")?;
    job.extra.push("-v".to_owned());
    killed_before(&job, EffectKind::Data, 3)?;
    let ended = job.run()?.expect(0)?;
    says(&ended, &["its process is gone; taking over"])?;
    ensure!(!ended.stderr.contains("watching"), "it waited:\n{}", ended.stderr);
    audit(&job, Ending::Deleted)
}

#[test]
fn the_lease_of_another_host_is_watched_and_then_taken_over() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let job = job(&place, "job")?;
    killed_before(&job, EffectKind::Data, 3)?;
    forge_foreign_owner(&job, 1, 2)?;
    let ended = job.run()?.expect(0)?;
    says(&ended, &["another-host", "watching its lease for 2 s"])?;
    audit(&job, Ending::Deleted)
}

#[test]
fn the_lease_of_another_host_that_is_renewed_is_respected() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let job = job(&place, "job")?;
    killed_before(&job, EffectKind::Data, 3)?;
    forge_foreign_owner(&job, 1, 6)?;
    let before = place.list(&job.name)?;
    let mut running = job.start(None)?;
    wait_until("it to watch", || {
        ensure!(!running.has_ended()?, "it ended:\n{}", running.stderr()?);
        Ok(running.stderr()?.contains("watching its lease").then_some(()))
    })?;
    renew(&job, 1)?;
    let ended = running.wait()?.expect(3)?;
    says(&ended, &["another-host", "renewed its lease while it was watched"])?;
    ensure!(read_trace(&ended.trace)?.is_empty(), "it wrote something");
    ensure!(place.list(&job.name)?.keys().eq(before.keys()), "files came or went");
    // Once its owner is silent for the lease's length, the job goes on.
    forge_foreign_owner(&job, 1, 1)?;
    job.run()?.expect(0)?;
    audit(&job, Ending::Deleted)
}

#[test]
fn of_two_that_start_at_once_one_works() -> anyhow::Result<()> {
    let place = Place::directory()?;
    for round in 0..10 {
        let mut job = job(&place, &format!("job-{round}"))?;
        job.delay = Duration::from_millis(5);
        if round % 2 == 1 {
            killed_before(&job, EffectKind::Commit, 4)?;
        }
        let runs = [job.start(None)?, job.start(None)?];
        let ended: Vec<Ended> = runs.into_iter().map(Running::wait).collect::<anyhow::Result<_>>()?;
        let mut codes: Vec<Option<i32>> = ended.iter().map(|ended| ended.status.code()).collect();
        codes.sort_unstable();
        let said: Vec<&str> = ended.iter().map(|ended| ended.stderr.as_str()).collect();
        ensure!(codes == [Some(0), Some(3)], "round {round}: {codes:?} {said:?}");
        audit(&job, Ending::Deleted)?;
    }
    Ok(())
}

/// The job, run in this process.
fn pipeline(job: &Job<'_>) -> Pipeline {
    let [input, output, checkpoint] = job.urls();
    Pipeline::new([input], output, checkpoint, Ids::Column("id".into())).workers(1).batch_rows(10).rows_per_task(20)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_is_retried_in_the_same_process_at_once() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let job = job(&place, "job")?;
    let calls = AtomicUsize::new(0);
    let failing = FnTransform::new(move |batch: Batch| match calls.fetch_add(1, Ordering::Relaxed) {
        5 => Err(TransformError::new("the model fell over")),
        _ => Ok(vec![batch.records]),
    });
    let error = pipeline(&job).transform(failing).run().await.err().map(|error| error.kind());
    ensure!(error == Some(ErrorKind::Transform), "it should fail in the transform: {error:?}");
    // Were the lease still held, this would be refused.
    let report = pipeline(&job).run().await?;
    ensure!((report.attempt, report.skipped_rows, report.processed_rows) == (2, 50, 70), "{report:?}");
    audit(&job, Ending::Deleted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_refused_while_this_process_runs_one_and_not_after_that_is_dropped() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let job = job(&place, "job")?;
    let at_work = Arc::new(AtomicBool::new(false));
    let stuck = FnTransform::new_async({
        let (at_work, calls) = (Arc::clone(&at_work), AtomicUsize::new(0));
        move |batch: Batch| {
            let is_stuck = calls.fetch_add(1, Ordering::Relaxed) >= 5;
            at_work.fetch_or(is_stuck, Ordering::Relaxed);
            async move {
                if is_stuck {
                    std::future::pending::<()>().await;
                }
                Ok::<_, TransformError>(vec![batch.records])
            }
        }
    });
    let first = tokio::spawn(pipeline(&job).transform(stuck).run());
    while !at_work.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    match pipeline(&job).run().await {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            ensure!(error.to_string().contains("(this process)"), "it does not say which: {error}");
        }
        other => anyhow::bail!("a second run in this process: {other:?}"),
    }
    first.abort();
    ensure!(first.await.is_err_and(|error| error.is_cancelled()), "it ended by itself");
    let report = pipeline(&job).run().await?;
    ensure!(report.attempt == 2 && report.processed_rows < 120, "{report:?}");
    audit(&job, Ending::Deleted)
}
