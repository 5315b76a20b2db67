//! Row counts for progress, where they are cheap.

use futures::{StreamExt, TryStreamExt, stream};

use super::config::ReadContext;
use super::fetch::FileFetch;
use super::source::SourceFile;
use super::{ipc, parquet};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;

/// Files that are looked at at once.
const CONCURRENT_FILES: usize = 16;

/// The rows of each file, in the order of the files: from the footer of Parquet files, and of Arrow IPC
/// files of at most 256 record batches; `None` for all others. Counted in the context.
///
/// Cost: one or two requests per Parquet file, one per record batch for Arrow, 16 files at once.
///
/// # Errors
/// `BadData` for a damaged footer, `Conflict` for a file that changed; what reading meets.
pub async fn count_rows(files: &[SourceFile], context: &ReadContext) -> Result<Vec<Option<u64>>> {
    stream::iter(files.to_vec())
        .map(|file| async {
            if !matches!(file.format, Format::Parquet | Format::ArrowIpc) {
                return Ok(None);
            }
            let context = context.clone();
            let counted = tokio::task::spawn_blocking(move || {
                let fetch = FileFetch::new(file.clone(), context);
                match file.format {
                    Format::Parquet => parquet::count_rows(&fetch).map(Some),
                    _ => ipc::count_rows(&fetch),
                }
            });
            counted.await.map_err(|e| Error::new(ErrorKind::Interrupted, "a row count was given up").with_source(e))?
        })
        .buffered(CONCURRENT_FILES)
        .try_collect()
        .await
}
