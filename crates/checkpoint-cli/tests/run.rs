//! `ckpt run` and `ckpt plan` from end to end: copied, transformed, stopped, killed, run again.

mod program;

use std::path::Path;

use program::{Background, SLOW_COPY, ckpt, eventually, read_ids, write_rows};
use rustix::process::Signal;
use serde_json::{Value, json};

const ROWS: i64 = 600;

fn with_input() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    write_rows(&dir.path().join("in/a.parquet"), 0..ROWS / 2);
    write_rows(&dir.path().join("in/b.parquet"), ROWS / 2..ROWS);
    dir
}

const JOB: [&str; 7] = ["run", "--input", "in", "--job-dir", "job", "--id-column", "id"];
const SLOW: [&str; 10] =
    ["--exec", SLOW_COPY, "--exec-format", "jsonl", "--workers", "2", "--batch-size", "25", "--rows-per-task", "50"];

fn job<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&JOB[..], more].concat()
}

fn all() -> Vec<i64> {
    (0..ROWS).collect()
}

/// The rows that `ckpt status` counts; 0 while there is no checkpoint.
fn committed(dir: &Path) -> u64 {
    let ended = ckpt(dir, &["status", "job/checkpoint", "--json"]);
    serde_json::from_str::<Value>(&ended.out).map_or(0, |status| status["committed_rows"].as_u64().expect("a number"))
}

#[test]
fn a_job_runs_once_and_says_so_the_second_time() {
    let dir = with_input();
    let dir = dir.path();
    let first = ckpt(dir, &job(&["--json"])).exits(0).json();
    assert_eq!((&first["processed_rows"], &first["skipped_rows"]), (&json!(600), &json!(0)));
    assert_eq!(read_ids(&dir.join("job/output")), all());
    assert!(!dir.join("job/checkpoint").exists(), "a job that is done leaves no checkpoint");
    let second = ckpt(dir, &job(&["--json"])).exits(0).json();
    assert_eq!((&second["already_complete"], &second["processed_rows"]), (&json!(true), &json!(0)));
    let third = ckpt(dir, &job(&[])).exits(0);
    assert!(third.out.starts_with("already complete"), "{}", third.out);
    assert_eq!(read_ids(&dir.join("job/output")), all());
}

#[test]
fn the_documented_fields_are_printed_and_no_others() {
    let dir = with_input();
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(",");
    let plan = [&["plan"], &job(&["--json"])[1..]].concat();
    let plan = ckpt(dir.path(), &plan).exits(0).json();
    assert_eq!(
        keys(&plan),
        "input_files,input_rows,done_rows,remaining_rows,remaining_files,would_roll_forward,would_void,already_complete,\
         bytes_read"
    );
    assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 1, "a plan writes nothing");
    let run = ckpt(dir.path(), &job(&["--json", "--keep-checkpoint"])).exits(0).json();
    assert_eq!(
        keys(&run),
        "input_rows,skipped_rows,processed_rows,written_rows,written_files,failed_rows,rolled_forward_tasks,\
         voided_tasks,bytes_read,attempt,already_complete,seconds,read_seconds,transform_seconds,write_seconds,\
         commit_seconds"
    );
    let status = ckpt(dir.path(), &["status", "job/checkpoint", "--json"]).exits(0).json();
    assert_eq!(
        keys(&status),
        "checkpoint,id_column,id_type,committed_rows,committed_tasks,pending_rows,pending_tasks,void_tasks,attempts,\
         last_attempt,complete,bytes,bytes_per_id,last_commit"
    );
    let verify = ["verify", "job/checkpoint", "--output", "job/output", "--json"];
    assert_eq!(
        keys(&ckpt(dir.path(), &verify).exits(0).json()),
        "ok,committed_ids,output_rows,missing_ids,duplicate_ids,orphan_files,lost_tasks,pending_tasks,examples"
    );
    let recover = ["recover", "job/checkpoint", "--output", "job/output", "--json"];
    assert_eq!(
        keys(&ckpt(dir.path(), &recover).exits(0).json()),
        "rolled_forward,voided,deleted_files,repaired_tasks,dry_run"
    );
}

