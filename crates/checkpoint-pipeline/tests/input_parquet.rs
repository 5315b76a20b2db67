//! Parquet files: every type, any layout, in windows and from any row.

mod input_files;

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use checkpoint_pipeline::input::ReadConfig;
use checkpoint_pipeline::{ErrorKind, Format};
use input_files::rows::{every_type, skewed, small_pages};
use input_files::{Files, assert_cut, assert_same, batch, drain, join, parquet};
use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

fn layouts() -> Vec<(&'static str, WriterProperties)> {
    let bare = || small_pages().set_statistics_enabled(EnabledStatistics::None).set_offset_index_disabled(true);
    vec![
        ("plain", bare().set_dictionary_enabled(false).build()),
        ("dictionary, snappy", small_pages().set_compression(Compression::SNAPPY).build()),
        (
            "v2, zstd",
            bare()
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .build(),
        ),
        (
            "gzip, one page",
            WriterProperties::builder().set_compression(Compression::GZIP(GzipLevel::default())).build(),
        ),
        ("lz4, brotli later", small_pages().set_compression(Compression::LZ4_RAW).build()),
    ]
}

#[test]
fn every_type_comes_back_in_windows() {
    let files = Files::new();
    let rows = every_type(0, 4000);
    for (name, properties) in layouts() {
        let file = files.put("all.parquet", parquet(&rows, properties), Format::Parquet);
        for batch_rows in [1000, 333, 10_000] {
            let config = ReadConfig::new().with_batch_rows(batch_rows);
            let batches = files.read(&file, &config).expect(name);
            assert_same(&join(&batches, &config, 0), &rows);
            assert_eq!(batches.len(), 4000usize.div_ceil(batch_rows), "{name}: row groups do not cut batches");
        }
    }
}

#[test]
fn any_row_can_be_the_first() {
    let files = Files::new();
    let rows = every_type(0, 4000);
    let config = ReadConfig::new().with_batch_rows(500);
    for (name, properties) in layouts() {
        let file = files.put("all.parquet", parquet(&rows, properties), Format::Parquet);
        for start in [1, 499, 500, 1699, 1700, 1701, 3399, 3999] {
            let mut reader = files.open(&file, &config).expect(name);
            reader.skip_to(start).expect("skips");
            let batches = drain(reader.as_mut()).expect(name);
            assert_same(&join(&batches, &config, start), &rows.slice(start as usize, 4000 - start as usize));
        }
        let mut reader = files.open(&file, &config).expect(name);
        let mut found = Vec::new();
        for start in [3, 480, 490, 1690, 3000, 3001] {
            reader.skip_to(start).expect("skips");
            found.push(reader.next().expect("reads").expect("rows").1);
            reader.skip_to(0).expect("changes nothing");
        }
        let all = concat_batches(&found[0].schema(), &found).expect("one schema");
        let mut starts = Vec::new();
        let mut next = 0;
        for start in [3usize, 480, 490, 1690, 3000, 3001] {
            let first = start.max(next);
            next = (first / 500 + 1) * 500;
            starts.push(rows.slice(first, next - first));
        }
        assert_same(&all, &concat_batches(&rows.schema(), &starts).expect("one schema"));
        reader.skip_to(4000).expect("skips");
        assert!(reader.next().expect("ends").is_none());
        reader.skip_to(9000).expect("skips beyond the end");
        assert!(reader.next().expect("ends").is_none());
    }
}

#[test]
fn any_ranges_of_rows_come_back_and_nothing_between_them() {
    let files = Files::new();
    let rows = every_type(0, 4000);
    let mut random = 5u64;
    let mut number = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for (name, properties) in layouts() {
        let file = files.put("all.parquet", parquet(&rows, properties), Format::Parquet);
        for batch_rows in [500, 10_000] {
            let config = ReadConfig::new().with_batch_rows(batch_rows);
            let mut reader = files.open(&file, &config).expect(name);
            let mut start = number(50);
            while start < 4000 {
                let end = (start + 1 + number(if start % 2 == 0 { 20 } else { 900 })).min(4000);
                reader.skip_to(start).expect(name);
                // Told in two steps, as by one who does not know yet what follows.
                let middle = start + number(end - start + 1);
                reader.limit(middle, false).expect(name);
                let mut batches = drain(reader.as_mut()).expect(name);
                reader.limit(end, true).expect(name);
                batches.extend(drain(reader.as_mut()).expect(name));
                assert_same(&join(&batches, &config, start), &rows.slice(start as usize, (end - start) as usize));
                let windows = (end - 1) / batch_rows as u64 - start / batch_rows as u64 + 1;
                assert_eq!(batches.len() as u64, windows, "{name}: a limit that is not the last cuts nothing");
                start = end + number(700);
            }
        }
    }
}

