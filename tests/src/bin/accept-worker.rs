//! A program for `--exec` over Arrow IPC: gives batches back as they came, but for what its arguments ask.
//!
//! `--fail-after N` exits with status 3 at the batch that goes beyond N rows; `--drop COLUMN`,
//! `--rename OLD NEW` and `--as-text COLUMN` change the columns of every batch; `--drift-after N` adds a
//! column to the batches that go beyond N rows; `--times N` gives each row N times.

use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

#[derive(Default)]
struct Work {
    fail_after: Option<u64>,
    drift_after: Option<u64>,
    drop: Option<String>,
    rename: Option<(String, String)>,
    as_text: Option<String>,
    times: u64,
}

fn main() -> Result<ExitCode> {
    let work = Work::from_args(std::env::args().skip(1))?;
    let mut input = stdin().lock();
    let mut output = stdout().lock();
    let mut rows = 0;
    while !input.fill_buf()?.is_empty() {
        let reader = StreamReader::try_new(&mut input, None)?;
        let mut answers = Vec::new();
        let mut schema = reader.schema();
        for batch in reader {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            if work.fail_after.is_some_and(|most| rows > most) {
                writeln!(std::io::stderr(), "accept-worker: told to fail after {} rows", work.fail_after.unwrap_or(0))?;
                return Ok(ExitCode::from(3));
            }
            let answer = work.answer(&batch, rows)?;
            schema = answer.schema();
            answers.push(answer);
        }
        let mut writer = StreamWriter::try_new(&mut output, &schema)?;
        for answer in &answers {
            writer.write(answer)?;
        }
        writer.finish()?;
        drop(writer);
        output.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Work {
    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut work = Self { times: 1, ..Self::default() };
        while let Some(flag) = args.next() {
            let mut value = || args.next().with_context(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--fail-after" => work.fail_after = Some(value()?.parse()?),
                "--drift-after" => work.drift_after = Some(value()?.parse()?),
                "--drop" => work.drop = Some(value()?),
                "--rename" => work.rename = Some((value()?, value()?)),
                "--as-text" => work.as_text = Some(value()?),
                "--times" => work.times = value()?.parse()?,
                _ => bail!("unknown argument {flag}"),
            }
        }
        Ok(work)
    }

    fn answer(&self, batch: &RecordBatch, rows: u64) -> Result<RecordBatch> {
        let indices = (0..batch.num_rows() as u64).flat_map(|row| (0..self.times).map(move |_| row));
        let batch = take_record_batch(batch, &UInt64Array::from_iter_values(indices))?;
        let mut fields: Vec<Arc<Field>> = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            if self.drop.as_ref() == Some(field.name()) {
                continue;
            }
            let mut field = field.as_ref().clone();
            let mut column = column.clone();
            if self.as_text.as_ref() == Some(field.name()) {
                column = cast(&column, &DataType::Utf8)?;
                field = field.with_data_type(DataType::Utf8);
            }
            if let Some((_, new)) = self.rename.as_ref().filter(|(old, _)| old == field.name()) {
                field = field.with_name(new);
            }
            fields.push(Arc::new(field));
            columns.push(column);
        }
        if self.drift_after.is_some_and(|most| rows > most) {
            fields.push(Arc::new(Field::new("late_column", DataType::Int64, true)));
            columns.push(Arc::new(Int64Array::from(vec![7; batch.num_rows()])));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}
