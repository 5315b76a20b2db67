//! All places of one scheme, by paths as pyarrow and fsspec write them: `bucket/key`, without the scheme.

use checkpoint_fs::StorageOptions;
use pyo3::prelude::*;

use crate::awaitable::start;
use crate::buffer::bytes_of;
use crate::changing::Left;
use crate::error::raised;
use crate::listing::{Info, Known, Listed};
use crate::reading::{Body, Piece, Wanted};
use crate::runtime::run;
use crate::session::Sessions;
use crate::writer::Writer;

/// A filesystem of one scheme and one set of options. Those named ``..._async`` give futures of ``asyncio``.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct Filesystem {
    sessions: Sessions,
    options: Option<String>,
}

#[pymethods]
impl Filesystem {
    #[new]
    #[pyo3(signature = (scheme, options = None))]
    fn new(py: Python<'_>, scheme: &str, options: Option<&str>) -> PyResult<Self> {
        let parsed = options.map_or_else(|| Ok(StorageOptions::new()), StorageOptions::from_json);
        let sessions = parsed.and_then(|options| Sessions::new(scheme, options)).map_err(|e| raised(py, &e))?;
        Ok(Self { sessions, options: options.map(ToOwned::to_owned) })
    }

    /// What is pickled: the scheme and the options as they were given, and nothing of the environment.
    fn __getnewargs__(&self) -> (&str, Option<&str>) {
        (&self.sessions.scheme, self.options.as_deref())
    }

    fn __repr__(&self) -> String {
        format!("Filesystem({:?})", self.sessions.scheme)
    }

    /// The path without its scheme, and the rest of it as it is understood.
    fn normalize(&self, py: Python<'_>, path: &str) -> PyResult<String> {
        Ok(self.sessions.here(py).place(path).map_err(|e| raised(py, &e))?.name())
    }

    /// What is at a path: ``file`` with what is known of it, ``directory`` or ``missing``.
    fn info(&self, py: Python<'_>, path: String) -> PyResult<Info> {
        run(py, self.sessions.here(py).info(path))
    }

    /// What is at many paths, asked at the same time.
    fn info_many(&self, py: Python<'_>, paths: Vec<String>) -> PyResult<Vec<Info>> {
        run(py, self.sessions.here(py).info_many(paths))
    }

    /// Size, time of the last change in nanoseconds since 1970, and entity tag of an object; None where there is none.
    fn stat(&self, py: Python<'_>, path: String) -> PyResult<Option<Known>> {
        run(py, self.sessions.here(py).stat(path))
    }

    /// Whether anything is below a directory.
    fn has_entries(&self, py: Python<'_>, path: String) -> PyResult<bool> {
        run(py, self.sessions.here(py).has_entries(path))
    }

    /// What is in a directory, or everything below it: paths, and what is known of files; nothing of directories.
    #[pyo3(signature = (path, recursive = false, *, directories = false))]
    fn list(&self, py: Python<'_>, path: String, recursive: bool, directories: bool) -> PyResult<Listed> {
        run(py, self.sessions.here(py).list(path, recursive, directories))
    }

    /// The bytes of an object, or those from ``start`` up to ``end``; of the object with that entity tag, if one is given.
    #[pyo3(signature = (path, start = None, end = None, *, etag = None))]
    fn read(
        &self,
        py: Python<'_>,
        path: String,
        start: Option<u64>,
        end: Option<u64>,
        etag: Option<String>,
    ) -> PyResult<Body> {
        run(py, self.sessions.here(py).read((path, start, end), etag))
    }

    /// Reads many ranges at the same time: bytes, or the exception, for each path, start and end.
    fn read_many(&self, py: Python<'_>, ranges: Vec<Wanted>) -> PyResult<Vec<Piece>> {
        run(py, self.sessions.here(py).read_many(ranges))
    }

    /// Writes an object. False when it was not to replace one that is there.
    #[pyo3(signature = (path, data, *, if_absent = false))]
    fn write(&self, py: Python<'_>, path: String, data: &Bound<'_, PyAny>, if_absent: bool) -> PyResult<bool> {
        run(py, self.sessions.here(py).write(path, bytes_of(data)?, if_absent))
    }

    /// Writes many objects at the same time. Answers those that were not written, and why.
    fn write_many(&self, py: Python<'_>, objects: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Left> {
        let objects = objects.into_iter().map(|(path, data)| Ok((path, bytes_of(&data)?)));
        run(py, self.sessions.here(py).write_many(objects.collect::<PyResult<_>>()?))
    }

