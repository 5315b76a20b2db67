//! What goes into an encoder comes out of the file.

mod sample_types;

use std::io::{Seek, Write};
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Float64Type, Int8Type, Int32Type, Schema, SchemaRef};
use arrow::ipc::reader::FileReader;
use bytes::Bytes;
use checkpoint_fs::{MemoryStorage, ObjectPath, ReadOptions, StorageRef, WriteOptions, WriteOutcome};
use checkpoint_pipeline::output::{EncodeOptions, EncodedFile, FileEncoder};
use checkpoint_pipeline::{ErrorKind, Format};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sample_types::{dictionary, many_types};

fn encode(format: Format, batches: &[RecordBatch], options: EncodeOptions) -> EncodedFile {
    let mut encoder = FileEncoder::new(format, batches[0].schema(), options).expect("starts");
    for batch in batches {
        encoder.write(batch).expect("writes");
    }
    encoder.finish().expect("finishes")
}

fn bytes_of(file: EncodedFile) -> Bytes {
    let storage: StorageRef = Arc::new(MemoryStorage::new("memory://t"));
    let path = ObjectPath::parse("file").expect("valid");
    let size = file.bytes();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("builds");
    let bytes = runtime.block_on(async {
        let outcome = file.publish(&storage, &path, WriteOptions::new()).await.expect("publishes");
        assert!(matches!(outcome, WriteOutcome::Done(_)));
        storage.read(&path, ReadOptions::new()).await.expect("reads").bytes
    });
    assert_eq!(bytes.len() as u64, size);
    bytes
}

fn read_parquet(bytes: Bytes) -> (SchemaRef, Vec<RecordBatch>) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("is Parquet");
    let schema = Arc::clone(builder.schema());
    (schema, builder.build().expect("builds").collect::<Result<_, _>>().expect("reads"))
}

fn read_arrow(bytes: &Bytes) -> (SchemaRef, Vec<RecordBatch>) {
    let mut file = tempfile::tempfile().expect("opens");
    file.write_all(bytes).expect("writes");
    file.rewind().expect("rewinds");
    let reader = FileReader::try_new(file, None).expect("is Arrow");
    (reader.schema(), reader.collect::<Result<_, _>>().expect("reads"))
}

fn facts() -> EncodeOptions {
    EncodeOptions::new().metadata(vec![("ckpt.job".to_owned(), "j1".to_owned())])
}

/// The schema of the sample with the metadata of [`facts`].
fn expected_schema(batch: &RecordBatch) -> Schema {
    let mut metadata = batch.schema_ref().metadata().clone();
    metadata.insert("ckpt.job".to_owned(), "j1".to_owned());
    Schema::new_with_metadata(batch.schema_ref().fields().clone(), metadata)
}

#[test]
fn parquet_and_arrow_give_the_same_schema_and_values_back() {
    let batch = many_types();
    // An entry of the same name in the batch's own metadata gives way.
    let stale = Schema::new_with_metadata(
        batch.schema_ref().fields().clone(),
        [("origin".to_owned(), "test".to_owned()), ("ckpt.job".to_owned(), "an older one".to_owned())],
    );
    let stale = batch.clone().with_schema(Arc::new(stale)).expect("same fields");
    for spool_memory in [usize::MAX, 0] {
        let options = facts().spool_memory(spool_memory);
        let file = encode(Format::Parquet, &[stale.clone(), stale.slice(1, 2)], options.clone());
        assert_eq!((file.rows(), file.in_memory()), (6, spool_memory > 0));
        let (schema, batches) = read_parquet(bytes_of(file));
        assert_eq!(*schema, expected_schema(&batch));
        assert_eq!(batches[0].slice(0, 4).columns(), batch.columns());
        assert_eq!(batches[0].slice(4, 2).columns(), batch.slice(1, 2).columns());

        let file = encode(Format::ArrowIpc, &[stale.clone(), stale.slice(1, 2)], options);
        let (schema, batches) = read_arrow(&bytes_of(file));
        assert_eq!(*schema, expected_schema(&batch));
        assert_eq!(batches[0].columns(), batch.columns());
        assert_eq!(batches[1].columns(), batch.slice(1, 2).columns());
    }
}

