//! What a run and a plan count: 70 percent done and resumed, and a plan that says what the run then does.

use crate::support::tables::heavy_rows;
use crate::support::{Job, Tree, ids_of, int_rows, read_dir, worker, write_parquet};

/// A thousand rows in ten files, with a text that makes them heavy.
fn thousand_rows() -> Job {
    let job = Job::new();
    for part in 0..10_i64 {
        let rows = heavy_rows(part * 100..part * 100 + 100);
        write_parquet(&job.input().join(format!("part-{part}.parquet")), &rows);
    }
    job
}

#[test]
fn seventy_percent_done_is_skipped_and_thirty_computed_and_appended() {
    let job = thousand_rows();
    let input_bytes: u64 = Tree::of(&job.input()).0.values().flatten().map(|bytes| bytes.len() as u64).sum();
    job.run_until(700, 50, &[]);
    let files_before = job.data_files();
    job.status().numbers(&[("committed_rows", 700), ("committed_tasks", 14), ("pending_rows", 0), ("attempts", 1)]);

    job.plan(&[]).exits(0).numbers(&[
        ("input_files", 10),
        ("input_rows", 1000),
        ("done_rows", 700),
        ("remaining_rows", 300),
        ("remaining_files", 3),
        ("would_roll_forward", 0),
        ("would_void", 0),
    ]);
    let resumed = job.run_in_tasks(50, &[]).exits(0);
    // What is done is not read again, but for its IDs: what is left, and the ends of the files that say what is where.
    let read = resumed.number("bytes_read");
    assert!(read >= input_bytes * 3 / 10, "{read} of {input_bytes}\n{}", resumed.show());
    assert!(read <= input_bytes * 45 / 100, "{read} of {input_bytes}\n{}", resumed.show());
    let resumed = resumed.numbers(&[
        ("input_rows", 1000),
        ("skipped_rows", 700),
        ("processed_rows", 300),
        ("written_rows", 300),
        ("written_files", 6),
        ("failed_rows", 0),
        ("rolled_forward_tasks", 0),
        ("voided_tasks", 0),
        ("attempt", 2),
    ]);
    assert!(!resumed.flag("already_complete"));
    for time in ["seconds", "read_seconds", "transform_seconds", "write_seconds", "commit_seconds"] {
        assert!(resumed.json()[time].as_f64().is_some_and(|t| (0.0..60.0).contains(&t)), "{time}");
    }
    let files = job.data_files();
    assert_eq!(files.len(), 20);
    assert!(files_before.iter().all(|f| files.contains(f)), "what was there stays, the rest is appended");
    assert_eq!(ids_of(&read_dir(&job.output())), (0..1000).collect::<Vec<i64>>());
}

/// Rows that are dropped or multiplied are counted as they are written, and are done when their task is.
#[test]
fn dropped_and_multiplied_rows_are_done_with_their_task() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..40));
    let times = worker("--times 3 --fail-after 20");
    job.run_in_tasks(10, &["--exec", &times]).exits(1);
    let times = worker("--times 3");
    let ran = job.run_in_tasks(10, &["--exec", &times, "--keep-checkpoint"]).exits(0);
    ran.numbers(&[("skipped_rows", 20), ("processed_rows", 20), ("written_rows", 60)]);
    let mut thrice: Vec<i64> = (0..40).flat_map(|id| [id; 3]).collect();
    thrice.sort_unstable();
    assert_eq!(ids_of(&read_dir(&job.output())), thrice);
    job.verify().exits(0).numbers(&[("committed_ids", 40), ("output_rows", 120), ("duplicate_ids", 0)]);

    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..40));
    let nothing = worker("--times 0");
    let ran = job.run_in_tasks(10, &["--exec", &nothing, "--keep-checkpoint"]).exits(0);
    ran.numbers(&[("processed_rows", 40), ("written_rows", 0), ("written_files", 0)]);
    assert_eq!(job.data_files(), Vec::<String>::new());
    job.verify().exits(0).numbers(&[("committed_ids", 40), ("output_rows", 0), ("missing_ids", 0)]);
    let again = job.run(&["--exec", &nothing]).exits(0).numbers(&[("processed_rows", 0), ("skipped_rows", 40)]);
    assert!(again.flag("already_complete"));
}

