//! `ckpt demo`: it works with nothing but a shell, is short, and says what happened.

mod program;

use std::fs;

use program::{Background, ckpt, eventually, read_ids};
use rustix::process::Signal;

#[test]
fn the_demo_shows_the_promise() {
    let dir = tempfile::tempdir().expect("temp dir");
    let ended = ckpt(dir.path(), &["demo", "--dir", "here"]).exits(0);
    assert_eq!(ended.err, "");
    assert!(ended.out.lines().count() <= 17, "about a dozen lines: {}", ended.out);
    assert!(ended.out.contains("kill -9 half way"), "{}", ended.out);
    assert!(ended.out.contains("2,000 of 2,000 rows there exactly once, 0 missing, 0 doubled"), "{}", ended.out);
    assert!(!ended.out.contains("\n  0 rows skipped"), "the second run went on: {}", ended.out);
    assert_eq!(read_ids(&dir.path().join("here/output")), (0..2_000).collect::<Vec<i64>>());
    assert!(!dir.path().join("here/checkpoint").exists());
    ckpt(dir.path(), &["demo", "--dir", "here"]).complains(2, "not empty");
}

#[test]
fn a_demo_that_is_interrupted_leaves_no_process() {
    let dir = tempfile::tempdir().expect("temp dir");
    let running = Background::start(dir.path(), &["demo", "--dir", "here"]);
    let attempt = dir.path().join("here/checkpoint/_meta/attempts/1.json");
    eventually("the job has begun", || attempt.exists());
    running.signal(Signal::INT);
    running.wait().exits(130);
    let attempt: serde_json::Value = serde_json::from_slice(&fs::read(&attempt).expect("read")).expect("JSON");
    let job = attempt["owner"]["pid"].as_u64().expect("a process");
    eventually("the job is gone", || {
        let stat = fs::read_to_string(format!("/proc/{job}/stat")).unwrap_or_default();
        !stat.contains("(ckpt) ") || stat.contains(") Z ")
    });
}
