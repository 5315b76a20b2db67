//! The stream format: messages one after the other.

use std::io::BufReader;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;

use super::super::decode::decode;
use super::super::fetch::FileFetch;
use super::super::sequential::SequentialRead;
use super::message::{self, read_message};
use crate::error::Result;

const BLOCK: u64 = 4 << 20;

/// The record batches of a stream.
pub(super) struct StreamBatches {
    source: BufReader<SequentialRead>,
    /// Bytes of the file that were not read yet.
    left: u64,
    decoder: StreamDecoder,
    schema: SchemaRef,
}

impl StreamBatches {
    /// Reads the schema.
    pub(super) fn open(fetch: &Arc<FileFetch>) -> Result<Self> {
        let mut source = BufReader::new(SequentialRead::new(fetch, BLOCK, true));
        let mut left = fetch.size();
        let mut decoder = StreamDecoder::new();
        let schema = decode(|| read_schema(&mut source, &mut left, &mut decoder))
            .map_err(|e| fetch.blame("neither an Arrow file nor a stream", &e, ""))?;
        Ok(Self { source, left, decoder, schema })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next record batch, whole.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while let Some(mut bytes) = read_message(&mut self.source, &mut self.left)? {
            if let Some(batch) = self.decoder.decode(&mut bytes)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

fn read_schema(
    source: &mut BufReader<SequentialRead>,
    left: &mut u64,
    decoder: &mut StreamDecoder,
) -> Result<SchemaRef, ArrowError> {
    let missing = || ArrowError::ParseError("it does not begin with a schema".to_owned());
    let mut bytes = read_message(source, left)?.ok_or_else(missing)?;
    let whole = bytes.clone();
    let message = message::check(message::header(&whole), 0)?;
    let schema = message.header_as_schema().ok_or_else(missing)?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err(ArrowError::IpcError("its byte order is not that of this machine".to_owned()));
    }
    let schema = arrow::ipc::convert::try_fb_to_schema(schema)?;
    decoder.decode(&mut bytes)?;
    Ok(Arc::new(schema))
}
