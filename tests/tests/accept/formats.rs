//! Files in and out: every pair of formats resumed half way, Parquet of every make, and which files are input.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, LargeStringArray, ListArray, MapBuilder,
    RecordBatch, StringArray, StringBuilder, StringViewArray, StructArray,
};
use arrow::datatypes::{DataType, Field, Int64Type};
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use serde_json::{Value, json};

use crate::support::tables::{read_parquet, rows, write_parquet_with};
use crate::support::{Job, Tree, ids_of, int_rows, program, read_dir, write_parquet};

const FORMATS: [&str; 4] = ["parquet", "jsonl", "csv", "arrow"];

/// Rows that every format can carry: integers beyond 2^53, texts with quotes and line breaks, nulls.
fn simple(ids: std::ops::Range<i64>) -> RecordBatch {
    let texts = ids.clone().map(|n| match n % 4 {
        0 => Some(format!("plain {n}")),
        1 => Some(format!("quoted \"{n}\", and a comma")),
        2 => None,
        _ => Some(format!("two\nlines {n} \u{e9}\u{1f600}")),
    });
    rows([
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone().map(|n| n + (1 << 60)))) as ArrayRef),
        ("text", Arc::new(texts.collect::<StringArray>())),
        ("score", Arc::new(Float64Array::from_iter_values(ids.clone().map(|n| n as f64 + 0.25)))),
        ("flag", Arc::new(ids.map(|n| Some(n % 2 == 0)).collect::<BooleanArray>())),
    ])
}

fn write_as(format: &str, path: &Path, batch: &RecordBatch) {
    let file = File::create(path).expect("a file is made");
    match format {
        "parquet" => write_parquet(path, batch),
        "jsonl" => {
            let mut writer = arrow::json::LineDelimitedWriter::new(file);
            writer.write(batch).expect("rows are written");
            writer.finish().expect("the file is ended");
        }
        "csv" => arrow::csv::Writer::new(file).write(batch).expect("rows are written"),
        _ => {
            let mut writer = FileWriter::try_new(file, &batch.schema()).expect("an Arrow writer");
            writer.write(batch).expect("rows are written");
            writer.finish().expect("the file is ended");
        }
    }
}

/// The rows of an output file as JSON objects, whatever its format; read without the product.
fn read_as(format: &str, path: &Path) -> Vec<Value> {
    let batches: Vec<RecordBatch> = match format {
        "parquet" => vec![read_parquet(path)],
        "arrow" => {
            let reader = FileReader::try_new(File::open(path).expect("a file opens"), None).expect("an Arrow file");
            reader.collect::<Result<_, _>>().expect("the file is whole")
        }
        "jsonl" => {
            let text = fs::read_to_string(path).expect("a file reads");
            return text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
        }
        _ => {
            let schema = simple(0..4).schema();
            assert!(schema.field_with_name("text").is_ok_and(Field::is_nullable));
            let reader = arrow::csv::ReaderBuilder::new(schema).with_header(true);
            let reader = reader.build(File::open(path).expect("a file opens")).expect("a CSV file");
            reader.collect::<Result<_, _>>().expect("the file is whole")
        }
    };
    let mut bytes = Vec::new();
    let mut writer = arrow::json::LineDelimitedWriter::new(&mut bytes);
    batches.iter().for_each(|batch| writer.write(batch).expect("rows are written"));
    writer.finish().expect("the text is ended");
    drop(writer);
    let text = String::from_utf8(bytes).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

/// The rows of all data files by their ID, nulls left out as JSON writers do; an ID twice fails the test.
fn by_id(job: &Job, format: &str) -> BTreeMap<i64, Value> {
    let mut found = BTreeMap::new();
    for name in job.data_files() {
        for mut row in read_as(format, &job.output().join(&name)) {
            row.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
            let id = row["id"].as_i64().expect("an integer");
            assert!(found.insert(id, row).is_none(), "ID {id} is twice in the output");
        }
    }
    found
}

#[test]
fn every_pair_of_formats_resumes_half_way_with_the_same_rows() {
    for from in FORMATS {
        for to in FORMATS {
            println!("{from} to {to}");
            let job = Job::new();
            for part in 0..2 {
                let path = job.input().join(format!("part-{part}.{from}"));
                write_as(from, &path, &simple(part * 20..part * 20 + 20));
            }
            let to_it = ["--output-format", to];
            job.run_until(25, 5, &to_it);
            let ran = job.run_in_tasks(5, &[&to_it[..], &["--keep-checkpoint"]].concat()).exits(0);
            ran.numbers(&[("skipped_rows", 25), ("processed_rows", 15), ("written_rows", 15)]);
            let extension = if to == "jsonl" { "jsonl" } else { to };
            assert!(job.data_files().iter().all(|f| f.ends_with(&format!(".{extension}"))), "{:?}", job.data_files());
            let found = by_id(&job, to);
            let wanted: BTreeMap<i64, Value> = (0..40).map(|n| (n + (1 << 60), row(n))).collect();
            assert_eq!(found.len(), 40);
            for (id, row) in &wanted {
                assert_eq!(found.get(id), Some(row), "{from} to {to}");
            }
            job.verify().exits(0).numbers(&[("committed_ids", 40), ("output_rows", 40), ("missing_ids", 0)]);
        }
    }
}

/// A row of [`simple`] as JSON.
fn row(n: i64) -> Value {
    let mut row = json!({"id": n + (1 << 60), "score": n as f64 + 0.25, "flag": n % 2 == 0});
    match n % 4 {
        0 => row["text"] = json!(format!("plain {n}")),
        1 => row["text"] = json!(format!("quoted \"{n}\", and a comma")),
        2 => {}
        _ => row["text"] = json!(format!("two\nlines {n} \u{e9}\u{1f600}")),
    }
    row
}

/// Lists, structs and maps within each other, texts of every encoding.
fn nested(ids: std::ops::Range<i64>) -> RecordBatch {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        ids.clone()
            .map(|n| (n % 3 != 0).then(|| (0..n % 4).map(|m| (m % 2 == 0).then_some(n * m)).collect::<Vec<_>>())),
    );
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for n in ids.clone() {
        maps.keys().append_value(format!("k{n}"));
        maps.values().append_option((n % 2 == 0).then(|| format!("v{n}")));
        maps.append(true).expect("as many keys as values");
    }
    let large: ArrayRef =
        Arc::new(LargeStringArray::from_iter_values(ids.clone().map(|n| "large ".repeat(n as usize % 9))));
    let view: ArrayRef =
        Arc::new(StringViewArray::from_iter_values(ids.clone().map(|n| format!("seen from afar {n}"))));
    let lists: ArrayRef = Arc::new(lists);
    let inner = StructArray::from(vec![
        (Arc::new(Field::new("large", DataType::LargeUtf8, false)), large.clone()),
        (Arc::new(Field::new("lists", lists.data_type().clone(), true)), lists.clone()),
    ]);
    rows([
        ("id", Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef),
        ("lists", lists),
        ("map", Arc::new(maps.finish())),
        ("inner", Arc::new(inner)),
        ("large", large),
        ("view", view),
    ])
}

