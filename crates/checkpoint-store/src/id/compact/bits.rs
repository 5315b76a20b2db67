//! Numbers of any width, packed without gaps, read from bytes that need no alignment.

/// The widest number: with up to 7 bits before it, it is within one load of 16 bytes, and within two of 8.
pub(super) const MAX_WIDTH: u8 = 112;

/// How many bits `value` takes; 0 for 0.
pub(super) const fn width(value: u128) -> u8 {
    (128 - value.leading_zeros()) as u8
}

/// A number of `width` ones.
#[inline(always)]
pub(super) const fn mask(width: u8) -> u128 {
    if width >= 128 { u128::MAX } else { (1 << width) - 1 }
}

/// The 8 bytes at `at`; zero beyond the end.
#[inline(always)]
pub(super) fn load64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// The 16 bytes at `at`; zero beyond the end.
#[inline(always)]
pub(super) fn load128(bytes: &[u8], at: usize) -> u128 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u128::from_le_bytes(*chunk))
}

/// The 4 bytes at `at`; zero beyond the end.
#[inline(always)]
pub(super) fn load32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// The 2 bytes at `at`; zero beyond the end.
#[inline(always)]
pub(super) fn load16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u16::from_le_bytes(*chunk))
}

/// The number of `width` bits that begins at this bit.
#[inline(always)]
pub(super) fn number(bytes: &[u8], bit: usize, width: u8) -> u128 {
    load128(bytes, bit >> 3) >> (bit & 7) & mask(width)
}

/// The number `index` of those of `width` bits that begin at the byte `start`.
#[inline(always)]
pub(super) fn packed(bytes: &[u8], start: usize, index: usize, width: u8) -> u128 {
    number(bytes, start * 8 + index * usize::from(width), width)
}

/// Packs numbers one behind the other, low bits first.
#[derive(Debug)]
pub(super) struct Packer<'a> {
    out: &'a mut Vec<u8>,
    pending: u128,
    bits: u32,
}

impl<'a> Packer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, pending: 0, bits: 0 }
    }

    /// Appends the low `width` bits of `value`, at most [`MAX_WIDTH`].
    pub(super) fn push(&mut self, value: u128, width: u8) {
        let low = width.min(64);
        self.push_word(value & mask(low), low);
        if width > 64 {
            self.push_word(value >> 64 & mask(width - 64), width - 64);
        }
    }

    fn push_word(&mut self, value: u128, width: u8) {
        self.pending |= value << self.bits;
        self.bits += u32::from(width);
        if self.bits >= 64 {
            self.out.extend_from_slice(&(self.pending as u64).to_le_bytes());
            self.pending >>= 64;
            self.bits -= 64;
        }
    }

    /// Fills the last byte with zeros.
    pub(super) fn finish(self) {
        let rest = self.bits.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..rest]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_comes_back_whatever_follows() {
        for bits in 0..=MAX_WIDTH {
            let values: Vec<u128> =
                (0..50u128).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) & mask(bits)).collect();
            let mut bytes = vec![0xAA];
            let mut packer = Packer::new(&mut bytes);
            values.iter().for_each(|v| packer.push(*v, bits));
            packer.finish();
            assert_eq!(bytes.len(), 1 + (50 * usize::from(bits)).div_ceil(8));
            bytes.extend([0xFF; 16]);
            let read: Vec<u128> = (0..50).map(|i| packed(&bytes, 1, i, bits)).collect();
            assert_eq!(read, values, "{bits}");
        }
    }

    #[test]
    fn beyond_the_end_there_are_zeros() {
        assert_eq!((load64(&[1; 7], 0), load128(&[1; 16], 1), load32(&[], 9), load16(&[1, 1], 1)), (0, 0, 0, 0));
        assert_eq!((width(0), width(1), width(255), width(u128::MAX)), (0, 1, 8, 128));
    }
}
