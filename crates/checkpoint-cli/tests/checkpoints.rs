//! `status`, `ids`, `verify`, `recover`, `rm` and `gc` over checkpoints that are whole, damaged and old.

mod program;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use program::{ckpt, command, write_rows};
use serde_json::{Value, json};

/// A job of 30 rows in 3 tasks that is done and keeps its checkpoint.
fn kept() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    write_rows(&dir.path().join("in/a.parquet"), 0..30);
    run(dir.path()).exits(0);
    dir
}

fn run(dir: &Path) -> program::Ended {
    let sizes = ["--rows-per-task", "10", "--batch-size", "10", "--workers", "1", "--keep-checkpoint", "--json"];
    ckpt(dir, &[&["run", "--input", "in", "--job-dir", "job", "--id-column", "id"], &sizes[..]].concat())
}

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("lists").map(|entry| entry.expect("entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    files
}

fn verify(dir: &Path) -> program::Ended {
    ckpt(dir, &["verify", "job/checkpoint", "--output", "job/output", "--json"])
}

#[test]
fn status_counts() {
    let dir = kept();
    let status = ckpt(dir.path(), &["status", "job/checkpoint", "--json"]).exits(0).json();
    assert_eq!((&status["committed_rows"], &status["committed_tasks"]), (&json!(30), &json!(3)));
    assert_eq!((&status["id_column"], &status["id_type"]), (&json!("id"), &json!("Int64")));
    let shown = ckpt(dir.path(), &["status", "job/checkpoint"]).exits(0).out;
    assert!(shown.contains("committed     30 rows in 3 tasks\n"), "{shown}");
    assert!(shown.contains("last attempt  1, succeeded "), "{shown}");
    let last = &status["last_attempt"];
    assert_eq!((&last["attempt"], &last["state"]), (&json!(1), &json!("succeeded")));
    assert!(
        last["pid"].as_u64().is_some_and(|pid| pid > 0) && last["host"].as_str().is_some_and(|host| !host.is_empty())
    );
}

#[test]
fn ids_are_listed_in_three_formats() {
    let dir = kept();
    let dir = dir.path();
    let sorted = |mut ids: Vec<i64>| {
        ids.sort_unstable();
        ids
    };
    let all: Vec<i64> = (0..30).collect();
    let text = ckpt(dir, &["ids", "job/checkpoint"]).exits(0).out;
    assert_eq!(sorted(text.lines().map(|line| line.parse().expect("a number")).collect()), all);
    let lines = ckpt(dir, &["ids", "job/checkpoint", "--format", "jsonl"]).exits(0).out;
    let id = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["id"].as_i64().expect("a number");
    assert_eq!(sorted(lines.lines().map(id).collect()), all);
    let path = dir.join("ids.parquet");
    let out = File::create(&path).expect("created");
    let ended = command(dir).args(["ids", "job/checkpoint", "--format", "parquet"]).stdout(out).status();
    assert!(ended.expect("runs").success());
    let batches = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("opens")).expect("Parquet");
    let mut ids: Vec<i64> = Vec::new();
    for batch in batches.build().expect("reads") {
        ids.extend(batch.expect("batch").column_by_name("id").expect("ids").as_primitive::<Int64Type>().values());
    }
    assert_eq!(sorted(ids), all);
    assert_eq!(ckpt(dir, &["ids", "job/checkpoint", "--count", "--json"]).exits(0).json(), json!({"count": 30}));
}