/// Sorted by ID.
fn sorted(batch: &RecordBatch) -> RecordBatch {
    let order = arrow::compute::sort_to_indices(batch.column_by_name("id").expect("an ID"), None, None).expect("sorts");
    arrow::compute::take_record_batch(batch, &order).expect("rows are taken")
}

#[track_caller]
fn same_columns(got: &RecordBatch, wanted: &RecordBatch) {
    for (index, field) in wanted.schema().fields().iter().enumerate() {
        let column = got.column_by_name(field.name()).expect("a column of that name");
        assert_eq!(column.data_type(), field.data_type(), "{}", field.name());
        assert_eq!(column, wanted.column(index), "{}", field.name());
    }
}

#[test]
fn parquet_of_every_codec_version_and_cut_comes_out_as_it_went_in() {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    let all = nested(0..60);
    for (at, codec) in codecs.into_iter().enumerate() {
        println!("{codec}");
        let job = Job::new();
        let version = if at % 2 == 0 { WriterVersion::PARQUET_1_0 } else { WriterVersion::PARQUET_2_0 };
        let mut properties = WriterProperties::builder()
            .set_compression(codec)
            .set_writer_version(version)
            .set_max_row_group_row_count(Some(7))
            .set_data_page_row_count_limit(3)
            .set_write_batch_size(2);
        if at % 3 == 0 {
            properties = properties.set_dictionary_enabled(false).set_encoding(Encoding::PLAIN);
        }
        write_parquet_with(&job.input().join("a.parquet"), &all, properties.build());
        job.run_until(20, 10, &[]);
        job.run_in_tasks(10, &["--keep-checkpoint"]).exits(0).numbers(&[("skipped_rows", 20), ("processed_rows", 40)]);
        same_columns(&sorted(&read_dir(&job.output())), &all);
        job.verify().exits(0);
    }
}

/// The same rows through Arrow files, and through a child process that gets them as Arrow.
#[test]
fn nested_types_survive_arrow_files_and_child_processes() {
    let all = nested(0..60);
    let job = Job::new();
    write_as("arrow", &job.input().join("a.arrow"), &all);
    job.run(&["--output-format", "parquet", "--exec", "exec cat", "--batch-size", "7"]).exits(0);
    same_columns(&sorted(&read_dir(&job.output())), &all);
}

/// An Arrow stream is an Arrow file as well.
#[test]
fn arrow_streams_are_read() {
    let job = Job::new();
    let all = simple(0..20);
    let mut writer = StreamWriter::try_new(Cursor::new(Vec::new()), &all.schema()).expect("a stream writer");
    writer.write(&all.slice(0, 9)).expect("rows are written");
    writer.write(&all.slice(9, 11)).expect("rows are written");
    writer.finish().expect("the stream ends");
    fs::write(job.input().join("a.arrow"), writer.into_inner().expect("bytes").into_inner())
        .expect("a file is written");
    job.run(&["--output-format", "parquet"]).exits(0).numbers(&[("processed_rows", 20)]);
    same_columns(&sorted(&read_dir(&job.output())), &all);
}

