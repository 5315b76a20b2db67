//! The backends: one module per kind of store, with what is particular to it.

use std::sync::Arc;

use crate::registry::Scheme;

pub(crate) mod memory;
pub(crate) mod posix;

/// Every scheme that this build holds.
pub(crate) fn all() -> Vec<Arc<dyn Scheme>> {
    vec![Arc::new(posix::PosixScheme), Arc::new(memory::MemoryScheme)]
}
