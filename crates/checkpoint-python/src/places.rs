//! The places of one job: what opens them, and those that are open.

use std::collections::HashMap;
use std::process;
use std::sync::{Mutex, PoisonError};

use checkpoint_fs::{Registry, Result, StorageOptions, StorageRef};
use pyo3::prelude::*;

use crate::error::raised;

/// Opens directories with one set of options, each once in a process: a child after a fork has none of its parent's
/// connections.
pub(crate) struct Places {
    pub(crate) registry: Registry,
    pub(crate) options: StorageOptions,
    opened: Mutex<HashMap<(u32, String), StorageRef>>,
}

impl Places {
    /// Opens nothing yet. The options are JSON: `{"<protocol>": {"<option>": value}}`.
    ///
    /// # Errors
    /// `InvalidConfigError` that names the option that is wrong.
    pub(crate) fn new(py: Python<'_>, options: Option<&str>) -> PyResult<Self> {
        let registry = Registry::from_process();
        let options = options.map_or_else(|| Ok(StorageOptions::new()), StorageOptions::from_json);
        let options = options.map_err(|e| raised(py, &e))?;
        registry.check_options(&options).map_err(|e| raised(py, &e))?;
        Ok(Self { registry, options, opened: Mutex::default() })
    }

    /// A directory.
    ///
    /// # Errors
    /// Those of its store.
    pub(crate) async fn open(&self, url: &str) -> Result<StorageRef> {
        let key = (process::id(), url.to_owned());
        let known = self.opened.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(storage) = known {
            return Ok(storage);
        }
        let storage = self.registry.open_dir(url, &self.options).await?;
        Ok(self.opened.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(storage).clone())
    }
}
