//! CRC-32C, by a table: no code in common with the product.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The reversed polynomial of Castagnoli.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// The checksum of bytes as the service writes it: base64 of four bytes, the highest first.
pub(crate) fn crc32c(bytes: &[u8]) -> String {
    let step = |crc: u32, byte: &u8| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ crc >> 8;
    BASE64_STANDARD.encode((!bytes.iter().fold(u32::MAX, step)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value() {
        assert_eq!(crc32c(b"123456789"), BASE64_STANDARD.encode([0xe3, 0x06, 0x92, 0x83]));
        assert_eq!(crc32c(b""), "AAAAAA==");
    }
}
