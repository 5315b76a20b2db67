//! The side file of a merged record: the facts of the tasks that it covers, in the order of its IDs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, StringArray, StringBuilder, UInt64Array};
use arrow::array::{StringDictionaryBuilder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, UInt64Type};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::merged::{FORMAT, SideFile};
use crate::names::MergedName;
use crate::record::{Damage, RecordFacts};

/// The metadata key under which it says whose it is.
const OWNER_KEY: &str = "checkpoint.merged";

/// One task: its name, how many of the IDs are its own, and its facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskFacts {
    pub(crate) task: String,
    /// Its IDs follow those of the task before.
    pub(crate) rows: u64,
    /// The facts of its record as they were spelled, without the schema; none for a record of Ray's.
    pub(crate) facts: Option<String>,
    /// The schema of its data, as its record spelled it.
    pub(crate) output_schema: Option<String>,
}

impl TaskFacts {
    /// Takes apart the facts of a record, as they are spelled there.
    pub(crate) fn new(task: String, rows: u64, spelled: Option<&str>) -> std::result::Result<Self, Damage> {
        let Some(spelled) = spelled else { return Ok(Self { task, rows, facts: None, output_schema: None }) };
        let damaged = |e: serde_json::Error| Damage::from(format!("its facts are damaged ({e})"));
        let mut facts: serde_json::Map<String, serde_json::Value> = serde_json::from_str(spelled).map_err(damaged)?;
        let output_schema = match facts.remove("output_schema") {
            Some(serde_json::Value::String(schema)) => Some(schema),
            _ => None,
        };
        let facts = serde_json::to_string(&facts).map_err(damaged)?;
        Ok(Self { task, rows, facts: Some(facts), output_schema })
    }

    /// The facts whole; `None` for a record of Ray's.
    pub(crate) fn whole(&self) -> std::result::Result<Option<RecordFacts>, Damage> {
        let Some(facts) = &self.facts else { return Ok(None) };
        let facts: RecordFacts =
            serde_json::from_str(facts).map_err(|e| format!("the facts of task {} are damaged ({e})", self.task))?;
        Ok(Some(RecordFacts { output_schema: self.output_schema.clone(), ..facts }))
    }
}

/// Whose side file it is.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    format: u32,
    merged: MergedName,
    write_token: String,
}

/// Encodes the side file of a merged record.
pub(super) fn encode(name: &MergedName, write_token: &str, tasks: &[TaskFacts]) -> Result<(Bytes, SideFile)> {
    let failed = |e: &dyn std::fmt::Display| Error::bad_data(format!("a side file cannot be encoded: {e}"));
    let owner = Owner { format: FORMAT, merged: name.clone(), write_token: write_token.to_owned() };
    let owner = serde_json::to_string(&owner).map_err(|e| failed(&e))?;
    let (mut rows, mut facts) = (UInt64Builder::new(), StringBuilder::new());
    let mut schemas = StringDictionaryBuilder::<Int32Type>::new();
    for task in tasks {
        rows.append_value(task.rows);
        facts.append_option(task.facts.as_deref());
        schemas.append_option(task.output_schema.as_deref());
    }
    let names = StringArray::from_iter_values(tasks.iter().map(|task| &task.task));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(names), Arc::new(rows.finish()), Arc::new(facts.finish()), Arc::new(schemas.finish())];
    let dictionary = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    let schema = Arc::new(Schema::new(vec![
        Field::new("task", DataType::Utf8, false),
        Field::new("rows", DataType::UInt64, false),
        Field::new("facts", DataType::Utf8, true),
        Field::new("output_schema", dictionary, true),
    ]));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![KeyValue::new(OWNER_KEY.to_owned(), owner)]))
        .build();
    let mut buffer = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut buffer, schema.clone(), Some(properties)).map_err(|e| failed(&e))?;
    let batch = RecordBatch::try_new(schema, columns).map_err(|e| failed(&e))?;
    writer.write(&batch).map_err(|e| failed(&e))?;
    writer.close().map_err(|e| failed(&e))?;
    let side = SideFile { bytes: buffer.len() as u64, crc32: crc32(&buffer) };
    Ok((buffer.into(), side))
}

