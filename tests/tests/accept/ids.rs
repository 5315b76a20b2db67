//! IDs of every type: half done, resumed, each once, and given back as they came.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal128Array,
    Decimal256Array, DictionaryArray, FixedSizeBinaryArray, Int8Array, Int32Array, Int64Array, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow::compute::{concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, i256};

use crate::support::tables::{read_parquet, rows};
use crate::support::{Job, ids_of, int_rows, read_dir, write_parquet};

/// How many IDs a type is tried with, where it has as many.
const ROWS: usize = 20;

fn numbers() -> std::ops::Range<i64> {
    0..ROWS as i64
}

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = (0..ROWS - 12).map(|n| format!("doc/{n:04}")).collect();
    texts.extend(
        ["caf\u{e9}", "cafe\u{301}", "a b", "a b ", "a\nb", "null", "0", "00", "\u{1f600}", "\u{0}"].map(str::to_owned),
    );
    // Ten kilobytes that differ in the last byte alone.
    texts.extend(["y", "z"].map(|end| "x".repeat(10_000) + end));
    assert_eq!(texts.len(), ROWS);
    texts
}

fn bytes() -> Vec<Vec<u8>> {
    (0..ROWS as u8).map(|n| if n < 10 { vec![0; usize::from(n) + 1] } else { vec![0xff, n, 0] }).collect()
}

/// Every type of ID that the product promises, by name.
fn all_types() -> Vec<(&'static str, ArrayRef)> {
    let past = 1_i64 << 53;
    let ends = |n: i64| if n < 10 { u64::MAX - n as u64 } else { n as u64 };
    let struct_of = |texts: ArrayRef, numbers: ArrayRef| {
        StructArray::from(vec![
            (Arc::new(Field::new("file", DataType::Utf8, false)), texts),
            (Arc::new(Field::new("row", DataType::Int32, false)), numbers),
        ])
    };
    let paths: ArrayRef = Arc::new(StringArray::from_iter_values(numbers().map(|n| ["a", "ab"][n as usize % 2])));
    let row: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers().map(|n| n as i32 / 2)));
    let dictionary: DictionaryArray<Int32Type> = texts().iter().map(String::as_str).collect();
    let fixed = FixedSizeBinaryArray::try_from_iter(numbers().map(|n| [0, n as u8, 0xff, 0]));
    let instants = || numbers().map(|n| 1_700_000_000_000_000 + n);
    vec![
        ("int8", Arc::new(Int8Array::from_iter_values(numbers().map(|n| n as i8 - 10)))),
        ("int32", Arc::new(Int32Array::from_iter_values(numbers().map(|n| i32::MAX - n as i32)))),
        ("int64 around 2^53", Arc::new(Int64Array::from_iter_values(numbers().map(|n| past - 10 + n)))),
        (
            "int64 ends",
            Arc::new(Int64Array::from_iter_values(numbers().map(|n| if n < 10 { i64::MIN + n } else { i64::MAX - n }))),
        ),
        ("uint64 ends", Arc::new(UInt64Array::from_iter_values(numbers().map(ends)))),
        ("string", Arc::new(StringArray::from_iter_values(texts()))),
        ("large string", Arc::new(LargeStringArray::from_iter_values(texts()))),
        ("string view", Arc::new(StringViewArray::from_iter_values(texts()))),
        ("dictionary of strings", Arc::new(dictionary)),
        ("binary", Arc::new(BinaryArray::from_iter_values(bytes()))),
        ("large binary", Arc::new(LargeBinaryArray::from_iter_values(bytes()))),
        ("binary view", Arc::new(BinaryViewArray::from_iter_values(bytes()))),
        ("fixed binary", Arc::new(fixed.expect("one size"))),
        (
            "decimal128",
            Arc::new(
                Decimal128Array::from_iter_values(numbers().map(|n| i128::from(n) + (1 << 60)))
                    .with_precision_and_scale(30, 4)
                    .expect("fits"),
            ),
        ),
        (
            "decimal256",
            Arc::new(
                Decimal256Array::from_iter_values(numbers().map(|n| i256::from_parts(n as u128, 7)))
                    .with_precision_and_scale(60, 0)
                    .expect("fits"),
            ),
        ),
        ("date32", Arc::new(Date32Array::from_iter_values(numbers().map(|n| n as i32 - 5)))),
        ("date64", Arc::new(Date64Array::from_iter_values(numbers().map(|n| n * 86_400_000)))),
        ("time64", Arc::new(Time64MicrosecondArray::from_iter_values(numbers()))),
        ("timestamp", Arc::new(TimestampMicrosecondArray::from_iter_values(instants()))),
        ("timestamp in UTC", Arc::new(TimestampMicrosecondArray::from_iter_values(instants()).with_timezone("UTC"))),
        (
            "timestamp in a zone",
            Arc::new(TimestampNanosecondArray::from_iter_values(instants()).with_timezone("Europe/Berlin")),
        ),
        ("boolean", Arc::new(BooleanArray::from(vec![true, false]))),
        ("struct", Arc::new(struct_of(paths, row))),
    ]
}

