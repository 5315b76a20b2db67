//! After the end: running a finished job again, and outputs whose checkpoint is gone.

use std::fs;

use crate::support::{Job, Tree, ids_of, int_rows, program, read_dir, write_parquet};

fn forty_rows() -> Job {
    let job = Job::new();
    for part in 0..4 {
        write_parquet(&job.input().join(format!("part-{part}.parquet")), &int_rows(part * 10..part * 10 + 10));
    }
    job
}

fn plain(job: &Job, verb: &str, extra: &[&str]) -> program::Ran {
    program::run(&mut job.command(verb, extra))
}

#[test]
fn a_finished_job_run_again_does_nothing_and_says_so() {
    for keep in [&[][..], &["--keep-checkpoint"]] {
        let job = forty_rows();
        let first = job.run_in_tasks(10, keep).exits(0).numbers(&[("processed_rows", 40), ("skipped_rows", 0)]);
        assert!(!first.flag("already_complete"));
        let data: Vec<String> = job.data_files();
        assert_eq!(data.len(), 4);
        let output = Tree::of(&job.output());
        assert_eq!(job.checkpoint().exists(), !keep.is_empty(), "kept when asked to, and gone otherwise");

        for _ in 0..2 {
            let planned = job.plan(keep).exits(0).numbers(&[("done_rows", 40), ("remaining_rows", 0)]);
            assert!(planned.flag("already_complete"));
            let again = job.run(keep).exits(0);
            assert!(again.flag("already_complete"), "{}", again.show());
            again.numbers(&[
                ("input_rows", 40),
                ("skipped_rows", 40),
                ("processed_rows", 0),
                ("written_rows", 0),
                ("written_files", 0),
            ]);
            output.is(&Tree::of(&job.output()));
        }
        let said = plain(&job, "run", keep).exits(0);
        assert!(said.out.starts_with("already complete"), "{}", said.show());
        output.is(&Tree::of(&job.output()));
    }
}

/// First kept, then run once more without keeping: the checkpoint goes, the output stays.
#[test]
fn a_kept_checkpoint_is_deleted_by_a_later_run_without_the_option() {
    let job = forty_rows();
    job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0);
    let data = job.data_files();
    job.run(&[]).exits(0).numbers(&[("processed_rows", 0)]);
    assert!(!job.checkpoint().exists());
    assert_eq!(job.data_files(), data);
    job.run(&[]).exits(0).numbers(&[("processed_rows", 0), ("skipped_rows", 40)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..40).collect::<Vec<i64>>());
}

/// Fails the test unless a run is refused, says why and which ways on there are, and touches nothing.
#[track_caller]
fn refused(job: &Job, extra: &[&str], why: &str) {
    let before = (Tree::of(&job.output()), Tree::of(&job.checkpoint()));
    job.run(extra).exits(3).complains().says(&[why, "another --output", "--append"]);
    job.plan(extra).exits(3).complains().says(&[why]);
    before.0.is(&Tree::of(&job.output()));
    before.1.is(&Tree::of(&job.checkpoint()));
}

#[test]
fn input_that_grew_after_the_end_is_refused_until_append_is_given() {
    let job = forty_rows();
    job.run(&[]).exits(0);
    write_parquet(&job.input().join("part-9.parquet"), &int_rows(40..45));
    refused(&job, &[], "part-9.parquet");
    // With --append the input is read from the start: that is what the refusal is about.
    fs::remove_dir_all(job.input()).expect("the old input goes");
    fs::create_dir(job.input()).expect("a new one");
    write_parquet(&job.input().join("part-9.parquet"), &int_rows(40..45));
    refused(&job, &[], "part-0.parquet");
    job.run(&["--append"]).exits(0).numbers(&[("processed_rows", 5), ("skipped_rows", 0)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..45).collect::<Vec<i64>>());
    let again = job.run(&["--append"]).exits(0).numbers(&[("processed_rows", 0)]);
    assert!(again.flag("already_complete"));
}

