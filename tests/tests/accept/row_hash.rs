//! Row hashes: rows named by their file and position, so the input must stay as it is.

use std::fs;
use std::path::Path;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, UInt64Type};
use parquet::file::properties::WriterProperties;

use crate::support::tables::{read_parquet, write_parquet_with};
use crate::support::{Job, Ran, Tree, copy_dir, fixture, int_rows, program, read_dir, write_parquet};

/// Forty rows in four files, half of them done, named by row hashes.
fn half_done() -> Job {
    let job = Job::by_row_hash();
    for part in 0..4 {
        write_parquet(&job.input().join(format!("part-{part}.parquet")), &int_rows(part * 10..part * 10 + 10));
    }
    job.run_until(20, 10, &["--job-version", "1"]);
    job
}

#[track_caller]
fn every_row_once(job: &Job) {
    assert_eq!(crate::support::ids_of(&read_dir(&job.output())), (0..40).collect::<Vec<i64>>());
}

/// Changes the job and expects a run to stop with these words, before it touches anything.
#[track_caller]
fn stops(change: impl FnOnce(&Job), version: &[&str], says: &[&str]) {
    let job = half_done();
    change(&job);
    let before = (Tree::of(&job.output()), records(&job));
    let check = |ran: Ran| drop(ran.exits(3).complains().says(says).says(&["--allow-changed-read"]));
    check(job.run(version));
    check(job.plan(version));
    before.0.is(&Tree::of(&job.output()));
    assert_eq!(before.1, records(&job), "nothing is committed");
}

fn records(job: &Job) -> Vec<String> {
    Tree::of(&job.checkpoint()).files().into_iter().filter(|f| f.ends_with(".parquet")).map(str::to_owned).collect()
}

#[test]
fn a_file_that_was_added_stops_the_job() {
    let add = |job: &Job| write_parquet(&job.input().join("part-9.parquet"), &int_rows(90..95));
    stops(add, &["--job-version", "1"], &["input file added", "part-9.parquet"]);
}

#[test]
fn a_file_that_was_removed_stops_the_job() {
    let remove = |job: &Job| fs::remove_file(job.input().join("part-0.parquet")).expect("it goes");
    stops(remove, &["--job-version", "1"], &["input file gone", "part-0.parquet"]);
}

#[test]
fn a_file_that_was_renamed_stops_the_job() {
    let rename = |job: &Job| {
        fs::copy(job.input().join("part-1.parquet"), job.input().join("new.parquet")).expect("it is copied");
        fs::remove_file(job.input().join("part-1.parquet")).expect("the old name goes");
    };
    stops(rename, &["--job-version", "1"], &["input file gone", "part-1.parquet", "input file added", "new.parquet"]);
}

#[test]
fn rows_that_were_inserted_stop_the_job() {
    let insert = |job: &Job| write_parquet(&job.input().join("part-0.parquet"), &int_rows(-3..10));
    stops(insert, &["--job-version", "1"], &["input file changed", "part-0.parquet", "bytes"]);
}

#[test]
fn a_file_that_was_written_again_in_the_same_size_stops_the_job() {
    let rewrite = |job: &Job| {
        let path = job.input().join("part-0.parquet");
        let bytes = fs::read(&path).expect("a file");
        fs::remove_file(&path).expect("it goes");
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&path, bytes).expect("and comes back");
    };
    stops(rewrite, &["--job-version", "1"], &["part-0.parquet", "written again"]);
}

#[test]
fn another_job_version_stops_the_job() {
    stops(|_| (), &["--job-version", "2"], &["the job's version", "\"1\"", "\"2\""]);
    stops(|_| (), &[], &["the job's version", "\"1\"", "none"]);
}

