//! `kill -9` between the files of one task: the data is there, and the rows set aside are not yet.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use bytes::Bytes;
use checkpoint_testkit::When;
use checkpoint_tests::{Blow, Census, EffectKind, Format, Job, Place, Point, Row, Rows, Strike};

const CKPT: &str = env!("CARGO_BIN_EXE_ckpt-under-test");
const ROWS: Rows = Rows { count: 80, files: 1, format: Format::Parquet };
/// The ID of row 25: in the second of the four tasks.
const ID: i64 = 1_000_178;

/// A worker that dies of one row.
fn script() -> String {
    format!(
        r#"while IFS= read -r line; do
            case "$line" in *'"id":{ID},'*) exit 9;; esac
            printf '%s\n' "$line"
        done"#
    )
}

/// Kills the job before an effect on the data of its second task, which has two files, and runs it again.
fn kill_before(kind: EffectKind, number: u64, expected: Row) -> anyhow::Result<()> {
    let place = Place::directory()?;
    ROWS.write(&place, "input")?;
    let mut job = Job::new(CKPT, &place, "job", "input", ROWS);
    job.workers = 1;
    let script = script();
    job.extra = ["--exec", &script, "--exec-format", "jsonl", "--max-failed-rows", "5"].map(str::to_owned).to_vec();
    let strike = Strike { blow: Blow::Kill, when: When::Before, point: Point::Nth(kind, number) };
    let ended = job.start(Some(strike))?.wait()?;
    ensure!(ended.was_killed(), "it ended with {}:\n{}", ended.status, ended.stderr);
    let census = Census::take(&job)?;
    let second = census.tasks.iter().find(|(name, _)| name.ends_with("-1-000002")).map(|(_, row)| *row);
    ensure!(second == Some(expected), "the second task should be {expected:?}: {census:?}");
    let files = place.list(&job.output(""))?;
    ensure!(files.keys().any(|file| file.contains("-1-000002.parquet")), "its data should be there: {files:?}");

    // A row is set aside: the run says so, and keeps its checkpoint.
    job.run()?.expect(1)?;
    let mut files = place.copy_out(&job.output(""))?;
    let failed: BTreeMap<String, Bytes> = files.extract_if(.., |name, _| name.starts_with("_failed/")).collect();
    ensure!(files.len() == 4, "there should be four data files: {:?}", files.keys());
    ROWS.check_without(&files, &[ID])?;
    ensure!(failed.len() == 1, "there should be one file of failed rows: {:?}", failed.keys());
    let text = failed.into_values().next().context("no file")?;
    let lines: Vec<serde_json::Value> = text
        .split(|byte| *byte == b'\n')
        .filter(|l| !l.is_empty())
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()?;
    ensure!(lines.len() == 1 && lines[0]["id"] == ID, "the one row should be set aside once: {lines:?}");
    let (ok, said) = job.verify()?;
    ensure!(ok, "verify is not content:\n{said}");
    Ok(())
}

#[test]
fn kill_before_the_second_file_of_a_task() -> anyhow::Result<()> {
    kill_before(EffectKind::Data, 3, Row::PendingIncomplete)
}

#[test]
fn kill_after_the_second_file_of_a_task() -> anyhow::Result<()> {
    kill_before(EffectKind::Commit, 2, Row::PendingComplete)
}