#[test]
fn parquet_carries_metadata_where_other_readers_look_and_is_compressed() {
    let bytes = bytes_of(encode(Format::Parquet, &[many_types()], facts()));
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("is Parquet");
    let entries = builder.metadata().file_metadata().key_value_metadata().expect("has some");
    let job: Vec<_> = entries.iter().filter(|e| e.key == "ckpt.job").map(|e| e.value.as_deref()).collect();
    assert_eq!(job, [Some("j1")]);
    let codec = builder.metadata().row_group(0).column(0).compression();
    assert!(matches!(codec, parquet::basic::Compression::ZSTD(_)), "{codec}");
}

#[test]
fn batches_with_dictionaries_of_their_own_make_one_arrow_file() {
    let nested = |words: [Option<&str>; 2]| {
        let labels = dictionary(words);
        let field = Field::new("label", labels.data_type().clone(), true);
        let pairs = StructArray::new(vec![field].into(), vec![labels], None);
        RecordBatch::try_from_iter_with_nullable([
            ("d", dictionary(words), true),
            ("s", Arc::new(pairs) as ArrayRef, true),
        ])
        .expect("valid")
    };
    let words = [[Some("a"), Some("b")], [Some("c"), None], [Some("b"), Some("c")], [None, None]];
    let batches: Vec<RecordBatch> = words.into_iter().map(nested).collect();
    let (schema, back) = read_arrow(&bytes_of(encode(Format::ArrowIpc, &batches, EncodeOptions::new())));
    assert_eq!(schema, batches[0].schema());
    for (back, words) in back.iter().zip(words) {
        let column = back.column(0).as_dictionary::<Int32Type>().downcast_dict::<StringArray>().expect("text");
        assert_eq!(column.into_iter().collect::<Vec<_>>(), words);
        let inner = back.column(1).as_struct().column(0).as_dictionary::<Int32Type>();
        let inner = inner.downcast_dict::<StringArray>().expect("text");
        assert_eq!(inner.into_iter().collect::<Vec<_>>(), words);
    }
}

#[test]
fn labels_of_many_batches_outgrow_the_keys_of_each() {
    let words: Vec<String> = (0..300).map(|i| format!("w{i}")).collect();
    let batch = |words: &[String]| {
        let labels: DictionaryArray<Int8Type> = words.iter().map(String::as_str).collect();
        RecordBatch::try_from_iter([("d", Arc::new(labels) as ArrayRef)]).expect("valid")
    };
    let batches: Vec<RecordBatch> = words.chunks(100).map(batch).collect();
    let parquet = bytes_of(encode(Format::Parquet, &batches, EncodeOptions::new()));
    let parquet = ParquetRecordBatchReaderBuilder::try_new(parquet).expect("opens").with_batch_size(300);
    let parquet: Vec<RecordBatch> = parquet.build().expect("builds").map(|b| b.expect("reads")).collect();
    let (_, arrow) = read_arrow(&bytes_of(encode(Format::ArrowIpc, &batches, EncodeOptions::new())));
    for back in [parquet, arrow] {
        let labels = back.iter().flat_map(|batch| {
            let column = batch.column(0).as_dictionary::<Int32Type>().downcast_dict::<StringArray>().expect("text");
            column.into_iter().map(|label| label.expect("is there").to_owned()).collect::<Vec<_>>()
        });
        assert_eq!(labels.collect::<Vec<_>>(), words);
    }
}

