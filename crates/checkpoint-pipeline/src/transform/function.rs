//! Transforms made of closures.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Batch, Transform, TransformError};
use crate::panic;

/// Gives every batch back as it came.
#[derive(Debug, Clone, Copy, Default)]
pub struct Identity;

#[async_trait]
impl Transform for Identity {
    async fn apply(&self, batch: Batch) -> Result<Vec<RecordBatch>, TransformError> {
        Ok(vec![batch.records])
    }

    fn uses_key(&self) -> bool {
        false
    }

    /// As many as readers decode at once: nobody looks at a batch.
    fn batch_rows(&self) -> usize {
        8192
    }

    fn fills_batches(&self) -> bool {
        false
    }
}

type Answer = Result<Vec<RecordBatch>, TransformError>;

/// A closure as a transform. A panic in it fails the batch, not the run.
///
/// ```
/// use checkpoint_pipeline::transform::{Batch, FnTransform};
///
/// let first_ten = FnTransform::new(|batch: Batch| -> Result<_, std::convert::Infallible> {
///     Ok(vec![batch.records.slice(0, batch.records.num_rows().min(10))])
/// });
/// ```
#[derive(Clone)]
pub struct FnTransform(Kind);

#[derive(Clone)]
enum Kind {
    Blocking(Arc<dyn Fn(Batch) -> Answer + Send + Sync>),
    Async(Arc<dyn Fn(Batch) -> BoxFuture<'static, Answer> + Send + Sync>),
}

impl FnTransform {
    /// A closure that computes or blocks; each call runs on a blocking thread, several at a time. Dropping
    /// the future of a call does not stop the closure.
    pub fn new<F, E>(function: F) -> Self
    where
        F: Fn(Batch) -> Result<Vec<RecordBatch>, E> + Send + Sync + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self(Kind::Blocking(Arc::new(move |batch| function(batch).map_err(TransformError::from_error))))
    }

    /// A closure that waits, for a service for example, and does not block.
    pub fn new_async<F, R, E>(function: F) -> Self
    where
        F: Fn(Batch) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<RecordBatch>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self(Kind::Async(Arc::new(move |batch| {
            let answer = function(batch);
            async move { answer.await.map_err(TransformError::from_error) }.boxed()
        })))
    }
}

impl fmt::Debug for FnTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Blocking(_) => f.write_str("FnTransform(blocking)"),
            Kind::Async(_) => f.write_str("FnTransform(async)"),
        }
    }
}

#[async_trait]
impl Transform for FnTransform {
    async fn apply(&self, batch: Batch) -> Result<Vec<RecordBatch>, TransformError> {
        match &self.0 {
            Kind::Blocking(function) => {
                let function = Arc::clone(function);
                match tokio::task::spawn_blocking(move || function(batch)).await {
                    Ok(answer) => answer,
                    Err(error) if error.is_panic() => Err(panicked(error.into_panic().as_ref())),
                    Err(_) => Err(TransformError::new("the run ended before the transform")),
                }
            }
            Kind::Async(function) => {
                let function = Arc::clone(function);
                let answer = AssertUnwindSafe(async move { function(batch).await }).catch_unwind();
                answer.await.unwrap_or_else(|payload| Err(panicked(payload.as_ref())))
            }
        }
    }
}

fn panicked(payload: &(dyn Any + Send)) -> TransformError {
    TransformError::new(format!("the transform panicked: {}", panic::message(payload).unwrap_or("no message")))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn batch() -> Batch {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        Batch::new(RecordBatch::try_from_iter([("id", ids)]).expect("valid"), "k")
    }

    #[tokio::test]
    async fn closures_of_both_kinds_map_rows_and_see_the_key() {
        let blocking = FnTransform::new(|batch: Batch| {
            assert_eq!(batch.idempotency_key, "k");
            Ok::<_, String>(vec![batch.records.slice(0, 1), batch.records.slice(2, 1)])
        });
        assert_eq!(blocking.apply(batch()).await.expect("works").len(), 2);
        let waiting = FnTransform::new_async(|batch: Batch| async move {
            tokio::task::yield_now().await;
            Ok::<_, std::io::Error>(vec![batch.records])
        });
        assert_eq!(waiting.apply(batch()).await.expect("works")[0].num_rows(), 3);
        assert_eq!(Identity.apply(batch()).await.expect("works"), [batch().records]);
    }

    #[tokio::test]
    async fn errors_and_panics_fail_the_batch_with_their_text() {
        let fails = FnTransform::new(|_| Err::<Vec<RecordBatch>, _>("no such sample"));
        assert_eq!(fails.apply(batch()).await.expect_err("fails").to_string(), "no such sample");
        let panics = FnTransform::new(|batch: Batch| -> Result<Vec<RecordBatch>, String> {
            panic!("row {} is odd", batch.records.num_rows())
        });
        assert_eq!(
            panics.apply(batch()).await.expect_err("panics").to_string(),
            "the transform panicked: row 3 is odd"
        );
        let waiting = FnTransform::new_async(|_| async { panic!("later") as Result<Vec<RecordBatch>, String> });
        assert_eq!(waiting.apply(batch()).await.expect_err("panics").to_string(), "the transform panicked: later");
        let at_once =
            FnTransform::new_async(|_| -> BoxFuture<'static, Result<Vec<RecordBatch>, String>> { panic!("now") });
        assert_eq!(at_once.apply(batch()).await.expect_err("panics").to_string(), "the transform panicked: now");
    }
}
