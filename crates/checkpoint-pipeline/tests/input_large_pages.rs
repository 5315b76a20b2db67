//! Parquet pages and dictionaries that are too large to be held: split, stored on disk, and never wrong.

mod input_files;

use std::sync::Arc;

use arrow::array::{
    DictionaryArray, Int64Array, LargeBinaryArray, ListBuilder, RecordBatch, StringArray, StringBuilder,
    StringViewArray,
};
use arrow::datatypes::Int32Type;
use checkpoint_pipeline::input::ReadConfig;
use checkpoint_pipeline::{ErrorKind, Format};
use input_files::{Files, assert_cut, assert_same, batch, drain, join, parquet};
use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};

/// Writes all values of a column into one page, or into one dictionary.
fn one_page() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_data_page_size_limit(1 << 30)
        .set_dictionary_page_size_limit(1 << 30)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(1 << 20)
}

/// Distinct values from nothing to half a megabyte, with nulls, in columns of about 20 MB.
fn large_values() -> RecordBatch {
    let size = |i: usize| [3, 60_000, 0, 500_000, 11, 200_000][i % 6] + i % 50;
    let value = |i: usize| (i % 7 != 2).then(|| format!("{i:09}").repeat(size(i) / 9 + 1));
    let rows = || 0..180usize;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for i in rows() {
        for j in 0..i % 4 {
            lists.values().append_option(value(i * 3 + j).map(|v| v[..v.len() / 2].to_owned()));
        }
        lists.append(i % 11 != 5);
    }
    let bytes: LargeBinaryArray = rows().map(value).map(|v| v.map(String::into_bytes)).collect();
    let dictionary: DictionaryArray<Int32Type> =
        rows().map(|i| value(i % 150)).collect::<Vec<_>>().iter().map(|v| v.as_deref()).collect();
    batch([
        ("id", Arc::new(Int64Array::from_iter_values(0..180))),
        ("text", Arc::new(rows().map(value).collect::<StringArray>())),
        ("bytes", Arc::new(bytes)),
        ("view", Arc::new(rows().map(value).collect::<StringViewArray>())),
        ("lists", Arc::new(lists.finish())),
        ("words", Arc::new(dictionary)),
    ])
}

#[test]
fn large_pages_and_dictionaries_read_the_same() {
    let files = Files::new();
    let rows = large_values();
    let cases = [
        (Compression::UNCOMPRESSED, false),
        (Compression::SNAPPY, true),
        (Compression::SNAPPY, false),
        (Compression::LZ4_RAW, false),
        (Compression::ZSTD(ZstdLevel::default()), true),
        (Compression::ZSTD(ZstdLevel::default()), false),
        (Compression::GZIP(GzipLevel::default()), false),
        (Compression::BROTLI(Default::default()), true),
    ];
    for (i, (codec, dictionary)) in cases.into_iter().enumerate() {
        let version = if i % 3 == 0 { WriterVersion::PARQUET_1_0 } else { WriterVersion::PARQUET_2_0 };
        let properties = one_page()
            .set_compression(codec)
            .set_writer_version(version)
            .set_dictionary_enabled(dictionary)
            .set_encoding(Encoding::PLAIN)
            .build();
        let bytes = parquet(&rows, properties);
        assert_large(&bytes, dictionary);
        let file = files.put("large.parquet", bytes, Format::Parquet);
        let config = ReadConfig::new().with_batch_rows(100).with_batch_bytes(4 << 20);
        let batches = files.read(&file, &config).expect("reads");
        assert_cut(&batches, 4 << 20);
        assert_same(&join(&batches, &config, 0), &rows);
        for start in [1, 130] {
            let mut reader = files.open(&file, &config).expect("opens");
            reader.skip_to(start).expect("skips");
            let rest = join(&drain(reader.as_mut()).expect("reads"), &config, start);
            assert_same(&rest, &rows.slice(start as usize, 180 - start as usize));
        }
    }
}

/// The file is what the test is about: one row group, and one large page for a column of text.
fn assert_large(bytes: &[u8], dictionary: bool) {
    let reader = SerializedFileReader::new(bytes::Bytes::copy_from_slice(bytes)).expect("opens");
    assert_eq!(reader.num_row_groups(), 1);
    let group = reader.get_row_group(0).expect("there");
    let pages = group.get_column_page_reader(1).expect("opens").map(|page| page.expect("reads"));
    let sizes: Vec<usize> = pages.map(|page| page.buffer().len()).collect();
    assert_eq!(sizes.len(), if dictionary { 2 } else { 1 });
    assert!(sizes[0] > 16 << 20, "{sizes:?}");
}

#[test]
fn damaged_large_pages_are_bad_data() {
    let files = Files::new();
    let rows = large_values().project(&[1]).expect("there");
    for dictionary in [true, false] {
        for codec in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::LZ4_RAW,
            Compression::ZSTD(ZstdLevel::default()),
        ] {
            let good = parquet(&rows, one_page().set_compression(codec).set_dictionary_enabled(dictionary).build());
            for at in [100, 5000, good.len() / 2] {
                let mut bytes = good.clone();
                let end = (at + 3000).min(good.len() - 1000);
                bytes[at..end].fill(0xff);
                let file = files.put("damaged.parquet", bytes, Format::Parquet);
                match files.read(&file, &ReadConfig::new()) {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::BadData, "{error}"),
                    // Without a checksum, other bytes of the same length are other bytes; not so in text.
                    Ok(_) => assert!(at > 5000 || codec != Compression::UNCOMPRESSED, "{codec} {at}"),
                }
            }
        }
    }
}
