//! The pipeline as a value: what to read, how to transform it, where to write, and how to resume.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{BooleanArray, RecordBatch};
use checkpoint_fs::{Registry, StorageOptions};
use checkpoint_store::{BeginOptions, IdSetOptions, LeaseOptions, RuntimeRef, SystemRuntime};

use crate::error::Result;
use crate::format::Format;
use crate::report::{Counters, PlanReport, RunReport, Stop};
use crate::transform::{Identity, Transform};

/// The column that row hashes come in, as Ray Data names it.
pub const ROW_HASH_COLUMN: &str = "row_hash";

/// What names a row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ids {
    /// A column of the input: stable, never null, unique in the job.
    Column(String),
    /// A generated `uint64` column [`ROW_HASH_COLUMN`], made of the file's path and the row's position.
    RowHash,
}

impl Ids {
    /// The name of the column.
    pub fn column(&self) -> &str {
        match self {
            Ids::Column(name) => name,
            Ids::RowHash => ROW_HASH_COLUMN,
        }
    }
}

/// Which rows are read at all.
pub(crate) type RowFilter = Arc<dyn Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync>;

/// A resumable batch job: read, filter, transform, write, commit.
///
/// Run it again with the same settings after any end, a `kill -9` included, and every input row is in the
/// output exactly once.
#[derive(Clone)]
pub struct Pipeline {
    pub(crate) registry: Registry,
    pub(crate) storage_options: StorageOptions,
    pub(crate) inputs: Vec<String>,
    pub(crate) output: String,
    pub(crate) checkpoint: String,
    pub(crate) ids: Ids,
    pub(crate) transform: Arc<dyn Transform>,
    pub(crate) filter: Option<(String, RowFilter)>,
    pub(crate) input_format: Option<Format>,
    pub(crate) output_format: Option<Format>,
    pub(crate) workers: usize,
    pub(crate) batch_rows: Option<usize>,
    pub(crate) rows_per_task: Option<u64>,
    pub(crate) bytes_per_task: u64,
    pub(crate) task_age: Duration,
    pub(crate) memory: usize,
    pub(crate) keep_checkpoint: bool,
    pub(crate) append: bool,
    pub(crate) version: Option<String>,
    pub(crate) allow_changed_read: bool,
    pub(crate) check_unique: bool,
    pub(crate) id_sets: IdSetOptions,
    pub(crate) max_failed_rows: u64,
    pub(crate) lease_url: Option<String>,
    pub(crate) lease: LeaseOptions,
    pub(crate) compact_above: Option<u64>,
    pub(crate) runtime: RuntimeRef,
    pub(crate) counters: Arc<Counters>,
    pub(crate) stop: Stop,
}

impl Pipeline {
    /// A pipeline that copies its input, named by `ids`, with all settings at their defaults. URLs are
    /// whatever `checkpoint-fs` opens; an input may be a file, a directory or a glob.
    pub fn new(
        inputs: impl IntoIterator<Item = impl Into<String>>,
        output: impl Into<String>,
        checkpoint: impl Into<String>,
        ids: Ids,
    ) -> Self {
        Self {
            registry: Registry::from_process(),
            storage_options: StorageOptions::new(),
            inputs: inputs.into_iter().map(Into::into).collect(),
            output: output.into(),
            checkpoint: checkpoint.into(),
            ids,
            transform: Arc::new(Identity),
            filter: None,
            input_format: None,
            output_format: None,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            batch_rows: None,
            rows_per_task: None,
            bytes_per_task: 256 << 20,
            task_age: Duration::from_secs(60),
            memory: 192 << 20,
            keep_checkpoint: false,
            append: false,
            version: None,
            allow_changed_read: false,
            check_unique: false,
            id_sets: IdSetOptions::default(),
            max_failed_rows: 0,
            lease_url: None,
            lease: LeaseOptions::default(),
            compact_above: BeginOptions::default().compact_above,
            runtime: SystemRuntime::shared(),
            counters: Arc::default(),
            stop: Stop::new(),
        }
    }

    /// Opens URLs with these schemes and this environment.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Opens URLs with these options.
    #[must_use]
    pub fn storage_options(mut self, options: StorageOptions) -> Self {
        self.storage_options = options;
        self
    }

    /// What is done to each batch; called by all workers at once.
    #[must_use]
    pub fn transform(mut self, transform: impl Transform + 'static) -> Self {
        self.transform = Arc::new(transform);
        self
    }

    /// Reads only the rows for which the function says true. The text stands for the filter in the job's
    /// fingerprint: change it when the filter changes. With row hashes, positions count after the filter.
    #[must_use]
    pub fn filter(
        mut self,
        text: impl Into<String>,
        filter: impl Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some((text.into(), Arc::new(filter)));
        self
    }

