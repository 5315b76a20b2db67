//! Row hashes: the number of rows says what is done, without a look at the file.

use std::sync::Arc;

use arrow::array::UInt64Array;
use checkpoint_pipeline::transform::{Batch, FnTransform, TransformError};
use checkpoint_pipeline::{ErrorKind, Ids};

use crate::bench::{Bench, properties, rows};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_finished_and_known_are_not_opened() {
    let bench = Bench::new("finished-files", Ids::RowHash);
    let mut size = 0;
    for file in 0..5i64 {
        let numbers: Vec<i64> = (file * 1000..(file + 1) * 1000).collect();
        size = bench.input(&format!("f{file}"), &rows(&numbers, None), properties(250, 50_000, true).build()).await;
    }
    let mut done: Vec<u64> = (0..4).flat_map(|f| bench.hashes(&format!("f{f}"), 0..1000)).collect();
    done.extend(bench.hashes("f4", 0..500));
    bench.done(Arc::new(UInt64Array::from(done))).await;
    assert_eq!(bench.fail().await.kind(), ErrorKind::Transform);

    bench.reset();
    let plan = bench.job().plan().await.unwrap();
    assert_eq!((plan.input_rows, plan.done_rows, plan.remaining_files), (5000, 4500, 1));
    assert_eq!(plan.bytes_read, bench.reads().bytes);
    assert!(bench.reads().requests <= 1, "no more than the footer of the file that is not finished");

    let (report, reads) = bench.run().await;
    assert_eq!((report.skipped_rows, report.processed_rows), (4500, 500));
    assert!(reads.bytes < size / 2 + (90 << 10), "half of one of five files, and its footer: {reads:?} of {size}");
    assert!(reads.requests <= 4, "{reads:?}");
    assert!(bench.output().await.into_iter().eq(4500..5000));

    let (report, reads) = bench.run().await;
    assert!(report.already_complete);
    assert_eq!((report.input_rows, reads.requests), (5000, 0), "nothing is left, nothing is read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changed_is_looked_at_again() {
    let bench = Bench::new("changed-file", Ids::RowHash);
    let numbers: Vec<i64> = (0..1000).collect();
    bench.input("f", &rows(&numbers, None), properties(250, 50_000, true).build()).await;
    let done = bench.hashes("f", 0..1000);
    bench.done(Arc::new(UInt64Array::from(done))).await;
    assert!(bench.run().await.0.already_complete);
    let more: Vec<i64> = (0..1100).collect();
    bench.input("f", &rows(&more, None), properties(250, 50_000, true).build()).await;
    assert_eq!(bench.job().run().await.unwrap_err().kind(), ErrorKind::Conflict, "another input");
    let report = bench.job().allow_changed_read(true).run().await.unwrap();
    assert_eq!((report.skipped_rows, report.processed_rows), (1000, 100), "its rows are counted again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_straddle_row_groups_stay_whole() {
    let bench = Bench::new("straddling", Ids::RowHash);
    let numbers: Vec<i64> = (0..3000).collect();
    bench.input("f", &rows(&numbers, None), properties(257, 16 << 10, true).build()).await;
    let left = |row: &u64| !(300..400).contains(row) && !(1130..2000).contains(row);
    bench.done(Arc::new(UInt64Array::from(bench.hashes("f", (0..3000).filter(|row| !left(row)))))).await;
    let sizes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = sizes.clone();
    let note = FnTransform::new(move |batch: Batch| -> Result<_, TransformError> {
        seen.lock().unwrap().push(batch.records.num_rows());
        Ok(vec![batch.records])
    });
    bench.job().transform(note).run().await.unwrap();
    assert!(bench.output().await.into_iter().eq((0..3000).filter(|n| left(&(*n as u64)))));
    let mut sizes = sizes.lock().unwrap().clone();
    sizes.sort_unstable();
    // Windows of a hundred rows; one was done from row 1130 on.
    assert_eq!(sizes, [vec![30], vec![100; 20]].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_rows_that_are_done_are_not_read() {
    let bench = Bench::new("hash-pages", Ids::RowHash);
    let numbers: Vec<i64> = (0..8000).collect();
    let size = bench.input("f", &rows(&numbers, None), properties(4000, 64 << 10, true).build()).await;
    let left = |row: &u64| (1200..1500).contains(row) || *row == 5000 || *row == 7999;
    let done = bench.hashes("f", (0..8000).filter(|row| !left(row)));
    bench.done(Arc::new(UInt64Array::from(done))).await;
    let (report, reads) = bench.run().await;
    assert_eq!((report.skipped_rows, report.processed_rows), (7698, 302));
    // 302 rows of 8000, and a page more at each end of three stretches; and the end of the file.
    let pages = 300 * 2100 + 6 * (66 << 10) + (70 << 10);
    assert!(reads.bytes < pages, "{reads:?} of {size}");
    assert!(bench.output().await.into_iter().eq((0..8000).filter(|n| left(&(*n as u64)))));
}
