//! Batches as Arrow IPC streams: one complete stream to the child, one complete stream back.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::root_as_message;
use arrow::ipc::writer::StreamWriter;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::exchange::Early;
use super::worker::quote;
use crate::transform::{Batch, TransformError};

/// The schema metadata that carries the batch's key.
const KEY: &str = "ckpt.idempotency_key";
/// What every message begins with.
const MARK: [u8; 4] = [0xff; 4];
/// No message's header is longer than this.
const LONGEST_HEADER: u64 = 256 << 20;

/// Writes a batch as a stream of its own.
pub(super) fn encode(batch: &Batch, mut out: impl Write) -> Result<(), TransformError> {
    let schema = batch.records.schema();
    let mut metadata = schema.metadata().clone();
    metadata.insert(KEY.to_owned(), batch.idempotency_key.clone());
    let schema = Schema::new_with_metadata(schema.fields().clone(), metadata);
    let mut write = || {
        let mut writer = StreamWriter::try_new(&mut out, &schema)?;
        writer.write(&batch.records)?;
        writer.finish()
    };
    write().map_err(|e| TransformError::new(format!("cannot send a batch as Arrow: {e}")))?;
    out.flush().map_err(TransformError::from_error)
}

/// Reads one stream up to its end mark and with it, message by message. Memory grows with what arrives, never with what
/// a message claims to be.
pub(super) async fn read(input: &mut (impl AsyncRead + Unpin)) -> Result<Vec<Vec<u8>>, Early> {
    let mut messages = Vec::new();
    loop {
        let mut message = Vec::new();
        if take(input, 8, &mut message).await? < 8 {
            let at_start = messages.is_empty() && message.is_empty();
            return Err(Early::Ended { any: !at_start, progress: "before the end of its answer".to_owned() });
        }
        let length = match message[4..8].try_into().map(i32::from_le_bytes) {
            Ok(0) if message[..4] == MARK => {
                // The decoder needs the end mark too: without it, it holds back a message without a body.
                messages.push(message);
                return Ok(messages);
            }
            Ok(n) if message[..4] == MARK && n > 0 && n as u64 <= LONGEST_HEADER => n as u64,
            _ => return Err(broken(input, message).await),
        };
        let cut = Early::Ended { any: true, progress: "in the middle of a message".to_owned() };
        if take(input, length, &mut message).await? < length {
            return Err(cut);
        }
        let body = match root_as_message(&message[8..]).map(|header| u64::try_from(header.bodyLength())) {
            Ok(Ok(body)) => body,
            _ => return Err(broken(input, message).await),
        };
        if take(input, body, &mut message).await? < body {
            return Err(cut);
        }
        messages.push(message);
    }
}

async fn take(input: &mut (impl AsyncRead + Unpin), bytes: u64, into: &mut Vec<u8>) -> io::Result<u64> {
    into.reserve(bytes.min(1 << 20) as usize);
    Ok(input.take(bytes).read_to_end(into).await? as u64)
}

/// The error for what is no Arrow message, with as much of it as there is within a moment.
async fn broken(input: &mut (impl AsyncRead + Unpin), mut start: Vec<u8>) -> Early {
    let more = input.take(300);
    let _ = tokio::time::timeout(std::time::Duration::from_millis(200), async {
        tokio::pin!(more);
        while let Ok(1..) = more.read_buf(&mut start).await {}
    })
    .await;
    Early::Broken(format!("wrote what is no Arrow IPC stream: output={}", quote(&start)))
}

/// The batches of a stream that was read whole, on the bytes that were read.
pub(super) fn decode(messages: Vec<Vec<u8>>) -> Result<Vec<RecordBatch>, ArrowError> {
    let mut decoder = StreamDecoder::new();
    let mut batches = Vec::new();
    for message in messages {
        let mut bytes = Buffer::from_vec(message);
        while !bytes.is_empty() {
            if let Some(batch) = decoder.decode(&mut bytes)? {
                batches.push(without_key(batch)?);
            }
        }
    }
    if decoder.schema().is_none() {
        return Err(ArrowError::IpcError("the stream has no schema".to_owned()));
    }
    Ok(batches)
}

/// A child that passes our schema on passes our key on.
fn without_key(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    if !schema.metadata().contains_key(KEY) {
        return Ok(batch);
    }
    let mut metadata = schema.metadata().clone();
    metadata.remove(KEY);
    let schema = Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn stream() -> Vec<u8> {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = Batch::new(RecordBatch::try_from_iter([("id", ids)]).expect("valid"), "k");
        let mut bytes = Vec::new();
        encode(&batch, &mut bytes).expect("encodes");
        bytes
    }

    #[tokio::test]
    async fn a_stream_is_read_to_its_mark_and_no_further() {
        let two = [stream(), stream()].concat();
        let mut input = &two[..];
        for _ in 0..2 {
            let batches = decode(read(&mut input).await.expect("is whole")).expect("decodes");
            assert_eq!(batches[0].num_rows(), 1000);
            assert!(batches[0].schema_ref().metadata().is_empty());
        }
        assert!(input.is_empty());
    }

    #[tokio::test]
    async fn every_cut_is_an_early_end() {
        let whole = stream();
        for cut in 0..whole.len() {
            match read(&mut &whole[..cut]).await {
                Err(Early::Ended { any, .. }) => assert_eq!(any, cut > 0, "{cut}"),
                other => panic!("{cut}: {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn text_and_absurd_lengths_are_quoted_and_not_waited_for() {
        let mut absurd = vec![0xff; 4];
        absurd.extend_from_slice(&i32::MAX.to_le_bytes());
        for (bytes, shown) in [(b"Traceback (most recent call)".to_vec(), "Traceback (most"), (absurd, "\u{fffd}")] {
            match read(&mut &bytes[..]).await {
                Err(Early::Broken(what)) => assert!(what.contains(shown), "{what}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn damage_inside_is_an_error_and_never_a_panic() {
        let whole = stream();
        for at in 8..whole.len().min(700) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            if let Ok(messages) = read(&mut &bytes[..]).await {
                let _ = std::panic::catch_unwind(|| decode(messages).map(|b| b.len()));
            }
        }
    }
}
