//! Sets of IDs: built of Arrow columns, kept in one buffer, used where it lies.

#![expect(unsafe_code, reason = "the buffer protocol is made of pointers; its one use says what it relies on")]

use std::ffi::c_int;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchIterator, StructArray, new_empty_array};
use arrow::compute::{concat, not};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use checkpoint_fs::{Location, Registry, StorageOptions, WriteOptions};
use checkpoint_store::{
    CompactIdSet, Error, HashKey, IdClass, IdColumn, IdSet as _, IdSetBuilder, IdSetOptions, Result, row_hash,
};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::arrow_data::{ArrowArray, ArrowStream};
use crate::buffer::bytes_of;
use crate::capsule::{Arrays, batch_of, import, refused, rows_of};
use crate::error::{raised, store_raised};
use crate::runtime::wait;

/// Rows that are added to a set at a time.
const STEP: usize = 1 << 20;
/// How often a long build looks for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

/// A set of IDs in one flat buffer. Of another set or a buffer it shares the memory.
#[pyclass(module = "checkpoint_store._native", subclass, frozen)]
pub(crate) struct IdSet {
    set: CompactIdSet,
}

impl IdSet {
    pub(crate) fn new(set: CompactIdSet) -> Self {
        Self { set }
    }
}

#[pymethods]
impl IdSet {
    #[new]
    #[pyo3(signature = (source = None))]
    fn py_new(py: Python<'_>, source: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(source) = source else { return Ok(Self::new(CompactIdSet::empty())) };
        if let Ok(other) = source.cast::<Self>() {
            return Ok(Self::new(other.get().set.clone()));
        }
        let bytes = bytes_of(source)?;
        let set = py.detach(|| CompactIdSet::from_bytes(bytes)).map_err(|e| store_raised(py, &e))?;
        Ok(Self::new(set))
    }

    /// Builds a set of columns.
    #[staticmethod]
    #[pyo3(signature = (columns, *, row_hash = false, hash_key = None))]
    fn build(
        py: Python<'_>,
        columns: Vec<Bound<'_, PyAny>>,
        row_hash: bool,
        hash_key: Option<[u8; 16]>,
    ) -> PyResult<Self> {
        let mut options = IdSetOptions::default();
        options.row_hash = row_hash;
        options.hash_key = hash_key.map(HashKey::new);
        let columns: Vec<Arrays> = columns.iter().map(import).collect::<PyResult<_>>()?;
        let builder = IdSetBuilder::new(options);
        let set = py.detach(|| build(columns, builder))?.map_err(|e| store_raised(py, &e))?;
        Ok(Self::new(set))
    }