#[test]
fn ids_are_looked_up_by_value() {
    let dir = kept();
    let dir = dir.path();
    let contains = |ids: &[&str]| {
        let flags = ids.iter().flat_map(|id| ["--contains", id]);
        ckpt(dir, &["ids", "job/checkpoint"].into_iter().chain(flags).collect::<Vec<_>>())
    };
    assert_eq!(contains(&["0", "29"]).exits(0).out, "0\tpresent\n29\tpresent\n");
    assert_eq!(contains(&["-1", "29"]).exits(1).out, "-1\tabsent\n29\tpresent\n");
    contains(&["1", "x7"]).complains(2, r#"id="x7""#);
    contains(&["18446744073709551615"]).exits(1);
}

#[test]
fn ids_of_other_types_are_listed_as_they_are_looked_up() {
    let dir = tempfile::tempdir().expect("temp dir");
    let dir = dir.path();
    fs::create_dir(dir.join("in")).expect("made");
    for (name, rows, absent) in [
        ("text", [r#""a b""#, r#""é""#], "ab"),
        ("large", ["9007199254740993", "9007199254740992"], "9007199254740991"),
        ("top", ["18446744073709551615", "0"], "1"),
        ("flag", ["true", "false"], ""),
    ] {
        let lines: String = rows.iter().map(|row| format!("{{\"id\": {row}}}\n")).collect();
        fs::write(dir.join("in").join(format!("{name}.jsonl")), lines).expect("written");
        let (input, job) = (format!("in/{name}.jsonl"), format!("job-{name}"));
        let args = ["run", "--input", &input, "--job-dir", &job, "--id-column", "id", "--keep-checkpoint"];
        ckpt(dir, &args).exits(0);
        let checkpoint = format!("{job}/checkpoint");
        let listed = ckpt(dir, &["ids", &checkpoint]).exits(0).out;
        assert_eq!(listed.lines().count(), 2, "{listed}");
        for id in listed.lines() {
            ckpt(dir, &["ids", &checkpoint, "--contains", id]).exits(0);
        }
        if !absent.is_empty() {
            ckpt(dir, &["ids", &checkpoint, "--contains", absent]).exits(1);
        }
    }
}

#[test]
fn verify_and_repair_find_what_was_lost() {
    let dir = kept();
    let dir = dir.path();
    assert_eq!(verify(dir).exits(0).json()["ok"], json!(true));
    fs::remove_file(&files(&dir.join("job/output"), ".parquet")[1]).expect("removed");
    let report = verify(dir).exits(1).json();
    assert_eq!((&report["ok"], &report["lost_tasks"]), (&json!(false), &json!(1)));
    let shown = ckpt(dir, &["verify", "job/checkpoint", "--output", "job/output"]).exits(1).out;
    assert!(shown.starts_with("not ok") && shown.contains("examples:\n"), "{shown}");
    let recover = ["recover", "job/checkpoint", "--output", "job/output", "--repair", "--json"];
    let foreseen = ckpt(dir, &[&recover[..], &["--dry-run"]].concat()).exits(0).json();
    assert_eq!((&foreseen["repaired_tasks"], &foreseen["dry_run"]), (&json!(1), &json!(true)));
    verify(dir).exits(1);
    assert_eq!(ckpt(dir, &recover).exits(0).json()["repaired_tasks"], json!(1));
    let report = run(dir).exits(0).json();
    assert_eq!((&report["processed_rows"], &report["skipped_rows"]), (&json!(10), &json!(20)));
    verify(dir).exits(0);
}

#[test]
fn ids_beyond_their_memory_go_to_the_directory_that_is_named() {
    let dir = tempfile::tempdir().expect("temp dir");
    let dir = dir.path();
    // So many that they are sorted in more than one part.
    write_rows(&dir.join("in/a.parquet"), 0..40_000);
    let job = ["--input", "in", "--job-dir", "job", "--id-column", "id", "--keep-checkpoint"];
    ckpt(dir, &[&["run"], &job[..], &["--rows-per-task", "20000", "--workers", "1"]].concat()).exits(0);
    // A job that is done needs no set.
    fs::remove_file(&files(&dir.join("job/output"), ".parquet")[1]).expect("removed");
    ckpt(dir, &["recover", "job/checkpoint", "--output", "job/output", "--repair"]).exits(0);
    let commands = [
        [&["run"], &job[..]].concat(),
        [&["plan"], &job[..]].concat(),
        vec!["verify", "job/checkpoint", "--output", "job/output"],
        vec!["recover", "job/checkpoint", "--output", "job/output"],
        vec!["compact", "job/checkpoint"],
    ];
    for command in &commands {
        let no_room = [&command[..], &["--id-memory", "0B", "--spill-dir", "not-there"]].concat();
        let error = ckpt(dir, &no_room).exits(2).err;
        assert!(error.contains("dir=not-there"), "{error}");
    }
    for command in &commands {
        ckpt(dir, &[&command[..], &["--id-memory", "0B", "--spill-dir", "."]].concat()).exits(0);
    }
    let error = ckpt(dir, &[&commands[2][..], &["--id-memory", "4GB"]].concat()).exits(2).err;
    assert!(error.contains("4GiB"), "{error}");
}

#[test]
fn a_damaged_record_is_code_5_and_named() {
    let dir = kept();
    let dir = dir.path();
    let record = &files(&dir.join("job/checkpoint"), ".parquet")[0];
    fs::write(record, "").expect("emptied");
    let name = record.file_name().expect("has one").to_string_lossy();
    run(dir).complains(5, &name);
    ckpt(dir, &["ids", "job/checkpoint", "--count"]).complains(5, &name);
    ckpt(dir, &["recover", "job/checkpoint", "--output", "job/output"]).complains(5, &name);
}

#[test]
fn a_file_longer_than_any_that_belongs_there_is_named_and_not_read() {
    for is_record in [true, false] {
        let dir = kept();
        let dir = dir.path();
        let checkpoint = dir.join("job/checkpoint");
        let file = if is_record { files(&checkpoint, ".parquet").remove(0) } else { checkpoint.join("_meta/job.json") };
        // A hole, which takes no room on the disk.
        fs::File::options().write(true).open(&file).expect("opens").set_len(64 << 30).expect("grows");
        let name = file.file_name().expect("has one").to_string_lossy();
        for command in
            [&["ids", "job/checkpoint", "--count"][..], &["verify", "job/checkpoint", "--output", "job/output"]]
        {
            let complained = ckpt(dir, command).complains(5, &name);
            assert!(complained.err.contains("is longer than any that belongs there"), "{}", complained.err);
        }
    }
}

#[test]
fn a_start_that_was_killed_before_its_job_was_made_is_told_as_that() {
    let dir = kept();
    let dir = dir.path();
    let attempt = fs::read(dir.join("job/checkpoint/_meta/attempts/1.json")).expect("an attempt");
    fs::remove_dir_all(dir.join("job")).expect("removes");
    fs::create_dir_all(dir.join("job/checkpoint/_meta/attempts")).expect("makes");
    fs::write(dir.join("job/checkpoint/_meta/attempts/1.json"), attempt).expect("writes");
    ckpt(dir, &["compact", "job/checkpoint"]).complains(2, "no job has begun here");
    ckpt(dir, &["recover", "job/checkpoint", "--output", "job/output"]).complains(2, "no job has begun here");
    run(dir).exits(0);
    assert_eq!(verify(dir).exits(0).json()["committed_ids"], 30);
}

#[test]
fn another_output_is_code_3() {
    let dir = kept();
    for command in ["verify", "recover"] {
        ckpt(dir.path(), &[command, "job/checkpoint", "--output", "elsewhere"]).complains(3, "elsewhere");
    }
    ckpt(dir.path(), &["verify", "job/checkpoint"]).complains(2, "--output <URL>");
}

#[test]
fn a_directory_of_data_is_never_removed_or_repaired_as_a_checkpoint() {
    let dir = tempfile::tempdir().expect("temp dir");
    program::write_rows(&dir.path().join("data/a.parquet"), 0..3);
    for args in [&["rm", "data"][..], &["rm", "data", "--yes"], &["recover", "data", "--output", "out", "--repair"]] {
        ckpt(dir.path(), args).complains(2, "a.parquet");
    }
    assert_eq!(files(&dir.path().join("data"), "").len(), 1, "nothing was added or taken away");
}

#[test]
fn rm_shows_first_and_deletes_with_yes() {
    let dir = kept();
    let dir = dir.path();
    fs::write(dir.join("job/checkpoint/notes.txt"), "mine").expect("written");
    let shown = ckpt(dir, &["rm", "job/checkpoint"]).exits(2);
    assert!(shown.out.starts_with("would delete ") && shown.out.contains("3 records"), "{}", shown.out);
    assert!(shown.out.contains("1 file of others there"), "{}", shown.out);
    assert!(shown.err.contains("hint: add --yes"), "{}", shown.err);
    ckpt(dir, &["status", "job/checkpoint"]).exits(0);
    ckpt(dir, &["rm", "job/checkpoint", "--yes"]).exits(0);
    ckpt(dir, &["status", "job/checkpoint"]).complains(2, "no checkpoint here");
    assert_eq!(fs::read_to_string(dir.join("job/checkpoint/notes.txt")).expect("stays"), "mine");
    assert_eq!(files(&dir.join("job/output"), ".parquet").len(), 3, "the output stays");
}

/// Makes everything below a directory look as if it was written so many days ago.
#[expect(clippy::disallowed_methods, reason = "files are dated by the real clock")]
fn age(dir: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    for entry in fs::read_dir(dir).expect("lists") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            age(&path, days);
        } else {
            File::options().write(true).open(&path).expect("opens").set_modified(then).expect("dated");
        }
    }
}

#[test]
fn gc_deletes_what_is_old_and_says_why_it_spares_the_rest() {
    let dir = tempfile::tempdir().expect("temp dir");
    let dir = dir.path();
    write_rows(&dir.join("in/a.parquet"), 0..3);
    let stop = "head -n 0";
    for job in ["jobs/old", "jobs/deep/er/older", "jobs/new", "jobs/stuck"] {
        let args = ["run", "--input", "in", "--job-dir", job, "--id-column", "id", "--keep-checkpoint"];
        match job {
            "jobs/stuck" => ckpt(dir, &[&args[..], &["--exec", stop]].concat()).exits(1),
            _ => ckpt(dir, &args).exits(0),
        };
    }
    age(&dir.join("jobs/old"), 10);
    age(&dir.join("jobs/deep"), 20);
    age(&dir.join("jobs/stuck"), 10);
    let gc = |more: &[&str]| ckpt(dir, &[&["gc", "jobs", "--older-than", "7d"], more].concat()).exits(0).out;
    let row = |out: &str, job: &str| out.lines().find(|line| line.starts_with(job)).expect("a row").to_owned();
    let shown = gc(&["--only-finished"]);
    assert!(row(&shown, "old/").ends_with("finished    would delete"), "{shown}");
    assert!(row(&shown, "deep/er/older/").contains("20 d"), "{shown}");
    assert!(row(&shown, "new/").ends_with("skipped: not old enough"), "{shown}");
    assert!(row(&shown, "stuck/").ends_with("unfinished  skipped: not finished"), "{shown}");
    assert!(shown.contains("2 of 4 would be deleted; add --yes"), "{shown}");
    let there = |job: &str| dir.join("jobs").join(job).join("checkpoint/_meta").exists();
    assert!(there("old") && there("deep/er/older"), "nothing was deleted");
    assert!(gc(&["--only-finished", "--yes"]).ends_with("deleted 2 checkpoints\n"));
    assert!(!there("old") && !there("deep/er/older") && there("new") && there("stuck"));
    assert!(gc(&["--yes"]).ends_with("deleted 1 checkpoint\n"));
    assert!(!there("stuck") && there("new"));
    let outputs =
        ["old", "deep/er/older", "new"].map(|job| files(&dir.join("jobs").join(job).join("output"), ".parquet"));
    assert!(outputs.iter().all(|files| files.len() == 1), "outputs stay: {outputs:?}");
    let none = ckpt(dir, &["gc", "in", "--older-than", "0s", "--yes"]).exits(0).out;
    assert!(none.starts_with("no checkpoints under "), "{none}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = kept();
    for args in [&["ids", "job/checkpoint"][..], &["status", "job/checkpoint"], &["fs", "ls", "-r", "job"]] {
        let (reader, writer) = std::io::pipe().expect("made");
        drop(reader);
        let ended = command(dir.path()).args(args).stdout(writer).output().expect("runs");
        assert_eq!((ended.status.code(), ended.stderr.len()), (Some(0), 0), "{args:?}");
    }
    fs::remove_file(&files(&dir.path().join("job/output"), ".parquet")[0]).expect("removed");
    let (reader, writer) = std::io::pipe().expect("made");
    drop(reader);
    let verify = ["verify", "job/checkpoint", "--output", "job/output"];
    let ended = command(dir.path()).args(verify).stdout(writer).status().expect("runs");
    assert_eq!(ended.code(), Some(1), "the verdict stays");
}

#[test]
fn an_empty_parquet_list_has_the_columns_type() {
    let dir = tempfile::tempdir().expect("temp dir");
    let dir = dir.path();
    write_rows(&dir.join("in/a.parquet"), 0..3);
    let args = ["run", "--input", "in", "--job-dir", "job", "--id-column", "id", "--exec", "exit 1"];
    ckpt(dir, &args).exits(1);
    let path = dir.join("ids.parquet");
    let out = File::create(&path).expect("created");
    let ended = command(dir).args(["ids", "job/checkpoint", "--format", "parquet"]).stdout(out).status();
    assert!(ended.expect("runs").success());
    let file = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("opens")).expect("Parquet");
    assert_eq!(file.schema().field(0).data_type(), &DataType::Int64);
    assert_eq!(file.metadata().file_metadata().num_rows(), 0);
}
