//! Calls into decoders, whose assertions about damaged bytes must not end the process.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::panic::message;

/// Runs a step of a decoder. A panic in it is an error like the ones that it returns: the decoders check
/// most of what they read, but not all. The decoder is of no further use then, like after any error.
pub(super) fn decode<T, E: Display>(step: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(panic) => Err(format!("the decoder gave up, {}", message(panic.as_ref()).unwrap_or("without a reason"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_panics_are_errors() {
        assert_eq!(decode(|| Ok::<_, String>(1)), Ok(1));
        assert_eq!(decode(|| Err::<(), _>("broken")), Err("broken".to_owned()));
        let hostile = |length: usize| decode(move || Ok::<_, String>([0u8; 4][..length].len()));
        assert_eq!(hostile(2), Ok(2));
        assert!(hostile(5).is_err_and(|e| e.contains("range end index 5")));
    }
}
