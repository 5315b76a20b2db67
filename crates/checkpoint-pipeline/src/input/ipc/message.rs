//! Messages of Arrow IPC, checked before they are decoded: the decoder takes lengths and offsets for granted.

use std::io::Read;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::error::ArrowError;
use arrow::ipc::{Message, RecordBatch, root_as_message};

/// The marker that precedes the length of a header.
const MARKER: [u8; 4] = [0xff; 4];

/// The header of a message without its marker and length.
pub(super) fn header(bytes: &[u8]) -> &[u8] {
    let prefix = if bytes.starts_with(&MARKER) { 8 } else { 4 };
    bytes.get(prefix..).unwrap_or_default()
}

/// Parses a header, and checks every buffer that it names against the length of the body.
pub(super) fn check(header: &[u8], body: u64) -> Result<Message<'_>, ArrowError> {
    let message = root_as_message(header).map_err(|e| ArrowError::ParseError(format!("a broken header, {e}")))?;
    let claimed = u64::try_from(message.bodyLength()).ok();
    if claimed.is_none_or(|claimed| claimed > body) {
        return Err(ArrowError::ParseError(format!("it claims {} bytes of {body}", message.bodyLength())));
    }
    let dictionary = message.header_as_dictionary_batch().and_then(|d| d.data());
    match message.header_as_record_batch().or(dictionary) {
        Some(batch) if !fits(&batch, body) => {
            Err(ArrowError::ParseError("a buffer lies outside of its message".to_owned()))
        }
        _ => Ok(message),
    }
}

fn fits(batch: &RecordBatch<'_>, body: u64) -> bool {
    let inside = |offset: i64, length: i64| {
        let parts = u64::try_from(offset).ok().zip(u64::try_from(length).ok());
        parts.and_then(|(offset, length)| offset.checked_add(length)).is_some_and(|end| end <= body)
    };
    let buffers = batch.buffers().into_iter().flatten().all(|b| inside(b.offset(), b.length()));
    let nodes = batch.nodes().into_iter().flatten().all(|n| n.length() >= 0 && n.null_count() >= 0);
    buffers && nodes && batch.length() >= 0
}

/// Reads exactly this many bytes into aligned memory.
pub(super) fn read_exactly(source: &mut impl Read, length: usize) -> Result<MutableBuffer, ArrowError> {
    let mut buffer = MutableBuffer::try_from_len_zeroed(length).map_err(|e| ArrowError::MemoryError(e.to_string()))?;
    source.read_exact(&mut buffer)?;
    Ok(buffer)
}

/// The next message of a stream, whole: marker, length, header and body. `None` at the end. `left` is what
/// the file holds from here on, so that no damaged length can ask for more.
pub(super) fn read_message(source: &mut impl Read, left: &mut u64) -> Result<Option<Buffer>, ArrowError> {
    if *left == 0 {
        return Ok(None);
    }
    let mut prefix = read_exactly(source, take(left, 4)?)?;
    if prefix.as_slice() == MARKER {
        prefix.extend_from_slice(&read_exactly(source, take(left, 4)?)?);
    }
    let length = prefix.as_slice().last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if length == 0 {
        return Ok(None);
    }
    let header = read_exactly(source, take(left, u64::from(length))?)?;
    let claimed = root_as_message(&header).map_err(|e| ArrowError::ParseError(format!("a broken header, {e}")))?;
    let body = take(left, u64::try_from(claimed.bodyLength()).unwrap_or(u64::MAX))?;
    check(&header, body as u64)?;
    let mut whole = MutableBuffer::new(prefix.len() + header.len() + body);
    whole.extend_from_slice(&prefix);
    whole.extend_from_slice(&header);
    let start = whole.len();
    whole.resize(start + body, 0);
    source.read_exact(&mut whole.as_slice_mut()[start..])?;
    Ok(Some(whole.into()))
}

/// Takes bytes off what is left of the file.
fn take(left: &mut u64, count: u64) -> Result<usize, ArrowError> {
    let cut = || ArrowError::ParseError("the stream ends within a message".to_owned());
    *left = left.checked_sub(count).ok_or_else(cut)?;
    usize::try_from(count).map_err(|_| cut())
}
