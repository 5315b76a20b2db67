//! The checksum that the service keeps of every object, in the form that it is written in.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crc_fast::{CrcAlgorithm, Digest};

/// How many characters a checksum has when written.
pub(crate) const WIDTH: usize = 8;

/// A checksum that grows with the bytes.
pub(crate) struct Crc32c(Digest);

impl Crc32c {
    /// Of no bytes.
    pub(crate) fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Of all of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut crc = Self::new();
        crc.update(bytes);
        crc
    }

    /// Adds bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The base64 of its four bytes, the highest first.
    pub(crate) fn text(&self) -> String {
        let value = u32::try_from(self.0.finalize() & u64::from(u32::MAX)).unwrap_or_default();
        BASE64_STANDARD.encode(value.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // The check value of CRC-32C is 0xE3069283.
        assert_eq!(Crc32c::of(b"123456789").text(), BASE64_STANDARD.encode([0xE3, 0x06, 0x92, 0x83]));
        assert_eq!(Crc32c::of(b"").text(), "AAAAAA==");
        let mut parts = Crc32c::of(b"1234");
        parts.update(b"56789");
        assert_eq!(parts.text(), Crc32c::of(b"123456789").text());
        assert_eq!(parts.text().len(), WIDTH);
    }
}