    /// Starts a streamed write.
    #[pyo3(signature = (path, *, if_absent = false))]
    fn open_writer(&self, py: Python<'_>, path: String, if_absent: bool) -> PyResult<Writer> {
        Ok(Writer::new(run(py, self.sessions.here(py).writer(path, if_absent))?))
    }

    /// Copies an object. False when it was not to replace one that is there.
    #[pyo3(signature = (source, target, *, if_absent = false))]
    fn copy(&self, py: Python<'_>, source: String, target: String, if_absent: bool) -> PyResult<bool> {
        run(py, self.sessions.here(py).copy(source, target, if_absent))
    }

    /// Copies many objects at the same time. Answers the sources that were not copied, and why.
    fn copy_many(&self, py: Python<'_>, pairs: Vec<(String, String)>) -> PyResult<Left> {
        run(py, self.sessions.here(py).copy_many(pairs))
    }

    /// Renames an object atomically, where the store can. False when it was not to replace one that is there.
    #[pyo3(signature = (source, target, *, if_absent = false))]
    fn rename(&self, py: Python<'_>, source: String, target: String, if_absent: bool) -> PyResult<bool> {
        run(py, self.sessions.here(py).rename(source, target, if_absent))
    }

    /// Deletes objects, many to a request. Answers those that are left, and why. A missing one is not left.
    fn delete(&self, py: Python<'_>, paths: Vec<String>) -> PyResult<Left> {
        run(py, self.sessions.here(py).delete(paths))
    }

    /// Makes a directory and those above it, where there are any.
    fn create_dir(&self, py: Python<'_>, path: String) -> PyResult<()> {
        run(py, self.sessions.here(py).create_dir(path))
    }

    /// Whether objects are renamed atomically there, created only where none is, and kept in real directories.
    fn abilities(&self, py: Python<'_>, path: String) -> PyResult<(bool, bool, bool)> {
        run(py, self.sessions.here(py).abilities(path))
    }

    /// Lets go of connections and of kept listings: of the place that a path is in, or of all.
    #[pyo3(signature = (path = None))]
    fn forget(&self, py: Python<'_>, path: Option<&str>) -> PyResult<()> {
        let session = self.sessions.here(py);
        let place = path.map(|path| session.place(path)).transpose().map_err(|e| raised(py, &e))?;
        session.forget(place.as_ref().map(|place| &place.root));
        Ok(())
    }

    /// As ``info``.
    fn info_async<'py>(&self, py: Python<'py>, path: String) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.sessions.here(py).info(path))
    }

    /// As ``stat``.
    fn stat_async<'py>(&self, py: Python<'py>, path: String) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.sessions.here(py).stat(path))
    }

    /// As ``list``.
    #[pyo3(signature = (path, recursive = false, *, directories = false))]
    fn list_async<'py>(
        &self,
        py: Python<'py>,
        path: String,
        recursive: bool,
        directories: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.sessions.here(py).list(path, recursive, directories))
    }

    /// As ``read``.
    #[pyo3(signature = (path, start = None, end = None, *, etag = None))]
    fn read_async<'py>(
        &self,
        py: Python<'py>,
        path: String,
        start: Option<u64>,
        end: Option<u64>,
        etag: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        crate::awaitable::start(py, self.sessions.here(py).read((path, start, end), etag))
    }

    /// As ``read_many``.
    fn read_many_async<'py>(&self, py: Python<'py>, ranges: Vec<Wanted>) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.sessions.here(py).read_many(ranges))
    }

    /// As ``write``.
    #[pyo3(signature = (path, data, *, if_absent = false))]
    fn write_async<'py>(
        &self,
        py: Python<'py>,
        path: String,
        data: &Bound<'py, PyAny>,
        if_absent: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.sessions.here(py).write(path, bytes_of(data)?, if_absent))
    }

    /// As ``copy``.
    #[pyo3(signature = (source, target, *, if_absent = false))]
    fn copy_async<'py>(
        &self,
        py: Python<'py>,
        source: String,
        target: String,
        if_absent: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.sessions.here(py).copy(source, target, if_absent))
    }

    /// As ``delete``.
    fn delete_async<'py>(&self, py: Python<'py>, paths: Vec<String>) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.sessions.here(py).delete(paths))
    }
}
