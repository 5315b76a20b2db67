//! fsspec's own configuration: its files and `FSSPEC_*` variables, below what the caller says.
//!
//! For each keyword the last that gives it counts: config files in the order of their names, then
//! `FSSPEC_<PROTOCOL>`, then `FSSPEC_<PROTOCOL>_<KEYWORD>`, then explicit options, of which `null` is one.
//! Whole values are replaced, never merged.

mod files;
mod variables;

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Entry, Environment, StorageOptions};
use crate::error::Result;

/// Names that belong to one class of fsspec, in the order in which it applies them.
const ORDER: [&str; 7] = ["s3", "s3a", "gs", "gcs", "abfs", "az", "abfss"];
/// Protocols that read no options from fsspec: their keywords here are not those of fsspec's classes.
const APART: [&str; 2] = ["file", "memory"];

/// What files and variables set: keywords by protocol, each with its source.
#[derive(Default)]
struct Configuration(BTreeMap<String, Entry>);

impl Configuration {
    fn set(&mut self, protocol: &str, key: &str, value: Value, source: &str) {
        let entry = self.0.entry(protocol.to_owned()).or_default();
        entry.kwargs.insert(key.to_owned(), value);
        entry.sources.insert(key.to_owned(), source.to_owned());
    }
}

/// The options of one backend, which is known by `names`: those of fsspec's configuration, and above them
/// the explicit ones, of the name in the URL before those of other names. They stand under the first name;
/// options of other protocols stay as they are. Blocks for reading the config files, which are few and small.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a config file that is not of its format, with the
/// file's name and no value.
pub(crate) fn layered(
    names: &[&str],
    written: &str,
    explicit: &StorageOptions,
    environment: &Environment,
) -> Result<StorageOptions> {
    let mut explicit = explicit.narrowed(names, written);
    let Some(first) = names.first().filter(|first| !APART.contains(first)) else { return Ok(explicit) };
    let mut configuration = Configuration::default();
    files::read(environment, &mut configuration)?;
    variables::read(environment, &mut configuration);
    let mut ordered: Vec<&str> = names.to_vec();
    ordered.sort_by_key(|name| ORDER.iter().position(|n| n == name));
    let mut merged = Entry::default();
    for entry in ordered.iter().filter_map(|name| configuration.0.remove(*name)) {
        merged.kwargs.extend(entry.kwargs);
        merged.sources.extend(entry.sources);
    }
    if let Some(own) = explicit.entry(&[first]) {
        merged.sources.retain(|key, _| !own.kwargs.contains_key(key));
        merged.kwargs.extend(own.kwargs.clone());
        merged.sources.extend(own.sources.clone());
    }
    if !merged.kwargs.is_empty() {
        explicit.0.insert((*first).to_owned(), merged);
    }
    Ok(explicit)
}

#[cfg(test)]
mod tests;
