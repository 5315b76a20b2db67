//! Memory of Python objects, used where it lies.

#![expect(unsafe_code, reason = "Python's buffers are pointers; each use says what it relies on")]

use std::slice;

use bytes::Bytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A read-only buffer, held for as long as its bytes are in use.
struct Held(PyUntypedBuffer);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: Python keeps a buffer of so many bytes at this place until it is released, which this value's
            // end does, and its owner says that it is read-only: it was checked, as was that it is of one piece.
            bytes => unsafe { slice::from_raw_parts(self.0.buf_ptr().cast::<u8>().cast_const(), bytes) },
        }
    }
}

/// The bytes of an object with the buffer protocol. Where they are read-only they stay where they are, and keep the
/// object alive; what Python may write to is copied.
///
/// # Errors
/// `TypeError` for an object without buffer; `ValueError` for a buffer that is not of one piece.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("the buffer is not of one piece"));
    }
    if buffer.readonly() {
        return Ok(Bytes::from_owner(Held(buffer)));
    }
    // Held through the copy, like any other call that reads a buffer with the interpreter's lock.
    Ok(Bytes::copy_from_slice(Held(buffer).as_ref()))
}