#[test]
fn ids_of_every_type_are_each_once_after_a_resume_and_keep_their_type() {
    for (name, ids) in all_types() {
        println!("{name}");
        let job = Job::new();
        let all = rows([("id", ids.clone()), ("n", Arc::new(Int64Array::from_iter_values(0..ids.len() as i64)))]);
        let half = all.num_rows() / 2;
        write_parquet(&job.input().join("a.parquet"), &all.slice(0, half));
        write_parquet(&job.input().join("b.parquet"), &all.slice(half, all.num_rows() - half));
        // Fails in the middle of the second file, so that the resume begins inside of one.
        let task = (half / 2).max(1);
        let done = if all.num_rows() == 2 { 1 } else { half + task };
        job.run_until(done, task, &[]);

        let counted = job.on_checkpoint("ids", &["--count", "--json"]).exits(0);
        assert_eq!(counted.number("count"), done as u64);
        let ran = job.run_in_tasks(task, &["--keep-checkpoint"]).exits(0);
        ran.numbers(&[("skipped_rows", done as u64), ("processed_rows", (all.num_rows() - done) as u64)]);
        let got = by_number(&read_dir(&job.output()));
        assert_eq!(got.schema().field(0).data_type(), all.schema().field(0).data_type(), "{name} keeps its type");
        assert_eq!(got.column(0), all.column(0), "{name}");
        job.verify().exits(0).numbers(&[("committed_ids", all.num_rows() as u64), ("missing_ids", 0)]);
    }
}

/// Sorted by the column `n`.
fn by_number(batch: &arrow::array::RecordBatch) -> arrow::array::RecordBatch {
    let column = arrow::compute::SortColumn { values: batch.column(1).clone(), options: None };
    let order = lexsort_to_indices(&[column], None).expect("integers sort");
    take_record_batch(batch, &order).expect("rows are taken")
}

/// `ckpt ids` gives back what was committed, in each of its forms.
#[test]
fn listed_ids_are_the_committed_ones() {
    for (name, ids) in all_types() {
        println!("{name}");
        let job = Job::new();
        write_parquet(&job.input().join("a.parquet"), &rows([("id", ids.clone())]));
        job.run(&["--keep-checkpoint", "--workers", "1"]).exits(0);
        let listed = job.on_checkpoint("ids", &["--format", "jsonl"]).exits(0);
        assert_eq!(listed.out.lines().count(), ids.len(), "{}", listed.show());
        let file = job.dir().join("ids.parquet");
        let mut command = crate::support::program::command();
        command.arg("ids").arg(job.checkpoint()).args(["--format", "parquet"]);
        command.stdout(std::fs::File::create(&file).expect("a file is made"));
        assert!(command.status().expect("ckpt starts").success(), "{name}");
        let back = arrow::compute::cast(read_parquet(&file).column(0), ids.data_type()).expect("the same class");
        assert_eq!(&back, &ids, "{name}");
        // Looked up as they are listed, where that is possible.
        let text = job.on_checkpoint("ids", &[]).exits(0);
        let Some(first) = text.out.lines().next().filter(|_| !matches!(ids.data_type(), DataType::Struct(_))) else {
            continue;
        };
        job.on_checkpoint("ids", &["--contains", first]).exits(0);
    }
}

#[test]
fn a_null_or_empty_id_anywhere_is_refused_with_its_file_and_row() {
    let text = |texts: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(texts)) };
    let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), Some("b"), None].into_iter().collect();
    let cases: Vec<(&str, ArrayRef)> = vec![
        ("null", Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))),
        ("null", text(vec![Some("a"), Some("b"), None])),
        ("empty", text(vec![Some("a"), Some("b"), Some("")])),
        ("empty", Arc::new(BinaryArray::from_iter_values([&b"a"[..], b"b", b""]))),
        ("null", Arc::new(dictionary)),
        ("null", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
    ];
    for (what, ids) in cases {
        let job = Job::new();
        write_parquet(&job.input().join("bad.parquet"), &rows([("id", ids)]));
        job.run(&["--batch-size", "2"]).exits(5).complains().says(&[what, "bad.parquet", "row 2"]);
    }
    // In the last row of the last file, beyond what was committed: found when it is read, and named.
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..20));
    let tail: ArrayRef = Arc::new(Int64Array::from(vec![Some(20), Some(21), None]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "z"]));
    write_parquet(&job.input().join("b.parquet"), &rows([("id", tail), ("text", words)]));
    for _ in 0..2 {
        job.run_in_tasks(10, &[]).exits(5).complains().says(&["null", "b.parquet", "row 2"]);
    }
    let done = job.status().number("committed_rows");
    assert!((20..=22).contains(&done), "what was fine before it is committed, once: {done}");
}

