//! SIGKILL to a child worker alone, while it holds a batch.

use std::path::Path;

use anyhow::{Context, ensure};
use checkpoint_tests::{Census, Ending, Format, Job, Place, Row, Rows, audit, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const CKPT: &str = env!("CARGO_BIN_EXE_ckpt-under-test");
const ROWS: Rows = Rows { count: 80, files: 1, format: Format::Parquet };
/// The ID of row 55: in the second batch of the third of the four tasks.
const ID: &str = "1000388";

/// A worker that answers every row as it came, and the first time that it sees one row of the third task
/// writes its process ID into a file and answers nothing any more.
fn script(dir: &Path) -> String {
    format!(
        r#"while IFS= read -r line; do
            case "$line" in *'"id":{ID},'*)
                if mkdir '{dir}/once' 2>/dev/null; then echo $$ >'{dir}/new' && mv '{dir}/new' '{dir}/pid'; exec sleep 600; fi;;
            esac
            printf '%s\n' "$line"
        done"#,
        dir = dir.display()
    )
}

/// A job whose worker waits to be killed.
fn job<'a>(place: &'a Place, extra: &[&str]) -> anyhow::Result<Job<'a>> {
    ROWS.write(place, "input")?;
    let dir = place.scratch("worker");
    std::fs::create_dir(&dir)?;
    let mut job = Job::new(CKPT, place, "job", "input", ROWS);
    job.workers = 1;
    job.extra = ["--exec", &script(&dir), "--exec-format", "jsonl"].map(str::to_owned).to_vec();
    job.extra.extend(extra.iter().map(|arg| (*arg).to_owned()));
    Ok(job)
}

/// Kills the worker once it holds its batch.
fn kill_worker(place: &Place) -> anyhow::Result<()> {
    let file = place.scratch("worker").join("pid");
    let pid = wait_until("the worker to hold a batch", || Ok(std::fs::read_to_string(&file).ok()))?;
    let pid = Pid::from_raw(pid.trim().parse()?).context("no process ID")?;
    Ok(kill_process(pid, Signal::KILL)?)
}

#[test]
fn kill_of_a_worker_fails_its_batch_and_the_rerun_completes() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let job = job(&place, &[])?;
    let running = job.start(None)?;
    kill_worker(&place)?;
    let ended = running.wait()?.expect(1)?;
    for part in ["SIGKILL", "10 rows", ID] {
        ensure!(ended.stderr.contains(part), "the error does not say {part:?}:\n{}", ended.stderr);
    }
    let census = Census::take(&job)?;
    let committed = census.tasks.values().filter(|row| **row == Row::Committed).count();
    // Two whole tasks, and the batch of the third that was answered before.
    ensure!(committed == 3 && census.tasks.len() == 3, "what was finished is committed: {census:?}");
    let ended = job.run()?.expect(0)?;
    ensure!(ended.stdout.contains("50 rows, done before"), "it did not skip what was done:\n{}", ended.stdout);
    audit(&job, Ending::Deleted)
}

#[test]
fn kill_of_a_worker_is_survived_where_rows_may_fail() -> anyhow::Result<()> {
    let place = Place::directory()?;
    let job = job(&place, &["--max-failed-rows", "1000"])?;
    let running = job.start(None)?;
    kill_worker(&place)?;
    // The batch is tried again in halves, by a new worker, and no row fails for itself.
    running.wait()?.expect(0)?;
    audit(&job, Ending::Deleted)
}
