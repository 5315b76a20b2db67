//! What a test holds of a mock: its buckets, its keys, its clock, its faults, and what arrived.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::answer::Answer;
use super::clock::MockClock;
use super::keys::{Identity, KeyRing, Scope};
use super::objects::Objects;
use super::request::Arrived;
use super::store::Versioning;
use super::trouble::Trouble;

/// Requests that the log remembers.
const REMEMBERED: usize = 10_000;

/// A request that arrived, without its body, and how it was answered.
#[derive(Debug, Clone)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The `Host` header.
    pub host: String,
    /// The path, still encoded.
    pub path: String,
    /// The query, still encoded.
    pub query: String,
    /// Headers in the order of arrival, names in lower case.
    pub headers: Vec<(String, String)>,
    /// How long the body was.
    pub bytes: usize,
    /// The status of the answer.
    pub status: u16,
    /// The service's code, where it refused; else empty.
    pub code: &'static str,
}

impl Received {
    /// The first header of a name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A mock as a test controls it. Every method can be called while clients are at work.
#[derive(Debug, Default)]
pub struct Controls {
    pub(crate) objects: Objects,
    pub(crate) keys: KeyRing,
    pub(crate) clock: MockClock,
    log: Mutex<VecDeque<Received>>,
    number: AtomicU64,
}

impl Controls {
    /// Controls of a service that knows one permanent key.
    pub(crate) fn with_key(id: &str, secret: &str) -> Self {
        let controls = Self::default();
        controls.keys.add(id, Identity { secret: secret.to_owned(), token: None, expires_at: None, scope: None });
        controls
    }

    /// A number that was not given before.
    pub(crate) fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn remember(&self, request: &Arrived, answer: &Answer) {
        let Arrived { method, host, path, query, headers, body } = request.clone();
        let (status, code) = (answer.status, answer.code);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == REMEMBERED {
            log.pop_front();
        }
        log.push_back(Received { method, host, path, query, headers, bytes: body.len(), status, code });
    }

    /// Makes a bucket, unless it is there. For COS its name must end in `-` and an account's number.
    pub fn create_bucket(&self, name: &str) {
        self.objects.create_bucket(name);
    }

    /// Removes a bucket with all that is in it.
    pub fn remove_bucket(&self, name: &str) {
        self.objects.remove_bucket(name);
    }

    /// Makes a bucket with a name that no other test has, and that both vendors allow.
    pub fn new_bucket(&self) -> String {
        let name = format!("test-{}-1250000000", self.next_number());
        self.create_bucket(&name);
        name
    }

    /// The keys of a bucket, and how many uploads are not finished.
    pub fn names(&self, bucket: &str) -> (Vec<String>, usize) {
        self.objects.names(bucket)
    }

    /// What arrived, oldest first; the last ten thousand.
    pub fn requests(&self) -> Vec<Received> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Forgets what arrived.
    pub fn forget_requests(&self) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sets whether a bucket has versions, or had.
    pub fn set_versioning(&self, bucket: &str, versioning: Versioning) {
        self.objects.set_versioning(bucket, versioning);
    }

    /// The next requests for buckets and objects get into trouble.
    pub fn trouble_next(&self, trouble: Trouble, times: usize) {
        self.objects.troubles.plan(trouble, times);
    }

    /// The next copies and completions have no effect and say so inside of a success.
    pub fn fail_inside_next(&self, times: u32) {
        self.objects.troubles.plan_errors_inside(times);
    }

    /// The next deletes of a key in a request for many fail with a code.
    pub fn keep_key(&self, key: &str, code: &'static str, times: u32) {
        self.objects.troubles.plan_kept_key(key, code, times);
    }

    /// Sets the service's clock ahead of this machine's; a negative number, behind.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.clock.set_ahead(seconds);
    }

    /// Adds temporary keys, good for `seconds` from now.
    pub fn add_temporary_key(&self, id: &str, secret: &str, token: &str, seconds: i64) {
        let (secret, token) = (secret.to_owned(), Some(token.to_owned()));
        let expires_at = Some(self.clock.seconds() + seconds);
        self.keys.add(id, Identity { secret, token, expires_at, scope: None });
    }

    /// Adds a permanent key for the keys of a bucket below a prefix, which ends with a slash. It may touch
    /// nothing else, and ask nothing about the bucket.
    pub fn add_confined_key(&self, id: &str, secret: &str, bucket: &str, prefix: &str) {
        let scope = Some(Scope { bucket: bucket.to_owned(), prefix: prefix.to_owned() });
        self.keys.add(id, Identity { secret: secret.to_owned(), token: None, expires_at: None, scope });
    }

    /// Lets all temporary keys end now.
    pub fn expire_temporary_keys(&self) {
        self.keys.expire_temporary(self.clock.seconds());
    }
}
