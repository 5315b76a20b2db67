//! Arrow IPC files and streams, and row counts of all formats.

mod input_files;

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use checkpoint_pipeline::input::{ReadConfig, count_rows};
use checkpoint_pipeline::{ErrorKind, Format};
use input_files::{Files, assert_cut, assert_same, batch, drain, join, parquet};
use parquet::file::properties::WriterProperties;

fn rows(from: i64, to: i64) -> RecordBatch {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["ab", "cd", "ef"]));
    let words = DictionaryArray::new((from..to).map(|i| Some((i % 3) as i32)).collect::<Int32Array>(), values);
    let some = |i: i64| (i % 5 != 1).then(|| format!("text {i} {}", "z".repeat((i % 30) as usize)));
    batch([
        ("id", Arc::new(Int64Array::from_iter_values(from..to))),
        ("view", Arc::new((from..to).map(some).collect::<StringViewArray>())),
        ("large", Arc::new((from..to).map(some).collect::<LargeStringArray>())),
        ("words", Arc::new(words)),
        ("zoned", Arc::new(TimestampMillisecondArray::from_iter_values(from..to).with_timezone("+02:00"))),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(
                (from..to).map(|i| Some((0..i % 4).map(|j| Some(u64::MAX - j as u64)))),
            )) as ArrayRef,
        ),
    ])
}

fn options(compression: Option<CompressionType>) -> IpcWriteOptions {
    IpcWriteOptions::default().try_with_compression(compression).expect("there")
}

fn ipc_file(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer =
        FileWriter::try_new_with_options(&mut bytes, &batches[0].schema(), options(compression)).expect("opens");
    batches.iter().for_each(|b| writer.write(b).expect("writes"));
    writer.finish().expect("finishes");
    bytes
}

fn ipc_stream(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer =
        StreamWriter::try_new_with_options(&mut bytes, &batches[0].schema(), options(compression)).expect("opens");
    batches.iter().for_each(|b| writer.write(b).expect("writes"));
    writer.finish().expect("finishes");
    bytes
}

#[test]
fn files_and_streams_come_back_in_windows() {
    let files = Files::new();
    let all = rows(0, 5000);
    let cuts = [0, 700, 701, 701, 4000, 5000];
    let pieces: Vec<RecordBatch> = cuts.windows(2).map(|c| all.slice(c[0], c[1] - c[0])).collect();
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        for bytes in [ipc_file(&pieces, compression), ipc_stream(&pieces, compression)] {
            let file = files.put("f.arrow", bytes, Format::ArrowIpc);
            let config = ReadConfig::new().with_batch_rows(999);
            assert_same(&join(&files.read(&file, &config).expect("reads"), &config, 0), &all);
            for start in [1, 700, 998, 999, 4321] {
                let mut reader = files.open(&file, &config).expect("opens");
                reader.skip_to(start).expect("skips");
                let rest = join(&drain(reader.as_mut()).expect("reads"), &config, start);
                assert_same(&rest, &all.slice(start as usize, 5000 - start as usize));
            }
            let some = config.with_columns(Some(vec!["words".to_owned(), "id".to_owned()]));
            assert_same(
                &join(&files.read(&file, &some).expect("reads"), &some, 0),
                &all.project(&[0, 3]).expect("there"),
            );
        }
    }
}

#[test]
fn one_large_record_batch_comes_in_slices() {
    let files = Files::new();
    let text: StringArray = (0..300).map(|i| Some("x".repeat(100_000 + i))).collect();
    let all = batch([("t", Arc::new(text))]);
    let file = files.put("f.arrow", ipc_file(std::slice::from_ref(&all), None), Format::ArrowIpc);
    let config = ReadConfig::new().with_batch_bytes(1 << 20);
    let batches = files.read(&file, &config).expect("reads");
    assert_eq!(batches.len(), 28);
    assert_cut(&batches, 1 << 20);
    assert_same(&join(&batches, &config, 0), &all);
    assert!(files.context.bytes_read() < file.meta.size + (512 << 10), "read about once");
}

#[test]
fn empty_files_and_damaged_ones() {
    let files = Files::new();
    let none = rows(0, 1).slice(0, 0);
    for bytes in [ipc_file(std::slice::from_ref(&none), None), ipc_stream(std::slice::from_ref(&none), None)] {
        let file = files.put("f.arrow", bytes, Format::ArrowIpc);
        let mut reader = files.open(&file, &ReadConfig::new()).expect("opens");
        assert_eq!(reader.schema().fields().len(), 6);
        assert!(reader.next().expect("ends").is_none());
    }
    let file = ipc_file(&[rows(0, 100), rows(100, 200)], None);
    let stream = ipc_stream(&[rows(0, 100), rows(100, 200)], None);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", vec![]),
        ("text", b"id,name\n1,a\n".to_vec()),
        ("version 1", b"FEA1 and more".to_vec()),
        ("file without its end", file[..file.len() - 30].to_vec()),
        ("stream cut in a batch", stream[..stream.len() - 300].to_vec()),
    ];
    for (what, bytes) in cases {
        let file = files.put("damaged.arrow", bytes, Format::ArrowIpc);
        let error = files.read(&file, &ReadConfig::new()).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::BadData, "{what}: {error}");
        assert!(error.to_string().contains("file=memory://t/damaged.arrow"), "{what}: {error}");
    }
}

#[test]
fn no_flipped_byte_is_a_panic() {
    let files = Files::new();
    let mut random = 99u64;
    for good in [ipc_file(&[rows(0, 60)], None), ipc_stream(&[rows(0, 60)], Some(CompressionType::ZSTD))] {
        for _ in 0..300 {
            let mut bytes = good.clone();
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) as usize % bytes.len();
            bytes[at] ^= 1 << (random >> 61);
            let file = files.put("flipped.arrow", bytes, Format::ArrowIpc);
            if let Err(error) = files.read(&file, &ReadConfig::new()) {
                assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
            }
        }
    }
}

#[test]
fn rows_are_counted_where_that_is_cheap() {
    let files = Files::new();
    let many: Vec<RecordBatch> = (0..300).map(|i| rows(i, i + 1)).collect();
    let inputs = vec![
        files.put("a.parquet", parquet(&rows(0, 1234), WriterProperties::builder().build()), Format::Parquet),
        files.put("b.arrow", ipc_file(&[rows(0, 100), rows(100, 177)], Some(CompressionType::ZSTD)), Format::ArrowIpc),
        files.put("c.arrow", ipc_stream(&[rows(0, 100)], None), Format::ArrowIpc),
        files.put("d.arrow", ipc_file(&many, None), Format::ArrowIpc),
        files.put("e.csv", "a\n1\n", Format::Csv),
        files.put("f.jsonl", "{}\n", Format::JsonLines),
        files.put("g.parquet", parquet(&rows(0, 1).slice(0, 0), WriterProperties::builder().build()), Format::Parquet),
    ];
    let counts = files.runtime.block_on(count_rows(&inputs, &files.context)).expect("counts");
    assert_eq!(counts, [Some(1234), Some(177), None, None, None, None, Some(0)]);
    assert!(files.context.bytes_read() > 0);
    let damaged = files.put("h.parquet", "PAR1 and no more", Format::Parquet);
    let error = files.runtime.block_on(count_rows(&[damaged], &files.context)).expect_err("damaged");
    assert_eq!(error.kind(), ErrorKind::BadData);
}