#[test]
fn integers_of_another_width_match_by_value() {
    let job = Job::new();
    let path = job.input().join("a.parquet");
    write_parquet(&path, &int_rows(0..20));
    job.run_until(10, 5, &[]);
    let narrow: ArrayRef = Arc::new(Int32Array::from_iter_values(0..20));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..20).map(|n| format!("row {n}"))));
    write_parquet(&path, &rows([("id", narrow.clone()), ("text", words)]));
    let planned = job.plan(&[]).exits(0);
    planned.numbers(&[("done_rows", 10), ("remaining_rows", 10)]);
    job.run_in_tasks(5, &["--keep-checkpoint"]).exits(0).numbers(&[("skipped_rows", 10), ("processed_rows", 10)]);
    let output = read_dir(&job.output());
    assert_eq!(ids_of(&output), (0..20).collect::<Vec<i64>>());
    assert_eq!(output.schema().field(0).data_type(), &DataType::Int64, "the output keeps its type");
    job.verify().exits(0).numbers(&[("committed_ids", 20), ("duplicate_ids", 0), ("missing_ids", 0)]);
}

/// Files of one input that differ in the width of their IDs, all rows in one task.
#[test]
fn integers_of_several_widths_in_one_task() {
    let job = Job::new();
    let columns = |ids: ArrayRef| {
        let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..ids.len()).map(|n| n.to_string())));
        rows([("id", ids), ("text", words)])
    };
    write_parquet(&job.input().join("a.parquet"), &columns(Arc::new(Int64Array::from_iter_values(0..10))));
    write_parquet(&job.input().join("b.parquet"), &columns(Arc::new(Int32Array::from_iter_values(10..20))));
    write_parquet(&job.input().join("c.parquet"), &columns(Arc::new(UInt64Array::from_iter_values(20..30))));
    job.run(&["--workers", "1", "--keep-checkpoint"]).exits(0).numbers(&[("processed_rows", 30), ("written_files", 1)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..30).collect::<Vec<i64>>());
    job.verify().exits(0).numbers(&[("committed_ids", 30)]);
}

#[test]
fn texts_of_another_encoding_match() {
    let job = Job::new();
    let path = job.input().join("a.parquet");
    let plain: ArrayRef = Arc::new(StringArray::from_iter_values(texts()));
    let large: ArrayRef = Arc::new(LargeStringArray::from_iter_values(texts()));
    write_parquet(&path, &rows([("id", plain)]));
    job.run_until(10, 5, &[]);
    write_parquet(&path, &rows([("id", large)]));
    job.plan(&[]).exits(0).numbers(&[("done_rows", 10), ("remaining_rows", 10)]);
    job.run(&["--keep-checkpoint"]).exits(0).numbers(&[("skipped_rows", 10), ("processed_rows", 10)]);
    assert_eq!(read_dir(&job.output()).num_rows(), 20);
    job.verify().exits(0).numbers(&[("committed_ids", 20), ("missing_ids", 0)]);
}

#[test]
fn a_text_never_equals_a_number() {
    let job = Job::new();
    let path = job.input().join("a.parquet");
    write_parquet(&path, &int_rows(0..20));
    job.run_until(10, 5, &[]);
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..20).map(|n| n.to_string())));
    write_parquet(&path, &rows([("id", words.clone()), ("text", words)]));
    job.run(&[]).exits(3).complains().says(&["the type of the IDs", "integer", "text"]);
    job.plan(&[]).exits(3).complains();

    // Two files of one input that disagree.
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..20).map(|n| n.to_string())));
    write_parquet(&job.input().join("b.parquet"), &rows([("id", words.clone()), ("text", words)]));
    job.run(&["--workers", "1"]).exits(5).complains().says(&["b.parquet", "integer", "text"]);
}

#[test]
fn what_cannot_name_a_row_is_refused() {
    let floats: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![1.0, 2.0]));
    let lists: ArrayRef = Arc::new(arrow::array::ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1)]),
        Some(vec![Some(2)]),
    ]));
    for (ids, says) in [(floats, "float"), (lists, "List")] {
        let job = Job::new();
        write_parquet(&job.input().join("a.parquet"), &rows([("id", ids)]));
        job.run(&[]).exits(5).complains().says(&[says]);
        assert!(!job.output().exists() || job.data_files().is_empty(), "nothing was written");
    }
}

