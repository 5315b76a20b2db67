//! Row hashes: generated IDs that name a row by its file and its position, bit for bit as Ray Data makes them.
//!
//! The seed of a file is the first eight bytes, little-endian, of the MD5 of its path without the scheme.
//! A row's key is the seed plus its position, wrapping; the hash is the key through the splitmix64
//! finalizer. That finalizer is a bijection, so [`unmix`] gives the key back, and the hashes of one file
//! become one dense range again.

use arrow::array::UInt64Array;
use md5::{Digest, Md5};

const MULTIPLY_1: u64 = 0xBF58_476D_1CE4_E5B9;
const MULTIPLY_2: u64 = 0x94D0_49BB_1331_11EB;
const INVERSE_1: u64 = inverse(MULTIPLY_1);
const INVERSE_2: u64 = inverse(MULTIPLY_2);

/// The seed of a file, from its path without the scheme (`bucket/key`, or `/abs/path`).
pub fn seed(path: &str) -> u64 {
    let digest = Md5::digest(path.as_bytes());
    digest.iter().take(8).rev().fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// The hash of the row at `position` (from 0) of the file with this seed.
pub fn hash(seed: u64, position: u64) -> u64 {
    mix(seed.wrapping_add(position))
}

/// The hashes of `len` rows from the position `start` on.
pub fn array(seed: u64, start: u64, len: usize) -> UInt64Array {
    let first = seed.wrapping_add(start);
    UInt64Array::from_iter_values((0..len as u64).map(|i| mix(first.wrapping_add(i))))
}

/// Undoes the mix: the seed plus the position, wrapping, that `hash` was made of.
pub fn unmix(hash: u64) -> u64 {
    let mut k = unshift(hash, 31);
    k = unshift(k.wrapping_mul(INVERSE_2), 27);
    unshift(k.wrapping_mul(INVERSE_1), 30)
}

fn mix(mut k: u64) -> u64 {
    k = (k ^ (k >> 30)).wrapping_mul(MULTIPLY_1);
    k = (k ^ (k >> 27)).wrapping_mul(MULTIPLY_2);
    k ^ (k >> 31)
}

/// Undoes `k ^= k >> bits`: each round makes another `bits` leading bits right.
fn unshift(mixed: u64, bits: u32) -> u64 {
    let mut k = mixed;
    let mut right = bits;
    while right < u64::BITS {
        k = mixed ^ (k >> bits);
        right += bits;
    }
    k
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration: right bits double each round.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut round = 0;
    while round < 6 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        round += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_hashes_of_ray_data() {
        let vectors: [(&str, &[u64]); 4] = [
            ("bucket/in/a.parquet", &[0xc7e6_8c7a_2ac2_adc7, 0x5de6_0987_b146_cf19, 0x20cb_692d_1243_f6d3]),
            ("/data/input/part-0.parquet", &[0xde3f_1ba9_3f83_99e6, 0xe8cb_7f07_95b6_be94, 0xe195_cea8_38fa_490e]),
            ("", &[0x1b39_0b6c_f205_8d36, 0x82a4_b3ed_06ee_e793]),
            ("数据/a.parquet", &[0xf0c1_2bf1_439e_74ad]),
        ];
        for (path, hashes) in vectors {
            let seed = seed(path);
            assert_eq!(array(seed, 0, hashes.len()).values(), hashes, "{path}");
            for (position, expected) in (0u64..).zip(hashes) {
                assert_eq!(hash(seed, position), *expected, "{path} {position}");
                assert_eq!(unmix(*expected), seed.wrapping_add(position), "{path} {position}");
            }
        }
    }

    #[test]
    fn positions_wrap_and_start_anywhere() {
        let seed = u64::MAX - 1;
        assert_eq!(array(seed, 0, 4).values()[2..], array(0, 0, 2).values()[..]);
        assert_eq!(array(seed, 1, 3).values(), &array(seed, 0, 4).values()[1..]);
        assert_eq!(array(seed, 7, 0).values().len(), 0);
    }

    #[test]
    fn unmixing_undoes_mixing() {
        let mut k = 1u64;
        for _ in 0..10_000 {
            k = k.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            assert_eq!(unmix(mix(k)), k);
        }
        for k in [0, 1, u64::MAX, 1 << 63] {
            assert_eq!(unmix(mix(k)), k);
        }
    }
}