#[test]
fn with_an_offset_index_only_the_pages_of_the_rows_are_read() {
    let text: StringArray = (0..6000).map(|i| Some(format!("{i:08}").repeat(250))).collect();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..6000).map(|i| Some((0..i % 40).map(|j| Some(i * j)).collect::<Vec<_>>())),
    );
    let ids: Int64Array = (0..6000).map(Some).collect();
    let rows = batch([("id", Arc::new(ids)), ("text", Arc::new(text)), ("list", Arc::new(lists))]);
    for dictionary in [true, false] {
        let files = Files::new();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(dictionary)
            .set_dictionary_page_size_limit(50_000)
            .set_data_page_size_limit(50_000)
            .set_write_batch_size(16)
            .build();
        let bytes = parquet(&rows, properties);
        let size = bytes.len() as u64;
        let file = files.put("pages.parquet", bytes, Format::Parquet);
        let config = ReadConfig::new();
        let mut reader = files.open(&file, &config).expect("opens");
        let opened = files.context.bytes_read();
        for start in [410, 2810, 4810] {
            reader.skip_to(start).expect("skips");
            reader.limit(start + 10, true).expect("limits");
            let batches = drain(reader.as_mut()).expect("reads");
            assert_same(&join(&batches, &config, start), &rows.slice(start as usize, 10));
        }
        let read = files.context.bytes_read() - opened;
        // A page or two of each column at three places, and once the dictionaries.
        assert!(size > 12 << 20 && read < 1 << 20, "{read} of {size}");
    }
}

#[test]
fn sudden_large_rows_shrink_the_step_and_lose_nothing() {
    let files = Files::new();
    let rows = skewed(2000);
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for dictionary in [true, false] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_dictionary_enabled(dictionary)
                .set_statistics_enabled(EnabledStatistics::None)
                .set_data_page_size_limit(100_000)
                .set_write_batch_size(16)
                .build();
            let file = files.put("skew.parquet", parquet(&rows, properties), Format::Parquet);
            let config = ReadConfig::new().with_batch_rows(512).with_batch_bytes(1 << 20);
            let batches = files.read(&file, &config).expect("reads");
            assert_cut(&batches, 1 << 20);
            assert_same(&join(&batches, &config, 0), &rows);
            let again = files.read(&file, &config).expect("reads");
            let shape = |b: &[(u64, RecordBatch)]| b.iter().map(|(p, b)| (*p, b.num_rows())).collect::<Vec<_>>();
            assert_eq!(shape(&batches), shape(&again), "the same cuts every time");
        }
    }
}

#[test]
fn a_small_file_that_decodes_to_much_comes_in_small_batches() {
    let files = Files::new();
    let words: Vec<String> =
        (0..30).map(|i| char::from(b'a' + i % 26).to_string().repeat(10_000 + i as usize)).collect();
    let column: StringArray = (0..30_000).map(|i| Some(words[i % 30].as_str())).collect();
    let properties = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    let bytes = parquet(&batch([("s", Arc::new(column))]), properties);
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    let file = files.put("dictionary.parquet", bytes, Format::Parquet);
    let config = ReadConfig::new().with_batch_rows(1 << 20).with_batch_bytes(4 << 20);
    let mut reader = files.open(&file, &config).expect("opens");
    let mut rows = 0;
    while let Some((position, batch)) = reader.next().expect("reads") {
        assert_eq!(position, rows as u64);
        assert!(batch.get_array_memory_size() < 12 << 20, "{}", batch.get_array_memory_size());
        let column = batch.column(0).as_string::<i32>();
        assert!((0..batch.num_rows()).all(|i| column.value(i) == words[(rows + i) % 30]));
        rows += batch.num_rows();
    }
    assert_eq!(rows, 30_000);
}

#[test]
fn front_coded_strings_come_back() {
    let files = Files::new();
    let column: StringArray = (0..20_000).map(|i| Some(format!("{}{i}", "p".repeat(2000)))).collect();
    let rows = batch([("s", Arc::new(column))]);
    let properties =
        small_pages().set_dictionary_enabled(false).set_column_encoding("s".into(), Encoding::DELTA_BYTE_ARRAY).build();
    let file = files.put("delta.parquet", parquet(&rows, properties), Format::Parquet);
    let config = ReadConfig::new().with_batch_rows(1 << 20).with_batch_bytes(1 << 20);
    let batches = files.read(&file, &config).expect("reads");
    assert!(batches.len() >= 39, "{}", batches.len());
    assert_same(&join(&batches, &config, 0), &rows);
}

