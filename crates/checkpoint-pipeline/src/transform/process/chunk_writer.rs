//! From an encoder that blocks to a pipe that is written asynchronously.

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc::Sender;

/// Bytes that travel in one piece.
const CHUNK: usize = 256 << 10;

/// Gathers bytes into chunks and sends these, waiting while the receiver is behind. Use it on a blocking
/// thread. A receiver that is gone is a broken pipe.
#[derive(Debug)]
pub(super) struct ChunkWriter {
    buffer: BytesMut,
    chunks: Sender<Bytes>,
}

impl ChunkWriter {
    pub(super) fn new(chunks: Sender<Bytes>) -> Self {
        Self { buffer: BytesMut::new(), chunks }
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == CHUNK {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = self.buffer.split().freeze();
        self.chunks.blocking_send(chunk).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_arrive_in_order_and_a_lost_receiver_ends_the_writing() {
        let data: Vec<u8> = (0..1_000_003_u32).map(|i| (i % 251) as u8).collect();
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let sent = data.clone();
        let writer = tokio::task::spawn_blocking(move || {
            let mut writer = ChunkWriter::new(sender);
            sent.chunks(777).try_for_each(|part| writer.write_all(part))?;
            writer.flush()?;
            io::Result::Ok(writer)
        });
        let mut got = Vec::new();
        while got.len() < data.len() {
            let chunk = receiver.recv().await.expect("more comes");
            assert!(chunk.len() <= CHUNK);
            got.extend_from_slice(&chunk);
        }
        assert_eq!(got, data);
        let mut writer = writer.await.expect("runs").expect("writes");
        drop(receiver);
        let lost = tokio::task::spawn_blocking(move || writer.write_all(&vec![0; CHUNK])).await.expect("runs");
        assert_eq!(lost.expect_err("is lost").kind(), io::ErrorKind::BrokenPipe);
    }
}
