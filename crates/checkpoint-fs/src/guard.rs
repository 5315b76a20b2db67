//! A guard over requests: nothing is sent once the right to send it may have run out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};

/// Asked before every attempt of a request; bounds how long that attempt may take.
///
/// A checkpoint's lease is the reason this exists: its owner must start no request, and no retry of one,
/// that could outlive the lease.
#[derive(Clone)]
pub struct Guard(Arc<dyn Fn() -> Result<Duration> + Send + Sync>);

impl Guard {
    /// A guard from a function that gives the time left, or the error that ends the call.
    pub fn new(remaining: impl Fn() -> Result<Duration> + Send + Sync + 'static) -> Self {
        Self(Arc::new(remaining))
    }

    /// The time that a request started now may take.
    ///
    /// # Errors
    /// What the guard's owner decides, usually [`Conflict`](crate::ErrorKind::Conflict).
    pub fn remaining(&self) -> Result<Duration> {
        (self.0)()
    }

    /// Checks an optional guard.
    ///
    /// # Errors
    /// As [`Guard::remaining`].
    pub fn check(guard: Option<&Guard>) -> Result<Option<Duration>, Error> {
        guard.map(Guard::remaining).transpose()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}
