//! Keys on local disk while a set is built: one file without a name, gone with the process whatever happens.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// The file that a builder spills to.
#[derive(Debug)]
pub(super) struct SpillFile {
    file: File,
    dir: PathBuf,
    end: AtomicU64,
}

/// A part of a spill file.
#[derive(Debug, Clone)]
pub(super) struct Spilled {
    file: Arc<SpillFile>,
    offset: u64,
    length: u32,
    checksum: u32,
}

impl SpillFile {
    /// A new file in a directory, which must be there.
    ///
    /// # Errors
    /// `InvalidConfig` when none can be made there.
    pub(super) fn create(dir: &Path) -> Result<Arc<Self>> {
        let file = tempfile::tempfile_in(dir).map_err(|e| {
            Error::invalid_config(format!("no file to spill IDs to can be made: {e}: dir={}", dir.display()))
                .with_hint("name a directory on a local disk that is there and may be written to")
                .with_source(e)
        })?;
        Ok(Arc::new(Self { file, dir: dir.to_owned(), end: AtomicU64::new(0) }))
    }

    /// Writes parts, each of the given length, and says where each is. May be called by many threads at once.
    ///
    /// # Errors
    /// `Storage`, when the disk is full for one.
    pub(super) fn append(self: &Arc<Self>, bytes: &[u8], lengths: impl Iterator<Item = usize>) -> Result<Vec<Spilled>> {
        let start = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(bytes, start).map_err(|e| self.failed("written", e))?;
        let mut at = 0;
        let place = |length: usize| {
            let checksum = crc32fast::hash(&bytes[at..at + length]);
            let place = Spilled { file: self.clone(), offset: start + at as u64, length: length as u32, checksum };
            at += length;
            place
        };
        Ok(lengths.map(place).collect())
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        Error::new(ErrorKind::Storage, format!("spilled IDs could not be {what}: {error}: dir={}", self.dir.display()))
            .with_hint("about ten bytes an ID must fit on that disk; free some of it, or name another directory")
            .with_source(error)
    }
}

impl Spilled {
    /// The bytes, checked.
    ///
    /// # Errors
    /// `Storage` when they cannot be read, or are not what was written.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.length as usize];
        self.file.file.read_exact_at(&mut bytes, self.offset).map_err(|e| self.file.failed("read back", e))?;
        if crc32fast::hash(&bytes) != self.checksum {
            return Err(self.file.failed("read back", std::io::Error::other("they have changed")));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spilled_comes_back_and_damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = SpillFile::create(dir.path()).unwrap();
        let parts: Vec<Vec<u8>> = (0..20).map(|i| (0..i).map(|b| b * 7 + i).collect()).collect();
        let places = file.append(&parts.concat(), parts.iter().map(Vec::len)).unwrap();
        let again = file.append(&parts.concat(), parts.iter().map(Vec::len)).unwrap();
        for (place, part) in places.iter().chain(&again).zip(parts.iter().chain(&parts)) {
            assert_eq!(&place.read().unwrap(), part);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it has no name");
        file.file.write_all_at(&[0xff], places[9].offset + 3).unwrap();
        assert_eq!(places[9].read().unwrap_err().kind(), ErrorKind::Storage);
        assert!(places[8].read().is_ok());
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = SpillFile::create(Path::new("/no/such/directory")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("/no/such/directory"));
    }
}
