//! Bytes of a file that are read before they are needed, or kept because they are needed again.

use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

/// The pieces of one file that somebody holds.
#[derive(Debug, Default)]
pub(super) struct HeldBytes(Mutex<Vec<Weak<Piece>>>);

/// A part of a file: there, or on its way.
pub(super) struct Piece {
    range: Range<u64>,
    /// Nothing when the read failed: whoever needs the bytes reads them again, and meets the error.
    bytes: Shared<BoxFuture<'static, Option<Bytes>>>,
    reading: Option<AbortHandle>,
    _memory: Option<OwnedSemaphorePermit>,
}

/// Keeps pieces of a file; what nobody holds any more is forgotten, and given up if it is still being read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hold(Vec<Arc<Piece>>);

impl Hold {
    /// Holds a piece too.
    pub(super) fn add(&mut self, piece: Arc<Piece>) {
        self.0.push(piece);
    }

    /// Holds what another holds, too.
    pub(crate) fn join(&mut self, other: &Hold) {
        self.0.extend(other.0.iter().cloned());
    }
}

impl HeldBytes {
    fn insert(&self, piece: &Arc<Piece>) {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.retain(|piece| piece.strong_count() > 0);
        pieces.push(Arc::downgrade(piece));
    }

    /// Takes in bytes that were read.
    pub(super) fn put(&self, start: u64, bytes: Bytes, memory: Option<OwnedSemaphorePermit>) -> Arc<Piece> {
        let range = start..start + bytes.len() as u64;
        let bytes = std::future::ready(Some(bytes)).boxed().shared();
        let piece = Arc::new(Piece { range, bytes, reading: None, _memory: memory });
        self.insert(&piece);
        piece
    }

    /// Takes in bytes that are being read.
    pub(super) fn expect(
        &self,
        range: Range<u64>,
        read: impl Future<Output = Option<Bytes>> + Send + 'static,
        reading: AbortHandle,
        memory: Option<OwnedSemaphorePermit>,
    ) -> Arc<Piece> {
        let piece = Piece { range, bytes: read.boxed().shared(), reading: Some(reading), _memory: memory };
        let piece = Arc::new(piece);
        self.insert(&piece);
        piece
    }

    /// The pieces that hold some of a range, in order.
    pub(super) fn within(&self, range: &Range<u64>) -> Vec<Arc<Piece>> {
        let pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let live = pieces.iter().filter_map(Weak::upgrade);
        let mut found: Vec<Arc<Piece>> =
            live.filter(|p| p.range.start < range.end && range.start < p.range.end).collect();
        drop(pieces);
        found.sort_unstable_by_key(|piece| (piece.range.start, std::cmp::Reverse(piece.range.end)));
        found
    }

    /// Holds what is held of the file from `start` on.
    pub(super) fn from(&self, start: u64) -> Hold {
        let pieces = self.within(&(start..u64::MAX)).into_iter();
        Hold(pieces.filter(|piece| piece.range.start >= start).collect())
    }

    /// The parts of a range that nobody holds.
    pub(super) fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        for piece in self.within(&range) {
            if piece.range.start > at {
                missing.push(at..piece.range.start);
            }
            at = at.max(piece.range.end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }
}

impl Piece {
    /// Where it lies in the file.
    pub(super) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Its bytes, all of them, once they are there.
    pub(super) async fn bytes(&self) -> Option<Bytes> {
        let length = self.range.end - self.range.start;
        self.bytes.clone().await.filter(|bytes| bytes.len() as u64 == length)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            reading.abort();
        }
    }
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Piece").field(&self.range).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_missing() {
        let held = HeldBytes::default();
        let mut hold = Hold::default();
        hold.add(held.put(10, Bytes::from_static(&[0; 10]), None));
        let late = held.put(15, Bytes::from_static(&[0; 15]), None);
        assert_eq!(held.missing(0..40), [0..10, 30..40]);
        assert_eq!(held.missing(12..28), []);
        assert_eq!(held.within(&(19..21)).len(), 2);
        drop(late);
        assert_eq!(held.missing(0..40), [0..10, 20..40]);
        let both = hold.clone();
        drop(hold);
        assert_eq!(held.missing(10..20), []);
        drop(both);
        assert_eq!(held.missing(10..20), vec![10..20]);
    }
}
