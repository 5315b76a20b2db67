//! A number of long-lived child processes that share the batches of a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::Semaphore;

use super::exchange::{Exchange, ExecFormat, Unanswered};
use super::worker::{Idle, Worker};
use crate::error::{Error, Result};
use crate::transform::{Batch, Transform, TransformError};

/// How long children may take to end after the last batch.
const CLOSING: Duration = Duration::from_secs(10);

/// Child processes as a transform: `sh -c COMMAND`, any number of them, each of which takes one batch after
/// the other from its standard input and answers on its standard output (see [`ExecFormat`]).
///
/// - Children are started when they are first needed and live until [`close`](Transform::close). They find
///   their number in `CKPT_WORKER`; `PYTHONUNBUFFERED=1` is set unless the caller's environment has it.
/// - A child that ends well after a whole answer is replaced for the next batch. Any other end, a broken
///   message, or output beyond the answer fails the batch with the last lines of its standard error; the
///   child is killed with all that it started, and replaced.
/// - A program that keeps its output in a buffer until its input ends (`jq -c` does) is given the end of its
///   input after each batch, and started anew for the next.
/// - Children stay in this process's group: a kill of the group takes them too, and when this process dies
///   alone they see the end of their input.
/// - There is no time limit. Dropping the future of a batch kills its child; dropping the pool kills all.
///
/// Memory: each batch in flight twice (as it is and, with JSON lines, as the text of its answer) and its
/// output.
///
/// # Output types of JSON lines
/// Columns of the input keep their type. New columns get the type of the first answer of the run (integers
/// `Int64`, or `UInt64` where needed, other numbers `Float64`, which takes integers later, texts `Utf8`, what
/// is always null `Utf8`, and lists and structs of these); later answers must fit. Everything is nullable,
/// and a missing member is null. [`with_output_schema`](ProcessPool::with_output_schema) sets the types from
/// the start.
#[derive(Debug)]
pub struct ProcessPool {
    command: String,
    exchange: Exchange,
    workers: usize,
    /// Those without a batch; the last used on top, so that no more are started than are needed.
    idle: Mutex<Vec<Slot>>,
    permits: Semaphore,
    closed: AtomicBool,
}

/// A worker's place, with or without its process.
#[derive(Debug)]
struct Slot {
    id: usize,
    worker: Option<Worker>,
}

/// A place taken for one batch; it goes back without a process unless the batch puts one in.
struct Taken<'p> {
    pool: &'p ProcessPool,
    slot: Slot,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let slot = Slot { id: self.slot.id, worker: self.slot.worker.take() };
        self.pool.lock_idle().push(slot);
    }
}

impl ProcessPool {
    /// A pool that runs `sh -c command` up to `workers` times. Nothing is started yet.
    ///
    /// # Errors
    /// `InvalidConfig` for an empty command or no workers.
    pub fn new(command: &str, format: ExecFormat, workers: usize) -> Result<Self> {
        if command.trim().is_empty() {
            return Err(Error::invalid_config("the command of the child processes is empty"));
        }
        if workers == 0 {
            return Err(Error::invalid_config("at least one child process is needed: workers=0"));
        }
        let idle = (0..workers).rev().map(|id| Slot { id, worker: None }).collect();
        Ok(Self {
            command: command.to_owned(),
            exchange: Exchange::new(format),
            workers,
            idle: Mutex::new(idle),
            permits: Semaphore::new(workers),
            closed: AtomicBool::new(false),
        })
    }

    /// Sets the columns and types of JSON-lines answers before the first one, as a resumed run knows them.
    #[must_use]
    pub fn with_output_schema(self, schema: &Schema) -> Self {
        self.exchange.output.preset(schema);
        self
    }

    /// The columns and types of JSON-lines answers: preset, or known since the first answer with rows.
    pub fn output_schema(&self) -> Option<SchemaRef> {
        self.exchange.output.get()
    }

    /// The number of child processes that may run.
    pub fn workers(&self) -> usize {
        self.workers
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Slot>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The child of a place: the one that is there, when it still can, or a new one.
    async fn ready(&self, slot: &mut Slot) -> Result<Worker, TransformError> {
        if let Some(mut worker) = slot.worker.take() {
            match worker.idle().await {
                Idle::Ready => return Ok(worker),
                Idle::Ended => {}
                Idle::Broken(error) => return Err(error),
            }
        }
        Worker::start(slot.id, &self.command)
    }
}

#[async_trait]
impl Transform for ProcessPool {
    fn expect_output(&self, schema: &SchemaRef) {
        self.exchange.output.preset(schema);
    }

    fn memory_factor(&self) -> usize {
        // The batch as Arrow, what the child is sent and sends, the answer as Arrow; JSON is several times
        // the size of what it says, and parsed whole.
        match self.exchange.format {
            ExecFormat::Arrow => 4,
            ExecFormat::JsonLines => 10,
        }
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<RecordBatch>, TransformError> {
        if self.exchange.format == ExecFormat::JsonLines && batch.records.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let closed = || TransformError::new("the child processes were closed before this batch");
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        let slot = self.lock_idle().pop().ok_or_else(closed)?;
        let mut taken = Taken { pool: self, slot };
        loop {
            let worker = self.ready(&mut taken.slot).await?;
            match self.exchange.run(worker, &batch).await {
                Ok((batches, worker)) => {
                    taken.slot.worker = worker;
                    return Ok(batches);
                }
                Err(Unanswered::Failed(error)) => return Err(error),
                // Only a worker with answers behind it retires, so this happens once.
                Err(Unanswered::Retired) => {}
            }
        }
    }

    async fn close(&self) -> Result<(), TransformError> {
        self.closed.store(true, Ordering::Release);
        self.permits.close();
        let workers: Vec<Worker> = self.lock_idle().iter_mut().filter_map(|slot| slot.worker.take()).collect();
        join_all(workers.into_iter().map(|worker| worker.close(CLOSING))).await;
        Ok(())
    }
}
