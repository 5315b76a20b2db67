//! What the tests of child processes share.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use checkpoint_pipeline::transform::{Batch, ExecFormat, ProcessPool, Transform, TransformError};

/// A pool of one worker that speaks JSON lines.
pub(crate) fn jsonl(command: &str) -> ProcessPool {
    ProcessPool::new(command, ExecFormat::JsonLines, 1).expect("valid")
}

/// A pool of one worker that speaks Arrow.
pub(crate) fn arrow(command: &str) -> ProcessPool {
    ProcessPool::new(command, ExecFormat::Arrow, 1).expect("valid")
}

/// A Python program that answers each line; `body` turns `row` (a dict, or the answer) into the answer.
pub(crate) fn python(body: &str) -> String {
    let body = body.replace('\n', "\n    ");
    format!(
        "exec python3 -c '\nimport sys, json, os, time\nfor line in sys.stdin:\n    row = json.loads(line)\n    {body}\n    print(json.dumps(row))\n'"
    )
}

/// Rows with IDs from `from` and a text.
pub(crate) fn rows(from: i64, count: i64) -> Batch {
    let ids: Vec<i64> = (from..from + count).collect();
    let texts: Vec<String> = ids.iter().map(|id| format!("text {id}")).collect();
    batch(vec![("id", Arc::new(Int64Array::from(ids))), ("text", Arc::new(StringArray::from(texts)))])
}

pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> Batch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    Batch::new(RecordBatch::try_from_iter_with_nullable(columns).expect("valid"), "key-1")
}

/// The only batch of the answer.
pub(crate) async fn one(pool: &ProcessPool, batch: Batch) -> RecordBatch {
    let mut answer = pool.apply(batch).await.expect("answers");
    assert_eq!(answer.len(), 1, "{answer:?}");
    answer.remove(0)
}

pub(crate) async fn fails(pool: &ProcessPool, batch: Batch) -> TransformError {
    pool.apply(batch).await.expect_err("fails")
}

/// The rows of a batch as JSON, for comparison.
pub(crate) fn json(batch: &RecordBatch) -> Vec<serde_json::Value> {
    let mut bytes = Vec::new();
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, arrow::json::writer::LineDelimited>(&mut bytes);
    writer.write(batch).and_then(|()| writer.finish()).expect("encodes");
    bytes
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).expect("is JSON"))
        .collect()
}