#[test]
fn json_lines_read_back_to_the_same_values() {
    let batch = many_types();
    let text = bytes_of(encode(Format::JsonLines, std::slice::from_ref(&batch), facts()));
    assert_eq!(text.iter().filter(|b| **b == b'\n').count(), 4);
    let first = serde_json::from_slice::<serde_json::Value>(text.split(|b| *b == b'\n').next().expect("one"));
    assert_eq!(first.expect("is JSON").as_object().expect("is an object").len(), batch.num_columns());

    // The reader knows neither dictionaries nor names of zones: read those as what they stand for.
    let fields = batch.schema_ref().fields().iter().filter(|f| !matches!(f.name().as_str(), "dictionary" | "pair"));
    let fields: Vec<Field> = fields
        .map(|f| match f.data_type() {
            DataType::Timestamp(unit, Some(_)) => {
                Field::new(f.name(), DataType::Timestamp(*unit, Some("+00:00".into())), true)
            }
            _ => Field::clone(f),
        })
        .collect();
    let mut reader = arrow::json::ReaderBuilder::new(Arc::new(Schema::new(fields))).build(&text[..]).expect("builds");
    let back = reader.next().expect("has rows").expect("reads");
    for (field, column) in back.schema().fields().iter().zip(back.columns()) {
        let original = batch.column_by_name(field.name()).expect("is there");
        let original = arrow::compute::cast(original, field.data_type()).expect("casts");
        assert_eq!(column, &original, "{}", field.name());
    }
}

#[test]
fn csv_has_a_header_even_without_rows_and_quotes_what_must_be() {
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(UInt64Array::from(vec![u64::MAX, 1])) as ArrayRef),
        ("text", Arc::new(StringArray::from(vec![Some("a,\"b\"\nc"), None]))),
        ("blob", Arc::new(BinaryArray::from(vec![&b"\xff"[..], b"\x00"]))),
        ("at", Arc::new(TimestampSecondArray::from(vec![0, 1]).with_timezone("Asia/Tokyo"))),
    ])
    .expect("valid");
    let text = bytes_of(encode(Format::Csv, std::slice::from_ref(&batch), facts()));
    let expected = "id,text,blob,at\n\
                    18446744073709551615,\"a,\"\"b\"\"\nc\",ff,1970-01-01T00:00:00Z\n\
                    1,,00,1970-01-01T00:00:01Z\n";
    assert_eq!(std::str::from_utf8(&text).expect("is UTF-8"), expected);
    let empty = FileEncoder::new(Format::Csv, batch.schema(), EncodeOptions::new()).expect("starts");
    assert_eq!(bytes_of(empty.finish().expect("finishes")), "id,text,blob,at\n".as_bytes());
}

#[test]
fn files_without_rows_are_valid() {
    let schema = many_types().schema();
    let file = |format| {
        let encoder = FileEncoder::new(format, Arc::clone(&schema), EncodeOptions::new()).expect("starts");
        bytes_of(encoder.finish().expect("finishes"))
    };
    assert_eq!(read_parquet(file(Format::Parquet)).0, schema);
    assert_eq!(read_arrow(&file(Format::ArrowIpc)).0, schema);
    assert!(file(Format::JsonLines).is_empty());
}

#[test]
fn types_that_a_format_cannot_hold_are_refused_by_name() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int8, true)));
    let empty_struct = DataType::Struct(Vec::<Field>::new().into());
    for (format, data_type) in [(Format::Csv, list), (Format::Parquet, empty_struct)] {
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("odd", data_type, true)]);
        let error = FileEncoder::new(format, Arc::new(schema), EncodeOptions::new()).expect_err("is refused");
        assert_eq!(error.kind(), ErrorKind::BadData);
        assert!(error.to_string().contains("column=odd"), "{error}");
    }
    let twice = Schema::new(vec![Field::new("a", DataType::Int8, true), Field::new("a", DataType::Int8, true)]);
    for schema in [twice, Schema::empty()] {
        FileEncoder::new(Format::Parquet, Arc::new(schema), EncodeOptions::new()).expect_err("is refused");
    }
}