    /// Maps the set in a file.
    #[staticmethod]
    fn map_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let set = py.detach(|| CompactIdSet::map_file(&path)).map_err(|e| store_raised(py, &e))?;
        Ok(Self::new(set))
    }

    /// Writes the set to a file, whole or not at all.
    fn write_file(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let bytes = self.set.as_bytes().clone();
        wait(py, async move {
            let location = Location::parse(&absolute(&path)?)?;
            let (storage, name) = Registry::from_process().open_parent(&location, &StorageOptions::new()).await?;
            storage.write(&name, bytes, WriteOptions::new()).await?.into_result(location.to_string()).map(drop)
        })?
        .map_err(|e| raised(py, &e))
    }

    /// One set of this one and others.
    fn merged(&self, py: Python<'_>, others: Vec<PyRef<'_, IdSet>>) -> PyResult<Self> {
        let mut options = IdSetOptions::default();
        options.row_hash = self.is_row_hash() || others.iter().any(|other| other.is_row_hash());
        let sets: Vec<CompactIdSet> = others.iter().map(|other| other.set.clone()).collect();
        let set = py.detach(|| {
            let builder = IdSetBuilder::new(options);
            builder.push_set(&self.set)?;
            sets.iter().try_for_each(|set| builder.push_set(set))?;
            builder.finish()
        });
        Ok(Self::new(set.map_err(|e| store_raised(py, &e))?))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.set.len()).unwrap_or(usize::MAX)
    }

    /// Bytes of the buffer.
    #[getter]
    fn nbytes(&self) -> usize {
        self.set.as_bytes().len()
    }

    /// The class of the IDs, such as `integer` or `text`; `None` for the empty set.
    #[getter]
    fn id_class(&self) -> Option<String> {
        self.set.class().map(ToString::to_string)
    }

    /// The secret of the hashes; `None` where there are none.
    #[getter]
    fn hash_key(&self) -> Option<[u8; 16]> {
        self.set.hash_key().map(HashKey::to_bytes)
    }

    /// Whether the IDs are held as row hashes.
    #[getter]
    fn is_row_hash(&self) -> bool {
        self.set.count_rows(0, 0..0).is_some()
    }

    /// How many of the integers from `first` to `last` are in the set; `None` where it cannot tell by value.
    fn count_between(&self, first: i128, last: i128) -> Option<u64> {
        self.set.count_between(first, last)
    }

    /// How many rows of a file, from `start` up to `stop`, have their row hash in the set; `None` where it holds none.
    fn count_rows(&self, path: &str, start: u64, stop: u64) -> Option<u64> {
        self.set.count_rows(row_hash::seed(path), start..stop)
    }

    /// For each value whether it is in the set.
    fn contains_each(&self, py: Python<'_>, column: &Bound<'_, PyAny>) -> PyResult<ArrowArray> {
        self.look_up(py, column, Ok)
    }

    /// For each value whether it is not in the set; true for nulls.
    fn lacks_each(&self, py: Python<'_>, column: &Bound<'_, PyAny>) -> PyResult<ArrowArray> {
        self.look_up(py, column, |found| not(&found))
    }

    /// The rows of a batch or a table whose ID is not in the set, as they come.
    fn filter_rows(&self, py: Python<'_>, data: &Bound<'_, PyAny>, id_column: &str) -> PyResult<Py<PyAny>> {
        let Arrays { field, whole, chunks } = import(data)?;
        let schema = rows_of(&field)?;
        self.check(&schema, id_column).map_err(|e| store_raised(py, &e))?;
        let (set, column, batches) = (self.set.clone(), id_column.to_owned(), schema.clone());
        let mut filtered = chunks.map(move |chunk| {
            let batch = batch_of(&batches, &chunk?)?;
            set.filter(&batch, &column).map_err(|e| ArrowError::ExternalError(Box::new(e)))
        });
        if !whole {
            let reader = RecordBatchIterator::new(filtered, schema);
            return Ok(Py::new(py, ArrowStream::new(Box::new(reader)))?.into_any());
        }
        let batch = py.detach(|| filtered.next()).transpose().map_err(|e| arrow_raised(py, &e))?;
        let batch = batch.unwrap_or_else(|| RecordBatch::new_empty(schema));
        let rows: ArrayRef = Arc::new(StructArray::from(batch));
        Ok(Py::new(py, ArrowArray::new(field, rows))?.into_any())
    }

    /// The buffer, read-only, for `memoryview` and every other reader of buffers.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let bytes = slf.get().set.as_bytes();
        let len = bytes.len().try_into().unwrap_or(ffi::Py_ssize_t::MAX);
        // SAFETY: Python gives a view to fill. The bytes never change nor move, and live as long as the set, to which
        // the view holds a reference.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), bytes.as_ptr().cast_mut().cast(), len, 1, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

