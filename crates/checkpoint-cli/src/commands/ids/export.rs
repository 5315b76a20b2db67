//! Writing all IDs to standard output, a record at a time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::json::LineDelimitedWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use checkpoint_store::{Checkpoint, IdColumn, array_in_utc, committed_ids};
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use super::id_column;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// One ID a line, as people read it. Binary IDs are in hexadecimal.
pub(super) async fn text(checkpoint: &Checkpoint, out: &Output) -> Result<()> {
    each(checkpoint, out, |ids| {
        let options = FormatOptions::default();
        let array = array_in_utc(ids.array()).map_err(cannot_show)?;
        let values = ArrayFormatter::try_new(array.as_ref(), &options).map_err(cannot_show)?;
        let mut lines = String::new();
        for row in 0..ids.len() {
            values.value(row).write(&mut lines).map_err(cannot_show)?;
            lines.push('\n');
        }
        out.bytes(lines.as_bytes())
    })
    .await
}

/// One JSON object a line, the ID under the name of its column.
pub(super) async fn jsonl(checkpoint: &Checkpoint, out: &Output) -> Result<()> {
    let (name, _) = id_column(checkpoint).await?;
    let name = name.unwrap_or_else(|| "id".to_owned());
    let mut writer = LineDelimitedWriter::new(out);
    each(checkpoint, out, |ids| {
        let ids = array_in_utc(ids.array()).map_err(cannot_show)?;
        writer.write(&batch(&name, ids)?).map_err(cannot_show)
    })
    .await?;
    writer.finish().map_err(cannot_show)
}

/// One Parquet file of one column. Records of one job may differ in the width of their integers: they are
/// widened to 64 bits.
pub(super) async fn parquet(checkpoint: &Checkpoint, out: &Output) -> Result<()> {
    let (name, id_type) = id_column(checkpoint).await?;
    let name = name.unwrap_or_else(|| "id".to_owned());
    let mut file: Option<(DataType, ArrowWriter<&Output>)> = None;
    each(checkpoint, out, |ids| {
        if file.is_none() {
            let target = common_type(ids.array().data_type());
            file = Some((target.clone(), writer(&name, target, out)?));
        }
        let Some((target, writer)) = &mut file else { return Ok(()) };
        let ids = cast(ids.array(), target)?;
        writer.write(&batch(&name, ids)?).map_err(not_written)
    })
    .await?;
    let (_, writer) = match file {
        Some(file) => file,
        None => {
            let target = id_type.and_then(|t| t.parse().ok()).map_or(DataType::Utf8, |t| common_type(&t));
            (target.clone(), writer(&name, target, out)?)
        }
    };
    writer.close().map(drop).map_err(not_written)
}

/// Gives every record's IDs to `write`, until the reader of standard output has gone.
async fn each(checkpoint: &Checkpoint, out: &Output, mut write: impl FnMut(&IdColumn) -> Result<()>) -> Result<()> {
    let mut ids = std::pin::pin!(committed_ids(checkpoint).await?);
    while let Some(column) = ids.next().await {
        write(&column?)?;
        if out.is_closed() {
            break;
        }
    }
    Ok(())
}

fn writer<'a>(name: &str, id_type: DataType, out: &'a Output) -> Result<ArrowWriter<&'a Output>> {
    let schema = Arc::new(Schema::new(vec![Field::new(name, id_type, false)]));
    ArrowWriter::try_new(out, schema, None).map_err(not_written)
}

fn batch(name: &str, ids: ArrayRef) -> Result<RecordBatch> {
    let schema = Schema::new(vec![Field::new(name, ids.data_type().clone(), false)]);
    RecordBatch::try_new(Arc::new(schema), vec![ids]).map_err(cannot_show)
}

/// The plain type that the IDs of a class have in common.
fn common_type(id_type: &DataType) -> DataType {
    match id_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => {
            DataType::Int64
        }
        DataType::Dictionary(_, value) => common_type(value),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    }
}

fn cast(ids: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(ids, target, &options).map_err(|error| {
        Failure::new(Exit::BadData, format!("the records differ in the type of their IDs: {error}"))
            .with_hint("--format jsonl writes each ID as its record has it")
    })
}

fn cannot_show(error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, error) => output_failed(&error),
        error => Failure::new(Exit::BadData, format!("the IDs cannot be written in this format: {error}")),
    }
}

fn not_written(error: ParquetError) -> Failure {
    output_failed(&error)
}

fn output_failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Storage, format!("standard output cannot be written: {error}"))
}
