//! Ranged reads of one input file: counted, checked against what was discovered, and never the whole file.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use checkpoint_fs::{ObjectMeta, ReadOptions};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::budget::{Budget, MOST_KEPT};
use super::config::ReadContext;
use super::held::{HeldBytes, Hold};
use super::parquet::PageMaps;
use super::source::SourceFile;
use super::spans::{READ_THROUGH, join, total};
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
    held: Arc<HeldBytes>,
    page_maps: PageMaps,
    /// What pays for bytes that are held before their turn; without it none are.
    budget: Option<Budget>,
    /// What was read, where it is kept for those who read it again.
    kept: Option<Mutex<Kept>>,
}

/// What was read and is kept.
#[derive(Debug, Default)]
struct Kept {
    hold: Hold,
    bytes: u64,
}

/// A read that runs ahead of its need; dropping it gives it up.
#[derive(Debug)]
pub(super) struct Ahead {
    range: Range<u64>,
    task: JoinHandle<Result<Bytes>>,
}

impl FileFetch {
    pub(super) fn new(file: SourceFile, context: ReadContext) -> Arc<Self> {
        Self::with_budget(file, context, None)
    }

    /// As [`FileFetch::new`], with memory for what is read before its turn.
    pub(super) fn with_budget(file: SourceFile, context: ReadContext, budget: Option<Budget>) -> Arc<Self> {
        Arc::new(Self {
            file,
            context,
            permits: Semaphore::new(CONCURRENT_READS),
            fault: Mutex::default(),
            held: Arc::default(),
            page_maps: PageMaps::default(),
            budget,
            kept: None,
        })
    }

    /// The same file for another reader, which keeps what it reads for this one as far as there is memory.
    pub(super) fn keeping(&self) -> Arc<Self> {
        Arc::new(Self {
            file: self.file.clone(),
            context: self.context.clone(),
            permits: Semaphore::new(CONCURRENT_READS),
            fault: Mutex::default(),
            held: Arc::clone(&self.held),
            page_maps: PageMaps::default(),
            budget: self.budget.clone(),
            kept: Some(Mutex::default()),
        })
    }

    /// Holds what was kept so far.
    pub(super) fn kept(&self) -> Hold {
        let kept = self.kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.map(|kept| kept.hold.clone()).unwrap_or_default()
    }

    /// Holds what is held from this offset on.
    pub(super) fn held_from(&self, start: u64) -> Hold {
        self.held.from(start)
    }

    /// Keeps no longer what was kept so far.
    pub(super) fn forget_kept(&self) {
        if let Some(kept) = &self.kept {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
        }
    }

    /// The page maps of the columns that are read through this.
    pub(super) fn page_maps(&self) -> &PageMaps {
        &self.page_maps
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

    /// Starts to read ranges, joined where they lie close, for whoever asks for them while they are held. Those
    /// that are held already are held on. Does nothing where there is no memory for all; a
    /// file whose turn it is waits for it. Blocks for that, and not for the bytes.
    pub(super) fn hold_ahead(self: &Arc<Self>, ranges: Vec<Range<u64>>) -> Hold {
        let Some(budget) = &self.budget else { return Hold::default() };
        let missing = self.missing(ranges.clone());
        let bytes = total(&missing);
        let memory = match bytes {
            0 => None,
            _ => match self.context.runtime().block_on(budget.take(bytes)) {
                Some(memory) => Some(memory),
                None => return Hold::default(),
            },
        };
        self.start_holding(ranges, missing, memory)
    }

    /// As [`FileFetch::hold_ahead`], for rows that are read now: whatever it takes.
    pub(super) fn hold_now(self: &Arc<Self>, ranges: Vec<Range<u64>>) -> Hold {
        let missing = self.missing(ranges.clone());
        self.start_holding(ranges, missing, None)
    }

    fn missing(&self, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let joined = join(ranges, READ_THROUGH);
        joined.into_iter().flat_map(|range| self.held.missing(range)).collect()
    }

    fn start_holding(
        self: &Arc<Self>,
        ranges: Vec<Range<u64>>,
        missing: Vec<Range<u64>>,
        memory: Option<tokio::sync::OwnedSemaphorePermit>,
    ) -> Hold {
        let mut hold = Hold::default();
        for piece in ranges.iter().flat_map(|range| self.held.within(range)) {
            hold.add(piece);
        }
        let mut memory = memory;
        for range in missing {
            let units = ((range.end - range.start) / 1024) as usize;
            let part = memory.as_mut().and_then(|all| all.split(units.min(all.num_permits())));
            let ahead = self.spawn(range.clone());
            let abort = ahead.abort_handle();
            hold.add(self.held.expect(range, async move { ahead.await.ok()?.ok() }, abort, part));
        }
        hold
    }

    /// Reads past what is held.
    fn spawn(self: &Arc<Self>, range: Range<u64>) -> JoinHandle<Result<Bytes>> {
        let fetch = Arc::clone(self);
        self.context.runtime().spawn(async move { fetch.request(range).await })
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
        let mut parts = Vec::new();
        let mut at = range.start;
        for piece in self.held.within(&range) {
            let Range { start, end } = piece.range();
            let to = end.min(range.end);
            if to <= at {
                continue;
            }
            if start > at {
                parts.push(self.request(at..start).await?);
                at = start;
            }
            parts.push(match piece.bytes().await {
                Some(bytes) => bytes.slice((at - start) as usize..(to - start) as usize),
                None => self.request(at..to).await?,
            });
            at = to;
        }
        if at < range.end {
            parts.push(self.request(at..range.end).await?);
        }
        match parts.as_slice() {
            [only] => Ok(only.clone()),
            parts => {
                let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
                parts.iter().for_each(|part| whole.extend_from_slice(part));
                Ok(whole.freeze())
            }
        }
    }

    /// Asks the storage.
    async fn request(&self, range: Range<u64>) -> Result<Bytes> {
        // The semaphore is never closed, so a failed acquire cannot happen; reading without it is harmless.
        let _permit = self.permits.acquire().await.ok();
        let (start, wanted) = (range.start, range.end - range.start);
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
        self.keep(start, &result.bytes);
        Ok(result.bytes)
    }

    /// Keeps what was read, where that is wanted and there is memory.
    fn keep(&self, start: u64, bytes: &Bytes) {
        let (Some(kept), Some(budget)) = (&self.kept, &self.budget) else { return };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let after = kept.bytes + bytes.len() as u64;
        if after <= MOST_KEPT
            && let Some(memory) = budget.try_take(bytes.len() as u64)
        {
            kept.hold.add(self.held.put(start, bytes.clone(), Some(memory)));
            kept.bytes = after;
        }
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
