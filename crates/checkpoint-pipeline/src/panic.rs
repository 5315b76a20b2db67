//! What a panic says.

use std::any::Any;

/// The words that a panic was raised with, where it had some.
pub(crate) fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
