//! States that a crash or another hand left behind, built by hand.

use std::fs;
use std::path::Path;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use std::sync::Arc;

use crate::support::tables::rows;
use crate::support::{Job, Tree, ids_of, int_rows, read_dir, write_parquet};

/// Forty rows in four files, half of them done: two tasks of ten rows are committed.
fn half_done() -> Job {
    let job = Job::new();
    for part in 0..4 {
        write_parquet(&job.input().join(format!("part-{part}.parquet")), &int_rows(part * 10..part * 10 + 10));
    }
    job.run_until(20, 10, &[]);
    assert_eq!(job.records().len(), 2);
    job
}

/// As above, and the attempt that did the first ten rows is closed.
fn half_done_in_two_attempts() -> Job {
    let job = half_done();
    job.run_until_more(10, 30);
    job
}

#[track_caller]
fn every_row_once(job: &Job) {
    assert_eq!(ids_of(&read_dir(&job.output())), (0..40).collect::<Vec<i64>>());
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory is made");
    fs::write(path, bytes).expect("a file is written");
}

#[test]
fn a_committed_record_with_a_pending_twin_keeps_its_data() {
    let job = half_done();
    let before = Tree::of(&job.output());
    for (at, name) in job.records().iter().enumerate() {
        let record = fs::read(job.checkpoint().join(format!("{name}.parquet"))).expect("a record");
        // The one as Ray names it, the other as this program does.
        let twin = if at == 0 { format!("{name}.pending.parquet") } else { format!("_meta/pending/{name}.parquet") };
        write(&job.checkpoint().join(twin), &record);
    }
    job.status().numbers(&[("committed_rows", 20), ("pending_tasks", 0), ("void_tasks", 0)]);
    job.verify().exits(0).numbers(&[("committed_ids", 20), ("orphan_files", 0)]);

    let ran = job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0);
    ran.numbers(&[("skipped_rows", 20), ("processed_rows", 20), ("rolled_forward_tasks", 0), ("voided_tasks", 0)]);
    every_row_once(&job);
    let after = Tree::of(&job.output());
    for (path, bytes) in &before.0 {
        assert_eq!(after.0.get(path), Some(bytes), "{path} survives as it was");
    }
    let left: Vec<String> = Tree::of(&job.checkpoint()).files().iter().map(|f| (*f).to_owned()).collect();
    assert!(!left.iter().any(|f| f.contains("pending")), "the twins are litter and go: {left:?}");
    job.verify().exits(0).numbers(&[("committed_ids", 40), ("output_rows", 40)]);
}

#[test]
fn a_damaged_pending_record_with_partial_data_is_computed_again() {
    let damaged: [&[u8]; 3] = [b"", b"PAR1 and then nothing that is Parquet", b"{}"];
    for record in damaged {
        let job = half_done();
        let first = job.records().remove(0);
        let (attempt, _) = first.rsplit_once('-').expect("a task's name has its number last");
        let litter = format!("{attempt}-000777");
        let data = fs::read(job.output().join(format!("{first}.parquet"))).expect("a data file");
        write(&job.checkpoint().join(format!("_meta/pending/{litter}.parquet")), record);
        write(&job.output().join(format!("{litter}.parquet")), &data[..data.len() / 2]);

        job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0).numbers(&[("processed_rows", 20), ("voided_tasks", 1)]);
        every_row_once(&job);
        let left = Tree::of(job.dir());
        assert!(!left.files().iter().any(|f| f.contains(&litter)), "swept: {:?}", left.files());
        job.verify().exits(0);
    }
}

