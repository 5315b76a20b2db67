//! The rows of a job's input: made here, and found again in its output.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::place::Place;

/// The format of input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Parquet.
    Parquet,
    /// JSON lines.
    JsonLines,
}

impl Format {
    /// The end of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::JsonLines => "jsonl",
        }
    }
}

/// The rows `0..count` of an input, spread over several files.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// How many rows there are.
    pub count: i64,
    /// How many files they are in.
    pub files: i64,
    /// The format of the files.
    pub format: Format,
}

/// IDs do not start at 0 and are not dense, so that a position is never mistaken for one.
fn id(row: i64) -> i64 {
    row * 7 + 1_000_003
}

fn payload(id: i64) -> String {
    format!("the payload of row {id}, {}", "x".repeat((id % 40).unsigned_abs() as usize))
}

impl Rows {
    /// Writes the input into a directory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, place: &Place, dir: &str) -> Result<()> {
        for file in 0..self.files {
            let (from, to) = (file * self.count / self.files, (file + 1) * self.count / self.files);
            let ids: Vec<i64> = (from..to).map(id).collect();
            let bytes = match self.format {
                Format::Parquet => parquet_file(&ids)?,
                Format::JsonLines => json_file(&ids),
            };
            place.write(&format!("{dir}/part-{file:03}.{}", self.format.extension()), bytes)?;
        }
        Ok(())
    }

    /// Checks that files hold every row exactly once, each as it was in the input.
    ///
    /// # Errors
    /// Which rows are missing, doubled, foreign or changed, and where.
    pub fn check(&self, files: &BTreeMap<String, Bytes>) -> Result<()> {
        self.check_without(files, &[])
    }

    /// As [`Rows::check`], for an output without the rows that were set aside, given by their IDs.
    ///
    /// # Errors
    /// As there.
    pub fn check_without(&self, files: &BTreeMap<String, Bytes>, set_aside: &[i64]) -> Result<()> {
        let wanted = (0..self.count).map(id).filter(|id| !set_aside.contains(id));
        let mut seen: BTreeMap<i64, Vec<&str>> = wanted.map(|id| (id, Vec::new())).collect();
        for (name, bytes) in files {
            for (id, text) in self.read(bytes).with_context(|| format!("reading {name}"))? {
                ensure!(text == payload(id), "row {id} is changed in {name}: {text:?}");
                let Some(places) = seen.get_mut(&id) else { bail!("{name} has row {id}, which does not belong there") };
                places.push(name);
            }
        }
        let missing: Vec<&i64> = seen.iter().filter(|(_, places)| places.is_empty()).map(|(id, _)| id).collect();
        let doubled: Vec<_> = seen.iter().filter(|(_, places)| places.len() > 1).take(5).collect();
        ensure!(
            missing.is_empty() && doubled.is_empty(),
            "{} rows are missing (such as {:?}), and these are doubled: {doubled:?}",
            missing.len(),
            missing.iter().take(5).collect::<Vec<_>>(),
        );
        Ok(())
    }

    fn read(&self, bytes: &Bytes) -> Result<Vec<(i64, String)>> {
        match self.format {
            Format::Parquet => read_parquet(bytes),
            Format::JsonLines => read_json(bytes),
        }
    }
}

fn parquet_file(ids: &[i64]) -> Result<Bytes> {
    let payloads: ArrayRef = Arc::new(StringArray::from_iter_values(ids.iter().map(|id| payload(*id))));
    let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let batch = RecordBatch::try_from_iter([("id", ids), ("payload", payloads)])?;
    let mut buffer = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut buffer, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(buffer.into())
}

fn read_parquet(bytes: &Bytes) -> Result<Vec<(i64, String)>> {
    let mut rows = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(bytes.clone())?.build()? {
        let batch = batch?;
        let ids = batch.column_by_name("id").context("no column id")?;
        let ids = ids.as_primitive_opt::<Int64Type>().context("the IDs are no int64")?;
        let payloads = batch.column_by_name("payload").context("no column payload")?;
        let payloads = arrow::compute::cast(payloads, &arrow::datatypes::DataType::Utf8)?;
        let payloads = payloads.as_string::<i32>();
        ensure!(ids.null_count() == 0 && payloads.null_count() == 0, "there are nulls");
        rows.extend(ids.values().iter().zip(payloads).map(|(id, text)| (*id, text.unwrap_or_default().to_owned())));
    }
    Ok(rows)
}

fn json_file(ids: &[i64]) -> Bytes {
    let mut text = String::new();
    for id in ids {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{{\"id\": {id}, \"payload\": \"{}\"}}", payload(*id));
    }
    text.into()
}

fn read_json(bytes: &Bytes) -> Result<Vec<(i64, String)>> {
    let row = |line: &[u8]| -> Result<(i64, String)> {
        let row: serde_json::Value = serde_json::from_slice(line)?;
        let id = row["id"].as_i64().context("no ID")?;
        Ok((id, row["payload"].as_str().context("no payload")?.to_owned()))
    };
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_doubled_or_changed_is_found() {
        for format in [Format::Parquet, Format::JsonLines] {
            let rows = Rows { count: 10, files: 2, format };
            let file = |ids: &[i64]| match format {
                Format::Parquet => parquet_file(ids).expect("encodes"),
                Format::JsonLines => json_file(ids),
            };
            let all: Vec<i64> = (0..10).map(id).collect();
            let check = |files: &[&[i64]]| {
                let files = files.iter().enumerate().map(|(i, ids)| (format!("f{i}"), file(ids))).collect();
                rows.check(&files)
            };
            check(&[&all[..4], &all[4..]]).expect("each once");
            assert!(check(&[&all[..4], &all[5..]]).expect_err("one is missing").to_string().contains("1 rows"));
            assert!(check(&[&all[..5], &all[4..]]).expect_err("one is doubled").to_string().contains("f1"));
            let files = [("f".to_owned(), file(&all[1..]))].into();
            rows.check_without(&files, &all[..1]).expect("one is set aside");
            assert!(rows.check_without(&files, &all[..2]).is_err(), "it is there all the same");
            assert!(check(&[&all, &[5]]).expect_err("one is foreign").to_string().contains("row 5"));
        }
        let rows = Rows { count: 1, files: 1, format: Format::JsonLines };
        let changed = [("f".to_owned(), Bytes::from("{\"id\": 1000003, \"payload\": \"y\"}\n"))].into();
        assert!(rows.check(&changed).expect_err("it is changed").to_string().contains("changed"));
    }
}
