//! All places of one scheme, by paths as pyarrow and fsspec write them: `bucket/key`, without the scheme.

use std::collections::HashMap;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use checkpoint_fs::{
    CopyOptions, CreateDirOptions, DeleteOptions, Entry, ListOptions, Location, ObjectMeta, ObjectPath, ReadOptions,
    Registry, RenameOptions, StatOptions, StorageOptions, StorageRef, WriteMode, WriteOptions,
};
use futures::{StreamExt, TryStreamExt};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::error::raised;
use crate::runtime::wait;
use crate::writer::{Writer, outcome};

/// What is known of an object: size, time of the last change in nanoseconds since 1970, entity tag.
type Known = (u64, Option<i128>, Option<String>);

/// A filesystem of one scheme and one set of options.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct Filesystem {
    scheme: String,
    registry: Registry,
    options: StorageOptions,
    /// Opened places, by the process that opened them: a child after a fork has none of its parent's connections.
    opened: Mutex<HashMap<(u32, Location), StorageRef>>,
}

/// Where an object is.
struct Place {
    root: Location,
    path: ObjectPath,
}

#[pymethods]
impl Filesystem {
    /// Opens nothing yet. The options are JSON: `{"<protocol>": {"<option>": value}}`.
    #[new]
    #[pyo3(signature = (scheme, options = None))]
    fn new(py: Python<'_>, scheme: &str, options: Option<&str>) -> PyResult<Self> {
        let registry = Registry::from_process();
        let options = options.map_or_else(|| Ok(StorageOptions::new()), StorageOptions::from_json);
        let options = options.map_err(|e| raised(py, &e))?;
        registry.check_options(&options).map_err(|e| raised(py, &e))?;
        Ok(Self { scheme: scheme.to_owned(), registry, options, opened: Mutex::default() })
    }

    /// The path without its scheme, and the rest of it as it is understood.
    fn normalize(&self, py: Python<'_>, path: &str) -> PyResult<String> {
        let place = self.place(py, path)?;
        let root = place.root.without_scheme();
        Ok(if place.path.is_root() { root } else { format!("{root}/{}", place.path) })
    }

    /// What is known of an object; `None` where there is none.
    fn stat(&self, py: Python<'_>, path: &str) -> PyResult<Option<Known>> {
        let place = self.place(py, path)?;
        if place.path.is_root() {
            return Ok(None);
        }
        let storage = self.storage(py, &place.root)?;
        match wait(py, storage.stat(&place.path, StatOptions::new()))? {
            Ok(meta) => Ok(Some(known(&meta))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(raised(py, &error)),
        }
    }

    /// Whether anything is below a directory.
    fn has_entries(&self, py: Python<'_>, path: &str) -> PyResult<bool> {
        let place = self.place(py, path)?;
        let storage = self.storage(py, &place.root)?;
        let mut listing = storage.list(&place.path, ListOptions::new().fresh(true));
        let first = wait(py, async { listing.next().await.transpose() })?;
        Ok(first.map_err(|e| raised(py, &e))?.is_some())
    }

    /// What is in a directory, or everything below it: paths, and what is known of files; nothing of directories.
    #[pyo3(signature = (path, recursive = false))]
    fn list(&self, py: Python<'_>, path: &str, recursive: bool) -> PyResult<Vec<(String, Option<Known>)>> {
        let place = self.place(py, path)?;
        let storage = self.storage(py, &place.root)?;
        let listing = storage.list(&place.path, ListOptions::new().recursive(recursive));
        let root = place.root.without_scheme();
        let named = listing.map_ok(|entry| match entry {
            Entry::File { path, meta } => (format!("{root}/{path}"), Some(known(&meta))),
            Entry::Dir { path } => (format!("{root}/{path}"), None),
        });
        wait(py, named.try_collect())?.map_err(|e| raised(py, &e))
    }

    /// The bytes of an object, or those from `start` up to `end`.
    #[pyo3(signature = (path, start = None, end = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        start: Option<u64>,
        end: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let place = self.place(py, path)?;
        let storage = self.storage(py, &place.root)?;
        let range = (start.is_some() || end.is_some()).then(|| start.unwrap_or(0)..end.unwrap_or(u64::MAX));
        let read = wait(py, storage.read(&place.path, ReadOptions::new().range(range)))?;
        Ok(PyBytes::new(py, &read.map_err(|e| raised(py, &e))?.bytes))
    }

    /// Writes an object. False when it was not to replace one that is there.
    #[pyo3(signature = (path, data, *, if_absent = false))]
    fn write(&self, py: Python<'_>, path: &str, data: PyBackedBytes, if_absent: bool) -> PyResult<bool> {
        let place = self.place(py, path)?;
        let storage = self.storage(py, &place.root)?;
        let options = WriteOptions::new().mode(mode(if_absent));
        outcome(py, wait(py, storage.write(&place.path, Bytes::from_owner(data), options))?)
    }

