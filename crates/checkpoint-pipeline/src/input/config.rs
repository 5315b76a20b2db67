//! How input is read, and what the readers of a job share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

use super::budget::ReadAhead;
use super::footers::Footers;
use super::text::TextSchemas;

/// How files are cut into batches. All of it is deterministic, unless batches need not be [filled](Self::with_filled):
/// the same file and the same configuration give the same batches, in every attempt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadConfig {
    /// The most rows of a batch, at least 1. A batch also never straddles a multiple of this within its
    /// file: it lies inside one window `k * batch_rows .. (k + 1) * batch_rows`.
    pub batch_rows: usize,
    /// A batch is cut when its decoded size reaches this; between 1 MiB and 1 GiB, other values are
    /// taken as the nearer of the two. One row alone may be larger.
    pub batch_bytes: usize,
    /// Only these top-level columns, in the file's order; all when `None`.
    pub columns: Option<Vec<String>>,
    /// Bytes of a Parquet row group that are asked for at once.
    pub(crate) at_once: u64,
    /// Whether rows are copied to fill a batch.
    pub(crate) filled: bool,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self { batch_rows: 1024, batch_bytes: 16 << 20, columns: None, at_once: 8 << 20, filled: true }
    }
}

impl ReadConfig {
    /// The defaults: 1,024 rows, 16 MiB, all columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rows of a batch and of a window; 0 counts as 1.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows;
        self
    }

    /// Sets the decoded size at which a batch is cut.
    #[must_use]
    pub fn with_batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// Reads only these columns.
    #[must_use]
    pub fn with_columns(mut self, columns: Option<Vec<String>>) -> Self {
        self.columns = columns;
        self
    }

    /// Says whether rows are copied to fill batches; they are. Where not, only few rows are joined with those that
    /// follow them, and a batch may straddle a multiple of its most rows.
    #[must_use]
    pub fn with_filled(mut self, filled: bool) -> Self {
        self.filled = filled;
        self
    }

    /// Asks for fewer bytes at once, for readers of which there are several.
    #[must_use]
    pub(crate) fn with_at_once(mut self, bytes: u64) -> Self {
        self.at_once = bytes;
        self
    }

    /// Rows of a window, never zero.
    pub(crate) fn window(&self) -> u64 {
        self.batch_rows.max(1) as u64
    }

    /// The size at which a batch is cut, within its limits.
    pub(crate) fn cut_bytes(&self) -> u64 {
        (self.batch_bytes as u64).clamp(1 << 20, 1 << 30)
    }
}

/// What the readers of one job share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReadContext {
    runtime: Handle,
    bytes_read: Arc<AtomicU64>,
    schemas: Arc<TextSchemas>,
    footers: Arc<Footers>,
    statistics_of: Option<Arc<str>>,
    read_ahead: ReadAhead,
}

impl ReadContext {
    /// A context whose storage calls run on this runtime.
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            bytes_read: Arc::default(),
            schemas: Arc::default(),
            footers: Arc::default(),
            statistics_of: None,
            read_ahead: ReadAhead::new(),
        }
    }

    /// Keeps the statistics that Parquet footers have of this top-level column, if it is of integers.
    #[must_use]
    pub(crate) fn with_statistics_of(mut self, column: &str) -> Self {
        self.statistics_of = Some(column.into());
        self
    }

    /// Counts into a counter that exists already.
    #[must_use]
    pub fn with_counter(mut self, bytes_read: Arc<AtomicU64>) -> Self {
        self.bytes_read = bytes_read;
        self
    }

    /// Sets the schemas of text files, as [`infer_schemas`](super::infer_schemas) gives them.
    #[must_use]
    pub fn with_schemas(mut self, schemas: TextSchemas) -> Self {
        self.schemas = Arc::new(schemas);
        self
    }

    /// All bytes read from storage so far, in footers, samples and data.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The schemas of text files.
    pub fn schemas(&self) -> &TextSchemas {
        &self.schemas
    }

    pub(super) fn statistics_of(&self) -> Option<&str> {
        self.statistics_of.as_deref()
    }

    /// The memory for what is read before its turn.
    pub(crate) fn read_ahead(&self) -> &ReadAhead {
        &self.read_ahead
    }

    pub(super) fn footers(&self) -> &Footers {
        &self.footers
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn count(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
