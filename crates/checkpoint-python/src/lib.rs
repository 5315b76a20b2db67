//! The native part of the Python package `checkpoint_store`.
//!
//! Python sees it as `checkpoint_store._native`; everything that users are meant to see is in the Python modules
//! around it. No call holds the interpreter's lock while it waits for a store.

mod arrow_data;
mod attempt;
mod awaitable;
mod buffer;
mod capsule;
mod changing;
mod cluster;
mod error;
mod filesystem;
mod fingerprint;
mod ids;
mod listing;
mod machines;
mod pipeline;
mod places;
mod reading;
mod runtime;
mod session;
mod store;
mod task;
mod transform;
mod writer;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(error::error_classes, module)?)?;
    module.add_class::<arrow_data::ArrowArray>()?;
    module.add_class::<arrow_data::ArrowStream>()?;
    module.add_class::<attempt::Attempt>()?;
    module.add_class::<cluster::ClusterAttempt>()?;
    module.add_class::<filesystem::Filesystem>()?;
    module.add_class::<ids::IdSet>()?;
    module.add_class::<pipeline::Pipeline>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<task::Task>()?;
    module.add_class::<writer::Writer>()?;
    Ok(())
}
