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

    /// Made by another implementation, which gives the published values of SipHash-2-4: sets that were saved must be
    /// read by every later version.
    #[test]
    fn the_hash_is_siphash_1_3_of_128_bits() {
        let key = HashKey::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        let bytes: Vec<u8> = (0..100).collect();
        let vectors: [(&[u8], u128); 5] = [
            (b"", 0xbea5_8827_b2bc_7ee7_0130_30dd),
            (b"a", 0xa84f_7c63_de37_3c08_678a_ae37),
            (b"01234567", 0xe195_3180_e86f_6ea1_bc2d_3acf),
            (b"123e4567-e89b-12d3-a456-426614174000", 0xe82b_36f9_3f06_a424_93a7_a130),
            (&bytes, 0xf6de_78e1_6cac_b5f5_39b9_5641),
        ];
        for (id, hash) in vectors {
            assert_eq!(IdHasher::new(key, CUT_BITS).key(id), hash, "{}", id.escape_ascii());
        }
    }

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