#[test]
fn an_id_twice_in_one_task_is_refused_with_both_places() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows([1, 2, 3]));
    write_parquet(&job.input().join("b.parquet"), &int_rows([4, 2]));
    let ran = job.run(&["--workers", "1"]).exits(5).complains();
    ran.says(&["id=2", "a.parquet row 1", "b.parquet row 1"]);
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows([7, 8, 7]));
    job.run(&["--workers", "1"]).exits(5).complains().says(&["id=7", "a.parquet row 0", "a.parquet row 2"]);
}

#[test]
fn a_plan_that_looks_for_ids_that_are_twice_looks_at_done_rows_too() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..20));
    write_parquet(&job.input().join("b.parquet"), &int_rows(20..30));
    job.run_until(20, 10, &[]);
    job.plan(&["--check-unique"]).exits(0).numbers(&[("input_rows", 30), ("done_rows", 20), ("remaining_rows", 10)]);
    write_parquet(&job.input().join("c.parquet"), &int_rows([30, 7]));
    job.plan(&["--check-unique"]).exits(5).complains().says(&["id=7", "a.parquet row 7", "c.parquet row 1"]);

    // Row hashes are not twice, and nothing is read to know it.
    let job = Job::by_row_hash();
    write_parquet(&job.input().join("a.parquet"), &int_rows(std::iter::repeat_n(1, 100_000)));
    let plain = job.plan(&[]).exits(0).number("bytes_read");
    let checked = job.plan(&["--check-unique"]).exits(0).numbers(&[("remaining_rows", 100_000)]);
    assert_eq!(checked.number("bytes_read"), plain, "{}", checked.show());
    std::fs::write(job.input().join("b.jsonl"), "{\"id\": 1}\n{\"id\": 1}\n").expect("a file is written");
    job.plan(&["--check-unique"]).exits(0).numbers(&[("remaining_rows", 100_002)]);
}

#[test]
fn an_id_twice_across_tasks_is_found_by_verify_or_at_once() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
    write_parquet(&job.input().join("b.parquet"), &int_rows(4..9));
    job.run_in_tasks(5, &["--check-unique"]).exits(5).complains().says(&["id=4", "a.parquet row 4", "b.parquet row 0"]);

    assert_eq!(job.plan(&[]).exits(0).number("input_rows"), 10, "nobody looks unless asked to");
    job.plan(&["--check-unique"]).exits(5).complains().says(&["id=4", "a.parquet row 4", "b.parquet row 0"]);

    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
    write_parquet(&job.input().join("b.parquet"), &int_rows(4..9));
    job.run_in_tasks(5, &["--keep-checkpoint"]).exits(0);
    let found = job.verify().exits(1);
    assert!(!found.flag("ok"));
    assert!(
        found.number("duplicate_ids") > 0 && found.json()["examples"].to_string().contains('4'),
        "{}",
        found.show()
    );
    // The next run sees more rows done than IDs, and says so.
    job.run(&["--keep-checkpoint"]).exits(5).complains().says(&["id=4", "a.parquet row 4", "b.parquet row 0"]);
}

/// Text formats and Arrow files have IDs too.
#[test]
fn ids_above_two_to_the_53_survive_json_lines() {
    let job = Job::new();
    let past = 1_i64 << 53;
    let lines: String = (0..20).map(|n| format!("{{\"id\": {}, \"v\": 0.5}}\n", past + n)).collect();
    std::fs::write(job.input().join("a.jsonl"), lines).expect("a file is written");
    job.run_until(10, 5, &["--output-format", "parquet"]);
    job.run_in_tasks(5, &["--output-format", "parquet"])
        .exits(0)
        .numbers(&[("skipped_rows", 10), ("processed_rows", 10)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (past..past + 20).collect::<Vec<i64>>());
}

/// Two inputs with the same rows in another order resume each other.
#[test]
fn the_order_of_rows_and_files_does_not_matter() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..20));
    write_parquet(&job.input().join("b.parquet"), &int_rows(20..40));
    job.run_until(20, 10, &[]);
    let both = concat_batches(&int_rows([]).schema(), &[int_rows((20..40).rev()), int_rows((0..20).rev())]);
    let both = both.expect("one schema");
    write_parquet(&job.input().join("a.parquet"), &both.slice(0, 7));
    write_parquet(&job.input().join("b.parquet"), &both.slice(7, 33));
    job.run_in_tasks(10, &[]).exits(0).numbers(&[("skipped_rows", 20), ("processed_rows", 20)]);
    let output = read_dir(&job.output());
    assert_eq!(ids_of(&output), (0..40).collect::<Vec<i64>>());
    let texts = output.column_by_name("text").expect("a column").as_string::<i32>().clone();
    assert_eq!(texts.null_count(), 0);
}
