//! Rows: making them, and reading what was written with the plain Arrow crates.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;

/// Rows with an `int64` ID and a text that says it.
pub(crate) fn int_rows(ids: impl IntoIterator<Item = i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.into_iter().collect();
    let text = StringArray::from_iter_values(ids.iter().map(|id| format!("row {id}")));
    rows([("id", Arc::new(Int64Array::from(ids)) as ArrayRef), ("text", Arc::new(text))])
}

/// Rows with an `int64` ID and a text of six kilobytes that does not pack well.
pub(crate) fn heavy_rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let word = |n: i64| format!("{:016x}", n.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let text = ids.clone().map(|id| (0..400).map(|n| word(id * 401 + n)).collect::<String>());
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(text));
    rows([("id", Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef), ("text", text)])
}

/// Rows of these columns.
pub(crate) fn rows<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// Writes a Parquet file.
pub(crate) fn write_parquet(path: &Path, batch: &RecordBatch) {
    write_parquet_with(path, batch, WriterProperties::default());
}

/// Writes a Parquet file with these properties.
pub(crate) fn write_parquet_with(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let file = File::create(path).expect("a file is made");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a Parquet writer");
    writer.write(batch).expect("rows are written");
    writer.close().expect("the file is ended");
}

/// Reads a Parquet file.
pub(crate) fn read_parquet(path: &Path) -> RecordBatch {
    let file = File::open(path).expect("a file opens");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let schema = builder.schema().clone();
    let batches: Vec<RecordBatch> =
        builder.build().expect("a reader").collect::<Result<_, _>>().expect("the file is whole");
    arrow::compute::concat_batches(&schema, &batches).expect("one schema")
}

/// All rows of the Parquet data files in a directory, in the order of their names.
pub(crate) fn read_dir(dir: &Path) -> RecordBatch {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .expect("a directory lists")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "parquet"))
        .collect();
    names.sort();
    let batches: Vec<RecordBatch> = names.iter().map(|path| read_parquet(path)).collect();
    let schema = batches.first().expect("there are data files").schema();
    arrow::compute::concat_batches(&schema, &batches).expect("one schema")
}

/// The column `id` as 64-bit integers, sorted.
pub(crate) fn ids_of(batch: &RecordBatch) -> Vec<i64> {
    let column =
        arrow::compute::cast(batch.column_by_name("id").expect("an ID column"), &arrow::datatypes::DataType::Int64)
            .expect("integers");
    assert_eq!(column.null_count(), 0, "an ID is null");
    let mut ids = column.as_primitive::<Int64Type>().values().to_vec();
    ids.sort_unstable();
    ids
}