/// A plan on every state of a job: it writes nothing, and its numbers are what the run then does.
#[test]
fn a_plan_writes_nothing_and_is_what_the_run_does() {
    let fresh = thousand_rows();
    let half = thousand_rows();
    half.run_until(450, 50, &[]);
    let pending = thousand_rows();
    pending.run_until(450, 50, &[]);
    for (at, name) in pending.records().into_iter().take(2).enumerate() {
        let record = pending.checkpoint().join(format!("{name}.parquet"));
        std::fs::create_dir_all(pending.checkpoint().join("_meta/pending")).expect("a directory is made");
        std::fs::copy(&record, pending.checkpoint().join(format!("_meta/pending/{name}.parquet"))).expect("a copy");
        std::fs::remove_file(&record).expect("the commit is taken back");
        if at == 0 {
            std::fs::remove_file(pending.output().join(format!("{name}.parquet"))).expect("the data goes");
        }
    }
    let kept = thousand_rows();
    kept.run(&["--keep-checkpoint"]).exits(0);
    let done = thousand_rows();
    done.run(&[]).exits(0);
    for (name, job) in [("fresh", fresh), ("half", half), ("pending", pending), ("kept", kept), ("done", done)] {
        println!("{name}");
        let before = Tree::of(job.dir());
        let planned = job.plan(&[]).exits(0);
        before.is(&Tree::of(job.dir()));
        let ran = job.run(&[]).exits(0);
        for (plan, run) in [
            ("input_rows", "input_rows"),
            ("done_rows", "skipped_rows"),
            ("remaining_rows", "processed_rows"),
            ("would_roll_forward", "rolled_forward_tasks"),
            ("would_void", "voided_tasks"),
        ] {
            assert_eq!(planned.number(plan), ran.number(run), "{plan}\n{}\n{}", planned.show(), ran.show());
        }
        assert_eq!(planned.flag("already_complete"), ran.flag("already_complete"), "{}", ran.show());
        assert_eq!(ids_of(&read_dir(&job.output())), (0..1000).collect::<Vec<i64>>());
    }
}

/// The fields that programs rely on.
#[test]
fn json_has_the_promised_fields() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
    let fields = |ran: &crate::support::Ran, names: &str| {
        let json = ran.json();
        let missing: Vec<&str> = names.split(',').filter(|name| json.get(name).is_none()).collect();
        assert!(missing.is_empty(), "missing {missing:?}\n{}", ran.show());
        assert_eq!(ran.out.lines().count(), 1, "one object on one line\n{}", ran.show());
    };
    fields(
        &job.plan(&[]).exits(0),
        "input_files,input_rows,done_rows,remaining_rows,remaining_files,would_roll_forward,would_void,already_complete,\
         bytes_read",
    );
    fields(
        &job.run(&["--keep-checkpoint"]).exits(0),
        "input_rows,skipped_rows,processed_rows,written_rows,written_files,failed_rows,rolled_forward_tasks,\
         voided_tasks,bytes_read,attempt,already_complete,seconds,read_seconds,transform_seconds,write_seconds,\
         commit_seconds",
    );
    fields(
        &job.status(),
        "checkpoint,id_column,id_type,committed_rows,committed_tasks,pending_rows,pending_tasks,void_tasks,attempts,\
         complete,bytes,bytes_per_id,last_commit",
    );
    fields(
        &job.verify().exits(0),
        "ok,committed_ids,output_rows,missing_ids,duplicate_ids,orphan_files,lost_tasks,pending_tasks,examples",
    );
    fields(&job.recover(&[]).exits(0), "rolled_forward,voided,deleted_files,repaired_tasks,dry_run");
    fields(&job.on_checkpoint("ids", &["--count", "--json"]).exits(0), "count");
    let compacted = job.on_checkpoint("compact", &["--json"]).exits(0);
    fields(&compacted, "records_before,records_after,bytes_before,bytes_after");
}
