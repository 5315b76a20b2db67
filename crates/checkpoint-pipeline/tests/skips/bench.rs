//! An input in memory whose reads are counted, and a checkpoint in which chosen rows are done.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use checkpoint_fs::{
    Environment, ObjectPath, ReadOptions, Registry, StorageExt, StorageOptions, StorageRef, WriteOptions,
};
use checkpoint_pipeline::transform::{Batch, FnTransform, TransformError};
use checkpoint_pipeline::{Error, Ids, Pipeline, RunReport};
use checkpoint_testkit::{Counters, CountingStorage, Operation, wrap_all};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};

/// Bytes of the wide column of a row.
const WIDE: usize = 2000;

/// A job of its own, by name.
pub(crate) struct Bench {
    name: String,
    registry: Registry,
    counters: Counters,
    pub(crate) ids: Ids,
}

impl Bench {
    pub(crate) fn new(name: &str, ids: Ids) -> Self {
        Self::wrapped(name, ids, |storage| storage)
    }

    /// A job whose input passes through a wrapper.
    pub(crate) fn wrapped(
        name: &str,
        ids: Ids,
        wrap: impl Fn(StorageRef) -> StorageRef + Send + Sync + 'static,
    ) -> Self {
        let counters = Counters::new();
        let counted = counters.clone();
        let registry = wrap_all(&Registry::with_environment(Environment::default()), move |storage| {
            match storage.url().contains("/in") {
                true => Arc::new(CountingStorage::new(wrap(storage), counted.clone())),
                false => storage,
            }
        });
        Self { name: name.to_owned(), registry, counters, ids }
    }

    fn url(&self, dir: &str) -> String {
        format!("memory://skips-{}/{dir}", self.name)
    }

    async fn put(&self, dir: &str, name: &str, bytes: Vec<u8>) -> u64 {
        let storage = self.registry.open_dir(&self.url(dir), &StorageOptions::new()).await.unwrap();
        let size = bytes.len() as u64;
        let path = ObjectPath::parse(format!("{name}.parquet")).unwrap();
        let outcome = storage.write(&path, bytes.into(), WriteOptions::new()).await.unwrap();
        outcome.into_result(name).unwrap();
        size
    }

    /// Writes an input file; gives its size.
    pub(crate) async fn input(&self, name: &str, rows: &RecordBatch, properties: WriterProperties) -> u64 {
        self.put("in", name, parquet(rows, Some(properties))).await
    }

