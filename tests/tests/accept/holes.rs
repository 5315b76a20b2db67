//! Resumes whose done rows are not the first ones: holes are filled, and nothing else is read or computed.

use std::fs;

use parquet::file::properties::WriterProperties;

use crate::support::tables::{heavy_rows, write_parquet_with};
use crate::support::{Job, ids_of, int_rows, read_dir, write_parquet};

/// Four hundred rows in one file of many row groups, all done in 40 tasks, and the tasks at these places undone.
fn with_holes(job: &Job, holes: &[usize]) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(30)).set_data_page_row_count_limit(7);
    write_parquet_with(&job.input().join("a.parquet"), &int_rows(0..400), properties.build());
    job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0).numbers(&[("processed_rows", 400), ("written_files", 40)]);
    let files = job.data_files();
    for hole in holes {
        fs::remove_file(job.output().join(&files[*hole])).expect("data goes");
    }
    let wanted = [("repaired_tasks", holes.len() as u64)];
    job.recover(&["--repair"]).exits(0).numbers(&wanted);
}

/// Fills the holes with batches of this size and sees that they were filled with what was in them.
#[track_caller]
fn filled(job: &Job, holes: &[usize], batch: &str) {
    let left = holes.len() as u64 * 10;
    job.plan(&["--batch-size", batch]).exits(0).numbers(&[("done_rows", 400 - left), ("remaining_rows", left)]);
    let ran = job.run(&["--workers", "2", "--batch-size", batch, "--keep-checkpoint"]).exits(0);
    ran.numbers(&[("input_rows", 400), ("skipped_rows", 400 - left), ("processed_rows", left), ("written_rows", left)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..400).collect::<Vec<i64>>());
    job.verify().exits(0).numbers(&[("committed_ids", 400), ("output_rows", 400), ("missing_ids", 0)]);
}

#[test]
fn holes_anywhere_are_filled() {
    let few: &[usize] = &[0, 3, 4, 5, 17, 31, 39];
    // A hole so long that looking ahead is given up in it, with done rows behind it.
    let long: Vec<usize> = (4..36).collect();
    let all_but_one: Vec<usize> = (0..39).collect();
    for (holes, batch) in [(few, "10"), (few, "64"), (few, "1"), (&long, "2"), (&long, "10"), (&all_but_one, "3")] {
        for job in [Job::new(), Job::by_row_hash()] {
            with_holes(&job, holes);
            filled(&job, holes, batch);
        }
    }
}

/// Several workers that are stopped somewhere leave holes of their own.
#[test]
fn whatever_several_workers_leave_is_filled() {
    for workers in ["2", "3"] {
        let job = Job::new();
        for part in 0..3 {
            write_parquet_with(
                &job.input().join(format!("{part}.parquet")),
                &int_rows(part * 500..part * 500 + 500),
                WriterProperties::builder().set_max_row_group_row_count(Some(64)).build(),
            );
        }
        let failing = crate::support::worker("--fail-after 200");
        let many = ["--workers", workers, "--batch-size", "7", "--rows-per-task", "21"];
        job.run(&[&many[..], &["--exec", &failing]].concat()).exits(1);
        let done = job.status().number("committed_rows");
        assert!(done > 0 && done < 1500, "{done}");
        let ran = job.run(&[&many[..], &["--keep-checkpoint"]].concat()).exits(0);
        ran.numbers(&[("input_rows", 1500), ("skipped_rows", done), ("processed_rows", 1500 - done)]);
        assert_eq!(ids_of(&read_dir(&job.output())), (0..1500).collect::<Vec<i64>>());
        job.verify().exits(0);
    }
}

/// Of a file that is done no row is read, and nothing at all where hashes name the rows.
#[test]
fn rows_that_are_done_are_not_read() {
    for job in [Job::new(), Job::by_row_hash()] {
        let done = job.input().join("a.parquet");
        write_parquet(&done, &heavy_rows(0..300));
        write_parquet(&job.input().join("b.parquet"), &heavy_rows(300..310));
        job.run_until(300, 100, &[]);
        let resumed = job.run(&[]).exits(0).numbers(&[("skipped_rows", 300), ("processed_rows", 10)]);
        let (size, read) = (fs::metadata(&done).expect("a file").len(), resumed.number("bytes_read"));
        assert!(read <= size / 5, "{read} of {size}\n{}", resumed.show());
        assert_eq!(ids_of(&read_dir(&job.output())), (0..310).collect::<Vec<i64>>());
    }
}
