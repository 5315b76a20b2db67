//! What can be set for one encoded file.

use std::path::PathBuf;

/// Options of a [`FileEncoder`](super::FileEncoder).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// Encoded bytes held in memory; beyond them all go to a temporary file. 16 MiB.
    pub spool_memory: usize,
    /// Facts about the file: Parquet key-value metadata, or Arrow schema metadata. They replace entries of
    /// the same name that the batches' schema brings along. JSON lines and CSV cannot hold any.
    pub metadata: Vec<(String, String)>,
    /// Encoded data that a Parquet row group may hold before it is written out. 64 MiB.
    pub row_group_bytes: usize,
    /// Top-level columns whose values hardly repeat: Parquet gets them without a dictionary, which would only
    /// cost time and space.
    pub plain_columns: Vec<String>,
    /// JSON lines for people to read: every batch may have columns of its own, and a value without a JSON
    /// form, such as a float that is no number, becomes a text that shows it instead of an error.
    pub loose_json: bool,
    /// Where temporary files go; the system's choice (`TMPDIR`) when `None`.
    pub temp_dir: Option<PathBuf>,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self {
            spool_memory: 16 << 20,
            metadata: Vec::new(),
            row_group_bytes: 64 << 20,
            plain_columns: Vec::new(),
            loose_json: false,
            temp_dir: None,
        }
    }
}

impl EncodeOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `spool_memory`.
    #[must_use]
    pub fn spool_memory(mut self, bytes: usize) -> Self {
        self.spool_memory = bytes;
        self
    }

    /// Sets `metadata`.
    #[must_use]
    pub fn metadata(mut self, entries: Vec<(String, String)>) -> Self {
        self.metadata = entries;
        self
    }

    /// Sets `row_group_bytes`; at least one byte.
    #[must_use]
    pub fn row_group_bytes(mut self, bytes: usize) -> Self {
        self.row_group_bytes = bytes.max(1);
        self
    }

    /// Sets `plain_columns`.
    #[must_use]
    pub fn plain_columns(mut self, columns: Vec<String>) -> Self {
        self.plain_columns = columns;
        self
    }

    /// Sets `loose_json`.
    #[must_use]
    pub fn loose_json(mut self, loose: bool) -> Self {
        self.loose_json = loose;
        self
    }

    /// Sets `temp_dir`.
    #[must_use]
    pub fn temp_dir(mut self, dir: Option<PathBuf>) -> Self {
        self.temp_dir = dir;
        self
    }
}
