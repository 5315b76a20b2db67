//! `ckpt fs` on plain directories: listing, reading, copying, deleting.

mod program;

use std::fs;
use std::process::Stdio;

use program::{ckpt, command};
use serde_json::json;

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    fs::create_dir_all(dir.path().join("d/sub/empty")).expect("made");
    fs::write(dir.path().join("d/a.txt"), "alpha").expect("written");
    fs::write(dir.path().join("d/sub/b c.txt"), "beta\n").expect("written");
    dir
}

fn names(out: &str) -> Vec<&str> {
    let mut names: Vec<&str> = out.lines().map(|line| line[38..].trim()).collect();
    names.sort_unstable();
    names
}

#[test]
fn ls_shows_a_level_or_everything_or_one_file() {
    let dir = tree();
    let dir = dir.path();
    assert_eq!(names(&ckpt(dir, &["fs", "ls", "d"]).exits(0).out), ["a.txt", "sub/"]);
    assert_eq!(names(&ckpt(dir, &["fs", "ls", "-r", "d/"]).exits(0).out), ["a.txt", "sub/b c.txt"]);
    let one = ckpt(dir, &["fs", "ls", "d/a.txt"]).exits(0).out;
    assert_eq!(names(&one), ["a.txt"]);
    assert!(one.trim_start().starts_with("5  20"), "size and time: {one}");
    assert_eq!(ckpt(dir, &["fs", "ls", "d/sub/empty"]).exits(0).out, "");
    ckpt(dir, &["fs", "ls", "d/none"]).complains(2, "no such file or directory");
    let listed = ckpt(dir, &["fs", "ls", "--json", "d/sub"]).exits(0).json();
    let entries = listed["entries"].as_array().expect("a list");
    assert_eq!(entries.len(), 2);
    let file = entries.iter().find(|e| e["type"] == "file").expect("the file");
    assert_eq!((&file["path"], &file["size"]), (&json!("b c.txt"), &json!(5)));
    assert_eq!(ckpt(dir, &["fs", "ls", "--json", "d/sub/empty"]).exits(0).json(), json!({"entries": []}));
}

#[test]
fn stat_tells_files_from_directories_and_nothing() {
    let dir = tree();
    let dir = dir.path();
    let shown = ckpt(dir, &["fs", "stat", "--json", "d/a.txt"]).exits(0).json();
    assert_eq!(shown["size"], 5);
    assert!(shown["url"].as_str().is_some_and(|url| url.ends_with("/d/a.txt")), "{shown}");
    assert!(ckpt(dir, &["fs", "stat", "d/a.txt"]).exits(0).out.contains("5 bytes"));
    ckpt(dir, &["fs", "stat", "d"]).complains(2, "this is a directory");
    ckpt(dir, &["fs", "stat", "d/none"]).complains(2, "no such file");
    ckpt(dir, &["fs", "stat", "/"]).complains(2, "this is a directory");
}

#[test]
fn cat_gives_the_bytes_and_stops_quietly_when_nobody_reads() {
    let dir = tree();
    assert_eq!(ckpt(dir.path(), &["fs", "cat", "d/a.txt", "d/sub/b c.txt"]).exits(0).out, "alphabeta\n");
    ckpt(dir.path(), &["fs", "cat", "d"]).complains(2, "this is a directory");
    ckpt(dir.path(), &["fs", "cat", "d/none"]).complains(2, "no such file");
    let large = vec![b'x'; 20 << 20];
    fs::write(dir.path().join("large"), &large).expect("written");
    let whole = command(dir.path()).args(["fs", "cat", "large"]).output().expect("runs");
    assert!(whole.stdout == large, "20 MiB come through whole");
    let child = command(dir.path()).args(["fs", "cat", "large"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("ends");
    assert_eq!((ended.status.code(), ended.stderr.len()), (Some(0), 0));
}

#[test]
fn cp_copies_whole_files_between_storages_and_into_directories() {
    let dir = tree();
    let dir = dir.path();
    let text = |path: &str| fs::read_to_string(dir.join(path)).expect("read");
    ckpt(dir, &["fs", "cp", "d/a.txt", "new/copy.txt"]).exits(0);
    assert_eq!(text("new/copy.txt"), "alpha");
    ckpt(dir, &["fs", "cp", "d/a.txt", "new"]).exits(0);
    assert_eq!(text("new/a.txt"), "alpha", "an existing directory keeps the name");
    ckpt(dir, &["fs", "cp", "d/a.txt", "d/sub/empty"]).exits(0);
    assert_eq!(text("d/sub/empty/a.txt"), "alpha", "an empty one too");
    ckpt(dir, &["fs", "cp", "d/a.txt", "fresh/"]).exits(0);
    assert_eq!(text("fresh/a.txt"), "alpha");
    ckpt(dir, &["fs", "cp", "d/sub/b c.txt", "new/copy.txt"]).exits(0);
    assert_eq!(text("new/copy.txt"), "beta\n", "what is there is replaced");
    let copied = ckpt(dir, &["fs", "cp", "--json", "d/a.txt", "memory://elsewhere/x"]).exits(0).json();
    assert_eq!((&copied["bytes"], &copied["target"]), (&json!(5), &json!("memory://elsewhere/x")));
    ckpt(dir, &["fs", "cp", "d/a.txt", "./d/a.txt"]).complains(2, "the same");
    ckpt(dir, &["fs", "cp", "d/a.txt", "d/"]).complains(2, "the same");
    ckpt(dir, &["fs", "cp", "d", "e"]).complains(2, "this is a directory");
    ckpt(dir, &["fs", "cp", "none", "e"]).complains(2, "no such file");
    assert!(!dir.join("e").exists());
    let large = vec![b'y'; (17 << 20) + 3];
    fs::write(dir.join("large"), &large).expect("written");
    ckpt(dir, &["fs", "cp", "large", "large-copy"]).exits(0);
    assert!(fs::read(dir.join("large-copy")).expect("read") == large);
}

#[test]
fn rm_deletes_what_is_named_and_trees_only_with_yes() {
    let dir = tree();
    let dir = dir.path();
    fs::write(dir.join("keep"), "").expect("written");
    ckpt(dir, &["fs", "rm", "keep", "none"]).complains(2, "no such file");
    assert!(dir.join("keep").exists(), "a wrong URL deletes nothing");
    ckpt(dir, &["fs", "rm", "d"]).complains(2, "this is a directory");
    let shown = ckpt(dir, &["fs", "rm", "-r", "d"]).exits(2);
    assert!(shown.out.contains("would delete") && shown.out.contains("2 files, 10 B"), "{}", shown.out);
    assert!(shown.err.contains("hint: add --yes"), "{}", shown.err);
    assert!(dir.join("d/sub/b c.txt").exists());
    ckpt(dir, &["fs", "rm", "d/a.txt"]).exits(0);
    assert!(!dir.join("d/a.txt").exists());
    let deleted = ckpt(dir, &["fs", "rm", "-r", "--yes", "--json", "d"]).exits(0).json();
    assert_eq!(deleted, json!({"files": 1, "bytes": 5}));
    assert!(!dir.join("d").exists(), "with its empty directories");
    assert!(dir.join("keep").exists());
    ckpt(dir, &["fs", "rm", "-r", "--yes", "memory://bucket"]).complains(2, "whole bucket, volume or file system");
}
