//! Applying the transform to a batch, and narrowing a failure down to the rows that cause it.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use checkpoint_store::{IdColumn, show_id};

use super::contract;
use super::item::Item;
use super::settings::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::report::{Stage, add, get};
use crate::transform::{Batch, TransformError, idempotency_key};

/// IDs that an error lists.
const SHOWN: usize = 20;

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Its output.
    pub(super) outputs: Vec<RecordBatch>,
    /// Rows set aside: their index in the batch, and why.
    pub(super) failed: Vec<(usize, String)>,
}

/// Transforms a batch. Where failures are allowed, a batch that fails is halved until the failing rows are
/// alone.
///
/// # Errors
/// `Transform` with the IDs of the batch; `BadData` when the transform breaks its contract.
pub(super) async fn apply(shared: &Shared, item: &Item) -> Result<Applied> {
    let mut applied = Applied::default();
    let mut ranges = vec![(0, item.records.num_rows())];
    while let Some((start, len)) = ranges.pop() {
        let records = item.records.slice(start, len);
        let array: ArrayRef = item.ids.array().slice(start, len);
        let began = shared.runtime.elapsed();
        let key = if shared.transform.uses_key() { idempotency_key(&array) } else { String::new() };
        let result = shared.transform.apply(Batch::new(records, key)).await;
        shared.counters.spent(Stage::Transform, shared.runtime.elapsed().saturating_sub(began));
        match result {
            Ok(outputs) => {
                if len == item.ids.len() {
                    contract::check(&shared.id_column, &item.ids, &outputs)?;
                } else {
                    let ids = IdColumn::checked(&array)?;
                    contract::check(&shared.id_column, &ids, &outputs)?;
                }
                applied.outputs.extend(outputs.into_iter().filter(|o| o.num_rows() > 0));
            }
            // Ctrl-C goes to the child processes too: a batch that fails for that is no failure.
            Err(_) if shared.halted_soon().await => std::future::pending().await,
            Err(error) if shared.max_failed_rows == 0 => return Err(failed(item, &array, start, &error)),
            Err(error) if len == 1 => {
                // Earlier attempts count too, or a broken transform that is run again and again would set
                // everything aside.
                let earlier = shared.attempt.failed_rows();
                let so_far = earlier + add(&shared.counters.failed_rows, 1);
                if so_far > shared.max_failed_rows {
                    let before = earlier + get(&shared.counters.failed_rows) - 1;
                    return Err(failed(item, &array, start, &error).with_hint(format!(
                        "{before} rows had failed before it, as many as --max-failed-rows allows"
                    )));
                }
                tracing::warn!("a row is set aside: id={} at={}: {error}", show_id(&array, 0), item.places.show(start));
                applied.failed.push((start, error.to_string()));
            }
            Err(_) => {
                let half = len / 2;
                ranges.push((start + half, len - half));
                ranges.push((start, half));
            }
        }
    }
    Ok(applied)
}

fn failed(item: &Item, ids: &ArrayRef, start: usize, error: &TransformError) -> Error {
    let mut shown: Vec<String> = (0..ids.len().min(SHOWN)).map(|row| show_id(ids, row)).collect();
    if ids.len() > SHOWN {
        shown.push(format!("and {} more", ids.len() - SHOWN));
    }
    let mut hint = vec![match error.hint() {
        Some(hint) => hint.to_owned(),
        None => {
            "what was finished before is committed; fix the transform and run the same command again, or let single \
                 rows fail with --max-failed-rows"
                .to_owned()
        }
    }];
    hint.extend(error.stderr_tail().iter().map(|line| format!("stderr: {line}")));
    Error::new(
        ErrorKind::Transform,
        format!(
            "the transform failed on {} rows: {error}: first at {} ids={}",
            ids.len(),
            item.places.show(start),
            shown.join(", ")
        ),
    )
    .with_hint(hint.join("\n"))
}

/// The rows set aside of a task, as they go to `_failed`: the ID, the reason, the place, and the row itself.
pub(super) fn set_aside(item: &Item, failed: &[(usize, String)]) -> Result<Option<RecordBatch>> {
    if failed.is_empty() {
        return Ok(None);
    }
    let indices = UInt64Array::from_iter_values(failed.iter().map(|(row, _)| *row as u64));
    let broken = |e: arrow::error::ArrowError| Error::bad_data(format!("rows cannot be set aside: {e}"));
    let rows = arrow::compute::take_record_batch(&item.records, &indices).map_err(broken)?;
    let ids = arrow::compute::take(item.ids.array(), &indices, None).map_err(broken)?;
    let reasons = StringArray::from_iter_values(failed.iter().map(|(_, reason)| reason));
    let file = item.places.file.location.to_string();
    let files = StringArray::from_iter_values(failed.iter().map(|_| &file));
    let positions = UInt64Array::from_iter_values(failed.iter().map(|(row, _)| item.places.rows[*row]));
    let row = arrow::array::StructArray::from(rows);
    let schema = Schema::new(vec![
        Field::new("id", ids.data_type().clone(), true),
        Field::new("error", DataType::Utf8, false),
        Field::new("file", DataType::Utf8, false),
        Field::new("file_row", DataType::UInt64, false),
        Field::new("row", arrow::array::Array::data_type(&row).clone(), false),
    ]);
    let columns: Vec<ArrayRef> = vec![ids, Arc::new(reasons), Arc::new(files), Arc::new(positions), Arc::new(row)];
    RecordBatch::try_new(Arc::new(schema), columns).map(Some).map_err(broken)
}
