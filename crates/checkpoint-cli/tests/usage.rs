//! Wrong flags, options, URLs and files: one line with a hint, and the right code.

mod program;

use std::path::Path;

use program::{ckpt, write_rows};

const JOB: [&str; 7] = ["run", "--input", "in", "--job-dir", "job", "--id-column", "id"];

fn job(dir: &Path, more: &[&str]) -> program::Ended {
    ckpt(dir, &[&JOB, more].concat())
}

#[test]
fn wrong_flags_are_code_2() {
    let dir = tempfile::tempdir().expect("temp dir");
    let dir = dir.path();
    for (more, text) in [
        (&["--workers", "0"][..], "'--workers <N>'"),
        (&["--workers", "two"], "'--workers <N>'"),
        (&["--workers", "99999999999"], "'--workers <N>'"),
        (&["--batch-size", "0"], "'--batch-size <N>'"),
        (&["--rows-per-task", "-1"], "'-1'"),
        (&["--max-failed-rows", "some"], "'--max-failed-rows <N>'"),
        (&["--exec", " "], "'--exec <CMD>'"),
        (&["--exec-format", "xml", "--exec", "cat"], "'--exec-format <FORMAT>'"),
        (&["--exec-format", "jsonl"], "--exec <CMD>"),
        (&["--input-format", "xls"], "'--input-format <FORMAT>'"),
        (&["--output-format", "tar"], "known formats are parquet, jsonl, csv, arrow"),
        (&["--progress", "loud"], "'--progress <HOW>'"),
        (&["--row-hash"], "'--row-hash'"),
        (&["--output", "out"], "'--output <URL>'"),
        (&["--checkpoint", "c"], "'--checkpoint <URL>'"),
        (&["--job-version", ""], "'--job-version <TEXT>'"),
        (&["--no-such-flag"], "'--no-such-flag'"),
        (&["-q", "-v"], "cannot be used with"),
    ] {
        job(dir, more).complains(2, text);
    }
    ckpt(dir, &["run", "--input", "in", "--job-dir", "j"]).complains(2, "--id-column <NAME>");
    ckpt(dir, &["run", "--job-dir", "j", "--row-hash"]).complains(2, "--input <URL>");
    ckpt(dir, &["gc", "."]).complains(2, "--older-than <AGE>");
    ckpt(dir, &["gc", ".", "--older-than", "1y"]).complains(2, "45s, 30m, 12h, 7d or 2w");
    ckpt(dir, &["ids", "c", "--count", "--format", "jsonl"]).complains(2, "cannot be used with");
    ckpt(dir, &["ids", "c", "--json"]).complains(2, "--count");
    ckpt(dir, &["nonsense"]).complains(2, "'nonsense'");
    ckpt(dir, &["fs", "mv", "a", "b"]).complains(2, "'mv'");
    assert!(std::fs::read_dir(dir).expect("lists").next().is_none(), "nothing was made");
}

#[test]
fn a_misspelt_flag_names_the_nearest() {
    let dir = tempfile::tempdir().expect("temp dir");
    let ended = job(dir.path(), &["--worker", "2"]).complains(2, "'--worker'");
    assert!(ended.err.contains("hint: a similar argument exists: '--workers'"), "{}", ended.err);
    assert!(ended.err.ends_with("hint: see `ckpt run --help`\n"), "{}", ended.err);
}

#[test]
fn wrong_urls_are_code_2() {
    let dir = tempfile::tempdir().expect("temp dir");
    let dir = dir.path();
    ckpt(dir, &["status", ""]).complains(2, "the URL is empty");
    ckpt(dir, &["status", "s3://"]).complains(2, "names no bucket");
    ckpt(dir, &["status", "s4://bucket/x"]).complains(2, "`s4`");
    ckpt(dir, &["status", "nothing-here"]).complains(2, "no checkpoint here");
    ckpt(dir, &["verify", "nothing-here", "--output", "out"]).complains(2, "no checkpoint here");
    ckpt(dir, &["recover", "nothing-here", "--output", "out"]).complains(2, "no checkpoint here");
    ckpt(dir, &["rm", "nothing-here", "--yes"]).complains(2, "no checkpoint here");
    ckpt(dir, &["ids", "nothing-here", "--count"]).complains(2, "no checkpoint here");
    job(dir, &[]).complains(2, "there is no such file or directory");
}

#[test]
fn places_that_overlap_are_code_2() {
    let dir = tempfile::tempdir().expect("temp dir");
    write_rows(&dir.path().join("in/a.parquet"), 0..3);
    for (output, checkpoint) in [("out", "out"), ("out", "out/ckpt"), ("c/out", "c"), ("in/out", "c"), ("out", "in")] {
        let args = ["run", "--input", "in", "--output", output, "--checkpoint", checkpoint, "--id-column", "id"];
        ckpt(dir.path(), &args).complains(2, "");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 1, "nothing was made");
}

#[test]
fn wrong_storage_options_are_code_2_and_show_no_value() {
    let dir = tempfile::tempdir().expect("temp dir");
    let dir = dir.path();
    std::fs::write(dir.join("broken.json"), r#"{"s3": {"secret": "hunter2""#).expect("written");
    std::fs::write(dir.join("wrong.json"), r#"{"s3": {"secert": "hunter2"}}"#).expect("written");
    for (options, text) in [
        ("hunter2", "not JSON"),
        (r#"["hunter2"]"#, "not a JSON object"),
        (r#"{"s3": "hunter2"}"#, "protocol=s3"),
        (r#"{"s3": {"secert": "hunter2"}}"#, "did you mean `secret`?"),
        (r#"{"s5": {"secret": "hunter2"}}"#, "`s5`"),
        (r#"{"s3": {"anon": "hunter2"}}"#, "anon"),
        (r#"{"file": {"fsync": "hunter2"}}"#, "fsync"),
        ("@broken.json", "broken.json"),
        ("@wrong.json", "did you mean `secret`?"),
        ("@absent.json", "absent.json"),
        ("@", "cannot be read"),
    ] {
        // Whatever the URL is: options are checked before anything is opened.
        let ended = ckpt(dir, &["--storage-options", options, "status", "nothing-here"]).complains(2, text);
        assert!(!ended.err.contains("hunter2"), "{}", ended.err);
    }
}

#[test]
fn good_storage_options_are_taken_from_a_file_and_on_both_sides_of_the_command() {
    let dir = tempfile::tempdir().expect("temp dir");
    write_rows(&dir.path().join("in/a.parquet"), 0..3);
    std::fs::write(dir.path().join("o.json"), r#"{"file": {"fsync": false}}"#).expect("written");
    job(dir.path(), &["--storage-options", "@o.json"]).exits(0);
    ckpt(dir.path(), &["--storage-options", r#"{"file": {"fsync": false}}"#, "fs", "ls", "job"]).exits(0);
}

#[test]
fn causes_are_for_those_who_ask() {
    let dir = tempfile::tempdir().expect("temp dir");
    let unresolved = ["status", "absent/../c"];
    let ended = ckpt(dir.path(), &unresolved).complains(2, "cannot be resolved");
    assert!(!ended.err.contains("cause: "), "{}", ended.err);
    let ended = ckpt(dir.path(), &[&unresolved[..], &["-v"]].concat()).exits(2);
    assert_eq!(ended.err.lines().filter(|line| line.starts_with("cause: ")).count(), 1, "{}", ended.err);
}
