//! How a check ended, and what to do about it.

use std::time::Duration;

use checkpoint_fs::{Error, ErrorKind, Retry};

/// What a check has found.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It holds; what there is to say.
    Holds(String),
    /// It does not matter here, and why.
    NotHere(String),
    /// It holds, and something should be looked at.
    Noted(String, &'static str),
    /// It does not hold: what was seen, and what to do.
    Fails(String, String),
}

/// What a check that went wrong has seen.
#[derive(Debug)]
pub(super) struct Wrong {
    what: String,
    advice: String,
    /// Whether the store was not reached, or fell silent.
    pub(super) unreached: bool,
}

impl Wrong {
    pub(super) fn new(what: impl Into<String>, advice: &str) -> Self {
        Self { what: what.into(), advice: advice.to_owned(), unreached: false }
    }

    /// Nothing came of it in this time.
    pub(super) fn silence(limit: Duration) -> Self {
        let what = format!("nothing came of it in {} seconds", limit.as_secs());
        Self { unreached: true, ..Self::new(what, advice_for(ErrorKind::Timeout)) }
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        let advice = error.hint().map_or_else(|| advice_for(error.kind()).to_owned(), str::to_owned);
        Self { what: error.to_string(), advice, unreached: is_unreached(&error) }
    }
}

/// Whether a failure, after all attempts, holds nothing that the store itself has said: no connection, no answer, a
/// gateway or a stranger in its place.
fn is_unreached(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Io)
        && error.retry() == Retry::Exhausted
        && error.service_code().is_none()
        && error.request_id().is_none()
}

impl From<Wrong> for Verdict {
    fn from(wrong: Wrong) -> Self {
        Verdict::Fails(wrong.what, wrong.advice)
    }
}

fn advice_for(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "check the bucket's name, the region and the endpoint",
        ErrorKind::PermissionDenied => "let these credentials read, write, list and delete below this URL",
        ErrorKind::Unauthenticated => "check the key, the secret, the token, and this machine's clock",
        ErrorKind::Timeout | ErrorKind::Io => "check the endpoint, the network and proxy variables",
        ErrorKind::RateLimited => "the service is limiting requests: try later, or with fewer at once",
        _ => "see the message, and docs/backends.md for what this backend can do",
    }
}

/// How a check ended.
pub(super) type Checked = Result<Verdict, Wrong>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_says_something_was_reached() {
        let after_all = |kind| Error::new(kind, "no").with_retry(Retry::Exhausted);
        for kind in [ErrorKind::Timeout, ErrorKind::Io] {
            assert!(Wrong::from(after_all(kind)).unreached, "{kind}");
            assert!(!Wrong::from(after_all(kind).with_service_code("InternalError")).unreached, "{kind}");
            assert!(!Wrong::from(after_all(kind).with_request_id("R1")).unreached, "{kind}");
            assert!(!Wrong::from(Error::new(kind, "no").with_retry(Retry::Maybe)).unreached, "{kind}");
        }
        for kind in [ErrorKind::PermissionDenied, ErrorKind::NotFound, ErrorKind::RateLimited] {
            assert!(!Wrong::from(after_all(kind)).unreached, "{kind}");
        }
    }
}
