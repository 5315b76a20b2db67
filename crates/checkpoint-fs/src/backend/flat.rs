//! What a store without directories and without a rename says to those who ask for one.

use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::storage::WriteOutcome;
use crate::transport::Call;

/// A directory is there as soon as an object is in it.
///
/// # Errors
/// The guard's alone.
pub(crate) fn create_dir(call: &Call, guard: Option<&Guard>) -> Result<()> {
    Guard::check(guard).map_err(|e| call.named(e)).map(|_| ())
}

/// # Errors
/// Always: the guard's, or `Unsupported`.
pub(crate) fn rename(call: &Call, guard: Option<&Guard>) -> Result<WriteOutcome> {
    Guard::check(guard).map_err(|e| call.named(e))?;
    Err(call.named(
        Error::unsupported("this store has no atomic rename").with_hint("write the object under its final name"),
    ))
}
