//! What the tests of the input side share: files in memory, and reading them to the end.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod rows;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use bytes::Bytes;
use checkpoint_fs::{Location, MemoryStorage, ObjectMeta, ObjectPath, StorageRef, WriteOptions};
use checkpoint_pipeline::input::{self, BatchReader, ReadConfig, ReadContext, SourceFile, TextSchemas, decoded_size};
use checkpoint_pipeline::{Error, Format};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tokio::runtime::Runtime;

/// A storage in memory with a runtime for it.
pub(crate) struct Files {
    pub(crate) runtime: Runtime,
    pub(crate) storage: StorageRef,
    pub(crate) context: ReadContext,
}

impl Files {
    pub(crate) fn new() -> Self {
        let runtime = Runtime::new().expect("starts");
        let context = ReadContext::new(runtime.handle().clone());
        Self { runtime, storage: Arc::new(MemoryStorage::new("memory://t")), context }
    }

    /// Writes a file and describes it as discovery would.
    pub(crate) fn put(&self, name: &str, bytes: impl Into<Bytes>, format: Format) -> SourceFile {
        let meta = self.replace(name, bytes);
        let path = ObjectPath::parse(name).expect("valid");
        let location = Location::parse(&format!("memory://t/{name}")).expect("valid");
        SourceFile::new(Arc::clone(&self.storage), path, location, meta, format)
    }

    pub(crate) fn replace(&self, name: &str, bytes: impl Into<Bytes>) -> ObjectMeta {
        let path = ObjectPath::parse(name).expect("valid");
        let outcome = self.runtime.block_on(self.storage.write(&path, bytes.into(), WriteOptions::new()));
        outcome.and_then(|o| o.into_result(name)).expect("written")
    }

    pub(crate) fn open(&self, file: &SourceFile, config: &ReadConfig) -> Result<Box<dyn BatchReader>, Error> {
        input::open(file, config, &self.context)
    }

    /// Infers the schemas of these files and gives them to the readers.
    pub(crate) fn infer(&mut self, files: &[SourceFile]) -> Result<TextSchemas, Error> {
        let schemas = self.runtime.block_on(input::infer_schemas(files, &self.context))?;
        self.context = self.context.clone().with_schemas(schemas.clone());
        Ok(schemas)
    }

    pub(crate) fn read(&self, file: &SourceFile, config: &ReadConfig) -> Result<Vec<(u64, RecordBatch)>, Error> {
        drain(self.open(file, config)?.as_mut())
    }
}

pub(crate) fn drain(reader: &mut dyn BatchReader) -> Result<Vec<(u64, RecordBatch)>, Error> {
    let mut batches = Vec::new();
    while let Some(batch) = reader.next()? {
        assert_eq!(batch.1.schema(), reader.schema());
        batches.push(batch);
    }
    Ok(batches)
}

/// Checks what every reader promises of its batches, and joins them.
pub(crate) fn join(batches: &[(u64, RecordBatch)], config: &ReadConfig, start: u64) -> RecordBatch {
    let mut position = start;
    let rows = config.batch_rows as u64;
    for (first, batch) in batches {
        let count = batch.num_rows() as u64;
        assert_eq!(*first, position, "positions follow each other");
        assert!(count > 0, "no empty batches");
        assert_eq!(first / rows, (first + count - 1) / rows, "inside one window");
        position += count;
    }
    let (_, first) = batches.first().expect("some rows");
    concat_batches(&first.schema(), batches.iter().map(|(_, b)| b)).expect("one schema")
}

/// No batch but a single row goes on once the limit is reached.
pub(crate) fn assert_cut(batches: &[(u64, RecordBatch)], bytes: u64) {
    for (first, batch) in batches {
        let before_last = decoded_size(&batch.slice(0, batch.num_rows() - 1));
        assert!(before_last <= bytes, "row {first}: {before_last} bytes before the last row");
    }
}

pub(crate) fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).expect("equal lengths")
}

pub(crate) fn parquet(rows: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), Some(properties)).expect("opens");
    writer.write(rows).expect("writes");
    writer.close().expect("closes");
    file
}

/// Equal columns, names and types; metadata aside.
pub(crate) fn assert_same(found: &RecordBatch, expected: &RecordBatch) {
    assert_eq!(found.num_rows(), expected.num_rows());
    assert_eq!(found.num_columns(), expected.num_columns());
    for (i, field) in expected.schema().fields().iter().enumerate() {
        assert_eq!(found.schema().field(i).name(), field.name());
        assert_eq!(found.schema().field(i).data_type(), field.data_type(), "{}", field.name());
        assert!(found.column(i).to_data() == expected.column(i).to_data(), "values of {}", field.name());
    }
}
