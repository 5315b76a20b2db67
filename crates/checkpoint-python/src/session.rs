//! The stores of one scheme that one process has opened, by paths as pyarrow and fsspec write them.

use std::collections::HashMap;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use checkpoint_fs::{Environment, Error, Location, ObjectPath, Registry, Result, StorageOptions, StorageRef};
use pyo3::prelude::*;

/// What opens stores: a scheme, options, and the environment as it was when they were given.
pub(crate) struct Sessions {
    pub(crate) scheme: String,
    options: StorageOptions,
    environment: Environment,
    /// That of the process which asked last. Locked only by who holds the interpreter's lock, as who forks does: no
    /// child finds it locked.
    current: Mutex<Arc<Session>>,
}

/// What one process has opened. A child after a fork has none of its parent's connections, nor its locks.
pub(crate) struct Session {
    process: u32,
    scheme: String,
    options: StorageOptions,
    registry: Registry,
    opened: Mutex<HashMap<Location, StorageRef>>,
}

/// Where an object is.
pub(crate) struct Place {
    /// What is opened: a bucket, a volume, or this machine.
    pub(crate) root: Location,
    /// The path in it.
    pub(crate) path: ObjectPath,
}

impl Sessions {
    /// Opens nothing yet.
    ///
    /// # Errors
    /// For a scheme that there is not, and options that are wrong.
    pub(crate) fn new(scheme: &str, options: StorageOptions) -> Result<Self> {
        let environment = Environment::from_process();
        let registry = Registry::with_environment(environment.clone());
        registry.option_names(scheme)?;
        registry.check_options(&options)?;
        let current = Mutex::new(Arc::new(Session::new(scheme, &options, registry)));
        Ok(Self { scheme: scheme.to_owned(), options, environment, current })
    }

    /// That of this process.
    pub(crate) fn here(&self, _py: Python<'_>) -> Arc<Session> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.process != process::id() {
            let registry = Registry::with_environment(self.environment.clone());
            let fresh = Arc::new(Session::new(&self.scheme, &self.options, registry));
            // The parent's is never touched: what it holds may be locked for good.
            std::mem::forget(std::mem::replace(&mut *current, fresh));
        }
        Arc::clone(&current)
    }
}

impl Session {
    fn new(scheme: &str, options: &StorageOptions, registry: Registry) -> Self {
        let (scheme, options) = (scheme.to_owned(), options.clone());
        Self { process: process::id(), scheme, options, registry, opened: Mutex::default() }
    }

    /// A path with or without the scheme, taken apart into what is opened and what is in it.
    ///
    /// # Errors
    /// For a path that means nothing.
    pub(crate) fn place(&self, path: &str) -> Result<Place> {
        let location = self.location(path)?;
        let depth = self.registry.root_depth(location.scheme());
        let segments: Vec<&str> = location.path().segments().collect();
        let cut = depth.min(segments.len());
        let join = |segments: &[&str]| ObjectPath::parse(segments.join("/"));
        let root = Location::from_parts(location.scheme(), location.authority(), join(&segments[..cut])?);
        Ok(Place { root, path: join(&segments[cut..])? })
    }

    fn location(&self, path: &str) -> Result<Location> {
        let is_url = path.split_once("://").is_some_and(|(scheme, _)| !scheme.contains('/'));
        let is_local = matches!(self.scheme.as_str(), "file" | "local");
        match (is_url, is_local, path.starts_with('/')) {
            (true, _, _) | (false, true, false) => Location::parse(path),
            (false, true, true) => Location::parse(&format!("file://{path}")),
            (false, false, _) => Location::parse(&format!("{}://{path}", self.scheme)),
        }
    }

    /// The store of a place, opened once.
    ///
    /// # Errors
    /// What opening says.
    pub(crate) async fn storage(&self, root: &Location) -> Result<StorageRef> {
        if let Some(storage) = self.opened().get(root) {
            return Ok(Arc::clone(storage));
        }
        let storage = self.registry.open_location(root, &self.options).await?;
        Ok(Arc::clone(self.opened().entry(root.clone()).or_insert(storage)))
    }

    /// Closes the stores of a place, or all, with the listings that they keep.
    pub(crate) fn forget(&self, root: Option<&Location>) {
        match root {
            Some(root) => drop(self.opened().remove(root)),
            None => self.opened().clear(),
        }
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, HashMap<Location, StorageRef>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The path without the scheme, as it is understood.
    pub(crate) fn name(&self) -> String {
        name(&self.root, &self.path)
    }

    /// An error about it.
    pub(crate) fn error(&self, error: Error) -> Error {
        let root = self.root.to_string();
        error.with_url(if self.path.is_root() { root } else { format!("{root}/{}", self.path) })
    }
}

/// A path in a place, without the scheme.
pub(crate) fn name(root: &Location, path: &ObjectPath) -> String {
    let root = root.without_scheme();
    match (root.as_str(), path.is_root()) {
        (_, true) => root,
        ("/", false) => format!("/{path}"),
        (_, false) => format!("{root}/{path}"),
    }
}
