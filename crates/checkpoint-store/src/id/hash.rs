//! The keyed hash of IDs that are not integers.

use std::fmt;

use siphasher::sip128::SipHasher13;

/// How many leading bits of the 128-bit hash are a key.
///
/// Two different IDs have the same key with a chance of 2^-96. Ten billion IDs that are done, probed with ten
/// billion others, make 10^20 pairs: the chance that even one of these is taken for done is below
/// 10^20 / 2^96 < 1.3e-9.
pub(crate) const CUT_BITS: u8 = 96;

/// The secret of a set's hashes: random, so that nobody can choose IDs that collide. It is kept in the set; sets
/// that are to be merged are built with the same one.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct HashKey([u8; 16]);

impl HashKey {
    /// The key of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

/// Bytes to keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdHasher {
    hasher: SipHasher13,
    shift: u32,
}

impl IdHasher {
    /// Cuts the hash to its leading `bits`, 1 to 128.
    pub(super) fn new(key: HashKey, bits: u8) -> Self {
        Self { hasher: SipHasher13::new_with_key(&key.0), shift: 128 - u32::from(bits.clamp(1, 128)) }
    }

    #[inline]
    pub(super) fn key(&self, bytes: &[u8]) -> u128 {
        let hash = self.hasher.hash(bytes);
        (u128::from(hash.h1) << 64 | u128::from(hash.h2)) >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_keeps_the_leading_bits() {
        let key = HashKey::new(*b"0123456789abcdef");
        let whole = IdHasher::new(key, 128).key(b"an ID");
        assert_eq!(IdHasher::new(key, 96).key(b"an ID"), whole >> 32);
        assert_eq!(IdHasher::new(key, 20).key(b"an ID"), whole >> 108);
        assert_ne!(IdHasher::new(HashKey::default(), 128).key(b"an ID"), whole);
        assert!(!format!("{key:?}").contains("0123"), "a secret stays one");
    }
}
