//! Footers of Parquet files that a job has read, so that counting rows, looking ahead and reading need each
//! of them once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use checkpoint_fs::{Location, ObjectMeta};
use parquet::file::metadata::ParquetMetaData;

use super::source::SourceFile;

/// The most memory that is spent on it. What comes later is read again when it is needed.
const MOST_BYTES: usize = 32 << 20;

/// Footers by file.
#[derive(Debug, Default)]
pub(super) struct Footers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    footers: HashMap<Location, (ObjectMeta, Arc<ParquetMetaData>)>,
    bytes: usize,
}

impl Footers {
    /// The footer of a file, if it is kept and the file is the same.
    pub(super) fn get(&self, file: &SourceFile) -> Option<Arc<ParquetMetaData>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.footers.get(&file.location).filter(|(meta, _)| *meta == file.meta).map(|(_, footer)| footer.clone())
    }

    /// Keeps a footer while there is room.
    pub(super) fn keep(&self, file: &SourceFile, footer: &Arc<ParquetMetaData>) {
        let bytes = footer.memory_size();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + bytes <= MOST_BYTES
            && kept.footers.insert(file.location.clone(), (file.meta.clone(), footer.clone())).is_none()
        {
            kept.bytes += bytes;
        }
    }
}
