//! What travels from the reader to the workers.

use std::sync::Arc;

use arrow::array::RecordBatch;
use checkpoint_store::IdColumn;
use tokio::sync::OwnedSemaphorePermit;

use crate::input::SourceFile;

/// Rows that are not done yet, with where they come from.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) records: RecordBatch,
    pub(super) ids: IdColumn,
    pub(super) places: Places,
    /// Memory that these rows stand for; given back when their output is encoded.
    pub(super) _memory: OwnedSemaphorePermit,
}

/// Where the rows of a batch are in the input.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) file: Arc<SourceFile>,
    /// The position of each row in its file, from 0.
    pub(super) rows: Vec<u64>,
}

impl Places {
    /// A row as messages name it; rows count from 0.
    pub(super) fn show(&self, row: usize) -> String {
        place(&self.file, self.rows.get(row).copied().unwrap_or_default())
    }
}

/// A row of a file as messages name it.
pub(super) fn place(file: &SourceFile, row: u64) -> String {
    format!("{} row {row}", file.location)
}
