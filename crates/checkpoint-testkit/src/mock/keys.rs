//! The keys that a mock service knows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Who signs: a secret, and what it is good for.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) secret: String,
    /// Temporary keys come with a token.
    pub(crate) token: Option<String>,
    /// Seconds since 1970.
    pub(crate) expires_at: Option<i64>,
    /// What the keys may touch; everything, where there is none.
    pub(crate) scope: Option<Scope>,
}

/// A part of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) bucket: String,
    /// Ends with a slash.
    pub(crate) prefix: String,
}

impl Scope {
    pub(crate) fn holds(&self, bucket: &str, key: &str) -> bool {
        self.bucket == bucket && key.starts_with(&self.prefix)
    }
}

/// Keys by their ID.
#[derive(Default)]
pub(crate) struct KeyRing(Mutex<HashMap<String, Identity>>);

impl KeyRing {
    pub(crate) fn add(&self, id: impl Into<String>, identity: Identity) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.into(), identity);
    }

    pub(crate) fn get(&self, id: &str) -> Option<Identity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Lets all temporary keys end at a moment, in seconds since 1970.
    pub(crate) fn expire_temporary(&self, at: i64) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.values_mut().filter(|k| k.token.is_some()).for_each(|k| k.expires_at = Some(at));
    }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyRing")
    }
}
