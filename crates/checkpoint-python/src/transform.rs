//! A Python callable as the transform of a pipeline.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, StructArray, new_empty_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use async_trait::async_trait;
use checkpoint_pipeline::transform::{Batch, Transform, TransformError};
use pyo3::prelude::*;

use crate::arrow_data::ArrowArray;
use crate::capsule::{Arrays, batch_of, import, refused, rows_of};

/// The first exception of the callable, once it has failed.
pub(crate) type FirstFailure = Arc<Mutex<Option<PyErr>>>;

/// Calls `workers.apply(batch, key)`, which answers tables and batches; each call on a thread of its own, with the
/// interpreter's lock for the call alone.
pub(crate) struct PythonTransform {
    workers: Arc<Py<PyAny>>,
    uses_key: bool,
    failure: FirstFailure,
}

impl PythonTransform {
    /// The transform of an object with `apply(batch, key)`, `expect(schema)`, `close()` and `uses_key`.
    ///
    /// # Errors
    /// What the object raises.
    pub(crate) fn new(workers: &Bound<'_, PyAny>) -> PyResult<Self> {
        let uses_key = workers.getattr("uses_key")?.extract()?;
        Ok(Self { workers: Arc::new(workers.clone().unbind()), uses_key, failure: FirstFailure::default() })
    }

    /// Where the first exception of the callable will be.
    pub(crate) fn failure(&self) -> FirstFailure {
        self.failure.clone()
    }
}

impl fmt::Debug for PythonTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PythonTransform")
    }
}

#[async_trait]
impl Transform for PythonTransform {
    async fn apply(&self, batch: Batch) -> Result<Vec<RecordBatch>, TransformError> {
        let workers = self.workers.clone();
        let failure = self.failure.clone();
        let called = tokio::task::spawn_blocking(move || {
            Python::attach(|py| call(py, &workers, batch)).map_err(|error| {
                // One line here; the whole of it, with its traceback, goes with the exception of the run.
                let told = TransformError::new(error.to_string());
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                told
            })
        });
        called.await.map_err(|error| TransformError::new(format!("the call has ended without an answer: {error}")))?
    }

    fn expect_output(&self, schema: &SchemaRef) {
        let told = Python::attach(|py| {
            let field = field_of(schema);
            let none = new_empty_array(field.data_type());
            self.workers.call_method1(py, "expect", (ArrowArray::new(field, none),)).map(drop)
        });
        if let Err(error) = told {
            // It was to make types certain. Those that come out are held to the schema in any case.
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn uses_key(&self) -> bool {
        self.uses_key
    }

    fn memory_factor(&self) -> usize {
        4
    }

    async fn close(&self) -> Result<(), TransformError> {
        let workers = self.workers.clone();
        let closed = tokio::task::spawn_blocking(move || {
            Python::attach(|py| workers.call_method0(py, "close").map(drop).map_err(TransformError::from_error))
        });
        closed.await.unwrap_or(Ok(()))
    }
}

fn call(py: Python<'_>, workers: &Py<PyAny>, batch: Batch) -> PyResult<Vec<RecordBatch>> {
    let field = field_of(batch.records.schema_ref());
    let rows: ArrayRef = Arc::new(StructArray::from(batch.records));
    let answers = workers.bind(py).call_method1("apply", (ArrowArray::new(field, rows), batch.idempotency_key))?;
    let mut batches = Vec::new();
    for answer in answers.try_iter()? {
        let Arrays { field, chunks, .. } = import(&answer?)?;
        let schema = rows_of(&field)?;
        let taken: Result<Vec<RecordBatch>, _> =
            py.detach(|| chunks.map(|chunk| without_views(&batch_of(&schema, &chunk?)?)).collect());
        batches.extend(taken.map_err(|e| refused(&e))?);
    }
    Ok(batches)
}

fn field_of(schema: &Schema) -> FieldRef {
    let rows = Field::new("", DataType::Struct(schema.fields.clone()), false);
    Arc::new(rows.with_metadata(schema.metadata.clone()))
}

/// The batch with plain texts and binaries in the place of views: polars gives views for all of them, which other
/// libraries hardly read from files.
fn without_views(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema_ref();
    let fields: Fields = schema.fields.iter().map(plain).collect();
    if fields == schema.fields {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(&fields).map(|(column, field)| cast(column, field.data_type()));
    let schema = Schema::new_with_metadata(fields.clone(), schema.metadata.clone());
    RecordBatch::try_new(Arc::new(schema), columns.collect::<Result<_, _>>()?)
}

fn plain(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(plain(item)),
        DataType::LargeList(item) => DataType::LargeList(plain(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        _ => return field.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}
