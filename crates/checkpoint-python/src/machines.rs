//! Parts of a checkpoint's records, read on the machines of a cluster by a function of Python's.

use std::fmt;

use bytes::Bytes;
use checkpoint_store::PartReader;
use futures::FutureExt;
use futures::future::BoxFuture;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// The function: it takes the parts, and answers what came of each, or `None`.
pub(crate) struct Machines(Py<PyAny>);

impl Machines {
    pub(crate) fn new(read: Py<PyAny>) -> Self {
        Self(read)
    }
}

impl fmt::Debug for Machines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machines")
    }
}

impl PartReader for Machines {
    fn read(&self, parts: Vec<String>) -> BoxFuture<'_, Vec<Option<Bytes>>> {
        let read = Python::attach(|py| self.0.clone_ref(py));
        let called = tokio::task::spawn_blocking(move || {
            Python::attach(|py| {
                let answers =
                    read.call1(py, (parts,)).and_then(|found| found.extract::<Vec<Option<PyBackedBytes>>>(py));
                match answers {
                    Ok(answers) => answers.into_iter().map(|answer| answer.map(Bytes::from_owner)).collect(),
                    // It was not to raise. All is read here.
                    Err(error) => {
                        error.write_unraisable(py, Some(read.bind(py)));
                        Vec::new()
                    }
                }
            })
        });
        async move { called.await.unwrap_or_default() }.boxed()
    }
}
