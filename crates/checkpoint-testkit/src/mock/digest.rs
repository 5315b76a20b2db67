//! Digests of bodies: MD5 as headers and entity tags carry it, and the vendors' CRC-64.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest, Md5};

use super::refusal::Refusal;
use super::request::Arrived;

/// The reversed polynomial of ECMA-182, as both vendors use it.
const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

/// Checks a `Content-MD5` against the body that came with it.
///
/// # Errors
/// `InvalidDigest` for what is no digest, `BadDigest` for another body's.
pub(crate) fn check_content_md5(request: &Arrived) -> Result<(), Refusal> {
    let Some(given) = request.header("content-md5") else { return Ok(()) };
    match BASE64_STANDARD.decode(given) {
        Ok(bytes) if bytes.len() == 16 => {
            let found: [u8; 16] = Md5::digest(&request.body).into();
            if bytes == found {
                return Ok(());
            }
            let message = "The Content-MD5 you specified did not match what we received.";
            Err(Refusal::new(400, "BadDigest", message))
        }
        _ => Err(Refusal::new(400, "InvalidDigest", "The Content-MD5 you specified is not valid.")),
    }
}

/// The MD5 of some bytes.
pub(crate) fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).map(char::from).collect()
}

/// The CRC-64 of some bytes.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    const TABLE: [u64; 256] = table();
    !bytes.iter().fold(!0, |crc: u64, byte| TABLE[usize::from((crc as u8) ^ byte)] ^ (crc >> 8))
}

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values() {
        // The check value of CRC-64/XZ.
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
