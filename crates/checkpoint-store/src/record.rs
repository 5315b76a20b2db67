//! Records: a Parquet file of one column, the IDs of a task, with the task's facts in its metadata.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::IdColumn;
use crate::names::TaskName;

/// The metadata key under which a record keeps its facts.
const FACTS_KEY: &str = "checkpoint.record";
/// The metadata key of the checksum over the facts and the IDs: a flipped bit must not name another row.
const CHECKSUM_KEY: &str = "checkpoint.crc32";
/// Bytes that the checksum takes at a time.
const CHUNK: usize = 16 << 10;
/// The newest format of records that this code reads, and the one that it writes.
const FORMAT: u32 = 1;

/// A data file of a task, relative to the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Its name in the output directory; starts with the task's name, or with `_failed/` and it.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
}

/// What a record says of its task besides the IDs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFacts {
    /// The version of the record format.
    pub format: u32,
    /// The job.
    pub job: String,
    /// The attempt, from 1.
    pub attempt: u64,
    /// The task, as its name is spelled.
    pub task: String,
    /// Rows that the task read; as many as there are IDs.
    pub input_rows: u64,
    /// Rows that the task wrote, over all its data files.
    pub output_rows: u64,
    /// Rows that were set aside because the transform failed on them.
    #[serde(default)]
    pub failed_rows: u64,
    /// The data files; the task is whole when each is there in its size.
    pub data_files: Vec<DataFile>,
    /// The version that the user gave the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_version: Option<String>,
    /// The Arrow schema of the data, as an IPC message in base64; none when the task wrote no row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<String>,
    /// Carried by this write alone; tells a lost reply from another's record.
    pub write_token: String,
}

/// A record, read.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Its facts; `None` for a record that Ray wrote.
    pub(crate) facts: Option<RecordFacts>,
    /// The name of its column.
    pub(crate) id_column: String,
    /// The IDs; `None` for a record without rows.
    pub(crate) ids: Option<IdColumn>,
}

impl Record {
    /// The field of the IDs; of no type where the record has no rows.
    pub(crate) fn id_field(&self) -> Field {
        let data_type = self.ids.as_ref().map_or(DataType::Null, |ids| ids.array().data_type().clone());
        Field::new(&self.id_column, data_type, true)
    }
}

/// Encodes a record. The field is nullable, as in Ray's own, so that both load together.
pub(crate) fn encode(id_column: &str, ids: &IdColumn, facts: &RecordFacts) -> Result<Bytes> {
    encode_with(id_column, ids, facts)
}

/// Encodes a record with facts of any kind.
pub(crate) fn encode_with(id_column: &str, ids: &IdColumn, facts: &impl Serialize) -> Result<Bytes> {
    let array: ArrayRef = ids.array().clone();
    let field = Field::new(id_column, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let failed = |e: &dyn std::fmt::Display| Error::bad_data(format!("a record cannot be encoded: {e}"));
    let json = serde_json::to_string(facts).map_err(|e| failed(&e))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // No ID occurs twice.
        .set_dictionary_enabled(false)
        .set_key_value_metadata(Some(vec![
            KeyValue::new(CHECKSUM_KEY.to_owned(), checksum(&json, Some(ids))),
            KeyValue::new(FACTS_KEY.to_owned(), json),
        ]))
        .build();
    let mut buffer = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut buffer, schema.clone(), Some(properties)).map_err(|e| failed(&e))?;
    let batch = RecordBatch::try_new(schema, vec![array]).map_err(|e| failed(&e))?;
    writer.write(&batch).map_err(|e| failed(&e))?;
    writer.close().map_err(|e| failed(&e))?;
    Ok(buffer.into())
}

/// CRC-32 over the facts as they are spelled and the IDs in their canonical form, in hex.
fn checksum(facts: &str, ids: Option<&IdColumn>) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(facts.as_bytes());
    let mut keys = Vec::with_capacity(2 * CHUNK);
    if let Some(ids) = ids {
        // Together, since a few bytes at a time take much longer.
        ids.each_key(|key| {
            keys.extend_from_slice(key);
            if keys.len() >= CHUNK {
                hasher.update(&keys);
                keys.clear();
            }
        });
    }
    hasher.update(&keys);
    format!("{:08x}", hasher.finalize())
}

/// What is wrong with a record, in a few words; the caller names the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It cannot be what was written.
    Broken(String),
    /// A newer program wrote it. It is whole, and nobody may set it aside.
    Newer(String),
}

impl Damage {
    /// An error for what no repair may touch.
    pub(crate) fn refuse_newer(&self, url: &str) -> Result<()> {
        match self {
            Self::Broken(_) => Ok(()),
            Self::Newer(what) => Err(Error::bad_data(format!("a record cannot be read: {what}: record={url}"))
                .with_hint("use the version of ckpt that wrote it, or a newer one")),
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Broken(what) | Self::Newer(what) => f.write_str(what),
        }
    }
}

