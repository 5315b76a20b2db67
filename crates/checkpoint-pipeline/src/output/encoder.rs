//! Record batches in, the bytes of one file out.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::csv;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::conform::conform;
use super::dictionary::DictionaryMerger;
use super::json_rows::{JsonRows, JsonRowsError};
use super::options::EncodeOptions;
use super::publish::EncodedFile;
use super::schema::repeated;
use super::spool::Spool;
use super::wide_keys::{schema_with_wide_keys, with_wide_keys};
use super::zones::in_utc;
use crate::error::{Error, Result};
use crate::format::Format;

/// Decoded bytes that are handed to a format's writer at once. Writers look at their limits only between
/// two calls, so this bounds by how much they can overshoot; one row is never split.
const PIECE: usize = 16 << 20;

/// Encodes record batches of one schema into one file.
///
/// - **Parquet**: zstd at level 1, which every reader of the last years has, and which makes text and
///   embeddings a third smaller than snappy at about its speed: the bytes travel to a store afterwards. The
///   Arrow schema travels inside the file, so nested types, views and dictionaries come back as they were.
/// - **Arrow IPC**: the file format with LZ4 buffers, as Feather has it. Dictionaries of different batches
///   are merged into one that grows.
/// - **JSON lines**: one object a row with every column in it, `null` where there is no value. Integers and
///   decimals keep all their digits, binary is lower-case hex, timestamps with a zone are in UTC. A float
///   that is no number is an error.
/// - **CSV**: a header line, RFC 4180 quoting, binary as hex, timestamps with a zone in UTC. A null and an
///   empty text look the same. Nested types are refused.
///
/// Keys of dictionaries have at least 32 bits in a file, since those of one batch may be too narrow for all.
///
/// Memory: the spool's limit (and its growth, at most the same again), the Parquet row group in progress
/// (`row_group_bytes`), 16 MiB of a batch or one row in the making, and the dictionaries of an Arrow file.
/// It does not grow with the file.
///
/// All methods block; call them from a blocking thread. After an error of [`write`](FileEncoder::write) that
/// is not about the batch's columns, the encoder only returns errors.
#[derive(Debug)]
pub struct FileEncoder {
    format: Format,
    schema: SchemaRef,
    spool: Spool,
    sink: Option<Sink>,
    rows: u64,
}

enum Sink {
    /// Parquet's writer may move between threads and not be shared; the lock lets whoever holds it be shared.
    Parquet {
        writer: Box<Mutex<ArrowWriter<Spool>>>,
        row_group_bytes: usize,
    },
    Arrow {
        writer: Box<FileWriter<Spool>>,
        merger: Option<DictionaryMerger>,
    },
    JsonLines {
        writer: Spool,
        rows: JsonRows,
    },
    Csv {
        writer: Box<csv::Writer<Spool>>,
    },
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

/// An error of a writer underneath, as text: their types differ.
type Reason = Box<dyn std::error::Error + Send + Sync>;

impl FileEncoder {
    /// Starts a file.
    ///
    /// # Errors
    /// `BadData` that names the column, for a type that the format cannot hold, two columns of one name, or
    /// no column at all; `Storage` when the temporary file fails.
    pub fn new(format: Format, schema: SchemaRef, options: EncodeOptions) -> Result<Self> {
        if schema.fields().is_empty() {
            return Err(Error::bad_data("the output has no columns"));
        }
        if let Some(field) = repeated(&schema).next() {
            return Err(Error::bad_data(format!("two output columns have one name: column={}", field.name())));
        }
        let schema = schema_with_wide_keys(&schema);
        check_types(format, &schema, &options)?;
        let spool = Spool::new(options.spool_memory, options.temp_dir.clone());
        let sink = Sink::new(format, &schema, &options, spool.clone()).map_err(|e| failed(format, &spool, e))?;
        Ok(Self { format, schema, spool, sink: Some(sink), rows: 0 })
    }

