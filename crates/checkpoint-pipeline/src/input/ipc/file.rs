//! The file format: a footer that says where the record batches are.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, MetadataVersion, root_as_footer};

use super::super::decode::decode;
use super::super::fetch::FileFetch;
use super::super::sequential::SequentialRead;
use super::message;
use crate::error::Result;

const BLOCK: u64 = 4 << 20;
/// Record batches whose headers are read to count the rows of a file; more are not worth it.
const MOST_COUNTED: usize = 256;

/// The record batches of a file.
pub(super) struct FileBatches {
    source: SequentialRead,
    blocks: std::vec::IntoIter<Block>,
    decoder: FileDecoder,
    schema: SchemaRef,
}

impl FileBatches {
    /// Reads the footer and the dictionaries.
    pub(super) fn open(fetch: &Arc<FileFetch>) -> Result<Self> {
        let footer = decode(|| Footer::read(fetch)).map_err(|e| fetch.blame("damaged Arrow footer", &e, ""))?;
        let schema = Arc::new(footer.schema);
        let mut source = SequentialRead::new(fetch, BLOCK, true);
        let mut decoder = FileDecoder::new(Arc::clone(&schema), footer.version);
        for block in &footer.dictionaries {
            decode(|| read_block(&mut source, block).and_then(|bytes| decoder.read_dictionary(block, &bytes)))
                .map_err(|e| fetch.blame("damaged Arrow dictionary", &e, ""))?;
        }
        Ok(Self { source, blocks: footer.batches.into_iter(), decoder, schema })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next record batch, whole.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        for block in self.blocks.by_ref() {
            let bytes = read_block(&mut self.source, &block)?;
            if let Some(batch) = self.decoder.read_record_batch(&block, &bytes)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// Reads a message that the footer names. Its offsets and lengths are inside of the file.
fn read_block(source: &mut SequentialRead, block: &Block) -> Result<Buffer, ArrowError> {
    source.seek(SeekFrom::Start(block.offset() as u64))?;
    let (header, body) = (block.metaDataLength() as usize, block.bodyLength() as usize);
    let bytes = message::read_exactly(source, header + body)?;
    message::check(message::header(&bytes.as_slice()[..header]), body as u64)?;
    Ok(bytes.into())
}

struct Footer {
    schema: Schema,
    version: MetadataVersion,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl Footer {
    fn read(fetch: &Arc<FileFetch>) -> Result<Self, ArrowError> {
        let size = fetch.size();
        let mut source = SequentialRead::new(fetch, 64 << 10, false);
        let mut read_at = |from_end: u64, buffer: &mut [u8]| {
            let start = size.checked_sub(from_end).ok_or_else(|| std::io::Error::other("the file is too short"))?;
            source.seek(SeekFrom::Start(start))?;
            source.read_exact(buffer)
        };
        let mut end = [0; 10];
        read_at(10, &mut end)?;
        let length = read_footer_length(end)?;
        if length as u64 + 10 > size {
            return Err(ArrowError::ParseError(format!("it claims {length} bytes of a file of {size}")));
        }
        let mut bytes = vec![0; length];
        read_at(length as u64 + 10, &mut bytes)?;
        let footer = root_as_footer(&bytes).map_err(|e| ArrowError::ParseError(e.to_string()))?;
        let schema = footer.schema().ok_or_else(|| ArrowError::ParseError("it has no schema".to_owned()))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(ArrowError::IpcError("its byte order is not that of this machine".to_owned()));
        }
        let blocks = |blocks: Option<_>| -> Vec<Block> { blocks.into_iter().flatten().copied().collect() };
        let this = Self {
            schema: try_fb_to_schema(schema)?,
            version: footer.version(),
            dictionaries: blocks(footer.dictionaries()),
            batches: blocks(footer.recordBatches()),
        };
        if this.batches.iter().chain(&this.dictionaries).all(|block| is_inside(block, size)) {
            Ok(this)
        } else {
            Err(ArrowError::ParseError("it names a record batch outside of the file".to_owned()))
        }
    }
}

fn is_inside(block: &Block, size: u64) -> bool {
    let lengths = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
    let end = lengths.iter().try_fold(0u64, |end, length| end.checked_add(u64::try_from(*length).ok()?));
    end.is_some_and(|end| end <= size)
}

/// The number of rows of a file of at most 256 record batches, from their headers; `None` for others and
/// for streams.
///
/// # Errors
/// `BadData` for a damaged file; what reading meets.
pub(in crate::input) fn count_rows(fetch: &Arc<FileFetch>) -> Result<Option<u64>> {
    if !super::is_file(fetch)? {
        return Ok(None);
    }
    let footer = decode(|| Footer::read(fetch)).map_err(|e| fetch.blame("damaged Arrow footer", &e, ""))?;
    if footer.batches.len() > MOST_COUNTED {
        return Ok(None);
    }
    let mut rows = 0u64;
    for (index, block) in footer.batches.iter().enumerate() {
        let (offset, length) = (block.offset() as u64, block.metaDataLength() as u64);
        let bytes = fetch.read(offset..offset + length)?;
        let count = message::check(message::header(&bytes), block.bodyLength() as u64)
            .map(|message| message.header_as_record_batch().map_or(0, |batch| batch.length()))
            .map_err(|e| fetch.blame("damaged Arrow file", &e, &format!("record_batch={index}")))?;
        rows = rows.saturating_add(u64::try_from(count).unwrap_or(0));
    }
    Ok(Some(rows))
}