impl From<String> for Damage {
    fn from(what: String) -> Self {
        Self::Broken(what)
    }
}

/// Decodes a record and checks that its one column is the ID column (any one column, when none is named).
///
/// The decoder asserts on some damaged bytes; that is damage like any other.
pub(crate) fn decode(bytes: Bytes, id_column: Option<&str>) -> std::result::Result<Record, Damage> {
    decode_task(bytes, id_column).map(Record::from)
}

fn decode_task(bytes: Bytes, id_column: Option<&str>) -> std::result::Result<Decoded<RecordFacts>, Damage> {
    let decoded = decode_with::<RecordFacts>(bytes, id_column, FORMAT)?;
    let count = decoded.ids.as_ref().map_or(0, IdColumn::len) as u64;
    if let Some(facts) = decoded.facts.as_ref().filter(|f| f.input_rows != count) {
        return Err(format!("it holds {count} IDs and says {}", facts.input_rows).into());
    }
    Ok(decoded)
}

/// A record with facts of any kind, its checksum found right.
pub(crate) struct Decoded<F> {
    /// The facts; `None` where it has none, and no checksum.
    pub(crate) facts: Option<F>,
    /// The name of its column.
    pub(crate) id_column: String,
    /// The type of its column.
    pub(crate) data_type: DataType,
    /// The IDs; `None` for a record without rows.
    pub(crate) ids: Option<IdColumn>,
}

impl From<Decoded<RecordFacts>> for Record {
    fn from(decoded: Decoded<RecordFacts>) -> Self {
        Self { facts: decoded.facts, id_column: decoded.id_column, ids: decoded.ids }
    }
}

/// As [`decode`], for facts of any kind, of formats up to `newest`.
pub(crate) fn decode_with<F: DeserializeOwned>(
    bytes: Bytes,
    id_column: Option<&str>,
    newest: u32,
) -> std::result::Result<Decoded<F>, Damage> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| decode_whole(bytes, id_column, newest)))
        .unwrap_or_else(|_| Err("it is not a readable Parquet file (its decoder gave up)".to_owned().into()))
}

/// As [`decode`], for a record of this name: one of our tasks says so itself, in its facts.
pub(crate) fn decode_named(name: &str, bytes: Bytes, id_column: Option<&str>) -> std::result::Result<Record, Damage> {
    decode_task_named(name, bytes, id_column).map(Record::from)
}

/// As [`decode_named`], with the type of the IDs.
pub(crate) fn decode_task_named(
    name: &str,
    bytes: Bytes,
    id_column: Option<&str>,
) -> std::result::Result<Decoded<RecordFacts>, Damage> {
    let record = decode_task(bytes, id_column)?;
    let named = record.facts.as_ref().map(|facts| facts.task.as_str());
    if TaskName::parse(name).is_some() && named != Some(name) {
        return Err(match named {
            Some(other) => format!("it is of the task {other}"),
            None => "its facts are gone".to_owned(),
        }
        .into());
    }
    Ok(record)
}

/// The facts of a record as they are spelled; `None` where it has none.
///
/// # Errors
/// When it is no Parquet file.
pub(crate) fn spelled_facts(bytes: &Bytes) -> std::result::Result<Option<String>, Damage> {
    let metadata = ArrowReaderMetadata::load(bytes, ArrowReaderOptions::new())
        .map_err(|e| format!("it is not a readable Parquet file ({e})"))?;
    Ok(spelled(&metadata)?.map(|(facts, _)| facts.to_owned()))
}

fn decode_whole<F: DeserializeOwned>(
    bytes: Bytes,
    id_column: Option<&str>,
    newest: u32,
) -> std::result::Result<Decoded<F>, Damage> {
    if bytes.is_empty() {
        return Err("it has zero bytes".to_owned().into());
    }
    let not_parquet =
        |e: parquet::errors::ParquetError| Damage::from(format!("it is not a readable Parquet file ({e})"));
    let metadata = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()).map_err(not_parquet)?;
    let written = spelled(&metadata)?.map(|(facts, checksum)| (facts.to_owned(), checksum.to_owned()));
    let facts = written.as_ref().map(|(facts, _)| facts_of(facts, newest)).transpose()?;
    let names: Vec<&str> = metadata.schema().fields().iter().map(|f| f.name().as_str()).collect();
    let column = match (names.as_slice(), id_column) {
        ([one], None) => (*one).to_owned(),
        ([one], Some(wanted)) if *one == wanted => wanted.to_owned(),
        (_, wanted) => {
            let wanted = wanted.unwrap_or("<the ID>");
            return Err(format!("its columns are {names:?} and not [{wanted:?}]").into());
        }
    };
    let data_type = metadata.schema().field(0).data_type().clone();
    let rows = metadata.metadata().file_metadata().num_rows();
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata)
        .with_batch_size(usize::try_from(rows).unwrap_or(usize::MAX).clamp(1, 1 << 20))
        .build()
        .map_err(not_parquet)?;
    let mut arrays = Vec::new();
    for batch in reader {
        arrays.push(
            batch.map_err(|e| Damage::from(format!("it is not a readable Parquet file ({e})")))?.column(0).clone(),
        );
    }
    let ids = match arrays.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => {
            let several: Vec<_> = several.iter().map(AsRef::as_ref).collect();
            Some(concat(&several).map_err(|e| format!("its IDs do not fit in one array ({e})"))?)
        }
    };
    let ids = ids.filter(|a| !a.is_empty()).map(|a| IdColumn::try_new(&a)).transpose().map_err(|e| e.to_string())?;
    let ids = ids.transpose().map_err(|problem| problem.to_string())?;
    if let Some((facts, sum)) = written
        && checksum(&facts, ids.as_ref()) != sum
    {
        return Err("its checksum is wrong: bits of it have changed since it was written".to_owned().into());
    }
    Ok(Decoded { facts, id_column: column, data_type, ids })
}

