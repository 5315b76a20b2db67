//! Integer IDs: the statistics of row groups and pages tell what is done without a look at the IDs.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, UInt32Array};
use checkpoint_pipeline::{ErrorKind, Ids};

use crate::bench::{Bench, properties, rows};

fn integers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<Int64Array>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_groups_by_their_statistics() {
    let bench = Bench::new("group-statistics", Ids::Column("id".into()));
    let numbers: Vec<i64> = (0..8000).collect();
    let id = |number: i64| number - 3000;
    let input = rows(&numbers, Some(integers((0..8000).map(id))));
    let size = bench.input("f", &input, properties(1000, 64 << 10, false).build()).await;
    let left = |number: &i64| number / 1000 == 5;
    bench.done(integers((0..8000).filter(|n| !left(n)).map(id))).await;
    let (report, reads) = bench.run().await;
    assert_eq!((report.skipped_rows, report.processed_rows), (7000, 1000));
    assert!(bench.output().await.into_iter().eq(5000..6000));
    assert!(reads.bytes < size / 8 + (80 << 10), "one of eight row groups, and the footer: {reads:?} of {size}");
    assert!(reads.requests <= 3, "{reads:?}");
    let (report, reads) = bench.run().await;
    assert!(report.already_complete && reads.bytes <= 64 << 10, "the footer alone: {reads:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_by_the_column_index() {
    let bench = Bench::new("page-statistics", Ids::Column("id".into()));
    let numbers: Vec<i64> = (0..20_000).collect();
    // Random among themselves, so that they are not packed into nothing; each thousand has its own range.
    let id = |n: i64| n / 1000 * 1000 + (n % 1000 * 617) % 1000;
    let input = rows(&numbers, Some(integers((0..20_000).map(id))));
    let id_pages = properties(20_000, 64 << 10, true).set_column_data_page_size_limit("id".into(), 8000).build();
    let size = bench.input("f", &input, id_pages).await;
    let left = |number: &i64| (7000..7100).contains(number);
    bench.done(integers((0..20_000).filter(|n| !left(n)).map(id))).await;
    let (report, reads) = bench.run().await;
    assert_eq!((report.skipped_rows, report.processed_rows), (19_900, 100));
    assert!(bench.output().await.into_iter().eq(7000..7100));
    assert!(reads.bytes < 600 << 10, "a few pages, and the end of the file: {reads:?} of {size}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsigned_integers_and_integers_out_of_order() {
    let bench = Bench::new("unsigned", Ids::Column("id".into()));
    let numbers: Vec<i64> = (0..3000).collect();
    let unique = |number: i64| u32::MAX - (number * 7 % 3000) as u32;
    let ids = |numbers: &mut dyn Iterator<Item = i64>| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(numbers.map(unique)))
    };
    let input = rows(&numbers, Some(ids(&mut (0..3000))));
    bench.input("f", &input, properties(500, 64 << 10, true).build()).await;
    bench.done(ids(&mut (0..3000).filter(|n| n % 3 > 0))).await;
    let (report, _) = bench.run().await;
    assert_eq!((report.skipped_rows, report.processed_rows), (2000, 1000));
    assert!(bench.output().await.into_iter().eq((0..3000).filter(|n| n % 3 == 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_ids_is_found_where_statistics_do_not_vouch_for_them() {
    let null = Bench::new("a-null", Ids::Column("id".into()));
    let numbers: Vec<i64> = (0..2000).collect();
    let id = |n: i64| if n == 1500 { None } else { Some(n) };
    let ids: ArrayRef = Arc::new((0..2000).map(id).collect::<Int64Array>());
    null.input("f", &rows(&numbers, Some(ids)), properties(1000, 64 << 10, true).build()).await;
    null.done(integers((0..2000).filter(|n| *n != 1500))).await;
    let error = null.job().run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
    assert!(error.to_string().contains("f.parquet row 1500"), "{error}");

    let twice = Bench::new("twice", Ids::Column("id".into()));
    let ids = integers((0..2000).map(|n| if n == 1999 { 1000 } else { n }));
    twice.input("f", &rows(&numbers, Some(ids)), properties(1000, 64 << 10, true).build()).await;
    twice.done(integers(0..1999)).await;
    let error = twice.job().run().await.unwrap_err();
    assert!(error.to_string().contains("repeats IDs"), "{error}");
    assert!(error.to_string().contains("row 1000") && error.to_string().contains("row 1999"), "{error}");
}

/// IDs that are far from those that are done.
const FAR: i64 = 5_000_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_statistics_of_a_row_group_end_the_run_rather_than_lose_rows() {
    let bench = Bench::new("lying-group", Ids::Column("id".into()));
    let numbers: Vec<i64> = (0..2000).collect();
    bench.input("a", &rows(&numbers, Some(integers(10_000..12_000))), properties(1000, 64 << 10, false).build()).await;
    let ids = integers((0..1000).chain(FAR..FAR + 1000));
    let lies = [(FAR, 0), (FAR + 999, 999)];
    bench.lying_input("b", &rows(&numbers, Some(ids)), properties(1000, 64 << 10, false).build(), &lies).await;
    bench.done(integers(0..1000)).await;
    let error = bench.job().run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
    let text = error.to_string();
    assert!(text.contains("statistics of an input file are wrong"), "{text}");
    assert!(text.contains(&format!("/b.parquet row_group=1 row=1000 id={FAR}")), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_statistics_of_a_page_end_the_run_rather_than_lose_rows() {
    let bench = Bench::new("lying-page", Ids::Column("id".into()));
    let numbers: Vec<i64> = (0..2000).collect();
    let ids = integers((0..1000).chain(FAR..FAR + 1000));
    // Pages of the ID column have 112 rows each; the bounds of the row group are right.
    let pages = properties(2000, 64 << 10, true).set_column_data_page_row_count_limit("id".into(), 100).build();
    let lies = [(FAR + 8, 0), (FAR + 8 + 111, 111)];
    bench.lying_input("f", &rows(&numbers, Some(ids)), pages, &lies).await;
    bench.done(integers(0..1000)).await;
    let error = bench.job().run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
    let text = error.to_string();
    assert!(text.contains("statistics of an input file are wrong"), "{text}");
    assert!(text.contains(&format!("/f.parquet row_group=0 row=1008 id={}", FAR + 8)), "{text}");
}