#[test]
fn empty_files_and_files_without_rows_are_no_harm() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows([]));
    write_parquet(&job.input().join("b.parquet"), &int_rows(0..5));
    fs::write(job.input().join("SUCCESS"), "").expect("a file is written");
    job.run(&[]).exits(0).numbers(&[("input_rows", 5), ("processed_rows", 5)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..5).collect::<Vec<i64>>());

    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows([]));
    for _ in 0..2 {
        job.run(&[]).exits(0).numbers(&[("input_rows", 0), ("processed_rows", 0), ("written_files", 0)]);
    }
}

#[test]
fn hidden_files_are_no_input_and_directories_are_read_to_the_bottom() {
    let job = Job::new();
    fs::create_dir_all(job.input().join("deep/er")).expect("a directory is made");
    fs::create_dir_all(job.input().join("_temporary/0")).expect("a directory is made");
    fs::create_dir_all(job.input().join(".cache")).expect("a directory is made");
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
    write_parquet(&job.input().join("deep/b.parquet"), &int_rows(5..10));
    write_parquet(&job.input().join("deep/er/c.parquet"), &int_rows(10..15));
    for hidden in ["_x.parquet", ".x.parquet", "_temporary/0/x.parquet", ".cache/x.parquet", "deep/_x.parquet"] {
        write_parquet(&job.input().join(hidden), &int_rows(900..905));
    }
    fs::write(job.input().join("README.md"), "of no format").expect("a file is written");
    job.plan(&[]).exits(0).numbers(&[("input_files", 3), ("input_rows", 15)]);
    job.run(&[]).exits(0).numbers(&[("processed_rows", 15)]);
    assert_eq!(ids_of(&read_dir(&job.output())), (0..15).collect::<Vec<i64>>());
}

#[test]
fn globs_and_several_inputs_are_read_once_each() {
    let job = Job::new();
    fs::create_dir_all(job.input().join("x/y")).expect("a directory is made");
    for (name, ids) in [("a1", 0..5), ("a2", 5..10), ("b1", 10..15), ("x/a3", 15..20), ("x/y/a4", 20..25)] {
        write_parquet(&job.input().join(format!("{name}.parquet")), &int_rows(ids));
    }
    let at = |pattern: &str| format!("{}/{pattern}", job.input().display());
    let cases: [(&[String], i64); 6] = [
        (&[at("a*.parquet")], 10),
        (&[at("?1.parquet")], 10),
        (&[at("{a,b}1.parquet")], 10),
        (&[at("**/a*.parquet")], 20),
        (&[at("a1.parquet"), at("a*.parquet"), at("a[12].parquet")], 10),
        (&[at("x"), at("b1.parquet")], 15),
    ];
    for (at, (inputs, rows)) in cases.into_iter().enumerate() {
        let mut command = program::command();
        command.arg("run").arg("--input").args(inputs).arg("--job-dir").arg(job.dir().join(format!("job-{at}")));
        let ran = program::run(command.args(["--id-column", "id", "--json"])).exits(0);
        assert_eq!(ran.number("processed_rows"), rows as u64, "{}", ran.show());
        assert_eq!(read_dir(&job.dir().join(format!("job-{at}/output"))).num_rows(), rows as usize);
    }
}

/// The order of the output is that of the input, so that two runs of one worker give the same rows in the same
/// files.
#[test]
fn the_input_is_read_in_one_order() {
    let orders: Vec<Vec<i64>> = (0..2)
        .map(|_| {
            let job = Job::new();
            for part in [3, 1, 2, 0] {
                write_parquet(&job.input().join(format!("p{part}.parquet")), &int_rows(part * 10..part * 10 + 10));
            }
            job.run_in_tasks(5, &[]).exits(0);
            read_dir(&job.output()).column(0).as_primitive::<Int64Type>().values().to_vec()
        })
        .collect();
    assert_eq!(orders[0], (0..40).collect::<Vec<i64>>());
    assert_eq!(orders[0], orders[1]);
}

/// Data files say whose they are.
#[test]
fn parquet_output_carries_job_attempt_and_version() {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
    job.run(&["--job-version", "v9", "--keep-checkpoint"]).exits(0);
    let path = job.output().join(job.data_files().remove(0));
    let reader =
        parquet::file::reader::SerializedFileReader::new(File::open(path).expect("a file opens")).expect("Parquet");
    let metadata = parquet::file::reader::FileReader::metadata(&reader).file_metadata().key_value_metadata().cloned();
    let metadata: BTreeMap<String, Option<String>> =
        metadata.unwrap_or_default().into_iter().map(|pair| (pair.key, pair.value)).collect();
    let task = job.records().remove(0);
    assert_eq!(metadata.get("checkpoint.task"), Some(&Some(task.clone())));
    assert_eq!(metadata.get("checkpoint.attempt"), Some(&Some("1".to_owned())));
    assert_eq!(metadata.get("checkpoint.job_version"), Some(&Some("v9".to_owned())));
    assert!(metadata["checkpoint.job"].as_ref().is_some_and(|job| task.starts_with(job.as_str())));
    assert!(!Tree::of(&job.output()).files().is_empty());
}