#[test]
fn a_batch_with_other_columns_is_refused_and_the_file_goes_on() {
    let good = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        ("v", Arc::new(Float64Array::from(vec![0.5]))),
    ])
    .expect("valid");
    let bad = RecordBatch::try_from_iter([
        ("id", Arc::new(StringArray::from(vec!["1"])) as ArrayRef),
        ("w", Arc::new(Float64Array::from(vec![0.5]))),
    ])
    .expect("valid");
    let swapped = good.project(&[1, 0]).expect("valid");
    let mut encoder = FileEncoder::new(Format::Parquet, good.schema(), EncodeOptions::new()).expect("starts");
    encoder.write(&good).expect("writes");
    let error = encoder.write(&bad).expect_err("differs");
    assert_eq!(error.kind(), ErrorKind::BadData);
    for column in ["missing columns: `v`", "new columns: `w`", "`id` (was Int64, is Utf8)"] {
        assert!(error.to_string().contains(column), "{error}");
    }
    encoder.write(&swapped).expect("writes");
    let (_, batches) = read_parquet(bytes_of(encoder.finish().expect("finishes")));
    assert_eq!(batches[0].column(1).as_primitive::<Float64Type>().values(), &[0.5, 0.5]);
}

#[test]
fn memory_stays_bounded_while_the_file_grows() {
    // 40 batches of four rows of 1 MiB that do not compress.
    let mut state = 1_u64;
    let mut noise = move || {
        (0..1 << 17)
            .flat_map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 13).to_le_bytes()
            })
            .collect::<Vec<u8>>()
    };
    let options = EncodeOptions::new().spool_memory(1 << 20).row_group_bytes(8 << 20);
    let schema = Arc::new(Schema::new(vec![Field::new("blob", DataType::LargeBinary, false)]));
    let mut encoder = FileEncoder::new(Format::Parquet, Arc::clone(&schema), options).expect("starts");
    let mut most = 0;
    for _ in 0..40 {
        let rows: Vec<Vec<u8>> = (0..4).map(|_| noise()).collect();
        let column = LargeBinaryArray::from_iter_values(rows);
        encoder
            .write(&RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).expect("valid"))
            .expect("writes");
        most = most.max(encoder.in_progress_bytes());
    }
    assert!(most < 16 << 20, "{most}");
    assert!(encoder.encoded_bytes() > 100 << 20);
    let file = encoder.finish().expect("finishes");
    assert!(!file.in_memory() && file.rows() == 160);
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes_of(file)).expect("is Parquet");
    assert!(builder.metadata().num_row_groups() >= 10, "{}", builder.metadata().num_row_groups());
}

#[test]
fn a_temporary_directory_that_fails_is_named_and_the_encoder_stays_failed() {
    let options = EncodeOptions::new().spool_memory(0).temp_dir(Some("/nonexistent-dir".into()));
    let error = FileEncoder::new(Format::Parquet, many_types().schema(), options.clone())
        .and_then(|mut encoder| encoder.write(&many_types()).and_then(|()| encoder.finish()))
        .expect_err("has no directory");
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("/nonexistent-dir"), "{error}");
    assert!(error.hint().expect("has one").contains("TMPDIR"));

    let mut encoder = FileEncoder::new(Format::JsonLines, many_types().schema(), options).expect("starts");
    assert_eq!(encoder.write(&many_types()).expect_err("has no directory").kind(), ErrorKind::Storage);
    encoder.write(&many_types()).expect_err("stays failed");
    encoder.finish().expect_err("stays failed");
}

#[test]
fn encoders_can_be_moved_and_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<FileEncoder>();
    shareable::<EncodedFile>();
}

#[test]
fn temporary_files_have_no_name() {
    let dir = tempfile::tempdir().expect("makes one");
    let options = EncodeOptions::new().spool_memory(0).temp_dir(Some(dir.path().to_owned()));
    let file = encode(Format::JsonLines, &[many_types()], options);
    assert!(!file.in_memory());
    assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0);
    assert!(bytes_of(file).ends_with(b"}\n"));
}
