//! A set in a file, used without reading it into memory.

#![allow(unsafe_code, reason = "mapping a file; the one call says what it relies on")]

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

use super::CompactIdSet;
use crate::error::{Error, ErrorKind, Result};

impl CompactIdSet {
    /// The set in a file, which is mapped and stays so while the set or a clone of it lives. It is read through once
    /// here, for the checksum; later its pages come and go as the system sees fit, shared by all processes.
    ///
    /// Nobody may write to the file or cut it meanwhile. Replacing it by a rename, or deleting it, is fine.
    ///
    /// # Errors
    /// `Storage` when it cannot be opened or mapped, `BadData` as [`CompactIdSet::from_bytes`].
    pub fn map_file(path: &Path) -> Result<Self> {
        let failed = |e: std::io::Error| {
            Error::new(ErrorKind::Storage, format!("an ID set cannot be mapped: file={}", path.display()))
                .with_source(e)
        };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: the bytes must not change while they are mapped. The contract above asks this of the caller; what
        // we write is written whole under another name and renamed, and never changed after that.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Self::from_bytes(Bytes::from_owner(map))
    }
}