    /// The format of the input, where the file names do not tell it.
    #[must_use]
    pub fn input_format(mut self, format: Option<Format>) -> Self {
        self.input_format = format;
        self
    }

    /// The format of the output; that of the input by default, Parquet where the input is mixed.
    #[must_use]
    pub fn output_format(mut self, format: Option<Format>) -> Self {
        self.output_format = format;
        self
    }

    /// How many batches are transformed at once; the number of cores by default.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// The most rows of a batch; by default what the [transform](Transform::batch_rows) says, 1,024 mostly.
    #[must_use]
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = Some(rows.max(1));
        self
    }

    /// The rows of a task, the unit that is committed. By default 10,000, and more where these come within a
    /// second: then a task goes on until its second is over or its output fills the memory that it may take.
    /// A task also ends at 256 MiB of output and after a minute.
    #[must_use]
    pub fn rows_per_task(mut self, rows: u64) -> Self {
        self.rows_per_task = Some(rows.max(1));
        self
    }

    /// How long a task goes on taking batches; a minute by default.
    #[must_use]
    pub fn task_age(mut self, age: Duration) -> Self {
        self.task_age = age;
        self
    }

    /// Bytes of batches in flight, over all workers, their output included; 192 MiB by default.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes.max(1 << 20);
        self
    }

    /// Keeps the checkpoint when the job is done, instead of deleting it.
    #[must_use]
    pub fn keep_checkpoint(mut self, keep: bool) -> Self {
        self.keep_checkpoint = keep;
        self
    }

    /// Adds to an output that holds data of jobs whose checkpoint is gone.
    #[must_use]
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// The version of the job's logic; raise it when the meaning of the output changes.
    #[must_use]
    pub fn version(mut self, version: Option<String>) -> Self {
        self.version = version;
        self
    }

    /// Goes on although the input, the filter or the version has changed.
    #[must_use]
    pub fn allow_changed_read(mut self, allow: bool) -> Self {
        self.allow_changed_read = allow;
        self
    }

    /// Fails at once when an ID occurs twice in the input, a [plan](Pipeline::plan) too, which reads all IDs for that.
    /// Keeps all IDs in memory, as those that are done are kept: each takes some ten bytes, and twice that while sets of
    /// them are merged.
    #[must_use]
    pub fn check_unique(mut self, check: bool) -> Self {
        self.check_unique = check;
        self
    }

    /// How sets of IDs are built, those that are done and those of [`Pipeline::check_unique`]: how much memory that may
    /// take besides the sets, and where the rest goes. Whether they are row hashes is known from [`Ids`].
    #[must_use]
    pub fn id_sets(mut self, options: IdSetOptions) -> Self {
        self.id_sets = options;
        self
    }

    /// Sets aside up to this many rows of the job on which the transform fails, over all attempts, instead of
    /// failing the run.
    #[must_use]
    pub fn max_failed_rows(mut self, rows: u64) -> Self {
        self.max_failed_rows = rows;
        self
    }

    /// Keeps the lease on another storage, for a checkpoint on a store without create-only writes.
    #[must_use]
    pub fn lease_url(mut self, url: Option<String>) -> Self {
        self.lease_url = url;
        self
    }

    /// How the lease is kept.
    #[must_use]
    pub fn lease(mut self, options: LeaseOptions) -> Self {
        self.lease = options;
        self
    }

    /// Merges the records of tasks at the start of a run when there are more small ones than this; 10,000 by default,
    /// `None` never.
    #[must_use]
    pub fn compact_above(mut self, records: Option<u64>) -> Self {
        self.compact_above = records;
        self
    }

    /// Clock, randomness and background tasks.
    #[must_use]
    pub fn runtime(mut self, runtime: RuntimeRef) -> Self {
        self.runtime = runtime;
        self
    }

    /// Where progress can be read while it runs.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Asks a run to stop: batches in hand are dropped, finished ones committed.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Runs the job to its end.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind). Whatever happens, what was committed stays committed, and the
    /// same call goes on from there.
    pub async fn run(self) -> Result<RunReport> {
        crate::run::run(self).await
    }

    /// Says what a run would do, and writes nothing.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub async fn plan(self) -> Result<PlanReport> {
        crate::run::plan(self).await
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("inputs", &self.inputs)
            .field("output", &self.output)
            .field("checkpoint", &self.checkpoint)
            .field("ids", &self.ids)
            .field("transform", &self.transform)
            .finish_non_exhaustive()
    }
}
