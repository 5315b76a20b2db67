//! Where encoded bytes wait for publication: memory first, an unlinked temporary file beyond a limit.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::error::{Error, ErrorKind};

/// Bytes after which the buffer gets all the room that it may take. Growing by and by would copy it over and
/// over, through memory that the system has to clear each time; room that is not used is never touched.
const SMALL: usize = 256 << 10;
/// The most room that it gets so; beyond it the buffer doubles.
const ROOM: usize = 32 << 20;
/// Bytes gathered before they go to the temporary file in one call.
const FILE_BUFFER: usize = 1 << 20;

/// A sink for encoded bytes. Clones share it, so that an encoder that swallows its writer leaves a handle.
#[derive(Debug, Clone)]
pub(super) struct Spool(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// All bytes while there is no file; afterwards those that the file has not got yet.
    buffer: Vec<u8>,
    limit: usize,
    dir: PathBuf,
    file: Option<File>,
    bytes: u64,
    failure: Option<String>,
}

/// What a finished spool holds.
#[derive(Debug)]
pub(super) enum Spooled {
    /// Everything, in memory.
    Memory(Bytes),
    /// Everything, in a file without a name.
    File(File),
}

impl Spool {
    pub(super) fn new(limit: usize, dir: Option<PathBuf>) -> Self {
        Self::with_file(limit, dir, None)
    }

    fn with_file(limit: usize, dir: Option<PathBuf>, file: Option<File>) -> Self {
        let dir = dir.unwrap_or_else(std::env::temp_dir);
        Self(Arc::new(Mutex::new(State { buffer: Vec::new(), limit, dir, file, bytes: 0, failure: None })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    /// Bytes held in memory.
    pub(super) fn memory(&self) -> usize {
        self.state().buffer.capacity()
    }

    /// The error of a failed write, whatever the encoder above made of it.
    pub(super) fn failure(&self) -> Option<Error> {
        let state = self.state();
        let reason = state.failure.as_ref()?;
        Some(
            Error::new(
                ErrorKind::Storage,
                format!("cannot write temporary data: {reason}, dir={}", state.dir.display()),
            )
            .with_hint(
                "free space there, or set TMPDIR to a directory with room for the output of the tasks in flight",
            ),
        )
    }

    /// Ends the writing. Later writes through clones go nowhere.
    pub(super) fn finish(&self) -> io::Result<Spooled> {
        let mut state = self.state();
        state.flush_to_file()?;
        let buffer = std::mem::take(&mut state.buffer);
        Ok(match state.file.take() {
            Some(file) => Spooled::File(file),
            None => Spooled::Memory(buffer.into()),
        })
    }
}

impl State {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.buffer.len() + bytes.len() > self.limit {
            self.file = Some(tempfile::tempfile_in(&self.dir)?);
            self.flush_to_file()?;
            self.buffer = Vec::new();
        }
        if self.file.is_some() && self.buffer.len() + bytes.len() > FILE_BUFFER {
            self.flush_to_file()?;
        }
        match &mut self.file {
            Some(file) if bytes.len() > FILE_BUFFER => file.write_all(bytes)?,
            file => {
                let most = if file.is_some() { FILE_BUFFER } else { self.limit };
                let needed = self.buffer.len() + bytes.len();
                if (SMALL..=ROOM).contains(&needed) && needed > self.buffer.capacity() {
                    self.buffer.reserve_exact(most.clamp(needed, ROOM) - self.buffer.len());
                }
                self.buffer.extend_from_slice(bytes);
            }
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn flush_to_file(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            let result = file.write_all(&self.buffer);
            self.buffer.clear();
            if let Err(error) = result {
                self.failure = Some(error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        if let Err(error) = state.append(bytes) {
            state.failure = Some(error.to_string());
            return Err(error);
        }
        Ok(bytes.len())
    }

    /// Nothing: what is buffered is not lost, and a file is only read after [`Spool::finish`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    fn read_back(spool: &Spool) -> (bool, Vec<u8>) {
        match spool.finish().expect("finishes") {
            Spooled::Memory(bytes) => (true, bytes.to_vec()),
            Spooled::File(mut file) => {
                let mut all = Vec::new();
                file.rewind().expect("rewinds");
                file.read_to_end(&mut all).expect("reads");
                (false, all)
            }
        }
    }

    #[test]
    fn stays_in_memory_up_to_the_limit_and_moves_to_a_file_beyond() {
        for (size, in_memory) in [(0, true), (100, true), (101, false), (3 << 20, false)] {
            for piece in [1, 7, 64, 2 << 20] {
                if size > 1000 && piece < 64 {
                    continue;
                }
                let data: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
                let mut spool = Spool::new(100, None);
                for part in data.chunks(piece) {
                    spool.write_all(part).expect("writes");
                }
                assert_eq!(spool.bytes(), size as u64);
                assert!(spool.memory() <= 2 * FILE_BUFFER, "{}", spool.memory());
                assert_eq!(read_back(&spool), (in_memory, data), "size={size} piece={piece}");
            }
        }
    }

    #[test]
    fn a_full_disk_and_a_missing_directory_name_the_directory_and_tmpdir() {
        let full = File::options().write(true).open("/dev/full").expect("linux has it");
        let mut spool = Spool::with_file(0, Some("/some/dir".into()), Some(full));
        spool.write_all(&vec![0; FILE_BUFFER + 1]).expect_err("is full");
        let error = spool.failure().expect("was noted");
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains("No space left") && error.to_string().contains("/some/dir"), "{error}");
        assert!(error.hint().expect("has one").contains("TMPDIR"));

        let full = File::options().write(true).open("/dev/full").expect("linux has it");
        let mut spool = Spool::with_file(0, None, Some(full));
        spool.write_all(b"only the last flush fails").expect("is buffered");
        spool.finish().expect_err("is full");
        assert!(spool.failure().is_some());

        let mut spool = Spool::new(1, Some("/nonexistent-dir".into()));
        spool.write_all(b"xy").expect_err("has no directory");
        assert!(spool.failure().expect("was noted").to_string().contains("/nonexistent-dir"));
    }
}