/// A pending record that is whole beside data that is not is no proof either.
#[test]
fn a_pending_record_without_all_of_its_data_is_computed_again() {
    for cut in [0, 1] {
        let job = half_done();
        let name = job.records().remove(0);
        let record = job.checkpoint().join(format!("{name}.parquet"));
        let pending = fs::read(&record).expect("a record");
        fs::remove_file(&record).expect("the commit is taken back");
        write(&job.checkpoint().join(format!("_meta/pending/{name}.parquet")), &pending);
        let data = job.output().join(format!("{name}.parquet"));
        let bytes = fs::read(&data).expect("data");
        if cut == 0 {
            fs::remove_file(&data).expect("the data goes");
        } else {
            write(&data, &bytes[..bytes.len() - 9]);
        }
        job.status().numbers(&[("committed_rows", 10), ("pending_tasks", 1), ("pending_rows", 10)]);
        let ran = job.run_in_tasks(10, &[]).exits(0);
        ran.numbers(&[("skipped_rows", 10), ("processed_rows", 30), ("voided_tasks", 1), ("rolled_forward_tasks", 0)]);
        every_row_once(&job);
    }
}

#[test]
fn a_pending_record_with_all_of_its_data_is_rolled_forward() {
    let job = half_done();
    let name = job.records().remove(0);
    let record = job.checkpoint().join(format!("{name}.parquet"));
    let pending = job.checkpoint().join(format!("_meta/pending/{name}.parquet"));
    fs::create_dir_all(pending.parent().expect("a parent")).expect("a directory is made");
    fs::copy(&record, &pending).expect("the record goes back");
    fs::remove_file(&record).expect("the commit is taken back");
    let data = job.output().join(format!("{name}.parquet"));
    let before = fs::read(&data).expect("data");
    let planned = job.plan(&[]).exits(0);
    planned.numbers(&[("done_rows", 20), ("remaining_rows", 20), ("would_roll_forward", 1), ("would_void", 0)]);
    let ran = job.run_in_tasks(10, &[]).exits(0);
    ran.numbers(&[("skipped_rows", 20), ("processed_rows", 20), ("rolled_forward_tasks", 1), ("voided_tasks", 0)]);
    every_row_once(&job);
    assert_eq!(fs::read(&data).expect("data"), before, "finished work is kept");
}

/// The ways in which a committed record can be damaged.
fn damages(whole: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let parquet = |name: &str, column: ArrayRef| {
        let file = tempfile::NamedTempFile::new().expect("a file is made");
        write_parquet(file.path(), &rows([(name, column)]));
        fs::read(file.path()).expect("a file reads")
    };
    let mut flipped = whole.to_vec();
    let middle = flipped.len() / 3;
    flipped[middle..middle + 40].iter_mut().for_each(|byte| *byte ^= 0x5a);
    vec![
        ("zero bytes", Vec::new()),
        ("garbage", b"these are not the records that you look for".repeat(9)),
        ("truncated", whole[..whole.len() / 2].to_vec()),
        ("flipped bits", flipped),
        ("another column", parquet("uid", Arc::new(Int64Array::from_iter_values(0..10)))),
        ("another type", parquet("id", Arc::new(StringArray::from_iter_values((0..10).map(|n| n.to_string()))))),
    ]
}

#[test]
fn a_damaged_committed_record_stops_the_job_and_is_named_until_it_is_repaired() {
    for closed in [false, true] {
        let whole = {
            let job = half_done();
            fs::read(job.checkpoint().join(format!("{}.parquet", job.records()[0]))).expect("a record")
        };
        for (what, bytes) in damages(&whole) {
            println!("{what}, attempt closed: {closed}");
            let job = if closed { half_done_in_two_attempts() } else { half_done() };
            let done = job.records().len() as u64 * 10;
            let name = job.records().remove(0);
            let record = job.checkpoint().join(format!("{name}.parquet"));
            write(&record, &bytes);
            let file = format!("{name}.parquet");
            let data = Tree::of(&job.output());

            job.run_in_tasks(10, &[]).exits(5).complains().says(&[&file, "--repair"]);
            job.recover(&[]).exits(5).complains().says(&[&file, "--repair"]);
            job.plan(&[]).exits(5).complains().says(&[&file]);
            job.on_checkpoint("ids", &[]).exits(5).says(&[&file]);
            assert_eq!(fs::read(&record).expect("a record"), bytes, "nothing touched it");
            data.is(&Tree::of(&job.output()));

            let dry = job.recover(&["--repair", "--dry-run"]).exits(0).numbers(&[("repaired_tasks", 1)]);
            assert!(dry.flag("dry_run"));
            assert_eq!(fs::read(&record).expect("a record"), bytes, "a dry run changes nothing");
            job.recover(&["--repair"]).exits(0).numbers(&[("repaired_tasks", 1)]);
            let ran = job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0);
            ran.numbers(&[("skipped_rows", done - 10), ("processed_rows", 40 - (done - 10))]);
            every_row_once(&job);
            job.verify().exits(0).numbers(&[("committed_ids", 40), ("output_rows", 40)]);
        }
    }
}

