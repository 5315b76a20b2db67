//! IDs of every type come back from data files of every format, as `verify` compares them.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Fields, Int8Type};
use checkpoint_fs::{MemoryStorage, ObjectPath, StorageRef, WriteOptions};
use checkpoint_pipeline::output::{EncodeOptions, FileEncoder};
use checkpoint_pipeline::{DataFiles, Format};
use checkpoint_store::{DataReader, IdColumn};
use futures::TryStreamExt;

async fn written_and_read(ids: &ArrayRef, format: Format) -> Vec<ArrayRef> {
    let storage: StorageRef = Arc::new(MemoryStorage::new("memory://data"));
    let batch = RecordBatch::try_from_iter_with_nullable([("id", ids.clone(), true)]).unwrap();
    let mut encoder = FileEncoder::new(format, batch.schema(), EncodeOptions::new()).unwrap();
    encoder.write(&batch).unwrap();
    let path = ObjectPath::parse(format!("task.{}", format.extension())).unwrap();
    let written = encoder.finish().unwrap().publish(&storage, &path, WriteOptions::new()).await.unwrap();
    written.into_result(storage.url()).unwrap();
    let field = Field::new("id", ids.data_type().clone(), true);
    let pieces = DataFiles::new().ids(&storage, &path, &field).await.unwrap();
    pieces.try_collect().await.unwrap()
}

fn keys(ids: &ArrayRef) -> (String, Vec<Vec<u8>>) {
    let ids = IdColumn::try_new(ids).unwrap().unwrap();
    (ids.class().to_string(), ids.canonical_keys().collect())
}

fn samples() -> Vec<ArrayRef> {
    let words: DictionaryArray<Int8Type> = ["one", "two", "1"].into_iter().collect();
    let decimals = Decimal128Array::from(vec![-12_345, 0, 10]).with_precision_and_scale(20, 2).unwrap();
    let wide = Decimal256Array::from_iter_values([1, 2].map(arrow::datatypes::i256::from));
    let fields = Fields::from(vec![
        Field::new("a", DataType::UInt32, false),
        Field::new("b", DataType::Binary, false),
        Field::new("c", DataType::Date32, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(vec![1, 2])),
        Arc::new(BinaryArray::from(vec![&b"\x00"[..], b"\xff"])),
        Arc::new(Date32Array::from(vec![-1, 20_000])),
    ];
    vec![
        Arc::new(Int8Array::from(vec![-1, 1])),
        Arc::new(UInt32Array::from(vec![0, u32::MAX])),
        Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])),
        Arc::new(UInt64Array::from(vec![9_007_199_254_740_993, u64::MAX])),
        Arc::new(StringArray::from(vec!["007", "true", "a,\"b\"\nc", "1e5"])),
        Arc::new(LargeStringArray::from(vec!["x", "\u{e9}", "e\u{301}"])),
        Arc::new(StringViewArray::from(vec!["a value that is longer than twelve bytes", "b"])),
        Arc::new(words),
        Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..], b"7"])),
        Arc::new(FixedSizeBinaryArray::try_from_iter([[0u8, 1], [254, 255]].into_iter()).unwrap()),
        Arc::new(decimals),
        Arc::new(wide.with_precision_and_scale(50, 3).unwrap()),
        Arc::new(BooleanArray::from(vec![true, false])),
        Arc::new(Date32Array::from(vec![-719_000, 0, 20_000])),
        Arc::new(Date64Array::from(vec![0, 86_400_000])),
        Arc::new(Time32SecondArray::from(vec![0, 86_399])),
        Arc::new(Time64NanosecondArray::from(vec![1, 86_399_999_999_999])),
        Arc::new(TimestampSecondArray::from(vec![-1, 1_700_000_000])),
        Arc::new(TimestampNanosecondArray::from(vec![-1, 1_700_000_000_123_456_789])),
        Arc::new(TimestampMicrosecondArray::from(vec![1_700_000_000_123_456]).with_timezone("Europe/Paris")),
        Arc::new(StructArray::new(fields, columns, None)),
    ]
}

#[tokio::test]
async fn ids_of_every_type_are_read_back_from_every_format() {
    for ids in samples() {
        for format in [Format::Parquet, Format::ArrowIpc, Format::JsonLines, Format::Csv] {
            if format == Format::Csv && ids.data_type().is_nested() {
                continue;
            }
            let mut read = (String::new(), Vec::new());
            for piece in written_and_read(&ids, format).await {
                let (class, more) = keys(&piece);
                read.0 = class;
                read.1.extend(more);
            }
            assert_eq!(read, keys(&ids), "{format} {}", ids.data_type());
        }
    }
}
