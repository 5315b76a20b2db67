//! Service accounts: a signed statement, exchanged for a token.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::json;

use super::key::ServiceAccount;
use crate::error::{Error, ErrorKind, Result};

/// How long a statement holds, which is the most that is accepted.
const VALID_SECONDS: u64 = 3600;

/// A private key. Equal to itself and its clones alone.
#[derive(Clone)]
pub(super) struct SigningKey(Arc<RsaKeyPair>);

impl SigningKey {
    /// Reads an RSA key in PEM: PKCS#8, as Google writes them, or PKCS#1.
    pub(super) fn from_pem(text: &str) -> Result<Self, String> {
        let wrong = || "has a private_key that is no RSA key in PEM".to_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let [first, inside @ .., last] = lines.as_slice() else { return Err(wrong()) };
        let label = first.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")).ok_or_else(wrong)?;
        if *last != format!("-----END {label}-----") {
            return Err(wrong());
        }
        let der = BASE64_STANDARD.decode(inside.concat()).map_err(|_| wrong())?;
        let pair = match label {
            "PRIVATE KEY" => RsaKeyPair::from_pkcs8(&der),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&der),
            _ => return Err(wrong()),
        };
        Ok(Self(Arc::new(pair.map_err(|_| wrong())?)))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
            .map_err(|_| Error::new(ErrorKind::InvalidConfig, "the service account's key cannot sign"))?;
        Ok(signature)
    }
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl ServiceAccount {
    /// The statement that this account wants a token of a scope.
    pub(super) fn statement(&self, scope: &str, now: SystemTime) -> Result<String> {
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.key_id {
            header["kid"] = json!(id);
        }
        let claims = json!({
            "iss": self.email,
            "scope": scope,
            "aud": self.token_url,
            "iat": seconds,
            "exp": seconds + VALID_SECONDS,
        });
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let unsigned = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let signature = self.key.sign(unsigned.as_bytes())?;
        Ok(format!("{unsigned}.{}", encode(&signature)))
    }
}
