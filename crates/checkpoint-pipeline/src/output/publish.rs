//! A finished file and its way to a storage.

use std::fs::File;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use checkpoint_fs::{ObjectPath, StorageRef, StorageWriter, WriteOptions, WriteOutcome};

use super::spool::Spooled;
use crate::error::{Error, ErrorKind, Result};

/// How much of a file on disk is read and handed on at once.
const PIECE: u64 = 8 << 20;
/// What a [streamed write](StorageWriter) holds of a long file at most.
const STREAMED: u64 = 48 << 20;

/// The bytes of one finished file, in memory or in a temporary file that no crash leaves behind.
#[derive(Debug)]
#[must_use = "nothing is written before it is published"]
pub struct EncodedFile {
    rows: u64,
    bytes: u64,
    content: Spooled,
}

impl EncodedFile {
    pub(super) fn new(rows: u64, bytes: u64, content: Spooled) -> Self {
        Self { rows, bytes, content }
    }

    /// Rows in the file.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether its bytes are in memory.
    pub fn in_memory(&self) -> bool {
        matches!(self.content, Spooled::Memory(_))
    }

    /// Bytes of memory that it holds, or will while it is published.
    pub(crate) fn memory(&self) -> u64 {
        match self.content {
            Spooled::Memory(_) => self.bytes,
            Spooled::File(_) => self.bytes.min(STREAMED),
        }
    }

    /// Writes the file under `path`, whole or not at all: one [`write`](checkpoint_fs::Storage::write) from
    /// memory, a streamed one with 48 MiB in memory at most from disk. Dropping the future leaves nothing visible that
    /// the storage had not published already.
    ///
    /// # Errors
    /// What the storage reports, after the streamed write was aborted; `Storage` when the temporary file
    /// cannot be read back. An outcome that nobody knows is no error: see [`WriteOutcome`].
    pub async fn publish(self, storage: &StorageRef, path: &ObjectPath, options: WriteOptions) -> Result<WriteOutcome> {
        let file = match self.content {
            Spooled::Memory(bytes) => return Ok(storage.write(path, bytes, options).await?),
            Spooled::File(file) => file,
        };
        let mut writer = storage.writer(path, options).await?;
        match stream(file, self.bytes, writer.as_mut()).await {
            Ok(()) => Ok(writer.finish().await?),
            Err(error) => {
                if let Err(abort) = writer.abort().await {
                    tracing::warn!(error = %abort, "could not clean up after a failed write");
                }
                Err(error)
            }
        }
    }
}

async fn stream(mut file: File, bytes: u64, writer: &mut dyn StorageWriter) -> Result<()> {
    let mut offset = 0;
    while offset < bytes {
        let size = PIECE.min(bytes - offset);
        let piece;
        (file, piece) = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; size as usize];
            file.read_exact_at(&mut piece, offset).map(|()| (file, Bytes::from(piece)))
        })
        .await
        .map_err(std::io::Error::from)
        .flatten()
        .map_err(|e| Error::new(ErrorKind::Storage, format!("cannot read temporary data back: {e}")).with_source(e))?;
        writer.write(piece).await?;
        offset += size;
    }
    Ok(())
}
