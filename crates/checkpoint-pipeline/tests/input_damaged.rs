//! Parquet files that are damaged or forged, and that change while they are read.

mod input_files;

use arrow::array::RecordBatch;
use bytes::Bytes;
use checkpoint_pipeline::input::ReadConfig;
use checkpoint_pipeline::{ErrorKind, Format};
use input_files::rows::{every_type, skewed, small_pages};
use input_files::{Files, assert_same, drain, join, parquet};
use parquet::basic::Compression;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnChunkMetaDataBuilder, ParquetMetaDataBuilder, ParquetMetaDataReader,
    ParquetMetaDataWriter, RowGroupMetaData, RowGroupMetaDataBuilder,
};
use parquet::file::properties::WriterProperties;

#[test]
fn damaged_files_are_bad_data_and_named() {
    let files = Files::new();
    let good = parquet(&every_type(0, 2000), small_pages().set_compression(Compression::SNAPPY).build());
    let damaged: Vec<(&str, Vec<u8>)> = vec![
        ("zero bytes", vec![]),
        ("not parquet", b"id,name\n1,a\n".to_vec()),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("no footer", good[..good.len() - 4].to_vec()),
        ("pages overwritten", {
            let mut bytes = good.clone();
            bytes[4..20_000].fill(0xA5);
            bytes
        }),
        ("pages zeroed", {
            let mut bytes = good.clone();
            bytes[4..20_000].fill(0);
            bytes
        }),
    ];
    for (what, bytes) in damaged {
        let file = files.put("damaged.parquet", bytes, Format::Parquet);
        let error = files.read(&file, &ReadConfig::new()).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::BadData, "{what}: {error}");
        assert!(error.to_string().contains("file=memory://t/damaged.parquet"), "{what}: {error}");
        assert!(!error.to_string().contains('\n'), "{what}: {error}");
    }
}

#[test]
fn no_flipped_byte_is_a_panic() {
    let files = Files::new();
    let good = parquet(&every_type(0, 50), WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut random = 12345u64;
    for _ in 0..300 {
        let mut bytes = good.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) as usize % bytes.len();
            bytes[at] ^= 1 << (random >> 61);
        }
        let file = files.put("flipped.parquet", bytes, Format::Parquet);
        if let Err(error) = files.read(&file, &ReadConfig::new()) {
            assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
        }
    }
}

#[test]
fn a_file_that_changed_or_went_is_a_conflict() {
    let files = Files::new();
    let rows = skewed(4000);
    let properties = || WriterProperties::builder().set_max_row_group_row_count(Some(400)).build();
    let bytes = parquet(&rows, properties());
    let file = files.put("f.parquet", bytes.clone(), Format::Parquet);
    let mut reader = files.open(&file, &ReadConfig::new()).expect("opens");
    reader.next().expect("reads").expect("rows");
    files.replace("f.parquet", bytes);
    let error = drain(reader.as_mut()).expect_err("changed");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("file=memory://t/f.parquet"), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(files.read(&file, &ReadConfig::new()).expect_err("changed").kind(), ErrorKind::Conflict);

    files.runtime.block_on(files.storage.delete(&file.path, checkpoint_fs::DeleteOptions::new())).expect("deleted");
    assert_eq!(files.read(&file, &ReadConfig::new()).expect_err("gone").kind(), ErrorKind::Conflict);
}

/// A whole file whose footer says other things of its row groups than the truth.
fn forged_groups(
    rows: &RecordBatch,
    properties: WriterProperties,
    forge: impl Fn(&RowGroupMetaData) -> RowGroupMetaDataBuilder,
) -> Vec<u8> {
    let mut file = parquet(rows, properties);
    let truth = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(file.clone())).expect("a footer");
    let groups = truth.row_groups().iter().map(|group| forge(group).build().expect("a row group")).collect();
    let lies = ParquetMetaDataBuilder::new(truth.file_metadata().clone()).set_row_groups(groups).build();
    let end = file.len() - 8;
    let length = u32::from_le_bytes(file[end..end + 4].try_into().expect("four bytes")) as usize;
    file.truncate(end - length);
    ParquetMetaDataWriter::new(&mut file, &lies).finish().expect("writes");
    file
}

/// What a footer says of a column, changed.
type Forge<'a> = &'a dyn Fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder;

