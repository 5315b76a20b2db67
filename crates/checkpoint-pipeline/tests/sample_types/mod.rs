//! A batch with a column of every kind that pipelines meet, with nulls, extremes and odd text.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::*;

/// Four rows of every type that all of Parquet, Arrow IPC and JSON hold.
pub(crate) fn many_types() -> RecordBatch {
    let words = [Some("a"), Some(""), None, Some("\u{65}\u{301} \u{1F600} \"q\" \\ \n\t,")];
    let blobs: [Option<&[u8]>; 4] = [Some(b"\x00\xff"), Some(b""), None, Some(b"text")];
    let ints = Int32Array::from(vec![Some(1), Some(i32::MIN), None, Some(i32::MAX)]);
    let offsets = OffsetBuffer::from_lengths([2, 0, 0, 2]);
    let nulls = NullBuffer::from(vec![true, true, false, true]);
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(Int8Array::from(vec![Some(i8::MIN), Some(i8::MAX), None, Some(0)]))),
        ("i32", Arc::new(ints.clone())),
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None, Some(9_007_199_254_740_993)]))),
        ("u16", Arc::new(UInt16Array::from(vec![Some(0), Some(u16::MAX), None, Some(1)]))),
        ("u64", Arc::new(UInt64Array::from(vec![Some(0), Some(u64::MAX), None, Some(9_007_199_254_740_993)]))),
        ("f32", Arc::new(Float32Array::from(vec![Some(0.1), Some(f32::MAX), None, Some(-0.0)]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(0.1), Some(f64::MAX), None, Some(5e-324)]))),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
        ("text", Arc::new(StringArray::from(words.to_vec()))),
        ("large_text", Arc::new(LargeStringArray::from(words.to_vec()))),
        ("text_view", Arc::new(StringViewArray::from_iter(words))),
        ("blob", Arc::new(BinaryArray::from_iter(blobs))),
        ("large_blob", Arc::new(LargeBinaryArray::from_iter(blobs))),
        ("blob_view", Arc::new(BinaryViewArray::from_iter(blobs))),
        ("fixed_blob", fixed_blobs()),
        ("decimal", decimals()),
        ("date32", Arc::new(Date32Array::from(vec![Some(0), Some(-719_162), None, Some(19_000)]))),
        ("date64", Arc::new(Date64Array::from(vec![Some(0), Some(86_400_000), None, Some(-86_400_000)]))),
        ("time32", Arc::new(Time32MillisecondArray::from(vec![Some(0), Some(86_399_999), None, Some(1)]))),
        ("time64", Arc::new(Time64NanosecondArray::from(vec![Some(0), Some(86_399_999_999_999), None, Some(1)]))),
        ("stamp", Arc::new(TimestampNanosecondArray::from(vec![Some(0), Some(i64::MAX), None, Some(-1)]))),
        (
            "zoned",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(0), Some(1_700_000_000_123_456), None, Some(-1)])
                    .with_timezone("Europe/Paris"),
            ),
        ),
        ("dictionary", dictionary(words)),
        ("list", Arc::new(ListArray::new(Arc::clone(&item), offsets, Arc::new(ints.clone()), Some(nulls.clone())))),
        ("pair", pairs(&nulls)),
        ("map", maps()),
        ("nothing", Arc::new(NullArray::new(4))),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let schema = Schema::new_with_metadata(fields, [("origin".to_owned(), "test".to_owned())]);
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, array)| array).collect()).expect("valid")
}

fn fixed_blobs() -> ArrayRef {
    let blobs: [Option<&[u8]>; 4] = [Some(b"\x00\x01\x02"), Some(b"abc"), None, Some(b"\xff\xff\xff")];
    Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(blobs.into_iter(), 3).expect("valid"))
}

fn decimals() -> ArrayRef {
    let values = vec![Some(99_999_999_999_999_999_999_999_999_999_999_999_999), Some(-1), None, Some(150)];
    Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 2).expect("valid"))
}

/// A dictionary column of these words.
pub(crate) fn dictionary<'a>(words: impl IntoIterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>())
}

fn pairs(nulls: &NullBuffer) -> ArrayRef {
    let stamps = TimestampMillisecondArray::from(vec![Some(1), None, None, Some(1_700_000_000_000)]);
    let stamps = stamps.with_timezone("+02:00");
    let fields = vec![
        Field::new("when", stamps.data_type().clone(), true),
        Field::new("label", dictionary([]).data_type().clone(), true),
    ];
    let labels = dictionary([Some("x"), Some("y"), None, Some("x")]);
    Arc::new(StructArray::new(fields.into(), vec![Arc::new(stamps), labels], Some(nulls.clone())))
}

fn maps() -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    builder.keys().append_value("k");
    builder.values().append_value(i64::MAX);
    builder.append(true).expect("valid");
    builder.append(true).expect("valid");
    builder.append(false).expect("valid");
    builder.keys().append_value("a\"b");
    builder.values().append_null();
    builder.append(true).expect("valid");
    Arc::new(builder.finish())
}
