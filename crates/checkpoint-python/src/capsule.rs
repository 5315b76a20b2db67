//! Arrow data of other libraries, by the PyCapsule interface: pointers cross, no values are copied.

#![expect(unsafe_code, reason = "the C data interface is made of pointers; each use says what it relies on")]

use std::ffi::CStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, make_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow::record_batch::RecordBatchReader;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Arrays of one type, one after the other. Of a table each is a struct of its columns.
pub(crate) struct Arrays {
    pub(crate) field: FieldRef,
    /// Whether they came as one array, and not as a stream.
    pub(crate) whole: bool,
    pub(crate) chunks: Box<dyn Iterator<Item = Result<ArrayRef, ArrowError>> + Send>,
}

/// Takes an object's data: by `__arrow_c_array__`, or by `__arrow_c_stream__`.
///
/// # Errors
/// `TypeError` for an object that has neither; what the object raises.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Arrays> {
    if object.hasattr("__arrow_c_array__")? {
        let (schema, array) = object.call_method0("__arrow_c_array__")?.extract()?;
        return import_array(&schema, &array);
    }
    if object.hasattr("__arrow_c_stream__")? {
        return import_stream(object.call_method0("__arrow_c_stream__")?.cast::<PyCapsule>()?);
    }
    let kind = object.get_type();
    Err(PyTypeError::new_err(format!(
        "this is no Arrow data: type={}\nhint: give an array or a table of pyarrow, polars, DuckDB or another library \
         with the Arrow PyCapsule interface; pyarrow.array() makes one of a list",
        kind.fully_qualified_name()?
    )))
}

/// The type that an object is or has, by `__arrow_c_schema__`; `None` for an object without it.
///
/// # Errors
/// `ValueError` for a type that is not understood; what the object raises.
pub(crate) fn import_type(object: &Bound<'_, PyAny>) -> PyResult<Option<Field>> {
    if !object.hasattr("__arrow_c_schema__")? {
        return Ok(None);
    }
    let schema = object.call_method0("__arrow_c_schema__")?.cast_into::<PyCapsule>()?;
    field_of(&schema).map(Some)
}

fn field_of(schema: &Bound<'_, PyCapsule>) -> PyResult<Field> {
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name holds a schema and lives through this call; the capsule keeps owning it.
    Field::try_from(unsafe { schema.as_ref() }).map_err(|e| refused(&e))
}

fn import_array(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<Arrays> {
    let field = field_of(schema)?;
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: a capsule of this name holds an array, which is moved out as the interface asks: what is left there is
    // marked as released. It agrees with the schema that came with it.
    let data = unsafe { from_ffi_and_data_type(FFI_ArrowArray::from_raw(array.as_ptr()), field.data_type().clone()) };
    let array = make_array(data.map_err(|e| refused(&e))?);
    Ok(Arrays { field: field.into(), whole: true, chunks: Box::new([Ok(array)].into_iter()) })
}

fn import_stream(stream: &Bound<'_, PyCapsule>) -> PyResult<Arrays> {
    let stream = stream.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a stream, which is moved out as the interface asks.
    let reader = unsafe { ArrayStreamReader::from_raw(stream.as_ptr()) }.map_err(|e| refused(&e))?;
    let field = arrow::array::ArrayReader::field(&reader).clone();
    Ok(Arrays { field, whole: false, chunks: Box::new(reader) })
}

/// The columns of a table or a batch.
///
/// # Errors
/// `TypeError` for a column.
pub(crate) fn rows_of(field: &FieldRef) -> PyResult<SchemaRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(PyTypeError::new_err(format!("this is a column and no table: type={}", field.data_type())));
    };
    Ok(Arc::new(Schema::new_with_metadata(fields.clone(), field.metadata().clone())))
}

/// The batch that an array of structs is.
///
/// # Errors
/// For an array of another type, and for rows that are null as a whole.
pub(crate) fn batch_of(schema: &SchemaRef, rows: &ArrayRef) -> Result<RecordBatch, ArrowError> {
    let rows = rows.as_any().downcast_ref::<StructArray>();
    let rows = rows.ok_or_else(|| ArrowError::InvalidArgumentError("a batch is no struct".to_owned()))?;
    if rows.null_count() > 0 {
        return Err(ArrowError::InvalidArgumentError("a batch has rows that are null as a whole".to_owned()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), rows.columns().to_vec(), &options)
}

/// A type, as `__arrow_c_schema__` gives it.
///
/// # Errors
/// `ValueError` for a type that the interface has no word for.
pub(crate) fn export_schema<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(field).map_err(|e| refused(&e))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// An array and its type, as `__arrow_c_array__` gives them.
///
/// # Errors
/// As [`export_schema`].
pub(crate) fn export_array<'py>(
    py: Python<'py>,
    field: &Field,
    array: &ArrayRef,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let schema = export_schema(py, field)?;
    Ok((schema, PyCapsule::new_with_value(py, FFI_ArrowArray::new(&array.to_data()), ARRAY)?))
}

/// A stream of batches, as `__arrow_c_stream__` gives it.
///
/// # Errors
/// Those of Python.
pub(crate) fn export_stream<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// The exception for data that another library gave and that cannot be taken.
pub(crate) fn refused(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("the Arrow data cannot be read: {error}"))
}