#[test]
fn a_file_of_the_input_written_again_after_the_end_is_refused() {
    let job = forty_rows();
    job.run(&[]).exits(0);
    write_parquet(&job.input().join("part-0.parquet"), &int_rows(0..12));
    refused(&job, &[], "part-0.parquet");
}

#[test]
fn data_that_is_gone_after_the_end_is_refused() {
    let job = forty_rows();
    job.run_in_tasks(10, &[]).exits(0);
    let file = job.data_files().remove(0);
    fs::remove_file(job.output().join(&file)).expect("data goes");
    refused(&job, &[], &file);
}

#[test]
fn input_that_grew_while_the_checkpoint_is_kept_is_only_work_to_do() {
    let job = forty_rows();
    job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0);
    write_parquet(&job.input().join("part-9.parquet"), &int_rows(40..45));
    job.plan(&[]).exits(0).numbers(&[("remaining_rows", 5), ("remaining_files", 1), ("done_rows", 40)]);
    job.run(&["--keep-checkpoint"]).exits(0).numbers(&[("processed_rows", 5), ("skipped_rows", 40)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..45).collect::<Vec<i64>>());
    job.verify().exits(0);
}

#[test]
fn a_checkpoint_deleted_half_way_is_refused_until_append_is_given() {
    let job = forty_rows();
    job.run_until(20, 10, &[]);
    fs::remove_dir_all(job.checkpoint()).expect("the checkpoint goes");
    let file = job.data_files().remove(0);
    refused(&job, &[], &format!("without its checkpoint: {file}"));
    // The user says so: rows that are there already come once more.
    job.run(&["--append", "--keep-checkpoint"]).exits(0).numbers(&[("processed_rows", 40)]);
    let mut twice: Vec<i64> = (0..40).chain(0..20).collect();
    twice.sort_unstable();
    assert_eq!(ids_of(&read_dir(&job.output())), twice);
    // Its own rows are once there, and what others wrote is none of its business.
    job.verify().exits(0).numbers(&[("committed_ids", 40)]);
}

#[test]
fn a_fresh_checkpoint_over_the_same_output_is_refused_until_append_is_given() {
    for finished in [false, true] {
        let job = forty_rows();
        if finished {
            job.run(&[]).exits(0);
        } else {
            job.run_until(20, 10, &[]);
        }
        let before = Tree::of(&job.output());
        let run = |extra: &[&str]| {
            let mut command = program::command();
            command.arg("run").arg("--json").arg("--input").arg(job.input()).arg("--output").arg(job.output());
            command.arg("--checkpoint").arg(job.dir().join("fresh")).args(["--id-column", "id"]).args(extra);
            program::run(&mut command)
        };
        run(&[]).exits(3).complains().says(&["--append", "another --output"]);
        before.is(&Tree::of(&job.output()));
        assert!(!job.dir().join("fresh").exists(), "nothing was begun");
        run(&["--append"]).exits(0).numbers(&[("processed_rows", 40)]);
    }
}

/// A failed attempt at appending goes on without the flag: the checkpoint remembers that it was given.
#[test]
fn append_is_remembered_by_the_checkpoint() {
    let job = forty_rows();
    job.run(&[]).exits(0);
    write_parquet(&job.input().join("part-9.parquet"), &int_rows(40..45));
    job.run_until(20, 10, &["--append"]);
    job.run(&[]).exits(0).numbers(&[("skipped_rows", 20), ("processed_rows", 25)]);
}