#[test]
fn a_signal_ends_it_well_and_the_next_run_goes_on() {
    let dir = with_input();
    let dir = dir.path();
    let mut before = 0;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let running = Background::start(dir, &job(&SLOW));
        eventually("a task is committed", || committed(dir) > before);
        running.signal(signal);
        let ended = running.wait().exits(code);
        assert!(ended.err.contains("interrupted: finishing the commits in flight"), "{}", ended.err);
        assert_eq!(ended.out, "");
        let verify = ["verify", "job/checkpoint", "--output", "job/output"];
        ckpt(dir, &verify).exits(0);
        before = committed(dir);
        assert!(before < 600, "it was stopped before its end");
    }
    let plan = [&["plan"], &job(&["--json"])[1..]].concat();
    let plan = ckpt(dir, &plan).exits(0).json();
    assert_eq!(plan["done_rows"], json!(before));
    let last = ckpt(dir, &job(&["--json"])).exits(0).json();
    assert_eq!(last["skipped_rows"], json!(before));
    assert_eq!(last["attempt"], json!(4));
    assert_eq!(read_ids(&dir.join("job/output")), all());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = with_input();
    let dir = dir.path();
    // A program that gives every row back and does not end when its input does: the run waits for it.
    let lingers = ["--exec", "cat; sleep 20", "--exec-format", "jsonl", "--workers", "1"];
    let running = Background::start(dir, &job(&[&lingers[..], &["--rows-per-task", "300"]].concat()));
    eventually("all is committed", || committed(dir) == 600);
    running.signal(Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal(Signal::TERM);
    let ended = running.wait().exits(143);
    assert!(!ended.err.contains("error: "), "it did not end by itself: {}", ended.err);
    assert_eq!(ckpt(dir, &job(&["--json"])).exits(0).json()["skipped_rows"], json!(600));
    assert_eq!(read_ids(&dir.join("job/output")), all());
}

#[test]
fn killed_it_starts_again_without_waiting() {
    let dir = with_input();
    let dir = dir.path();
    let running = Background::start(dir, &job(&SLOW));
    eventually("a task is committed", || committed(dir) > 0);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    let done = committed(dir);
    let last = ckpt(dir, &job(&["--json"])).exits(0).json();
    assert!(last["skipped_rows"].as_u64() >= Some(done), "{last}");
    assert!(last["seconds"].as_f64() < Some(20.0), "no lease was waited for: {last}");
    assert_eq!(read_ids(&dir.join("job/output")), all());
}

#[test]
fn one_owner_at_a_time_and_readers_beside_it() {
    let dir = with_input();
    let dir = dir.path();
    let running = Background::start(dir, &job(&SLOW));
    eventually("a task is committed", || committed(dir) > 0);
    let held = format!("process {}", running.id());
    ckpt(dir, &job(&[])).complains(3, &held);
    ckpt(dir, &["rm", "job/checkpoint", "--yes"]).complains(3, &held);
    ckpt(dir, &["recover", "job/checkpoint", "--output", "job/output"]).complains(3, &held);
    let gc = ckpt(dir, &["gc", ".", "--older-than", "0s", "--yes"]).exits(0);
    assert!(gc.out.contains("skipped: running") && gc.out.contains("deleted 0 checkpoints"), "{}", gc.out);
    ckpt(dir, &["ids", "job/checkpoint", "--count"]).exits(0);
    ckpt(dir, &["recover", "job/checkpoint", "--output", "job/output", "--dry-run"]).exits(0);
    let ended = running.wait().exits(0);
    assert!(ended.out.starts_with("done in "), "{}", ended.out);
    assert_eq!(read_ids(&dir.join("job/output")), all());
}

/// Makes the last attempt look as if another host were at work, its lease so many seconds long.
fn move_to_another_host(dir: &Path, lease_seconds: u64) {
    let path = dir.join("job/checkpoint/_meta/attempts/1.json");
    let mut attempt: Value = serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
    attempt["state"] = json!("running");
    attempt["owner"]["host"] = json!("elsewhere");
    attempt["owner"]["boot_id"] = json!("another-boot");
    attempt["lease_seconds"] = json!(lease_seconds);
    std::fs::write(path, attempt.to_string()).expect("written");
}

#[test]
fn waiting_for_another_host_is_said_and_can_be_interrupted() {
    let dir = with_input();
    let dir = dir.path();
    ckpt(dir, &job(&["--exec", "exit 9"])).exits(1);
    move_to_another_host(dir, 600);
    let running = Background::start(dir, &job(&[]));
    // It watches from the moment on that it has read the attempt; a second is more than it needs.
    std::thread::sleep(std::time::Duration::from_secs(1));
    running.signal(Signal::TERM);
    let ended = running.wait().exits(143);
    assert!(ended.err.contains("warning: ") && ended.err.contains("elsewhere"), "{}", ended.err);
    assert!(ended.err.contains("error: interrupted before any row was processed"), "{}", ended.err);
    move_to_another_host(dir, 1);
    let ended = ckpt(dir, &job(&[])).exits(0);
    assert!(ended.err.contains("warning: ") && ended.err.contains("elsewhere"), "{}", ended.err);
    assert_eq!(read_ids(&dir.join("job/output")), all());
}