fn crc32(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Decodes the side file of a merged record, which must be exactly the one that was written.
pub(super) fn decode(
    bytes: Bytes,
    side: &SideFile,
    name: &MergedName,
    write_token: &str,
) -> std::result::Result<Vec<TaskFacts>, Damage> {
    if bytes.len() as u64 != side.bytes || crc32(&bytes) != side.crc32 {
        return Err("the facts beside it are damaged: their checksum is wrong".to_owned().into());
    }
    let broken = |e: &dyn std::fmt::Display| Damage::from(format!("the facts beside it are damaged ({e})"));
    let metadata = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()).map_err(|e| broken(&e))?;
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    let owner = pairs.into_iter().flatten().find(|kv| kv.key == OWNER_KEY).and_then(|kv| kv.value.as_deref());
    let owner: Owner = serde_json::from_str(owner.unwrap_or_default()).map_err(|e| broken(&e))?;
    if owner.merged != *name || owner.write_token != write_token {
        return Err(broken(&format_args!("they are those of {}", owner.merged)));
    }
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata).build().map_err(|e| broken(&e))?;
    let mut tasks = Vec::new();
    for batch in reader {
        read_batch(&batch.map_err(|e| broken(&e))?, &mut tasks).ok_or_else(|| broken(&"its columns are others"))?;
    }
    Ok(tasks)
}

fn read_batch(batch: &RecordBatch, tasks: &mut Vec<TaskFacts>) -> Option<()> {
    let names: &StringArray = batch.column_by_name("task")?.as_string_opt()?;
    let rows: &UInt64Array = batch.column_by_name("rows")?.as_primitive_opt::<UInt64Type>()?;
    let facts: &StringArray = batch.column_by_name("facts")?.as_string_opt()?;
    let schemas: &DictionaryArray<Int32Type> = batch.column_by_name("output_schema")?.as_dictionary_opt()?;
    let spelled: &StringArray = schemas.values().as_string_opt()?;
    for row in 0..batch.num_rows() {
        tasks.push(TaskFacts {
            task: names.value(row).to_owned(),
            rows: rows.value(row),
            facts: facts.is_valid(row).then(|| facts.value(row).to_owned()),
            output_schema: schemas.key(row).map(|key| spelled.value(key).to_owned()),
        });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::JobId;

    fn name(number: u64) -> MergedName {
        MergedName { job: JobId::parse("abcdefghijklmnop").unwrap(), attempt: 2, number }
    }

    fn tasks() -> Vec<TaskFacts> {
        let facts = r#"{"format":1,"job":"j","attempt":1,"task":"t-1","input_rows":2,"output_rows":2,"failed_rows":0,
            "data_files":[{"name":"t-1.parquet","bytes":9,"rows":2}],"output_schema":"c2NoZW1h","write_token":"w",
            "added_later":{"by":"a newer program"}}"#;
        vec![TaskFacts::new("t-1".into(), 2, Some(facts)).unwrap(), TaskFacts::new("u_000001".into(), 3, None).unwrap()]
    }

    #[test]
    fn facts_are_kept_whole_with_what_is_not_known_here() {
        let (bytes, side) = encode(&name(1), "token", &tasks()).unwrap();
        let read = decode(bytes, &side, &name(1), "token").unwrap();
        assert_eq!(read, tasks());
        assert!(read[0].facts.as_ref().is_some_and(|facts| facts.contains("a newer program")));
        let facts = read[0].whole().unwrap().unwrap();
        assert_eq!((facts.input_rows, facts.output_schema.as_deref()), (2, Some("c2NoZW1h")));
        assert_eq!(read[1].whole().unwrap(), None);
    }

    #[test]
    fn no_flipped_bit_and_no_other_file_is_taken_for_it() {
        let (bytes, side) = encode(&name(1), "token", &tasks()).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1;
            assert!(decode(flipped.into(), &side, &name(1), "token").is_err(), "byte {at}");
        }
        assert!(decode(bytes.slice(1..), &side, &name(1), "token").is_err());
        assert!(decode(bytes.clone(), &side, &name(2), "token").is_err());
        assert!(decode(bytes, &side, &name(1), "other").is_err());
    }
}