#[test]
fn only_the_columns_asked_for_are_read() {
    let files = Files::new();
    let rows = skewed(3000);
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let bytes = parquet(&rows, properties);
    let size = bytes.len() as u64;
    let file = files.put("wide.parquet", bytes, Format::Parquet);
    let config = ReadConfig::new().with_columns(Some(vec!["id".to_owned()]));
    let batches = files.read(&file, &config).expect("reads");
    assert_same(&join(&batches, &config, 0), &rows.project(&[0]).expect("there"));
    assert!(files.context.bytes_read() * 20 < size, "{} of {size}", files.context.bytes_read());
    let error = files.open(&file, &config.clone().with_columns(Some(vec!["nope".to_owned()]))).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::BadData);
    assert!(error.to_string().contains("file=memory://t/wide.parquet column=nope"), "{error}");
}

#[test]
fn row_groups_that_are_skipped_are_not_read() {
    let files = Files::new();
    let rows = skewed(4000);
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(400)).set_dictionary_enabled(false).build();
    let bytes = parquet(&rows, properties);
    let size = bytes.len() as u64;
    let file = files.put("groups.parquet", bytes, Format::Parquet);
    let config = ReadConfig::new();
    let mut reader = files.open(&file, &config).expect("opens");
    reader.skip_to(3700).expect("skips");
    let batches = drain(reader.as_mut()).expect("reads");
    assert_same(&join(&batches, &config, 3700), &rows.slice(3700, 300));
    assert!(files.context.bytes_read() < size / 8, "{} of {size}", files.context.bytes_read());
}

#[test]
fn everything_is_read_about_once() {
    let files = Files::new();
    let ids: Int64Array = (0..3_000_000i64).map(|i| Some(i.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64))).collect();
    let bytes = parquet(
        &batch([("id", Arc::new(ids.clone())), ("again", Arc::new(ids))]),
        WriterProperties::builder().set_dictionary_enabled(false).set_max_row_group_row_count(Some(10_000_000)).build(),
    );
    let size = bytes.len() as u64;
    assert!(size > 40 << 20, "one large row group: {size}");
    let file = files.put("large.parquet", bytes, Format::Parquet);
    let batches = files.read(&file, &ReadConfig::new().with_batch_rows(100_000)).expect("reads");
    assert_eq!(batches.iter().map(|(_, b)| b.num_rows()).sum::<usize>(), 3_000_000);
    let read = files.context.bytes_read();
    assert!(read >= size * 95 / 100 && read <= size + (128 << 10), "{read} of {size}");
}

#[test]
fn files_without_rows_and_without_columns() {
    let files = Files::new();
    let empty = every_type(0, 1).slice(0, 0);
    let file = files.put("empty.parquet", parquet(&empty, small_pages().build()), Format::Parquet);
    let mut reader = files.open(&file, &ReadConfig::new()).expect("opens");
    assert_eq!(reader.schema().fields().len(), empty.num_columns());
    assert!(reader.next().expect("ends").is_none());

    let schema = Arc::new(Schema::empty());
    let none = RecordBatch::try_new_with_options(schema, vec![], &RecordBatchOptions::new().with_row_count(Some(3)))
        .expect("valid");
    let file = files.put("none.parquet", parquet(&none, small_pages().build()), Format::Parquet);
    assert_eq!(files.open(&file, &ReadConfig::new()).err().expect("refused").kind(), ErrorKind::BadData);
}

#[test]
fn metadata_of_the_writer_is_dropped_and_that_of_fields_kept() {
    let files = Files::new();
    let field = Field::new("id", DataType::Int64, false).with_metadata([("unit".to_owned(), "m".to_owned())]);
    let schema = Schema::new(vec![field]).with_metadata([("pandas".to_owned(), "{}".to_owned())]);
    let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(vec![1]))]).expect("valid");
    let file = files.put("m.parquet", parquet(&rows, small_pages().build()), Format::Parquet);
    let schema = files.open(&file, &ReadConfig::new()).expect("opens").schema();
    assert!(schema.metadata().is_empty());
    assert_eq!(schema.field(0).metadata().get("unit").map(String::as_str), Some("m"));
    assert!(!schema.field(0).is_nullable());
}