/// The same rows under another path are other row hashes.
#[test]
fn a_moved_directory_or_another_path_to_it_stops_the_job() {
    for link in [false, true] {
        let job = half_done();
        let moved = job.dir().join("moved");
        if link {
            std::os::unix::fs::symlink(job.input(), &moved).expect("a link is made");
        } else {
            copy_dir(&job.input(), &moved);
        }
        let before = (Tree::of(&job.output()), records(&job));
        let ran = run_on(&job, &moved, &["--job-version", "1"]);
        ran.exits(3).complains().says(&["input file gone", "input file added", "moved/part-0.parquet"]);
        before.0.is(&Tree::of(&job.output()));
        assert_eq!(before.1, records(&job));
    }
}

fn run_on(job: &Job, input: &Path, extra: &[&str]) -> Ran {
    let mut command = program::command();
    command.arg("run").arg("--input").arg(input).arg("--output").arg(job.output());
    command.arg("--checkpoint").arg(job.checkpoint()).args(["--row-hash", "--json"]).args(extra);
    program::run(&mut command)
}

/// Ways to write the same path are one path.
#[test]
fn other_spellings_of_the_same_path_resume() {
    let job = half_done();
    let spelled = format!("{}/./../input//", job.input().display());
    let found = run_on(&job, Path::new(&spelled), &["--job-version", "1"]);
    found.exits(0).numbers(&[("skipped_rows", 20), ("processed_rows", 20)]);
    every_row_once(&job);
    let job = half_done();
    let url = format!("file://{}", job.input().display());
    let found = run_on(&job, Path::new(&url), &["--job-version", "1"]);
    found.exits(0).numbers(&[("skipped_rows", 20), ("processed_rows", 20)]);
    every_row_once(&job);
}

#[test]
fn an_allowed_change_goes_on_and_is_recorded() {
    let job = half_done();
    write_parquet(&job.input().join("part-9.parquet"), &int_rows(90..95));
    let ran = job.run_in_tasks(10, &["--allow-changed-read", "--job-version", "2", "--keep-checkpoint"]).exits(0);
    ran.numbers(&[("skipped_rows", 20), ("processed_rows", 25)]);
    // What it is now is the new normal: no flag, and the old is a change.
    job.run(&["--job-version", "2", "--keep-checkpoint"]).exits(0).numbers(&[("processed_rows", 0)]);
    job.run(&["--job-version", "1", "--keep-checkpoint"]).exits(3).complains();
}

#[test]
fn how_the_work_is_cut_and_done_may_change() {
    let changes: [&[&str]; 4] = [
        &["--workers", "3"],
        &["--batch-size", "3"],
        &["--rows-per-task", "7"],
        &["--exec", "exec cat", "--workers", "2", "--batch-size", "4"],
    ];
    for change in changes {
        let job = half_done();
        let ran = job.run(&[&["--job-version", "1"], change].concat()).exits(0);
        ran.numbers(&[("skipped_rows", 20), ("processed_rows", 20)]);
        every_row_once(&job);
    }
}

/// The same holds for a job with an ID column, where only a file that is gone is a change of the input.
#[test]
fn with_an_id_column_a_file_may_come_and_change_but_not_go() {
    let job = Job::new();
    for part in 0..4 {
        write_parquet(&job.input().join(format!("part-{part}.parquet")), &int_rows(part * 10..part * 10 + 10));
    }
    job.run_until(20, 10, &[]);
    let last = job.input().join("part-3.parquet");
    let bytes = fs::read(&last).expect("a file");
    fs::remove_file(&last).expect("it goes");
    let before = Tree::of(&job.output());
    job.run(&[]).exits(3).complains().says(&["input file gone", "part-3.parquet", "--allow-changed-read"]);
    before.is(&Tree::of(&job.output()));
    job.run(&["--job-version", "2"]).exits(3).complains().says(&["part-3.parquet", "the job's version"]);
    fs::write(&last, bytes).expect("it comes back");
    write_parquet(&job.input().join("part-0.parquet"), &int_rows(-5..10));
    write_parquet(&job.input().join("part-4.parquet"), &int_rows(40..45));
    job.run(&["--workers", "3", "--exec", "exec cat"])
        .exits(0)
        .numbers(&[("skipped_rows", 20), ("processed_rows", 30)]);
    assert_eq!(crate::support::ids_of(&read_dir(&job.output())), (-5..45).collect::<Vec<i64>>());
}