/// The deletion at the end was stopped half way: `complete` is there, some records are gone.
#[test]
fn a_deletion_that_was_stopped_is_finished_and_nothing_is_processed() {
    for gone in 0..=4 {
        let job = forty_rows();
        job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0);
        let kept = Tree::of(&job.checkpoint());
        let records = job.records();
        job.run(&[]).exits(0);
        let mark = mark_of(&job);
        let data = Tree::of(&job.output());
        // Back to a moment in the deletion: what was kept, less some records, and `complete`.
        for (path, bytes) in &kept.0 {
            let path = job.checkpoint().join(path);
            match bytes {
                None => fs::create_dir_all(&path).expect("a directory is made"),
                Some(bytes) => {
                    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory is made");
                    fs::write(&path, bytes).expect("a file is written");
                }
            }
        }
        fs::write(job.checkpoint().join("_meta/complete"), data.0[&mark].clone().expect("the mark")).expect("complete");
        for name in records.iter().take(gone) {
            fs::remove_file(job.checkpoint().join(format!("{name}.parquet"))).expect("a record goes");
        }
        if gone == 0 {
            fs::remove_file(job.output().join(&mark)).expect("the mark was not written yet");
        }
        assert!(job.status().flag("complete"));
        let ran = job.run(&[]).exits(0).numbers(&[("processed_rows", 0), ("skipped_rows", 40)]);
        assert!(ran.flag("already_complete"), "{}", ran.show());
        data.is(&Tree::of(&job.output()));
        assert!(!job.checkpoint().exists(), "{:?}", Tree::of(&job.checkpoint()).files());
    }
}

fn mark_of(job: &Job) -> String {
    let tree = Tree::of(&job.output());
    let marks: Vec<&str> = tree.files().into_iter().filter(|f| f.starts_with("_CHECKPOINT_COMPLETE-")).collect();
    assert_eq!(marks.len(), 1, "{:?}", tree.files());
    marks[0].to_owned()
}

#[test]
fn the_mark_says_what_was_done() {
    let job = forty_rows();
    job.run_in_tasks(10, &["--job-version", "v7"]).exits(0);
    let text = fs::read_to_string(job.output().join(mark_of(&job))).expect("the mark");
    let mark: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(mark["rows"], 40);
    assert_eq!(mark["fingerprint"]["version"], "v7");
    assert_eq!(mark["fingerprint"]["inputs"].as_array().map(Vec::len), Some(4));
    assert_eq!(mark["data_files"].as_array().map(Vec::len), Some(4));
    assert!(mark["checkpoint"].as_str().is_some_and(|c| c.ends_with("/checkpoint")), "{mark}");
}

#[test]
fn a_job_directory_has_the_output_and_the_checkpoint() {
    let job = forty_rows();
    let mut command = program::command();
    command.arg("run").arg("--json").arg("--input").arg(job.input()).arg("--job-dir").arg(job.dir().join("job"));
    program::run(command.args(["--id-column", "id", "--keep-checkpoint"])).exits(0).numbers(&[("processed_rows", 40)]);
    assert_eq!(ids_of(&read_dir(&job.dir().join("job/output"))), (0..40).collect::<Vec<i64>>());
    assert!(job.dir().join("job/checkpoint/_meta/job.json").exists());
}

/// Relative paths, `file:` URLs and final slashes name the same places, half way and after the end.
#[test]
fn other_spellings_of_the_same_places_go_on_and_end_the_same_job() {
    let job = forty_rows();
    job.run_until(20, 10, &[]);
    let run = |input: &str, output: String, checkpoint: &str| {
        let mut command = program::command();
        command.current_dir(job.dir()).args(["run", "--json", "--id-column", "id", "--input", input]);
        command.args(["--output", &output, "--checkpoint", checkpoint]);
        program::run(&mut command).exits(0)
    };
    let url = format!("file://{}/", job.output().display());
    run("input/", url, "./checkpoint//").numbers(&[("skipped_rows", 20), ("processed_rows", 20)]);
    let again = run("./input", "output".to_owned(), "input/../checkpoint");
    assert!(again.flag("already_complete"), "{}", again.show());
    assert_eq!(ids_of(&read_dir(&job.output())), (0..40).collect::<Vec<i64>>());
}