    /// Starts a streamed write.
    #[pyo3(signature = (path, *, if_absent = false))]
    fn open_writer(&self, py: Python<'_>, path: &str, if_absent: bool) -> PyResult<Writer> {
        let place = self.place(py, path)?;
        let storage = self.storage(py, &place.root)?;
        let options = WriteOptions::new().mode(mode(if_absent));
        let writer = wait(py, storage.writer(&place.path, options))?;
        Ok(Writer::new(writer.map_err(|e| raised(py, &e))?))
    }

    /// Copies an object inside one place.
    #[pyo3(signature = (source, target, *, if_absent = false))]
    fn copy(&self, py: Python<'_>, source: &str, target: &str, if_absent: bool) -> PyResult<bool> {
        let (from, to) = self.pair(py, source, target)?;
        let storage = self.storage(py, &from.root)?;
        let options = CopyOptions::new().mode(mode(if_absent));
        outcome(py, wait(py, storage.copy(&from.path, &to.path, options))?)
    }

    /// Renames an object atomically, where the store can.
    #[pyo3(signature = (source, target, *, if_absent = false))]
    fn rename(&self, py: Python<'_>, source: &str, target: &str, if_absent: bool) -> PyResult<bool> {
        let (from, to) = self.pair(py, source, target)?;
        let storage = self.storage(py, &from.root)?;
        let options = RenameOptions::new().mode(mode(if_absent));
        outcome(py, wait(py, storage.rename(&from.path, &to.path, options))?)
    }

    /// Deletes objects, many to a request. Answers those that are left, and why.
    fn delete(&self, py: Python<'_>, paths: Vec<String>) -> PyResult<Vec<(String, Py<PyAny>)>> {
        let mut by_root: HashMap<Location, Vec<ObjectPath>> = HashMap::new();
        for path in &paths {
            let place = self.place(py, path)?;
            by_root.entry(place.root).or_default().push(place.path);
        }
        let mut left = Vec::new();
        for (root, paths) in by_root {
            let storage = self.storage(py, &root)?;
            let failures = wait(py, storage.delete_many(paths, DeleteOptions::new()))?;
            for failure in failures.map_err(|e| raised(py, &e))? {
                let path = format!("{}/{}", root.without_scheme(), failure.path);
                left.push((path, raised(py, &failure.error).into_value(py).into_any()));
            }
        }
        Ok(left)
    }

    /// Makes a directory, where there are any.
    fn create_dir(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let place = self.place(py, path)?;
        let storage = self.storage(py, &place.root)?;
        wait(py, storage.create_dir(&place.path, CreateDirOptions::new()))?.map_err(|e| raised(py, &e))
    }

    /// Whether objects are renamed atomically there, created only where none is, and kept in real directories.
    fn abilities(&self, py: Python<'_>, path: &str) -> PyResult<(bool, bool, bool)> {
        let place = self.place(py, path)?;
        let storage = self.storage(py, &place.root)?;
        let can = storage.capabilities();
        Ok((can.atomic_rename, can.write_if_absent, can.directories))
    }
}

impl Filesystem {
    /// A path with or without the scheme, taken apart into the place that is opened and what is in it.
    fn place(&self, py: Python<'_>, path: &str) -> PyResult<Place> {
        let url = if path.contains("://") { path.to_owned() } else { format!("{}://{path}", self.scheme) };
        let location = Location::parse(&url).map_err(|e| raised(py, &e))?;
        let depth = self.registry.root_depth(location.scheme());
        let segments: Vec<&str> = location.path().segments().collect();
        let cut = depth.min(segments.len());
        let join = |segments: &[&str]| ObjectPath::parse(segments.join("/")).map_err(|e| raised(py, &e));
        let root = Location::from_parts(location.scheme(), location.authority(), join(&segments[..cut])?);
        Ok(Place { root, path: join(&segments[cut..])? })
    }

    fn pair(&self, py: Python<'_>, source: &str, target: &str) -> PyResult<(Place, Place)> {
        let (from, to) = (self.place(py, source)?, self.place(py, target)?);
        if from.root == to.root {
            return Ok((from, to));
        }
        let what = "objects are not copied or renamed from one bucket or volume to another";
        let error = checkpoint_fs::Error::unsupported(what).with_url(target).with_hint("read and write them instead");
        Err(raised(py, &error))
    }

    fn storage(&self, py: Python<'_>, root: &Location) -> PyResult<StorageRef> {
        let key = (process::id(), root.clone());
        let opened =
            |key: &(u32, Location)| self.opened.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        if let Some(storage) = opened(&key) {
            return Ok(storage);
        }
        let storage = wait(py, self.registry.open_location(root, &self.options))?.map_err(|e| raised(py, &e))?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(opened.entry(key).or_insert(storage).clone())
    }
}

fn mode(if_absent: bool) -> WriteMode {
    if if_absent { WriteMode::IfAbsent } else { WriteMode::Overwrite }
}

fn known(meta: &ObjectMeta) -> Known {
    let nanoseconds = |time: SystemTime| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    };
    (meta.size, meta.last_modified.map(nanoseconds), meta.etag.clone())
}
