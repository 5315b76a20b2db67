//! Streamed writes that publish nothing once a part of them was lost.

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::{StorageWriter, WriteOutcome};
use crate::transport::Call;

/// A writer whose `write` failed, or was dropped half way, may hold a part of those bytes. From then on it
/// can only be given up: what it would publish is not what the caller wrote.
#[derive(Debug)]
pub(crate) struct Unbroken<W> {
    writer: Box<W>,
    call: Call,
    is_broken: bool,
}

impl<W: StorageWriter> Unbroken<W> {
    /// Watches over a writer; the call names errors.
    pub(crate) fn new(writer: W, call: Call) -> Self {
        Self { writer: Box::new(writer), call, is_broken: false }
    }

    fn check(&self) -> Result<()> {
        if self.is_broken {
            let error = Error::new(ErrorKind::Io, "an earlier part of this write failed or was abandoned");
            return Err(self.call.named(error));
        }
        Ok(())
    }
}

#[async_trait]
impl<W: StorageWriter> StorageWriter for Unbroken<W> {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.check()?;
        // Stays so when this future is dropped.
        self.is_broken = true;
        self.writer.write(bytes).await?;
        self.is_broken = false;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        self.check()?;
        self.writer.finish().await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.writer.abort().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::storage::ObjectMeta;

    /// Fails, or never ends, when told to.
    #[derive(Debug)]
    struct Told(u64);

    #[async_trait]
    impl StorageWriter for Told {
        async fn write(&mut self, bytes: Bytes) -> Result<()> {
            match bytes.as_ref() {
                b"fail" => Err(Error::new(ErrorKind::Io, "told to fail")),
                b"hang" => std::future::pending().await,
                bytes => {
                    self.0 += bytes.len() as u64;
                    Ok(())
                }
            }
        }

        async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
            Ok(WriteOutcome::Done(ObjectMeta::new(self.0)))
        }

        async fn abort(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    fn writer() -> Box<Unbroken<Told>> {
        Box::new(Unbroken::new(Told(0), Call::new("write", "s3://bucket/key".to_owned(), None)))
    }

    #[tokio::test]
    async fn what_is_whole_is_published() {
        let mut writer = writer();
        for _ in 0..2 {
            writer.write("whole".into()).await.expect("written");
        }
        assert!(matches!(writer.finish().await, Ok(WriteOutcome::Done(meta)) if meta.size == 10));
    }

    #[tokio::test]
    async fn after_a_loss_nothing_is_published() {
        for lost in ["fail", "hang"] {
            let mut writer = writer();
            writer.write("whole".into()).await.expect("written");
            assert!(writer.write(lost.into()).now_or_never().is_none_or(|written| written.is_err()), "{lost}");
            let error = writer.write("more".into()).await.expect_err("broken");
            assert_eq!((error.kind(), error.url()), (ErrorKind::Io, "s3://bucket/key"), "{lost}");
            assert_eq!(writer.finish().await.expect_err("broken").kind(), ErrorKind::Io, "{lost}");
        }
    }

    #[tokio::test]
    async fn what_is_broken_can_be_given_up() {
        let mut writer = writer();
        writer.write("fail".into()).await.expect_err("failed");
        writer.abort().await.expect("given up");
    }
}
