//! Arrow data as Python objects that any library with the PyCapsule interface takes.

use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::record_batch::RecordBatchReader;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsule::{export_array, export_schema, export_stream};

/// One array; a batch is an array of structs.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct ArrowArray {
    field: FieldRef,
    array: ArrayRef,
}

impl ArrowArray {
    pub(crate) fn new(field: FieldRef, array: ArrayRef) -> Self {
        Self { field, array }
    }
}

#[pymethods]
impl ArrowArray {
    /// The type, for other libraries.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.field)
    }

    /// The type and the data, for other libraries. Always of the array's own type.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        export_array(py, &self.field, &self.array)
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __repr__(&self) -> String {
        format!("<checkpoint_store ArrowArray: {} values of type {}>", self.array.len(), self.array.data_type())
    }
}

/// Batches that are made while they are taken, and can be taken once.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct ArrowStream {
    schema: Schema,
    reader: Mutex<Option<Box<dyn RecordBatchReader + Send>>>,
}

impl ArrowStream {
    pub(crate) fn new(reader: Box<dyn RecordBatchReader + Send>) -> Self {
        Self { schema: reader.schema().as_ref().clone(), reader: Mutex::new(Some(reader)) }
    }
}

#[pymethods]
impl ArrowStream {
    /// The type of the rows, for other libraries.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let rows = Field::new("", DataType::Struct(self.schema.fields.clone()), false);
        export_schema(py, &rows.with_metadata(self.schema.metadata.clone()))
    }

    /// The stream, for other libraries. Always of its own type, and only once.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let taken = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reader = taken.ok_or_else(|| PyValueError::new_err("the stream has been read; ask for a new one"))?;
        export_stream(py, reader)
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.schema.fields.iter().map(|field| field.name().as_str()).collect();
        format!("<checkpoint_store ArrowStream: columns {}>", names.join(", "))
    }
}