#[test]
fn rows_whose_data_is_gone_are_found_and_only_they_are_computed_again() {
    for closed in [false, true] {
        let job = if closed { half_done_in_two_attempts() } else { half_done() };
        let done = job.records().len() as u64 * 10;
        let name = job.records().remove(0);
        fs::remove_file(job.output().join(format!("{name}.parquet"))).expect("the data goes");
        let found = job.verify().exits(1).numbers(&[("lost_tasks", 1), ("duplicate_ids", 0)]);
        assert!(!found.flag("ok"));
        assert!(found.json()["examples"].to_string().contains(&name), "{}", found.show());

        job.recover(&["--repair"]).exits(0).numbers(&[("repaired_tasks", 1)]);
        let ran = job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0);
        ran.numbers(&[("skipped_rows", done - 10), ("processed_rows", 40 - (done - 10))]);
        every_row_once(&job);
        job.verify().exits(0);

        // After the end of a kept job: those rows and no other.
        let name = job.records().pop().expect("a record");
        fs::remove_file(job.output().join(format!("{name}.parquet"))).expect("the data goes");
        job.verify().exits(1).numbers(&[("lost_tasks", 1)]);
        job.recover(&["--repair"]).exits(0).numbers(&[("repaired_tasks", 1)]);
        job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0).numbers(&[("skipped_rows", 30), ("processed_rows", 10)]);
        every_row_once(&job);
    }
}

#[test]
fn files_of_others_stay_as_they_are() {
    let job = half_done();
    let task = job.records().remove(0);
    let (job_id, _) = task.split_once('-').expect("the job's ID comes first");
    let others = [
        job.output().join("notes.txt"),
        job.output().join("other.parquet"),
        job.output().join("sub/part-0.parquet"),
        job.output().join(format!("{job_id}x-1-1.parquet")),
        job.output().join(format!("{task}0extra")),
        job.output().join("_SUCCESS"),
        job.output().join("_failed/other.jsonl"),
        job.checkpoint().join("README.md"),
        job.checkpoint().join("sub/notes.txt"),
        job.checkpoint().join("_SUCCESS"),
        job.checkpoint().join(".hidden"),
    ];
    for path in &others {
        write(path, format!("of somebody else: {}", path.display()).as_bytes());
    }
    let unchanged = |when: &str| {
        for path in &others {
            let text = fs::read_to_string(path).unwrap_or_default();
            assert_eq!(text, format!("of somebody else: {}", path.display()), "{when}");
        }
    };
    job.recover(&["--repair"]).exits(0);
    unchanged("after recover");
    job.run_until_more(10, 30);
    unchanged("after a failed run");
    job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0).numbers(&[("skipped_rows", 30), ("processed_rows", 10)]);
    unchanged("after a run");
    job.verify().exits(0).numbers(&[("orphan_files", 0)]);
    job.run_in_tasks(10, &[]).exits(0).numbers(&[("processed_rows", 0)]);
    unchanged("after the end");
    let left = Tree::of(&job.checkpoint());
    assert_eq!(
        left.files(),
        [".hidden", "README.md", "_SUCCESS", "sub/notes.txt"],
        "all else of the checkpoint is gone"
    );
    fs::remove_file(job.output().join("other.parquet")).expect("it is no Parquet file");
    fs::remove_file(job.output().join(format!("{job_id}x-1-1.parquet"))).expect("it is no Parquet file");
    every_row_once(&job);
}
