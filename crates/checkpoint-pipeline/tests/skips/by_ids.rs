//! IDs of text: the ID column is read first, and of the wide column what its rows need.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use checkpoint_pipeline::Ids;

use crate::bench::{Bench, Reads, properties, rows, text_id};

const ROWS: i64 = 20_000;

/// Runs a job of 40 MB of which these rows are left. Gives what was read, and the size.
async fn run(name: &str, left: impl Fn(i64) -> bool, group: usize, page: usize, index: bool) -> (Reads, u64) {
    let bench = Bench::new(name, Ids::Column("id".into()));
    let numbers: Vec<i64> = (0..ROWS).collect();
    let ids = |numbers: &mut dyn Iterator<Item = i64>| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(numbers.map(text_id)))
    };
    let input = rows(&numbers, Some(ids(&mut (0..ROWS))));
    let size = bench.input("f", &input, properties(group, page, index).build()).await;
    bench.done(ids(&mut (0..ROWS).filter(|n| !left(*n)))).await;
    let (report, reads) = bench.run().await;
    let expected: BTreeSet<i64> = (0..ROWS).filter(|n| left(*n)).collect();
    assert_eq!(report.processed_rows as usize, expected.len());
    assert_eq!(report.skipped_rows + report.processed_rows, ROWS as u64);
    assert_eq!(bench.output().await, expected);
    (reads, size)
}

fn assert_below(what: &str, (reads, size): (Reads, u64), percent: f64, requests: u64) {
    let read = reads.percent_of(size);
    assert!(read <= percent && reads.requests <= requests, "{what}: {read:.1}% of {size} bytes, {reads:?}");
}

/// Two of twenty tasks of a thousand rows.
fn whole_tasks(number: i64) -> bool {
    matches!(number / 1000, 7 | 13)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenth_left_in_whole_tasks() {
    assert_below("with an index", run("tasks-index", whole_tasks, 5000, 64 << 10, true).await, 15.0, 30);
    // Without one, pages are found by their headers; they must be large for that to pay.
    assert_below("without", run("tasks-none", whole_tasks, 5000, 256 << 10, false).await, 15.0, 160);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenth_left_at_the_end() {
    let end = |number: i64| number >= ROWS * 9 / 10;
    assert_below("with an index", run("end-index", end, 5000, 64 << 10, true).await, 13.5, 30);
    assert_below("without", run("end-none", end, 5000, 256 << 10, false).await, 15.0, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenth_left_here_and_there_reads_each_page_once() {
    let some = |number: i64| number.wrapping_mul(2_654_435_761) % 1000 < 100;
    assert_below("with an index", run("some-index", some, 5000, 64 << 10, true).await, 101.0, 60);
    assert_below("without", run("some-none", some, 5000, 64 << 10, false).await, 101.0, 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_row_left_in_each_row_group() {
    let one = |number: i64| number % 2000 == 1234;
    assert_below("with an index", run("one-index", one, 2000, 64 << 10, true).await, 5.0, 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_without_a_done_row_before_the_first_are_looked_at_once() {
    let bench = Bench::new("untouched", Ids::Column("id".into()));
    let ids =
        |numbers: std::ops::Range<i64>| -> ArrayRef { Arc::new(StringArray::from_iter_values(numbers.map(text_id))) };
    for (name, from) in [("a", 0), ("b", 1000), ("c", 2000)] {
        let numbers: Vec<i64> = (from..from + 1000).collect();
        let input = rows(&numbers, Some(ids(from..from + 1000)));
        bench.input(name, &input, properties(1000, 64 << 10, true).build()).await;
    }
    bench.done(ids(2000..3000)).await;
    let (report, reads) = bench.run().await;
    assert_eq!((report.skipped_rows, report.processed_rows), (1000, 2000));
    assert!(bench.output().await.into_iter().eq(0..2000));
    // Of each a footer; of the first two the IDs for the look, and then the rows; of the last the IDs, twice.
    assert_eq!(reads.requests, 9, "{reads:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_done_and_everything_done() {
    let (reads, size) = run("all-left", |n| n != 5, 5000, 64 << 10, true).await;
    assert_below("one row done", (reads, size), 100.6, 60);
    let (reads, size) = run("none-left", |_| false, 5000, 64 << 10, true).await;
    assert_below("all rows done", (reads, size), 3.0, 15);
}