impl IdSet {
    fn look_up(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        answer: impl Fn(BooleanArray) -> Result<BooleanArray, ArrowError> + Sync,
    ) -> PyResult<ArrowArray> {
        let Arrays { field, chunks, .. } = import(column)?;
        let found = py.detach(|| -> Result<Vec<ArrayRef>, ArrowError> {
            // A stream without arrays has a type all the same.
            self.set.contains(&new_empty_array(field.data_type())).map_err(external)?;
            chunks
                .map(|chunk| {
                    let found = self.set.contains(&chunk?).map_err(external)?;
                    Ok(Arc::new(answer(found)?) as ArrayRef)
                })
                .collect()
        });
        let found = found.map_err(|e| arrow_raised(py, &e))?;
        let whole = match found.as_slice() {
            [] => Arc::new(BooleanArray::from(Vec::<bool>::new())),
            [one] => one.clone(),
            many => concat(&many.iter().map(AsRef::as_ref).collect::<Vec<_>>()).map_err(|e| refused(&e))?,
        };
        Ok(ArrowArray::new(Arc::new(Field::new("", DataType::Boolean, false)), whole))
    }

    /// Refuses a table that cannot be filtered before any of it is read.
    fn check(&self, schema: &Schema, id_column: &str) -> Result<()> {
        let field = schema
            .field_with_name(id_column)
            .map_err(|_| Error::bad_data(format!("the ID column is missing: column={id_column}")))?;
        // The set says what does not compare.
        self.set.contains(&new_empty_array(field.data_type())).map(drop)
    }
}

/// Adds the columns on all cores, and looks for Ctrl-C meanwhile.
fn build(columns: Vec<Arrays>, builder: IdSetBuilder) -> PyResult<Result<CompactIdSet>> {
    for column in &columns {
        // A column without values has a type all the same.
        if let Err(error) = IdClass::of(column.field.data_type()) {
            return Ok(Err(error));
        }
    }
    let chunks = Mutex::new(columns.into_iter().flat_map(|column| column.chunks));
    let (stop, cores) = (AtomicBool::new(false), thread::available_parallelism().map_or(1, NonZeroUsize::get));
    let next = || chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let add = || -> Result<()> {
        while let Some(chunk) = next() {
            let chunk = chunk.map_err(|e| Error::bad_data(format!("the IDs cannot be read: {e}")))?;
            for start in (0..chunk.len()).step_by(STEP) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let part = chunk.slice(start, STEP.min(chunk.len() - start));
                builder.push(&IdColumn::checked(&part).map_err(|e| shifted(e, start))?)?;
            }
        }
        Ok(())
    };
    let (add, stop) = (&add, &stop);
    let added = thread::scope(|scope| {
        let waiting = thread::current();
        let threads: Vec<_> = (0..cores)
            .map(|_| {
                let waiting = waiting.clone();
                scope.spawn(move || {
                    let added = add();
                    if added.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    waiting.unpark();
                    added
                })
            })
            .collect();
        let mut interrupted = Ok(());
        while threads.iter().any(|thread| !thread.is_finished()) {
            thread::park_timeout(TICK);
            if interrupted.is_ok() {
                interrupted = Python::attach(|py| py.check_signals());
                if interrupted.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::bad_data("a thread that adds IDs has ended by a panic")))
        });
        let ended: Vec<Result<()>> = ended.collect();
        interrupted.map(|()| ended.into_iter().collect::<Result<()>>())
    })?;
    Ok(added.and_then(|()| builder.finish()))
}

/// Nothing of an error tells its rows apart but its text: they are those of a part of the column.
fn shifted(error: Error, start: usize) -> Error {
    if start == 0 {
        return error;
    }
    Error::new(error.kind(), format!("{error}, counted from row {start} of its array"))
}

fn external(error: Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// The exception for what went wrong on the way through Arrow: our own error where it is one.
fn arrow_raised(py: Python<'_>, error: &ArrowError) -> PyErr {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => store_raised(py, ours),
            None => refused(error),
        },
        _ => refused(error),
    }
}

fn absolute(path: &Path) -> Result<String, checkpoint_fs::Error> {
    let refused = |what: &str| checkpoint_fs::Error::invalid_config(what).with_url(path.to_string_lossy());
    let absolute = std::path::absolute(path).map_err(|e| refused("the path cannot be made absolute").with_source(e))?;
    Ok(absolute.to_str().ok_or_else(|| refused("the path is not valid UTF-8"))?.to_owned())
}