/// As [`forged_groups`], of the first columns of each.
fn forged(rows: &RecordBatch, properties: WriterProperties, columns: usize, forge: Forge<'_>) -> Vec<u8> {
    forged_groups(rows, properties, |group| {
        let column = |(leaf, column): (usize, &ColumnChunkMetaData)| {
            let column = column.clone().into_builder();
            if leaf < columns { forge(column) } else { column }.build().expect("a column")
        };
        let columns = group.columns().iter().enumerate().map(column);
        group.clone().into_builder().set_column_metadata(columns.collect())
    })
}

#[test]
fn sizes_in_the_footer_are_believed_by_nobody() {
    const NUMBERS: [i64; 5] = [i64::MIN, -1, 0, i64::MAX / 4, i64::MAX];
    let files = Files::new();
    let rows = every_type(0, 400);
    for number in NUMBERS {
        let harmless: [(&str, Forge<'_>); 4] = [
            ("values", &|column| column.set_num_values(number)),
            ("unpacked size", &|column| column.set_total_uncompressed_size(number)),
            ("bytes of texts", &|column| column.set_unencoded_byte_array_data_bytes(Some(number))),
            ("all of them", &|column| {
                let column = column.set_num_values(number).set_total_uncompressed_size(number);
                column.set_unencoded_byte_array_data_bytes(Some(number))
            }),
        ];
        for (what, forge) in harmless {
            let file =
                files.put("forged.parquet", forged(&rows, small_pages().build(), usize::MAX, forge), Format::Parquet);
            let config = ReadConfig::new();
            let batches = files.read(&file, &config).unwrap_or_else(|e| panic!("{what} {number}: {e}"));
            assert_same(&join(&batches, &config, 0), &rows);
            let mut reader = files.open(&file, &config).expect(what);
            reader.skip_to(390).expect(what);
            let batches = drain(reader.as_mut()).unwrap_or_else(|e| panic!("{what} {number}: {e}"));
            assert_same(&join(&batches, &config, 390), &rows.slice(390, 10));
        }
    }
}

#[test]
fn places_in_the_footer_that_no_file_has_are_bad_data() {
    let files = Files::new();
    let rows = every_type(0, 400);
    // The writer adds sizes up, so that the largest one would not get into the file.
    for number in [i64::MIN, -1, i64::MAX / 4, i64::MAX - (1 << 40)] {
        let impossible: [(&str, Forge<'_>); 3] = [
            ("size", &|column| column.set_total_compressed_size(number)),
            ("pages", &|column| column.set_dictionary_page_offset(None).set_data_page_offset(number)),
            ("dictionary", &|column| column.set_dictionary_page_offset(Some(number))),
        ];
        for (what, forge) in impossible {
            let file = files.put("forged.parquet", forged(&rows, small_pages().build(), 1, forge), Format::Parquet);
            let error = files.read(&file, &ReadConfig::new()).expect_err(what);
            assert_eq!(error.kind(), ErrorKind::BadData, "{what} {number}: {error}");
            assert!(error.to_string().contains("file=memory://t/forged.parquet"), "{what} {number}: {error}");
        }
    }
}

#[test]
fn a_page_index_that_lies_elsewhere_is_done_without() {
    let files = Files::new();
    let rows = every_type(0, 400);
    for (offset, length) in [(-1, 10), (4, -1), (i64::MAX, i32::MAX), (i64::MAX - 5, 10), (4, i32::MAX), (4, 100)] {
        let forge = |column: ColumnChunkMetaDataBuilder| {
            column.set_offset_index_offset(Some(offset)).set_offset_index_length(Some(length))
        };
        let file =
            files.put("forged.parquet", forged(&rows, small_pages().build(), usize::MAX, &forge), Format::Parquet);
        let config = ReadConfig::new();
        let mut reader = files.open(&file, &config).expect("opens");
        reader.skip_to(300).expect("skips");
        reader.limit(310, true).expect("limits");
        let batches = drain(reader.as_mut()).unwrap_or_else(|e| panic!("{offset} {length}: {e}"));
        assert_same(&join(&batches, &config, 300), &rows.slice(300, 10));
    }
}

#[test]
fn more_rows_in_the_footer_than_in_the_pages_are_bad_data() {
    let files = Files::new();
    let rows = every_type(0, 400);
    for number in [i64::MIN, -1, 401, i64::MAX / 4, i64::MAX] {
        let forge = |group: &RowGroupMetaData| group.clone().into_builder().set_num_rows(number);
        let bytes = forged_groups(&rows, small_pages().build(), forge);
        let file = files.put("forged.parquet", bytes, Format::Parquet);
        let error = files.read(&file, &ReadConfig::new()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::BadData, "{number}: {error}");
        assert!(error.to_string().contains("file=memory://t/forged.parquet"), "{number}: {error}");
    }
}