    /// Writes an input file whose statistics say one number in the place of another, in its footer and in its column
    /// index.
    pub(crate) async fn lying_input(
        &self,
        name: &str,
        rows: &RecordBatch,
        properties: WriterProperties,
        lies: &[(i64, i64)],
    ) {
        let mut file = parquet(rows, Some(properties));
        let footer = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(file.clone())).unwrap();
        let chunks = footer.row_groups().iter().flat_map(|group| group.columns());
        let pages_end = chunks.map(|chunk| chunk.byte_range().0 + chunk.byte_range().1).max().unwrap() as usize;
        for (truth, lie) in lies {
            let mut told = 0;
            for at in pages_end..file.len() - 8 {
                if file[at..].starts_with(&truth.to_le_bytes()) {
                    file[at..at + 8].copy_from_slice(&lie.to_le_bytes());
                    told += 1;
                }
            }
            assert!(told > 0, "{truth} is in the statistics");
        }
        self.put("in", name, file).await;
    }

    /// Takes rows for done: a record as Ray Data leaves it.
    pub(crate) async fn done(&self, ids: ArrayRef) {
        let record = RecordBatch::try_from_iter([(self.ids.column(), ids)]).unwrap();
        self.put("ckpt", "0123456789abcdef_000000", parquet(&record, None)).await;
    }

    /// The hashes of some rows of a file.
    pub(crate) fn hashes(&self, name: &str, rows: impl Iterator<Item = u64>) -> Vec<u64> {
        let path = self.url("in").trim_start_matches("memory://").to_owned() + &format!("/{name}.parquet");
        let seed = checkpoint_pipeline::row_hash::seed(&path);
        rows.map(|row| checkpoint_pipeline::row_hash::hash(seed, row)).collect()
    }

    pub(crate) fn job(&self) -> Pipeline {
        Pipeline::new([self.url("in")], self.url("out"), self.url("ckpt"), self.ids.clone())
            .registry(self.registry.clone())
            .workers(2)
            .batch_rows(100)
            .rows_per_task(1000)
            .keep_checkpoint(true)
    }

    /// An attempt that looks at the input and does nothing.
    pub(crate) async fn fail(&self) -> Error {
        let fail = FnTransform::new(|_: Batch| Err::<Vec<RecordBatch>, _>(TransformError::new("not today")));
        self.job().transform(fail).run().await.unwrap_err()
    }

    /// Runs the job; what was read of the input, in bytes and requests, is what the report says.
    pub(crate) async fn run(&self) -> (RunReport, Reads) {
        self.counters.reset();
        let report = self.job().run().await.unwrap();
        let reads = self.reads();
        assert_eq!(report.bytes_read, reads.bytes, "every byte is counted, in footers too");
        (report, reads)
    }

    /// What was read of the input since the last reset.
    pub(crate) fn reads(&self) -> Reads {
        let count = self.counters.snapshot().of(Operation::Read);
        Reads { bytes: count.bytes, requests: count.calls }
    }

    pub(crate) fn reset(&self) {
        self.counters.reset();
    }

    /// The numbers in the output, each of which must be there once.
    pub(crate) async fn output(&self) -> BTreeSet<i64> {
        let storage = self.registry.open_dir(&self.url("out"), &StorageOptions::new()).await.unwrap();
        let mut found = BTreeSet::new();
        for (path, _) in storage.list_files(&ObjectPath::root(), false).await.unwrap() {
            let bytes = storage.read(&path, ReadOptions::new()).await.unwrap().bytes;
            if !path.name().ends_with(".parquet") {
                continue;
            }
            for batch in ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap() {
                let batch = batch.unwrap();
                let numbers = batch.column_by_name("number").unwrap().as_primitive::<Int64Type>().clone();
                let texts = batch.column_by_name("wide").unwrap().as_string::<i32>().clone();
                for (row, number) in numbers.values().iter().enumerate() {
                    assert!(found.insert(*number), "{number} is there twice");
                    assert_eq!(texts.value(row), wide(*number), "the row of {number} is whole");
                }
            }
        }
        found
    }
}

/// What was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reads {
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
}

impl Reads {
    /// Percent of a size.
    pub(crate) fn percent_of(&self, size: u64) -> f64 {
        self.bytes as f64 * 100.0 / size as f64
    }
}

fn parquet(rows: &RecordBatch, properties: Option<WriterProperties>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), properties).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    file
}

/// The wide value of a row: no part of it repeats.
fn wide(number: i64) -> String {
    let mut state = number as u64 ^ 0x9E37_79B9_7F4A_7C15;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + ((state >> 40) % 90) as u8)
    };
    (0..WIDE).map(letter).collect()
}

/// The ID of a row as text: 36 characters.
pub(crate) fn text_id(number: i64) -> String {
    format!("{:08x}-0000-4000-8000-{number:012x}", (number as u32).wrapping_mul(0x9E37_79B9))
}

/// Rows with these numbers, and with the ID column, if any, in the middle.
pub(crate) fn rows(numbers: &[i64], id: Option<ArrayRef>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.iter().map(|n| wide(*n))));
    let mut columns = vec![("number", column, false)];
    columns.extend(id.map(|id| {
        let nullable = id.null_count() > 0;
        ("id", id, nullable)
    }));
    columns.push(("wide", texts, false));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Small pages, so that small files have many.
pub(crate) fn properties(group_rows: usize, page_bytes: usize, index: bool) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_data_page_size_limit(page_bytes)
        .set_write_batch_size(16)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(if index { EnabledStatistics::Page } else { EnabledStatistics::Chunk })
        .set_offset_index_disabled(!index)
}
