//! Memory is bounded: gigabytes of rows, some of them huge, in a file of one row group, under a gigabyte; and very many
//! narrow rows, which are read, encoded and let go of much faster, under less.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, LargeBinaryArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

const GIB: u64 = 1 << 30;
const LIMIT: u64 = 800 << 20;
/// Of narrow rows, of which nothing large is ever held.
const NARROW_LIMIT: u64 = 440 << 20;

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("blob", DataType::LargeBinary, false),
        Field::new("text", DataType::Utf8, false),
    ]))
}

/// Text that compresses to nearly nothing, so that the files are small and only the decoding is large.
fn blob(row: i64, bytes: usize) -> Vec<u8> {
    let mut value = format!("{row:016}").into_bytes();
    value.resize(bytes.max(16), b'a' + (row % 26) as u8);
    value
}

/// Rows of 1 KiB to 20 MB, more than 3.5 GiB in all, in one row group.
fn write_huge_rows(path: &Path, first: i64) -> i64 {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(None)
        .set_dictionary_enabled(false)
        .set_write_batch_size(4)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema(), Some(properties)).unwrap();
    let (mut row, mut total) = (first, 0);
    while total < 7 * GIB / 2 {
        let bytes = [1 << 10, 20 << 10, 20 << 10, 200 << 10, 5 << 20, 20_000_000][(row * 7 % 6) as usize];
        total += bytes as u64;
        let batch = RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(Int64Array::from(vec![row])) as ArrayRef,
                Arc::new(LargeBinaryArray::from_vec(vec![&blob(row, bytes)])),
                Arc::new(StringArray::from(vec![format!("row {row}")])),
            ],
        );
        writer.write(&batch.unwrap()).unwrap();
        row += 1;
    }
    assert_eq!(writer.close().unwrap().num_row_groups(), 1);
    row
}

/// A thousand rows that share three values of 1 MB: a file of a few kilobytes that decodes to a gigabyte.
fn write_shared_values(path: &Path, first: i64) -> i64 {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_page_size_limit(64 << 20)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema(), Some(properties)).unwrap();
    let values: Vec<Vec<u8>> = (0..3).map(|v| blob(v, 1_000_000)).collect();
    for start in (first..first + 1000).step_by(50) {
        let rows: Vec<i64> = (start..start + 50).collect();
        let batch = RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(Int64Array::from(rows.clone())) as ArrayRef,
                Arc::new(LargeBinaryArray::from_iter_values(rows.iter().map(|r| &values[(r % 3) as usize]))),
                Arc::new(StringArray::from_iter_values(rows.iter().map(|r| format!("row {r}")))),
            ],
        );
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.close().unwrap();
    first + 1000
}

/// More rows than a task has by itself, of 100 kB each, in batches of 50 without compression.
fn write_arrow(path: &Path) -> i64 {
    let mut writer = FileWriter::try_new(File::create(path).unwrap(), &schema()).unwrap();
    for start in (0..12_000).step_by(50) {
        let rows: Vec<i64> = (start..start + 50).rev().collect();
        let batch = RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(Int64Array::from(rows.clone())) as ArrayRef,
                Arc::new(LargeBinaryArray::from_iter_values(rows.iter().map(|r| blob(*r, 100_000)))),
                Arc::new(StringArray::from_iter_values(rows.iter().map(|r| format!("row {r}")))),
            ],
        );
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.finish().unwrap();
    12_000
}

/// Two million rows of nine numbers.
fn write_numbers(path: &Path, first: i64) -> i64 {
    const ROWS: i64 = 2_000_000;
    let names: Vec<String> = (0..8).map(|column| format!("n{column}")).collect();
    let batch = |start: i64| {
        let ids = Int64Array::from_iter_values(start..start + 100_000);
        let column = |factor: i64| -> ArrayRef {
            Arc::new(ids.unary::<_, Int64Type>(|id| id.wrapping_mul(factor * 2_654_435_761) % 1_000_003))
        };
        let numbers = names.iter().zip(3..).map(|(name, factor)| (name.as_str(), column(factor)));
        let ids: ArrayRef = Arc::new(ids.clone());
        RecordBatch::try_from_iter(std::iter::once(("id", ids)).chain(numbers)).unwrap()
    };
    let schema = batch(0).schema();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, None).unwrap();
    for start in (first..first + ROWS).step_by(100_000) {
        writer.write(&batch(start)).unwrap();
    }
    writer.close().unwrap();
    first + ROWS
}

/// Resident memory of all processes of a group, in bytes.
fn resident(group: u32) -> u64 {
    let mut pages = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(')') else { continue };
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        if fields.get(2).and_then(|g| g.parse::<u32>().ok()) == Some(group) {
            pages += fields.get(21).and_then(|p| p.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    pages * 4096
}

/// Runs a job and answers the most memory that its processes had at once.
fn run(dir: &Path, job: &str, more: &[&str]) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ckpt-as-shipped"))
        .args(["run", "--input"])
        .arg(dir.join("in"))
        .arg("--job-dir")
        .arg(dir.join(job))
        .args(["--id-column", "id", "--progress", "none"])
        .args(more)
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        peak = peak.max(resident(child.id()));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    peak
}

fn output_ids(dir: &Path) -> Vec<i64> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "parquet") {
            let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(entry.path()).unwrap()).unwrap();
            let mask = parquet::arrow::ProjectionMask::leaves(builder.parquet_schema(), [0]);
            for batch in builder.with_projection(mask).build().unwrap() {
                ids.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
            }
        }
    }
    ids.sort_unstable();
    ids
}

#[test]
fn gigabytes_of_huge_rows_stay_under_a_gigabyte() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    let rows = write_huge_rows(&dir.path().join("in/huge.parquet"), 0);
    let rows = write_shared_values(&dir.path().join("in/shared.parquet"), rows);
    for (job, more) in [("plain", &[][..]), ("exec", &["--exec", "cat"][..])] {
        let peak = run(dir.path(), job, more);
        println!("memory: {job}: {rows} rows, over 4.4 GiB decoded, peak {} MiB", peak >> 20);
        assert!(peak < LIMIT, "{job}: {} MiB", peak >> 20);
        assert_eq!(output_ids(&dir.path().join(job).join("output")), (0..rows).collect::<Vec<_>>());
    }
}

/// All columns of a batch of Arrow IPC are parts of one buffer: what is kept of each, its IDs, must not hold the rest.
#[test]
fn a_gigabyte_of_arrow_batches_takes_little() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    let rows = write_arrow(&dir.path().join("in/rows.arrow"));
    let peak = run(dir.path(), "arrow", &["--output-format", "parquet"]);
    println!("memory: {rows} rows of 100 kB as Arrow, peak {} MiB", peak >> 20);
    assert!(peak < LIMIT, "{} MiB", peak >> 20);
    assert_eq!(output_ids(&dir.path().join("arrow/output")), (0..rows).collect::<Vec<_>>());
}

/// What is let go of must go back to the system: most of what a run holds here, it has used and freed.
#[test]
fn millions_of_narrow_rows_take_little() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    let mut rows = 0;
    for part in 0..6 {
        rows = write_numbers(&dir.path().join(format!("in/part-{part}.parquet")), rows);
    }
    let peak = run(dir.path(), "narrow", &[]);
    println!("memory: {rows} rows of nine numbers, peak {} MiB", peak >> 20);
    assert!(peak < NARROW_LIMIT, "{} MiB", peak >> 20);
    assert_eq!(output_ids(&dir.path().join("narrow/output")), (0..rows).collect::<Vec<_>>());
}
