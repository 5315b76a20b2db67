//! The native part of the Python package `checkpoint_store`.
//!
//! Python sees it as `checkpoint_store._native`; everything that users are meant to see is in the Python modules
//! around it. No call holds the interpreter's lock while it waits for a store.

mod error;
mod filesystem;
mod runtime;
mod writer;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<filesystem::Filesystem>()?;
    module.add_class::<writer::Writer>()?;
    Ok(())
}
