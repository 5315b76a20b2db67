//! `compact`: fewer records, the same rows.

use std::fs;

use crate::support::{Job, Tree, ids_of, int_rows, program, read_dir, write_parquet};

/// A job of eight tasks, five of which are done.
fn half_done() -> Job {
    let job = Job::new();
    for part in 0..4 {
        write_parquet(&job.input().join(format!("part-{part}.parquet")), &int_rows(part * 20..part * 20 + 20));
    }
    job.run_until(50, 10, &[]);
    job
}

#[test]
fn records_become_few_and_everything_else_stays() {
    let job = half_done();
    let output = Tree::of(&job.output());
    let ids = job.on_checkpoint("ids", &["--format", "jsonl"]).exits(0);
    let listed = |ids: &str| {
        let mut lines: Vec<String> = ids.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let report = job.on_checkpoint("compact", &["--json"]).exits(0);
    let report = report.numbers(&[("records_before", 5), ("records_after", 1)]);
    assert!(report.number("bytes_after") < report.number("bytes_before"), "{}", report.show());
    assert_eq!(job.records().len(), 1);
    output.is(&Tree::of(&job.output()));
    job.status().numbers(&[("committed_rows", 50), ("committed_tasks", 5), ("pending_tasks", 0), ("void_tasks", 0)]);
    let after = job.on_checkpoint("ids", &["--format", "jsonl"]).exits(0);
    assert_eq!(listed(&after.out), listed(&ids.out));
    job.on_checkpoint("ids", &["--contains", "0", "--contains", "49"]).exits(0);
    job.on_checkpoint("ids", &["--contains", "50"]).exits(1);
    job.verify().exits(0).numbers(&[("committed_ids", 50), ("output_rows", 50), ("lost_tasks", 0)]);
    job.plan(&[]).exits(0).numbers(&[("done_rows", 50), ("remaining_rows", 30)]);
    job.recover(&[]).exits(0).numbers(&[("rolled_forward", 0), ("voided", 0), ("repaired_tasks", 0)]);
    let again = job.on_checkpoint("compact", &[]).exits(0);
    assert!(again.out.contains("nothing to merge"), "{}", again.show());
    job.run(&[]).exits(0).numbers(&[("skipped_rows", 50), ("processed_rows", 30)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..80).collect::<Vec<i64>>());
    assert!(!job.checkpoint().exists(), "{:?}", Tree::of(&job.checkpoint()).files());
    job.on_checkpoint("compact", &[]).exits(2).complains();
}

#[test]
fn a_task_that_was_never_committed_is_settled_first() {
    let job = half_done();
    let name = job.records().remove(0);
    fs::create_dir_all(job.checkpoint().join("_meta/pending")).expect("a directory is made");
    let record = job.checkpoint().join(format!("{name}.parquet"));
    fs::copy(&record, job.checkpoint().join(format!("_meta/pending/{name}.parquet"))).expect("taken back");
    fs::remove_file(&record).expect("taken back");
    job.on_checkpoint("compact", &["--json"]).exits(0).numbers(&[("records_before", 5), ("records_after", 2)]);
    job.status().numbers(&[("committed_rows", 50), ("pending_tasks", 0)]);
    job.verify().exits(0).numbers(&[("committed_ids", 50)]);
}

#[test]
fn a_damaged_merged_record_is_named_and_repaired() {
    let job = half_done();
    job.on_checkpoint("compact", &[]).exits(0);
    job.run_until_more(10, 60);
    let merged = job.records().into_iter().find(|name| name.contains("-merged-")).expect("a merged record");
    for file in [format!("{merged}.parquet"), format!("_meta/merged/{merged}.parquet")] {
        let path = job.checkpoint().join(&file);
        let good = fs::read(&path).expect("it is there");
        fs::write(&path, &good[..good.len() - 3]).expect("cut");
        job.run(&[]).exits(5).complains().says(&[&merged, "--repair"]);
        job.on_checkpoint("compact", &[]).exits(5).complains().says(&[&merged]);
        job.verify().exits(1).numbers(&[("lost_tasks", 5)]);
        fs::write(&path, &good).expect("put back");
    }
    job.verify().exits(0);
    fs::remove_file(job.checkpoint().join(format!("_meta/merged/{merged}.parquet"))).expect("gone");
    job.recover(&["--repair"]).exits(0).numbers(&[("repaired_tasks", 5), ("deleted_files", 5)]);
    job.run(&[]).exits(0).numbers(&[("skipped_rows", 10), ("processed_rows", 70)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..80).collect::<Vec<i64>>());
}

#[test]
fn rm_and_gc_take_all_of_it() {
    for verb in ["rm", "gc"] {
        let job = half_done();
        job.on_checkpoint("compact", &[]).exits(0);
        if verb == "rm" {
            job.on_checkpoint("rm", &["--yes"]).exits(0);
        } else {
            let args = ["gc", job.dir().to_str().expect("text"), "--older-than", "0s", "--yes"];
            program::ckpt(args).exits(0);
        }
        assert!(!job.checkpoint().exists(), "{verb}: {:?}", Tree::of(&job.checkpoint()).files());
        assert_eq!(ids_of(&read_dir(&job.output())), (0..50).collect::<Vec<i64>>());
    }
}
