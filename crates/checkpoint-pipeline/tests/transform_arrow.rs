//! Children that speak Arrow IPC.

mod child_process;
mod sample_types;

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use checkpoint_pipeline::transform::{Batch, Transform};
use child_process::{arrow, fails, one, rows};
use sample_types::many_types;

/// A program that reads streams message by message and writes each record batch `times` times.
fn repeat(times: usize) -> String {
    format!(
        r#"exec python3 -c '
import sys, struct
inp, out = sys.stdin.buffer, sys.stdout.buffer
def take(n):
    data = inp.read(n)
    if len(data) < n:
        sys.exit(0)
    return data
while True:
    head = take(8)
    length = struct.unpack("<i", head[4:])[0]
    if length == 0:
        out.write(head)
        out.flush()
        continue
    meta = take(length)
    table = struct.unpack_from("<I", meta)[0]
    vtable = table - struct.unpack_from("<i", meta, table)[0]
    def field(slot, kind, default):
        at = struct.unpack_from("<H", meta, vtable + slot)[0] if slot < struct.unpack_from("<H", meta, vtable)[0] else 0
        return struct.unpack_from(kind, meta, table + at)[0] if at else default
    body = take(field(10, "<q", 0))
    is_batch = field(6, "<B", 0) == 3
    for _ in range({times} if is_batch else 1):
        out.write(head + meta + body)
'"#
    )
}

#[tokio::test]
async fn cat_is_the_identity_for_every_type() {
    let pool = arrow("exec cat");
    let records = many_types();
    for _ in 0..3 {
        assert_eq!(one(&pool, Batch::new(records.clone(), "k")).await, records);
    }
    assert_eq!(one(&pool, Batch::new(records.slice(1, 2), "k")).await, records.slice(1, 2));
    let empty = records.slice(0, 0);
    assert_eq!(one(&pool, Batch::new(empty.clone(), "k")).await, empty);
    pool.close().await.expect("closes");
}

#[tokio::test]
async fn an_answer_may_have_more_rows_or_none() {
    let batch = rows(0, 10);
    let answer = arrow(&repeat(3)).apply(batch.clone()).await.expect("answers");
    assert_eq!(answer, [batch.records.clone(), batch.records.clone(), batch.records.clone()]);
    let none = arrow(&repeat(0));
    for _ in 0..2 {
        assert!(none.apply(batch.clone()).await.expect("answers").is_empty());
    }
}

#[tokio::test]
async fn large_batches_do_not_block() {
    // Larger than every buffer on the way, in both directions at once.
    let blobs = BinaryArray::from_iter_values((0..50_u8).map(|i| vec![i; 1 << 20]));
    let schema = Schema::new(vec![Field::new("blob", DataType::Binary, true)]);
    let records = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(blobs) as ArrayRef]).expect("valid");
    let pool = arrow("exec cat");
    for _ in 0..2 {
        assert_eq!(one(&pool, Batch::new(records.clone(), "k")).await, records);
    }
}

#[tokio::test]
async fn broken_answers_are_told_with_what_was_there() {
    let error = fails(&arrow("echo Hello from a library; exec cat"), rows(0, 1)).await;
    assert!(error.message().contains("no Arrow IPC stream") && error.message().contains("Hello from"), "{error}");
    let error = fails(&arrow("head -c 100"), rows(0, 100)).await;
    assert!(error.message().contains("ended in the middle of a message"), "{error}");
    let error = fails(&arrow("cat > /dev/null"), rows(0, 1)).await;
    assert!(error.message().contains("ended before the end of its answer"), "{error}");
    // A second stream after the first.
    let twice = "f=$(mktemp -d); timeout 1 cat > $f/1; cat $f/1 $f/1 > $f/2; cat $f/2; rm -r $f; exec cat";
    let error = fails(&arrow(twice), rows(0, 1)).await;
    assert!(error.message().contains("wrote more than its answer"), "{error}");
}

#[tokio::test]
async fn output_that_comes_after_the_answer_fails_the_next_batch() {
    let late = "f=$(mktemp -d); timeout 1 cat > $f/1; cat $f/1; sleep 0.2; cat $f/1; rm -r $f; exec cat";
    let pool = arrow(late);
    one(&pool, rows(0, 1)).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let error = fails(&pool, rows(1, 1)).await;
    assert!(error.message().contains("wrote more than its answer"), "{error}");
}