/// IDs that are made anew in each run have nothing in common with what is done.
#[test]
fn an_input_that_matches_nothing_that_is_done_stops_the_job() {
    let job = Job::new();
    let path = job.input().join("a.parquet");
    write_parquet(&path, &int_rows(0..20));
    job.run_until(10, 5, &[]);
    write_parquet(&path, &int_rows(1000..1020));
    let before = Tree::of(&job.output());
    job.run(&[]).exits(3).complains().says(&["none of the input's IDs", "1000", "--allow-changed-read"]);
    before.is(&Tree::of(&job.output()));
    job.run(&["--allow-changed-read"]).exits(0).numbers(&[("processed_rows", 20), ("skipped_rows", 0)]);
}

/// Ray's own hashes of the same files at the same place, bit for bit.
#[test]
fn row_hashes_are_rays() {
    let expect: serde_json::Value =
        serde_json::from_slice(&fs::read(fixture("ray-2.60/row-hash/expect.json")).expect("a fixture")).expect("JSON");
    let made_in = Path::new(expect["made_in"].as_str().expect("a path"));
    let _place = crate::support::place::Lent::new(made_in);
    copy_dir(&fixture("ray-2.60/row-hash/input"), &made_in.join("input"));

    let job = Job::by_row_hash();
    run_on(&job, &made_in.join("input"), &["--workers", "1", "--batch-size", "3", "--keep-checkpoint"]).exits(0);
    let output = read_dir(&job.output());
    let column = output.column_by_name("row_hash").expect("the hash is in the output");
    assert_eq!(column.data_type(), &DataType::UInt64);
    let mut got: Vec<u64> = column.as_primitive::<UInt64Type>().values().to_vec();
    got.sort_unstable();
    let hashes = |file: &serde_json::Value| -> Vec<u64> {
        let ids = file["ids"].as_array().expect("IDs").iter();
        ids.map(|id| id.as_str().expect("a decimal").parse().expect("a uint64")).collect()
    };
    let files = expect["input"].as_array().expect("files");
    let mut wanted: Vec<u64> = files.iter().flat_map(hashes).collect();
    wanted.sort_unstable();
    assert_eq!(got, wanted);

    // In order within each file: the hash says which file and which row.
    for file in files {
        let name = Path::new(file["file"].as_str().expect("a name"));
        let rows = read_parquet(&fixture("ray-2.60/row-hash").join(name));
        let columns: Vec<&str> = rows.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
        assert!(!columns.contains(&"row_hash"), "the input itself has none: {columns:?}");
        for (row, hash) in hashes(file).into_iter().enumerate() {
            let at = column.as_primitive::<UInt64Type>().values().iter().position(|h| *h == hash).expect("is there");
            for (index, name) in columns.iter().enumerate() {
                let written = output.column_by_name(name).expect("a column");
                assert_eq!(written.slice(at, 1).as_ref(), rows.column(index).slice(row, 1).as_ref(), "{name}");
            }
        }
    }
}

/// Positions count through row groups and do not depend on how a file is read.
#[test]
fn row_hashes_do_not_depend_on_batches_or_row_groups() {
    let mut all: Vec<Vec<u64>> = Vec::new();
    let place = tempfile::tempdir().expect("a directory is made");
    for (group, batch) in [(1000, "1000"), (7, "3"), (1, "1000")] {
        let job = Job::by_row_hash();
        let input = place.path().join("x.parquet");
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
        write_parquet_with(&input, &int_rows(0..50), properties);
        run_on(&job, &input, &["--batch-size", batch, "--workers", "1"]).exits(0);
        let output = read_dir(&job.output());
        let hashes = output.column_by_name("row_hash").expect("a column").as_primitive::<UInt64Type>().clone();
        assert_eq!(hashes.null_count(), 0);
        all.push(hashes.values().to_vec());
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
}