#[test]
fn the_lease_can_be_kept_elsewhere() {
    let dir = with_input();
    let dir = dir.path();
    let lease = ["--lease-url", "lease"];
    ckpt(dir, &job(&[&lease[..], &["--keep-checkpoint"]].concat())).exits(0);
    assert!(dir.join("lease/_meta/attempts/1.json").exists() && !dir.join("job/checkpoint/_meta/attempts").exists());
    let status = ckpt(dir, &[&["status", "job/checkpoint", "--json"], &lease[..]].concat()).exits(0).json();
    assert_eq!(status["committed_rows"], json!(600));
    ckpt(dir, &[&["verify", "job/checkpoint", "--output", "job/output"], &lease[..]].concat()).exits(0);
    ckpt(dir, &[&["ids", "job/checkpoint", "--contains", "7"], &lease[..]].concat()).exits(0);
    ckpt(dir, &[&["recover", "job/checkpoint", "--output", "job/output"], &lease[..]].concat()).exits(0);
    ckpt(dir, &[&["rm", "job/checkpoint", "--yes"], &lease[..]].concat()).exits(0);
    assert!(!dir.join("lease/_meta").exists(), "both are gone");
}

#[test]
fn a_failing_transform_is_code_1_and_so_are_rows_set_aside() {
    let dir = with_input();
    let dir = dir.path();
    ckpt(dir, &job(&["--exec", "exit 9"])).complains(1, "status 9");
    let picky = r#"while IFS= read -r row; do case "$row" in *'"text 77"'*) exit 9;; esac; printf '%s\n' "$row"; done"#;
    let picky = ["--exec", picky, "--exec-format", "jsonl", "--max-failed-rows", "1"];
    let ended = ckpt(dir, &job(&[&picky[..], &["--json"]].concat())).exits(1);
    assert_eq!((&ended.json()["failed_rows"], &ended.json()["written_rows"]), (&json!(1), &json!(599)));
    assert!(dir.join("job/checkpoint").exists(), "the checkpoint is kept");
    assert!(dir.join("job/output/_failed").exists());
}

#[test]
fn every_format_goes_in_and_out() {
    let dir = with_input();
    let dir = dir.path();
    let mut input = "in".to_owned();
    for format in ["jsonl", "csv", "arrow", "parquet"] {
        let output = format!("as-{format}/output");
        let job_dir = format!("as-{format}");
        let args = ["run", "--input", &input, "--job-dir", &job_dir, "--id-column", "id", "--output-format", format];
        ckpt(dir, &args).exits(0);
        input = output;
    }
    assert_eq!(read_ids(&dir.join("as-parquet/output")), all());
}

#[test]
fn row_hashes_need_no_column() {
    let dir = with_input();
    let dir = dir.path();
    let args = ["run", "--input", "in", "--job-dir", "job", "--row-hash", "--keep-checkpoint"];
    ckpt(dir, &args).exits(0);
    assert_eq!(read_ids(&dir.join("job/output")), all());
    assert_eq!(ckpt(dir, &["ids", "job/checkpoint", "--count"]).exits(0).out, "600\n");
    write_rows(&dir.join("in/a.parquet"), 0..ROWS);
    ckpt(dir, &args).complains(3, "a.parquet");
}

#[test]
fn changed_jobs_are_code_3() {
    let dir = with_input();
    let dir = dir.path();
    ckpt(dir, &job(&["--keep-checkpoint", "--job-version", "1"])).exits(0);
    ckpt(dir, &job(&["--job-version", "2"])).complains(3, "version");
    ckpt(dir, &job(&["--job-version", "1"])).exits(0);
    write_rows(&dir.join("in/c.parquet"), ROWS..ROWS + 5);
    ckpt(dir, &job(&["--job-version", "1"])).complains(3, "");
    let other = ["run", "--input", "in", "--output", "job/output", "--checkpoint", "fresh", "--id-column", "id"];
    ckpt(dir, &other).complains(3, "");
    assert_eq!(read_ids(&dir.join("job/output")), all());
}

#[test]
fn bad_ids_are_code_5() {
    let dir = with_input();
    let dir = dir.path();
    ckpt(dir, &["run", "--input", "in", "--job-dir", "j", "--id-column", "none"]).complains(5, "none");
    write_rows(&dir.join("in/b.parquet"), 10..20);
    ckpt(dir, &job(&["--check-unique"])).complains(5, "");
}

#[test]
fn quiet_and_verbose_change_stderr_alone() {
    let dir = with_input();
    let dir = dir.path();
    let usual = ckpt(dir, &job(&["--json", "--keep-checkpoint"])).exits(0);
    assert_eq!(usual.err, "", "a short run has nothing to say");
    let quiet = ckpt(dir, &job(&["--json", "-q", "--keep-checkpoint", "--progress", "plain"])).exits(0);
    assert_eq!(quiet.err, "");
    let verbose = ckpt(dir, &job(&["--json", "-vv", "--keep-checkpoint"])).exits(0);
    assert_eq!(verbose.json()["already_complete"], json!(true));
}