    /// Adds a batch. Columns are matched by name: their order may differ, and a column of type `Null` fits any.
    ///
    /// # Errors
    /// `BadData` that names each column that is missing, new or of another type, or a value that the format
    /// cannot hold; `Storage` that names the temporary directory when it is full.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = if self.is_loose() { batch.clone() } else { conform(&with_wide_keys(batch)?, &self.schema)? };
        let Some(sink) = &mut self.sink else {
            return Err(Error::bad_data("the file could not be written to its end earlier"));
        };
        for piece in pieces(&batch) {
            if let Err(reason) = sink.write(&piece) {
                self.sink = None;
                return Err(failed(self.format, &self.spool, reason));
            }
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Bytes that this encoder holds in memory now.
    pub fn in_progress_bytes(&self) -> usize {
        let writer = match &self.sink {
            Some(Sink::Parquet { writer, .. }) => writer.lock().unwrap_or_else(PoisonError::into_inner).memory_size(),
            _ => 0,
        };
        writer + self.spool.memory()
    }

    fn is_loose(&self) -> bool {
        matches!(self.sink, Some(Sink::JsonLines { rows, .. }) if rows.shows())
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Encoded bytes so far, without those that the format's writer has not let go of.
    pub fn encoded_bytes(&self) -> u64 {
        self.spool.bytes()
    }

    /// About how many bytes the file would have if it ended here.
    pub(crate) fn expected_bytes(&self) -> u64 {
        let waiting = match &self.sink {
            Some(Sink::Parquet { writer, .. }) => {
                writer.lock().unwrap_or_else(PoisonError::into_inner).in_progress_size() as u64
            }
            _ => 0,
        };
        waiting + self.spool.bytes()
    }

    /// The schema that every batch must have.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Ends the file.
    ///
    /// # Errors
    /// As [`write`](FileEncoder::write).
    pub fn finish(mut self) -> Result<EncodedFile> {
        let Some(sink) = self.sink.take() else {
            return Err(Error::bad_data("the file could not be written to its end earlier"));
        };
        let finished = sink.finish().and_then(|()| Ok(self.spool.finish()?));
        let content = finished.map_err(|reason| failed(self.format, &self.spool, reason))?;
        Ok(EncodedFile::new(self.rows, self.spool.bytes(), content))
    }
}

impl Sink {
    fn new(format: Format, schema: &SchemaRef, options: &EncodeOptions, spool: Spool) -> Result<Self, Reason> {
        Ok(match format {
            Format::Parquet => Sink::Parquet {
                writer: Box::new(Mutex::new(parquet_writer(schema, options, spool)?)),
                row_group_bytes: options.row_group_bytes,
            },
            Format::ArrowIpc => {
                let settings = IpcWriteOptions::default()
                    .try_with_compression(Some(CompressionType::LZ4_FRAME))?
                    .with_dictionary_handling(DictionaryHandling::Delta);
                let schema = with_metadata(schema, options);
                let merger = DictionaryMerger::new(&schema)?;
                Sink::Arrow { writer: Box::new(FileWriter::try_new_with_options(spool, &schema, settings)?), merger }
            }
            Format::JsonLines => Sink::JsonLines { writer: spool, rows: JsonRows::showing(options.loose_json) },
            Format::Csv => {
                let mut writer = csv::WriterBuilder::new().with_header(true).build(spool);
                writer.write(&in_utc(&RecordBatch::new_empty(Arc::clone(schema)))?)?;
                Sink::Csv { writer: Box::new(writer) }
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Reason> {
        match self {
            Sink::Parquet { writer, row_group_bytes } => {
                let writer = writer.get_mut().unwrap_or_else(PoisonError::into_inner);
                writer.write(batch)?;
                if writer.in_progress_size().max(writer.memory_size()) >= *row_group_bytes {
                    writer.flush()?;
                }
            }
            Sink::Arrow { writer, merger: Some(merger) } => writer.write(&merger.merge(batch)?)?,
            Sink::Arrow { writer, merger: None } => writer.write(batch)?,
            Sink::JsonLines { writer, rows } => {
                let lines = rows.encode(batch, |_, text| {
                    text.push(b'\n');
                    writer.write_all(text)?;
                    text.clear();
                    Ok(())
                });
                match lines {
                    Ok(()) => {}
                    Err(JsonRowsError::Value(error)) => return Err(error.into()),
                    Err(JsonRowsError::Receiver(error)) => return Err(error.into()),
                }
            }
            Sink::Csv { writer } => writer.write(&in_utc(batch)?)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Reason> {
        match self {
            Sink::Parquet { writer, .. } => {
                writer.into_inner().unwrap_or_else(PoisonError::into_inner).close().map(|_| ())?;
            }
            Sink::Arrow { mut writer, .. } => writer.finish()?,
            // Every write went through to the spool.
            Sink::JsonLines { .. } | Sink::Csv { .. } => {}
        }
        Ok(())
    }
}

fn parquet_writer(schema: &SchemaRef, options: &EncodeOptions, spool: Spool) -> Result<ArrowWriter<Spool>, Reason> {
    let schema = with_metadata(schema, options);
    let mut entries: Vec<_> = schema.metadata().iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone())).collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_key_value_metadata(Some(entries));
    for column in &options.plain_columns {
        properties = properties.set_column_dictionary_enabled(ColumnPath::new(vec![column.clone()]), false);
    }
    let settings = ArrowWriterOptions::new().with_properties(properties.build());
    Ok(ArrowWriter::try_new_with_options(spool, schema, settings)?)
}

/// The schema with the options' metadata over its own.
fn with_metadata(schema: &SchemaRef, options: &EncodeOptions) -> SchemaRef {
    let mut metadata = schema.metadata().clone();
    metadata.extend(options.metadata.iter().cloned());
    Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata))
}

fn check_types(format: Format, schema: &SchemaRef, options: &EncodeOptions) -> Result<()> {
    match format {
        Format::JsonLines => return JsonRows::showing(options.loose_json).check(schema),
        Format::ArrowIpc => return Ok(()),
        Format::Parquet | Format::Csv => {}
    }
    for field in schema.fields() {
        let reason = match format {
            Format::Csv if field.data_type().is_nested() => "nested values have no CSV form".to_owned(),
            Format::Parquet => {
                let alone = Schema::new(vec![Arc::clone(field)]);
                match ArrowSchemaConverter::new().convert(&alone) {
                    Ok(_) => continue,
                    Err(error) => error.to_string(),
                }
            }
            _ => continue,
        };
        return Err(Error::bad_data(format!(
            "a column cannot be written as {format}: {reason}, column={} type={}",
            field.name(),
            field.data_type()
        ))
        .with_hint("choose another output format, or convert the column in the transform"));
    }
    Ok(())
}

fn failed(format: Format, spool: &Spool, reason: Reason) -> Error {
    if let Some(error) = spool.failure() {
        return error;
    }
    match reason.downcast::<Error>() {
        Ok(error) => *error,
        Err(reason) => Error::bad_data(format!("cannot write a batch as {format}: {reason}")).with_source(reason),
    }
}

/// Slices of a batch that hold about [`PIECE`] bytes each, at least one row.
fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let bytes: usize = batch.columns().iter().map(slice_bytes).sum();
    let rows = batch.num_rows();
    let step = rows.checked_div(bytes.div_ceil(PIECE)).unwrap_or(rows).max(1);
    (0..rows).step_by(step).map(move |from| batch.slice(from, step.min(rows - from)))
}

/// Bytes of the values that an array shows, whatever its buffers hold besides.
fn slice_bytes(array: &ArrayRef) -> usize {
    let data = match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|n| n as usize).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(|n| n as usize).sum(),
        DataType::Dictionary(_, _) => return array.as_any_dictionary().keys().get_buffer_memory_size(),
        _ => 0,
    };
    data + array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_buffer_memory_size())
}
