//! Dictionaries too large for memory: their values lie in a temporary file.
//!
//! Some writers put all values of a row group into its dictionary before they look at its size, so that a
//! few dozen values of 20 MB become a dictionary page of a gigabyte.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::FileExt;

use super::column_bytes::ColumnBytes;
use crate::error;

/// The values of a dictionary page, in a file without a name.
#[derive(Debug)]
pub(super) struct StoredDictionary {
    file: File,
    /// Where each value ends; four bytes a value are all that stays in memory.
    ends: Vec<u32>,
}

impl StoredDictionary {
    /// Stores a page of `size` unpacked bytes.
    ///
    /// # Errors
    /// `InvalidData` for a damaged page. A temporary file that fails is kept as the fault of the file.
    pub(super) fn store(mut page: impl Read, values: u32, size: u64, bytes: &ColumnBytes) -> Result<Self> {
        let disk = |e: Error| {
            let text = format!("a large dictionary cannot be stored: dir={}", std::env::temp_dir().display());
            let hint = "make room there, or set TMPDIR to a directory that has it";
            bytes.keep_fault(error::Error::new(error::ErrorKind::Storage, &text).with_hint(hint).with_source(e));
            Error::other(text)
        };
        let mut file = BufWriter::with_capacity(1 << 20, tempfile::tempfile().map_err(disk)?);
        let mut ends = Vec::with_capacity((values as usize).min(1 << 20));
        let mut piece = vec![0; 64 << 10];
        let mut end = 0u32;
        for _ in 0..values {
            let mut length = [0; 4];
            page.read_exact(&mut length)?;
            let mut left = u32::from_le_bytes(length);
            end = end.checked_add(left).filter(|end| u64::from(*end) <= size).ok_or_else(too_long)?;
            while left > 0 {
                let count = piece.len().min(left as usize);
                page.read_exact(&mut piece[..count])?;
                file.write_all(&piece[..count]).map_err(disk)?;
                left -= count as u32;
            }
            ends.push(end);
        }
        let file = file.into_inner().map_err(|e| disk(e.into_error()))?;
        Ok(Self { file, ends })
    }

    /// The length of a value.
    ///
    /// # Errors
    /// `InvalidData` for an index that the dictionary does not have.
    pub(super) fn length(&self, index: u32) -> Result<usize> {
        self.range(index).map(|(start, end)| (end - start) as usize)
    }

    /// Reads a value into a buffer of its length.
    ///
    /// # Errors
    /// As [`StoredDictionary::length`], and what the disk meets.
    pub(super) fn read(&self, index: u32, value: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(value, u64::from(self.range(index)?.0))
    }

    fn range(&self, index: u32) -> Result<(u32, u32)> {
        let missing = || Error::new(ErrorKind::InvalidData, format!("index {index} is not in the dictionary"));
        let end = *self.ends.get(index as usize).ok_or_else(missing)?;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before as usize)).copied();
        Ok((start.unwrap_or(0), end))
    }
}

/// A length that its page cannot hold.
pub(super) fn too_long() -> Error {
    Error::new(ErrorKind::InvalidData, "a value is longer than its page")
}