/// The facts and the checksum, as they are spelled; both or neither.
fn spelled(metadata: &ArrowReaderMetadata) -> std::result::Result<Option<(&str, &str)>, Damage> {
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    let value = |key: &str| pairs.into_iter().flatten().find(|kv| kv.key == key).and_then(|kv| kv.value.as_deref());
    match (value(FACTS_KEY), value(CHECKSUM_KEY)) {
        (None, None) => Ok(None),
        (Some(facts), Some(checksum)) => Ok(Some((facts, checksum))),
        _ => Err("half of its facts are gone".to_owned().into()),
    }
}

fn facts_of<F: DeserializeOwned>(json: &str, newest: u32) -> std::result::Result<F, Damage> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let version: Version = serde_json::from_str(json).map_err(|e| format!("its facts are damaged ({e})"))?;
    if version.format > newest {
        let newer = format!("its format is {}, newer than this program reads ({newest})", version.format);
        return Err(Damage::Newer(newer));
    }
    serde_json::from_str(json).map_err(|e| format!("its facts are damaged ({e})").into())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn facts(rows: u64) -> RecordFacts {
        RecordFacts {
            format: FORMAT,
            job: "abcdefghijklmnop".into(),
            attempt: 1,
            task: "abcdefghijklmnop-1-000001".into(),
            input_rows: rows,
            output_rows: rows,
            failed_rows: 0,
            data_files: vec![DataFile { name: "abcdefghijklmnop-1-000001.parquet".into(), bytes: 9, rows }],
            job_version: None,
            output_schema: None,
            write_token: "t".into(),
        }
    }

    fn column(array: impl arrow::array::Array + 'static) -> IdColumn {
        let array: ArrayRef = Arc::new(array);
        IdColumn::try_new(&array).unwrap().unwrap()
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let ids = column(Int64Array::from(vec![3, (1 << 53) + 1]));
        let bytes = encode("uid", &ids, &facts(2)).unwrap();
        let record = decode(bytes, Some("uid")).unwrap();
        assert_eq!(record.facts, Some(facts(2)));
        assert_eq!(record.ids.unwrap().array(), ids.array());
    }

    #[test]
    fn damage_is_said_in_words() {
        let good = encode("uid", &column(StringArray::from(vec!["a"])), &facts(1)).unwrap();
        let damage = |bytes: Bytes, column: &str| decode(bytes, Some(column)).unwrap_err().to_string();
        assert!(damage(Bytes::new(), "uid").contains("zero bytes"));
        assert!(damage(good.slice(..good.len() / 2), "uid").contains("not a readable Parquet"));
        assert!(damage(good, "id").contains("uid"));
        let lying = encode("uid", &column(StringArray::from(vec!["a"])), &facts(2)).unwrap();
        assert!(damage(lying, "uid").contains("holds 1 IDs and says 2"));
        let newer = RecordFacts { format: FORMAT + 1, ..facts(1) };
        let newer = encode("uid", &column(StringArray::from(vec!["a"])), &newer).unwrap();
        let newer = decode(newer, Some("uid")).unwrap_err();
        assert!(matches!(newer, Damage::Newer(_)), "{newer}");
        assert!(newer.refuse_newer("x").is_err());
    }

    #[test]
    fn no_flipped_bit_makes_another_record() {
        let ids = column(Int64Array::from(vec![3, 1 << 53, -7, 1_000_000_007]));
        let good = encode("uid", &ids, &facts(4)).unwrap();
        let mut refused = 0;
        for bit in 0..good.len() * 8 {
            let mut bytes = good.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match decode_named("abcdefghijklmnop-1-000001", bytes.into(), Some("uid")) {
                Ok(record) => {
                    assert_eq!(record.facts, Some(facts(4)), "bit {bit}");
                    assert_eq!(record.ids.unwrap().array(), ids.array(), "bit {bit}");
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > good.len(), "{refused} of {} bits matter", good.len() * 8);
    }
}
