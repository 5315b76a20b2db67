//! What turns the rows of a batch into output: closures, and child processes of any language.

mod error;
mod function;
mod idempotency;
mod process;

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

pub use error::TransformError;
pub use function::{FnTransform, Identity};
pub use idempotency::idempotency_key;
pub use process::{ExecFormat, ProcessPool};

/// A transform, shared.
pub type TransformRef = Arc<dyn Transform>;

/// Rows on their way into a transform.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Batch {
    /// The rows.
    pub records: RecordBatch,
    /// The same for the same rows in every attempt, so that paid calls and upserts need not repeat.
    /// See [`idempotency_key`]. Empty where [the transform does not use it](Transform::uses_key).
    pub idempotency_key: String,
}

impl Batch {
    /// A batch and its key.
    pub fn new(records: RecordBatch, idempotency_key: impl Into<String>) -> Self {
        Self { records, idempotency_key: idempotency_key.into() }
    }
}

/// Turns batches into batches. One object serves a whole run and is called concurrently.
#[async_trait]
pub trait Transform: Debug + Send + Sync {
    /// The output of a batch: any number of rows for each input row, in any number of batches of one schema.
    /// The rows of one batch go to the output together or not at all. Dropping the future gives the batch
    /// up; a repetition may follow, with the same key.
    ///
    /// # Errors
    /// When the batch fails. Others are not affected.
    async fn apply(&self, batch: Batch) -> Result<Vec<RecordBatch>, TransformError>;

    /// Told once, before the first batch of a resumed run: what earlier attempts wrote has this schema, and
    /// what comes out now must have it too. A transform that gives types to untyped answers takes them from
    /// it; others need not care.
    fn expect_output(&self, schema: &SchemaRef) {
        let _ = schema;
    }

    /// Whether it looks at [`Batch::idempotency_key`], which costs a hash over all IDs. The key is empty
    /// where it does not.
    fn uses_key(&self) -> bool {
        true
    }

    /// The most rows of a batch where the user sets no number.
    fn batch_rows(&self) -> usize {
        1024
    }

    /// Whether it matters how full batches are. Where it does not, rows are handed on in the pieces in which they
    /// were decoded, and none is copied to fill a batch.
    fn fills_batches(&self) -> bool {
        true
    }

    /// How many times its own size a batch takes in memory until its output is there, the batch and the
    /// output included. Fewer batches are in flight where it is more.
    fn memory_factor(&self) -> usize {
        2
    }

    /// Called once after the last batch, to let go of what the transform holds. Every batch that was
    /// answered counts, whatever happens here.
    ///
    /// # Errors
    /// What the owner of the run should hear about.
    async fn close(&self) -> Result<(), TransformError> {
        Ok(())
    }
}
