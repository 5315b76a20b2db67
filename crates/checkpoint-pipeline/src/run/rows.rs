//! The rows of a job, and ways to open its files for them.

use std::sync::Arc;

use checkpoint_store::IdSetOptions;

use super::open_file::OpenFile;
use super::prepare::{Prepared, missing_id_column};
use crate::error::{Error, Result};
use crate::input::{self, FileAccess, ParquetLook, ReadAhead, ReadConfig, ReadContext, SourceFile};
use crate::pipeline::{Ids, Pipeline, RowFilter};

/// Bytes of IDs that are asked for at once, by each of several files.
const ID_BYTES_AT_ONCE: u64 = 2 << 20;

/// The rows of the job: all files, the filter and row hashes applied, IDs checked.
pub(super) struct Rows {
    pub(super) files: Vec<Arc<SourceFile>>,
    /// The rows of each file, where they are known without reading it.
    pub(super) totals: Vec<Option<u64>>,
    pub(super) ids: Ids,
    pub(super) filter: Option<RowFilter>,
    pub(super) id_class: String,
    config: ReadConfig,
    context: ReadContext,
    id_sets: IdSetOptions,
}

impl Rows {
    pub(super) fn new(pipeline: &Pipeline, prepared: &Prepared, config: ReadConfig) -> Self {
        let mut id_sets = pipeline.id_sets.clone();
        id_sets.row_hash = pipeline.ids == Ids::RowHash;
        Self {
            files: prepared.files.clone(),
            totals: prepared.totals.clone(),
            ids: pipeline.ids.clone(),
            filter: pipeline.filter.as_ref().map(|(_, filter)| filter.clone()),
            id_class: prepared.fingerprint.id_class.clone(),
            config,
            context: prepared.context.clone(),
            id_sets,
        }
    }

    /// The same rows, for their IDs alone.
    pub(super) fn narrowed(&self) -> Arc<Self> {
        let columns = match (&self.ids, &self.filter) {
            (Ids::Column(name), None) => Some(vec![name.clone()]),
            _ => None,
        };
        self.with_config(ReadConfig::new().with_batch_rows(8192).with_at_once(ID_BYTES_AT_ONCE).with_columns(columns))
    }

    fn with_config(&self, config: ReadConfig) -> Arc<Self> {
        Arc::new(Self {
            files: self.files.clone(),
            totals: self.totals.clone(),
            ids: self.ids.clone(),
            filter: self.filter.clone(),
            id_class: self.id_class.clone(),
            config,
            context: self.context.clone(),
            id_sets: self.id_sets.clone(),
        })
    }

    /// The column that names rows; none when row hashes do.
    pub(super) fn id_column(&self) -> Option<&str> {
        match &self.ids {
            Ids::Column(name) => Some(name),
            Ids::RowHash => None,
        }
    }

    /// How a set of their IDs is built.
    pub(super) fn id_sets(&self) -> IdSetOptions {
        self.id_sets.clone()
    }

    /// Whether some rows are left out, so that positions in the file are not those of the job.
    pub(super) fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// The memory for what is read before its turn.
    pub(super) fn read_ahead(&self) -> &ReadAhead {
        self.context.read_ahead()
    }

    /// A file of the job, to be looked at and then read.
    pub(super) fn access(&self, index: usize, file: &SourceFile) -> Arc<FileAccess> {
        Arc::new(FileAccess::new(file, &self.context, self.read_ahead().of_file(index)))
    }

    /// What a Parquet file says of the rows that will be read of it.
    ///
    /// # Errors
    /// As opening it gives.
    pub(super) fn look(&self, access: &FileAccess) -> Result<ParquetLook> {
        access.look(&self.config, self.id_column())
    }

    /// Opens a file for its rows.
    ///
    /// # Errors
    /// As reading gives.
    pub(super) fn open(self: &Arc<Self>, file: &Arc<SourceFile>, access: &FileAccess) -> Result<OpenFile> {
        let reader = access.open(&self.config).map_err(|error| self.explain_missing_column(error, file))?;
        Ok(OpenFile::new(self, reader, file))
    }

    /// Opens a file for its IDs alone, which are kept for who reads the rows after.
    ///
    /// # Errors
    /// As reading gives.
    pub(super) fn open_ids(&self, file: &Arc<SourceFile>, access: &FileAccess) -> Result<OpenFile> {
        let ids = self.narrowed();
        let reader = access.open_for_look(&ids.config).map_err(|error| ids.explain_missing_column(error, file))?;
        Ok(OpenFile::new(&ids, reader, file))
    }

    /// Opens a file by itself.
    ///
    /// # Errors
    /// As reading gives.
    pub(super) fn open_alone(self: &Arc<Self>, file: &Arc<SourceFile>) -> Result<OpenFile> {
        let reader = input::open(file, &self.config, &self.context);
        let reader = reader.map_err(|error| self.explain_missing_column(error, file))?;
        Ok(OpenFile::new(self, reader, file))
    }

    /// A projection on a column that is not there fails in the reader; say it as everywhere else.
    fn explain_missing_column(&self, error: Error, file: &Arc<SourceFile>) -> Error {
        let (Some(columns), Ids::Column(name)) = (&self.config.columns, &self.ids) else { return error };
        let whole = self.config.clone().with_columns(None);
        match input::open(file, &whole, &self.context) {
            Ok(reader) if columns.contains(name) && reader.schema().field_with_name(name).is_err() => {
                missing_id_column(name, &reader.schema(), &file.location.to_string())
            }
            _ => error,
        }
    }
}
