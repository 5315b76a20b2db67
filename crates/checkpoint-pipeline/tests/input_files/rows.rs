//! Rows that are hard to read, and pages that are small.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

use super::batch;

/// Rows of every type that the issue names, with nulls and extremes.
pub(crate) fn every_type(from: i64, to: i64) -> RecordBatch {
    let rows = || from..to;
    let some = |i: i64| i % 7 != 3;
    let text = |i: i64| some(i).then(|| format!("é{}-{i}", "ö".repeat((i % 40) as usize)));
    let bytes = |i: i64| some(i).then(|| vec![(i % 256) as u8; (i % 30) as usize]);
    let dictionary: DictionaryArray<Int32Type> =
        rows().map(|i| some(i).then(|| ["a", "bb", "ccc"][(i % 3) as usize])).collect();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        rows().map(|i| some(i).then(|| (0..i % 6).map(|j| (j != 2).then_some(i * j)).collect::<Vec<_>>())),
    );
    let mut words = ListBuilder::new(StringBuilder::new());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for i in rows() {
        for j in 0..i % 4 {
            words.values().append_value(format!("w{i}.{j}"));
            maps.keys().append_value(format!("k{j}"));
            maps.values().append_option((j != 1).then_some(j as i32));
        }
        words.append(some(i));
        maps.append(some(i)).expect("equal lengths");
    }
    let structs = StructArray::from(vec![
        (
            Arc::new(Field::new("x", DataType::Int32, true)),
            Arc::new(rows().map(|i| some(i).then_some(i as i32)).collect::<Int32Array>()) as ArrayRef,
        ),
        (Arc::new(Field::new("l", words_type(), true)), Arc::new(words.finish_cloned()) as ArrayRef),
    ]);
    batch([
        ("int64", Arc::new(rows().map(|i| some(i).then_some(i64::MAX - i)).collect::<Int64Array>())),
        (
            "uint64",
            Arc::new(
                rows().map(|i| Some(if i % 2 == 0 { u64::MAX - i as u64 } else { i as u64 })).collect::<UInt64Array>(),
            ),
        ),
        ("int8", Arc::new(rows().map(|i| Some(i as i8)).collect::<Int8Array>())),
        ("bool", Arc::new(rows().map(|i| some(i).then_some(i % 2 == 0)).collect::<BooleanArray>())),
        ("f64", Arc::new(rows().map(|i| Some(i as f64 / 3.0)).collect::<Float64Array>())),
        ("utf8", Arc::new(rows().map(text).collect::<StringArray>())),
        ("large", Arc::new(rows().map(text).collect::<LargeStringArray>())),
        ("view", Arc::new(rows().map(text).collect::<StringViewArray>())),
        ("binary", Arc::new(rows().map(bytes).collect::<BinaryArray>())),
        ("binary_view", Arc::new(rows().map(bytes).collect::<BinaryViewArray>())),
        ("dictionary", Arc::new(dictionary)),
        (
            "decimal",
            Arc::new(
                rows()
                    .map(|i| some(i).then_some(i as i128 * 1_000_000_007))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(38, 4)
                    .expect("fits"),
            ),
        ),
        ("date", Arc::new(rows().map(|i| Some(i as i32)).collect::<Date32Array>())),
        ("time", Arc::new(rows().map(Some).collect::<Time64MicrosecondArray>())),
        (
            "zoned",
            Arc::new(
                rows()
                    .map(|i| some(i).then_some(i * 1_000_003))
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("Europe/Berlin"),
            ),
        ),
        ("nanos", Arc::new(rows().map(Some).collect::<TimestampNanosecondArray>())),
        (
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_iter(rows().map(|i| i.to_be_bytes().to_vec())).expect("equal widths"),
            ),
        ),
        ("list", Arc::new(lists)),
        ("words", Arc::new(words.finish())),
        ("map", Arc::new(maps.finish())),
        ("struct", Arc::new(structs)),
    ])
}

fn words_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
}

/// Rows whose size jumps: mostly small, some of hundreds of kilobytes, in strings and in lists.
pub(crate) fn skewed(rows: usize) -> RecordBatch {
    let size = |i: usize| if i % 400 > 380 { 150_000 + i } else { i % 50 };
    let text: StringArray = (0..rows).map(|i| Some("x".repeat(size(i)))).collect();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..rows).map(|i| Some((0..size(i + 100) / 10).map(|j| Some((i * j) as i64)).collect::<Vec<_>>())),
    );
    let ids: Int64Array = (0..rows as i64).map(Some).collect();
    batch([("id", Arc::new(ids)), ("text", Arc::new(text)), ("list", Arc::new(lists))])
}

/// Small pages, so that a few thousand rows have many.
pub(crate) fn small_pages() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_data_page_size_limit(2000)
        .set_write_batch_size(64)
        .set_dictionary_page_size_limit(1000)
        .set_max_row_group_row_count(Some(1700))
}
