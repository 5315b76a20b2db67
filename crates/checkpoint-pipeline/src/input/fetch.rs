//! Ranged reads of one input file: counted, checked against what was discovered, and never the whole file.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use checkpoint_fs::{ObjectMeta, ReadOptions};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::config::ReadContext;
use super::source::SourceFile;
use crate::error::{Error, ErrorKind, Result};

/// Reads in flight for one file.
const CONCURRENT_READS: usize = 16;

/// The bytes of one file.
#[derive(Debug)]
pub(super) struct FileFetch {
    file: SourceFile,
    context: ReadContext,
    permits: Semaphore,
    /// A failed read, kept while a decoder that only carries text passes its own error up.
    fault: Mutex<Option<Error>>,
}

/// A read that runs ahead of its need; dropping it gives it up.
#[derive(Debug)]
pub(super) struct Ahead {
    range: Range<u64>,
    task: JoinHandle<Result<Bytes>>,
}

impl FileFetch {
    pub(super) fn new(file: SourceFile, context: ReadContext) -> Arc<Self> {
        Arc::new(Self { file, context, permits: Semaphore::new(CONCURRENT_READS), fault: Mutex::default() })
    }

    pub(super) fn file(&self) -> &SourceFile {
        &self.file
    }

    pub(super) fn context(&self) -> &ReadContext {
        &self.context
    }

    /// The size when it was discovered.
    pub(super) fn size(&self) -> u64 {
        self.file.meta.size
    }

    /// Reads a range; blocks this thread, which must not be one that runs async tasks.
    ///
    /// # Errors
    /// `Conflict` when the file is not the one that was discovered; what the storage meets otherwise.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.context.runtime().block_on(self.read_async(range))
    }

    /// Starts to read a range in the background.
    pub(super) fn read_ahead(self: &Arc<Self>, range: Range<u64>) -> Ahead {
        let fetch = Arc::clone(self);
        let wanted = range.clone();
        Ahead { range, task: self.context.runtime().spawn(async move { fetch.read_async(wanted).await }) }
    }

    /// Waits for a read that was started.
    pub(super) fn join(&self, mut ahead: Ahead) -> Result<Bytes> {
        match self.context.runtime().block_on(&mut ahead.task) {
            Ok(result) => result,
            Err(e) => {
                Err(Error::new(ErrorKind::Interrupted, format!("a read was given up: {}", self.place())).with_source(e))
            }
        }
    }

    async fn read_async(&self, range: Range<u64>) -> Result<Bytes> {
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        // The semaphore is never closed, so a failed acquire cannot happen; reading without it is harmless.
        let _permit = self.permits.acquire().await.ok();
        let wanted = range.end - range.start;
        let options = ReadOptions::new().range(Some(range));
        let result = match self.file.storage.read(&self.file.path, options).await {
            Ok(result) => result,
            Err(e) if e.is_not_found() => {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("an input file disappeared while it was read: {}", self.place()),
                )
                .with_hint("restore the file, or start the job again without it")
                .with_source(e));
            }
            Err(e) => return Err(e.into()),
        };
        self.context.count(result.bytes.len());
        self.check_unchanged(&result.meta)?;
        if (result.bytes.len() as u64) < wanted {
            return Err(self.changed(format!("{} bytes came where {wanted} were asked", result.bytes.len())));
        }
        Ok(result.bytes)
    }

    fn check_unchanged(&self, now: &ObjectMeta) -> Result<()> {
        let then = &self.file.meta;
        if then.size != now.size {
            return Err(self.changed(format!("its size was {} and is {}", then.size, now.size)));
        }
        match (&then.etag, &now.etag) {
            (Some(before), Some(after)) if before != after => {
                Err(self.changed(format!("its entity tag was {before} and is {after}")))
            }
            // Listings and reads of object stores may round times differently; tags decide there.
            (None, None) if then.last_modified.is_some() && now.last_modified.is_some() => {
                if then.last_modified == now.last_modified {
                    Ok(())
                } else {
                    Err(self.changed("its time of change differs".to_owned()))
                }
            }
            _ => Ok(()),
        }
    }

    fn changed(&self, how: String) -> Error {
        Error::new(ErrorKind::Conflict, format!("an input file changed while it was read, {how}: {}", self.place()))
            .with_hint("let nothing write to the input while a job runs, then start the job again")
    }

    /// `file=<url>`, for messages.
    pub(super) fn place(&self) -> String {
        format!("file={}", self.file.location)
    }

    /// Keeps a failed read for [`FileFetch::blame`].
    pub(super) fn keep_fault(&self, error: Error) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert(error);
    }

    /// The error of a decoder that failed: the failed read behind it, or else a damaged file.
    pub(super) fn blame(&self, what: &str, cause: &dyn std::fmt::Display, place: &str) -> Error {
        if let Some(error) = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return error;
        }
        let cause = cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let space = if place.is_empty() { "" } else { " " };
        Error::bad_data(format!("{what}: {cause}: {}{space}{place}", self.place()))
            .with_hint("the file is damaged or was cut off: write it again, or leave it out of the input")
    }
}

impl Ahead {
    /// Where the read starts.
    pub(super) fn start(&self) -> u64 {
        self.range.start
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.task.abort();
    }
}
