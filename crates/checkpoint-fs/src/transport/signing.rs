//! What signatures are made of, whatever they are called.

use hmac::{Hmac, KeyInit, Mac};
#[cfg(any(feature = "oss", feature = "tclake"))]
use sha2::Digest;
use sha2::Sha256;

use super::dialect::unsigned;
use crate::error::Result;

/// HMAC-SHA256 of a text.
///
/// # Errors
/// None that a key could cause: it may have any length.
pub(crate) fn mac(key: &[u8], text: &str) -> Result<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(unsigned)?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().into())
}

/// SHA-256, in hexadecimal.
#[cfg(any(feature = "oss", feature = "tclake"))]
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal, lower case.
#[cfg(any(feature = "oss", feature = "tclake"))]
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}
