//! The services' side of request signatures, written from their descriptions alone: nothing here is shared
//! with the product, and what is signed is derived from what arrived.

mod oss4;
mod q_sign;
mod sigv4;
mod tc3;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::digest::hex;

pub(crate) use self::{oss4::verify_oss4, q_sign::verify_q_sign, sigv4::verify_sigv4, tc3::verify_tc3};

/// How far a client's clock may be off, in seconds.
const MAX_SKEW: i64 = 15 * 60;

#[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
fn hmac_sha256(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
fn hmac_sha1_hex(key: &[u8], text: &str) -> String {
    let mut mac = Hmac::<Sha1>::new_from_slice(key).expect("any length");
    mac.update(text.as_bytes());
    hex(&mac.finalize().into_bytes())
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn sha1_hex(text: &str) -> String {
    hex(&Sha1::digest(text.as_bytes()))
}

/// The value of `name=value` in a list of such pairs.
fn field<'t>(list: &'t str, separator: char, name: &str) -> Option<&'t str> {
    list.split(separator).find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}
