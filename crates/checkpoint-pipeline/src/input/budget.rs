//! Memory for bytes that are read before their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that files whose turn has not come yet may hold together, and as much again for the one whose turn
/// it is.
const BYTES: u64 = 20 << 20;
/// Bytes are counted in units of this many.
const UNIT: u64 = 1024;

/// The most that one request for memory is granted, and the most that may be kept beside it: together less than
/// the share, so that a file whose turn it is can always go on once the rows that it sent have been used up.
const MOST_AT_ONCE: u64 = 8 << 20;
pub(crate) const MOST_KEPT: u64 = 10 << 20;

/// What all files of a job share.
#[derive(Debug, Clone)]
pub(crate) struct ReadAhead {
    turn: Arc<AtomicUsize>,
    mine: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

/// The share of one file.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    all: ReadAhead,
    file: usize,
}

impl ReadAhead {
    /// Nothing is held, and it is the first file's turn.
    pub(crate) fn new() -> Self {
        let semaphore = || Arc::new(Semaphore::new((BYTES / UNIT) as usize));
        Self { turn: Arc::default(), mine: semaphore(), others: semaphore() }
    }

    /// The share of the file with this number.
    pub(crate) fn of_file(&self, file: usize) -> Budget {
        Budget { all: self.clone(), file }
    }

    /// Says that this file is read now.
    pub(crate) fn set_turn(&self, file: usize) {
        self.turn.store(file, Ordering::Relaxed);
    }
}

impl Budget {
    fn is_on_turn(&self) -> bool {
        self.all.turn.load(Ordering::Relaxed) == self.file
    }

    /// Memory for so many bytes, if there is some.
    pub(crate) fn try_take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
        let take = |from: &Arc<Semaphore>| Arc::clone(from).try_acquire_many_owned(units).ok();
        let mine = if self.is_on_turn() { take(&self.all.mine) } else { None };
        mine.or_else(|| take(&self.all.others))
    }

    /// Memory for so many bytes, at most [`MOST_AT_ONCE`]. A file whose turn it is waits for it: what it holds is
    /// in rows that are being used up.
    pub(crate) async fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        if bytes > MOST_AT_ONCE {
            return None;
        }
        match self.try_take(bytes) {
            None if self.is_on_turn() => {
                let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
                Arc::clone(&self.all.mine).acquire_many_owned(units).await.ok()
            }
            taken => taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_ahead_leave_the_one_on_turn_its_share() {
        let all = ReadAhead::new();
        let ahead = all.of_file(1);
        let first = ahead.try_take(BYTES).expect("all that files ahead may hold");
        assert!(ahead.try_take(1).is_none() && ahead.take(1).await.is_none(), "it does not wait");
        let now = all.of_file(0);
        let half = now.take(MOST_AT_ONCE).await.expect("its own");
        let rest = now.try_take(MOST_KEPT).expect("its own");
        assert!(now.take(MOST_AT_ONCE + 1).await.is_none(), "never too much at once");
        drop(half);
        assert!(now.take(MOST_AT_ONCE).await.is_some());
        drop((first, rest));
        all.set_turn(1);
        assert!(ahead.try_take(BYTES).is_some() && ahead.try_take(BYTES).is_some());
    }
}
