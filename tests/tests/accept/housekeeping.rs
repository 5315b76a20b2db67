//! `rm`, `gc` and `recover`: what they delete, what they spare, and that they ask first.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use crate::support::{Job, Tree, ids_of, int_rows, program, read_dir, write_parquet};

fn half_done() -> Job {
    let job = Job::new();
    for part in 0..4 {
        write_parquet(&job.input().join(format!("part-{part}.parquet")), &int_rows(part * 10..part * 10 + 10));
    }
    job.run_until(20, 10, &[]);
    job
}

/// A run that holds its checkpoint until it is dropped.
struct Held(Child);

impl Held {
    fn start(job: &Job) -> Self {
        let exec = "while IFS= read -r line; do sleep 0.3; printf '%s\\n' \"$line\"; done";
        let mut command = job.command("run", &["--exec", exec, "--exec-format", "jsonl", "--workers", "1"]);
        command.args(["--batch-size", "10", "--rows-per-task", "10"]);
        let before = attempts(job);
        let held = Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ckpt starts"));
        for _ in 0..1500 {
            if attempts(job) > before {
                return held;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        unreachable!("no attempt began in 30 seconds");
    }
}

fn attempts(job: &Job) -> usize {
    Tree::of(&job.checkpoint()).files().iter().filter(|f| f.starts_with("_meta/attempts/")).count()
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_checkpoint_that_is_held_cannot_be_changed_and_can_be_read() {
    let job = half_done();
    let held = Held::start(&job);
    let process = format!("{}", held.0.id());
    for ran in [job.run(&[]), job.on_checkpoint("rm", &["--yes"]), job.recover(&["--repair"])]
        .into_iter()
        .chain([job.on_checkpoint("compact", &[])])
    {
        ran.exits(3).complains().says(&[&process]);
    }
    job.status().numbers(&[("attempts", 2)]);
    job.on_checkpoint("ids", &["--count"]).exits(0);
    job.verify();
    job.plan(&[]).exits(0);
    let gc = program::ckpt([
        "gc".into(),
        job.dir().as_os_str().to_owned(),
        "--older-than".into(),
        "0s".into(),
        "--yes".into(),
    ]);
    assert!(gc.exits(0).out.contains("running"), "it is spared");
    assert!(job.checkpoint().join("_meta/job.json").exists());
    drop(held);
    job.run(&[]).exits(0);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..40).collect::<Vec<i64>>());
}

#[test]
fn rm_shows_first_and_deletes_only_the_checkpoint_when_told_to() {
    let job = half_done();
    let before = Tree::of(job.dir());
    let shown = job.on_checkpoint("rm", &[]).exits(2);
    assert!(shown.out.contains("would delete") && shown.err.contains("--yes"), "{}", shown.show());
    before.is(&Tree::of(job.dir()));
    let output = Tree::of(&job.output());
    job.on_checkpoint("rm", &["--yes"]).exits(0);
    assert!(!job.checkpoint().exists(), "{:?}", Tree::of(&job.checkpoint()).files());
    output.is(&Tree::of(&job.output()));
    // Its rows are not forgotten: the output is refused as one without a checkpoint.
    job.run(&[]).exits(3).complains().says(&["--append"]);
    job.on_checkpoint("rm", &["--yes"]).exits(2).complains();
}

#[test]
fn recover_settles_the_past_and_a_dry_run_of_it_changes_nothing() {
    let job = half_done();
    let name = job.records().remove(0);
    // One task whose commit is taken back with its data there, and one that left data alone.
    fs::create_dir_all(job.checkpoint().join("_meta/pending")).expect("a directory is made");
    let record = job.checkpoint().join(format!("{name}.parquet"));
    fs::copy(&record, job.checkpoint().join(format!("_meta/pending/{name}.parquet"))).expect("a copy");
    fs::remove_file(&record).expect("the commit is taken back");
    let (attempt, _) = name.rsplit_once('-').expect("a number");
    let orphan = job.output().join(format!("{attempt}-000555.parquet"));
    fs::copy(job.output().join(format!("{name}.parquet")), &orphan).expect("a copy");

    let wanted = [("rolled_forward", 1), ("voided", 1), ("deleted_files", 1), ("repaired_tasks", 0)];
    let before = Tree::of(job.dir());
    let dry = job.recover(&["--dry-run"]).exits(0).numbers(&wanted);
    assert!(dry.flag("dry_run"));
    before.is(&Tree::of(job.dir()));
    let done = job.recover(&[]).exits(0).numbers(&wanted);
    assert!(!done.flag("dry_run"));
    assert!(!orphan.exists() && record.exists());
    job.status().numbers(&[("committed_rows", 20), ("pending_tasks", 0), ("void_tasks", 0)]);
    job.verify().exits(0).numbers(&[("orphan_files", 0)]);
    // Once more there is nothing to do, and the run goes on from there.
    job.recover(&[]).exits(0).numbers(&[("rolled_forward", 0), ("voided", 0), ("deleted_files", 0)]);
    job.run(&[]).exits(0).numbers(&[("skipped_rows", 20), ("processed_rows", 20), ("rolled_forward_tasks", 0)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..40).collect::<Vec<i64>>());
}

#[test]
fn recover_and_verify_on_another_output_are_refused() {
    let job = half_done();
    let before = Tree::of(&job.checkpoint());
    let other = job.dir().join("other");
    fs::create_dir(&other).expect("a directory is made");
    let other = other.to_str().expect("a plain path");
    job.on_checkpoint("recover", &["--output", other, "--repair"]).exits(3).complains().says(&["other", "output"]);
    job.on_checkpoint("verify", &["--output", other]).exits(3).complains().says(&["other", "output"]);
    before.is(&Tree::of(&job.checkpoint()));
}

/// Makes everything below a directory look as old as this.
fn make_old(dir: &Path, days: u64) {
    #[expect(clippy::disallowed_methods, reason = "file times are of the real clock")]
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    for file in Tree::of(dir).files() {
        let file = fs::File::options().write(true).open(dir.join(file)).expect("a file opens");
        file.set_modified(then).expect("a time is set");
    }
}

#[test]
fn gc_finds_old_checkpoints_and_deletes_them_only_when_told_to() {
    let place = tempfile::tempdir().expect("a directory is made");
    let make = |name: &str, finished: bool| {
        let job = half_done();
        if finished {
            job.run(&["--keep-checkpoint"]).exits(0);
        }
        let to = place.path().join(name);
        crate::support::copy_dir(&job.checkpoint(), &to.join("checkpoint"));
        crate::support::copy_dir(&job.output(), &to.join("output"));
        to
    };
    let (old, old_done, young) = (make("team/old", false), make("team/deep/done", true), make("young", true));
    make_old(&old, 30);
    make_old(&old_done, 30);
    let gc = |extra: &[&str]| {
        let mut command = program::command();
        program::run(command.arg("gc").arg(place.path()).args(["--older-than", "7d"]).args(extra))
    };
    let before = Tree::of(place.path());
    let shown = gc(&[]).exits(0);
    for text in ["team/old", "team/deep/done", "young", "would delete", "not old enough", "--yes"] {
        assert!(shown.out.contains(text), "{text}\n{}", shown.show());
    }
    before.is(&Tree::of(place.path()));
    assert!(gc(&["--only-finished", "--yes"]).exits(0).out.contains("not finished"));
    assert!(!old_done.join("checkpoint").exists() && old.join("checkpoint").exists());
    gc(&["--yes"]).exits(0);
    assert!(!old.join("checkpoint").exists());
    assert!(young.join("checkpoint/_meta/job.json").exists());
    for job in [old, old_done, young] {
        assert!(!Tree::of(&job.join("output")).files().is_empty(), "outputs stay");
    }
    program::ckpt([std::ffi::OsStr::new("gc"), place.path().as_os_str()]).exits(2).complains().says(&["--older-than"]);
}
