//! The memory of a set: pieces while it is built, one stretch in the end.

use bytes::Bytes;
use memmap2::MmapMut;

use crate::error::{Error, Result};

/// Bodies are collected in pieces of about this size, each in pages of its own: no piece is copied to grow, and each is
/// given back to the system as it moves, where an allocator may keep it.
const PIECE: usize = 4 << 20;
/// A buffer from this size on lies in pages of its own, large ones where the system has them.
const OWN_PAGES: usize = 4 << 20;

/// The bodies of the partitions, one after the other.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    full: Vec<Bytes>,
    current: Vec<u8>,
    full_len: usize,
}

impl Chunks {
    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.full_len + self.current.len()
    }

    /// Where the next body is appended.
    pub(super) fn body(&mut self) -> &mut Vec<u8> {
        if self.current.len() >= PIECE {
            self.full_len += self.current.len();
            self.full.push(match MmapMut::map_anon(self.current.len()) {
                Ok(mut pages) => {
                    pages.copy_from_slice(&self.current);
                    self.current.clear();
                    Bytes::from_owner(pages)
                }
                Err(_) => std::mem::take(&mut self.current).into(),
            });
        }
        &mut self.current
    }

    /// The head, the bodies, the trailer, and the checksum of these.
    pub(super) fn assemble(self, head: &[u8], trailer: &[u8], checksum: impl Fn(&[u8]) -> u64) -> Result<Bytes> {
        let len = head.len() + self.len() + trailer.len() + size_of::<u64>();
        let pieces = self.full.into_iter().chain([self.current.into()]);
        if len < OWN_PAGES {
            let mut out = Vec::with_capacity(len);
            out.extend_from_slice(head);
            pieces.for_each(|piece| out.extend_from_slice(&piece));
            out.extend_from_slice(trailer);
            out.extend_from_slice(&checksum(&out).to_le_bytes());
            return Ok(out.into());
        }
        let mut pages = pages(len)?;
        let mut rest: &mut [u8] = &mut pages;
        let mut put = |part: &[u8]| {
            if let Some(place) = rest.split_off_mut(..part.len()) {
                place.copy_from_slice(part);
            }
        };
        put(head);
        pieces.for_each(|piece| put(&piece));
        put(trailer);
        let sum = checksum(&pages[..len - size_of::<u64>()]);
        pages[len - size_of::<u64>()..].copy_from_slice(&sum.to_le_bytes());
        let pages = pages.make_read_only().map_err(|e| no_memory(len, e))?;
        Ok(Bytes::from_owner(pages))
    }
}

/// Memory of so many bytes for a set, of zeros, in pages of its own: large ones where the system has them.
///
/// # Errors
/// `Storage` when there is none.
pub(crate) fn pages(len: usize) -> Result<MmapMut> {
    let pages = MmapMut::map_anon(len).map_err(|e| no_memory(len, e))?;
    // Probes are scattered: with small pages most of them would miss the translation cache too. A system without
    // large ones refuses, and nothing is lost but time.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Ok(pages)
}

fn no_memory(len: usize, error: std::io::Error) -> Error {
    Error::new(crate::ErrorKind::Storage, format!("there is no memory for an ID set: bytes={len}"))
        .with_hint("give the process more memory, or fewer IDs")
        .with_source(error)
}
