//! Finding the input: files, directories and globs, on any backend, in an order that never changes.

use std::collections::{HashMap, HashSet};

use checkpoint_fs::{
    Entry, ListOptions, Location, ObjectMeta, ObjectPath, Registry, StorageExt, StorageOptions, StorageRef,
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::Mutex;

use super::glob::{Levels, Pattern, has_wildcard, split_base};
use super::source::SourceFile;
use crate::error::{Error, Result};
use crate::format::Format;

/// Inputs that are looked at at once.
const CONCURRENT_INPUTS: usize = 16;

/// Finds the input files, each once: the inputs in the order given, each expanded in byte order of the paths.
///
/// An input is
/// - a file, whatever its name;
/// - a directory: all files below it, but for those in or under a name that starts with `.` or `_`;
/// - a glob of `*`, `?`, `[..]`, `{a,b}` and `**`, whose matches are taken as above. A hidden name matches
///   only a pattern that spells its first character. What exists under the literal name wins.
///
/// In directories and globs, an explicit `format` takes every file; without one, files whose extension
/// tells no format are left out, with a warning that counts them. Empty files without a known extension
/// (`SUCCESS` and its like) are always left out there.
///
/// Cost: one listing per directory and wildcard level, one request per named file; 16 inputs at once.
///
/// # Errors
/// `InvalidConfig` that names the input where nothing is there, nothing is left, or a named file's format
/// cannot be told; what the storage meets otherwise.
pub async fn discover(
    registry: &Registry,
    inputs: &[String],
    options: &StorageOptions,
    format: Option<Format>,
) -> Result<Vec<SourceFile>> {
    if inputs.is_empty() {
        return Err(Error::invalid_config("no input was given").with_hint("name a file, a directory or a glob"));
    }
    let search = Search { registry, options, format, storages: Mutex::default() };
    let expanded = stream::iter(inputs).map(|input| search.expand(input)).buffered(CONCURRENT_INPUTS);
    let found: Vec<Vec<SourceFile>> = expanded.boxed().try_collect().await?;
    let mut seen = HashSet::new();
    Ok(found.into_iter().flatten().filter(|file| seen.insert(file.location.clone())).collect())
}

struct Search<'a> {
    registry: &'a Registry,
    options: &'a StorageOptions,
    format: Option<Format>,
    /// Storages by the URL of their root: one client each.
    storages: Mutex<HashMap<String, StorageRef>>,
}

/// A file that was found: its path in a storage that is rooted at `base`.
type Found = (ObjectPath, ObjectMeta);

impl Search<'_> {
    async fn expand(&self, input: &str) -> Result<Vec<SourceFile>> {
        let location = Location::parse(input)?;
        if !input.ends_with('/')
            && let Some(file) = self.named_file(&location).await?
        {
            return Ok(vec![file]);
        }
        let (below, hidden) = self.list_below(&location, &ObjectPath::root()).await?;
        if hidden || !below.is_empty() {
            return self.choose(&location, input, below).await;
        }
        if !has_wildcard(location.path().as_str()) {
            return Err(Error::invalid_config(format!("there is no such file or directory: url={location}"))
                .with_hint("check the path; a directory must hold files, and a glob needs a wildcard"));
        }
        let (base, pattern) = split_base(location.path().as_str());
        let base = Location::from_parts(location.scheme(), location.authority(), ObjectPath::parse(base)?);
        let pattern = Pattern::parse(&pattern, input)?;
        let found = self.matching(&base, &pattern).await?;
        if found.is_empty() {
            return Err(Error::invalid_config(format!("no file matches the input: url={location}"))
                .with_hint("`*` stays within one directory; write `**/` for all below it"));
        }
        self.choose(&base, input, found).await
    }

    async fn storage(&self, root: &Location) -> Result<StorageRef> {
        let mut storages = self.storages.lock().await;
        let key = root.to_string();
        if let Some(storage) = storages.get(&key) {
            return Ok(StorageRef::clone(storage));
        }
        let storage = self.registry.open_location(root, self.options).await?;
        storages.insert(key, StorageRef::clone(&storage));
        Ok(storage)
    }

    async fn named_file(&self, location: &Location) -> Result<Option<SourceFile>> {
        let Some((parent, name)) = self.registry.split(location) else { return Ok(None) };
        let storage = self.storage(&parent).await?;
        let Some(meta) = storage.stat_optional(&name).await? else { return Ok(None) };
        let format = self.format.or_else(|| Format::from_file_name(name.name())).ok_or_else(|| {
            Error::invalid_config(format!("the format of the input cannot be told from its name: url={location}"))
                .with_hint("give the input format: parquet, jsonl, csv or arrow")
        })?;
        Ok(Some(SourceFile::new(storage, name, location.clone(), meta, format)))
    }

    /// All files below `dir` of the storage at `root`, and whether hidden ones were left out.
    async fn list_below(&self, root: &Location, dir: &ObjectPath) -> Result<(Vec<Found>, bool)> {
        let storage = self.storage(root).await?;
        let entries = storage.list(dir, ListOptions::new().recursive(true).fresh(true));
        let files = entries.try_filter_map(|entry| async move {
            Ok(match entry {
                Entry::File { path, meta } => Some((path, meta)),
                Entry::Dir { .. } => None,
            })
        });
        let all: Vec<Found> = files.try_collect().await?;
        let (hidden, files): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(path, _)| path.strip_prefix(dir).is_some_and(|rest| rest.segments().any(is_hidden)));
        Ok((files, !hidden.is_empty()))
    }

    async fn matching(&self, base: &Location, pattern: &Pattern) -> Result<Vec<Found>> {
        let storage = self.storage(base).await?;
        let levels = match &pattern.levels {
            Levels::Each(levels) => levels,
            Levels::Whole(level) => {
                let files = storage.list_files(&ObjectPath::root(), true).await?;
                return Ok(files
                    .into_iter()
                    .filter(|(path, _)| {
                        level.matches(path.as_str())
                            || ancestors(path)
                                .any(|(dir, rest)| level.matches(dir.as_str()) && !rest.segments().any(is_hidden))
                    })
                    .collect());
            }
        };
        let mut found = Vec::new();
        let mut dirs = vec![ObjectPath::root()];
        for (depth, level) in levels.iter().enumerate() {
            let last = depth + 1 == levels.len();
            let mut deeper = Vec::new();
            for dir in &dirs {
                let entries: Vec<Entry> = storage.list(dir, ListOptions::new().fresh(true)).try_collect().await?;
                for entry in entries.into_iter().filter(|e| level.matches(e.path().name())) {
                    match entry {
                        Entry::File { path, meta } if last => found.push((path, meta)),
                        Entry::File { .. } => {}
                        Entry::Dir { path } if last => found.extend(self.list_below(base, &path).await?.0),
                        Entry::Dir { path } => deeper.push(path),
                    }
                }
            }
            dirs = deeper;
        }
        Ok(found)
    }

    /// Orders what was found, and gives each file its format.
    async fn choose(&self, root: &Location, input: &str, mut found: Vec<Found>) -> Result<Vec<SourceFile>> {
        let storage = self.storage(root).await?;
        found.sort_by(|a, b| a.0.as_str().as_bytes().cmp(b.0.as_str().as_bytes()));
        let mut unknown = 0;
        let mut files = Vec::with_capacity(found.len());
        for (path, meta) in found {
            let told = Format::from_file_name(path.name());
            let format = match (self.format, told) {
                (_, None) if meta.size == 0 => continue,
                (Some(format), _) | (None, Some(format)) => format,
                (None, None) => {
                    unknown += 1;
                    continue;
                }
            };
            let location = root.join(path.as_str())?;
            files.push(SourceFile::new(StorageRef::clone(&storage), path, location, meta, format));
        }
        if files.is_empty() {
            return Err(Error::invalid_config(format!("no file of a known format is there: url={input}")).with_hint(
                "known extensions: parquet, jsonl, ndjson, json, csv, arrow, ipc, feather; or give the format",
            ));
        }
        if unknown > 0 {
            tracing::warn!(input, skipped = unknown, "files of an unknown format were left out");
        }
        Ok(files)
    }
}

fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

/// The directories above a file, and the rest of the path below each.
fn ancestors(path: &ObjectPath) -> impl Iterator<Item = (ObjectPath, ObjectPath)> {
    let mut dir = path.parent();
    std::iter::from_fn(move || {
        let this = dir.take().filter(|d| !d.is_root())?;
        dir = this.parent();
        Some(this)
    })
    .filter_map(|dir| path.strip_prefix(&dir).map(|rest| (dir, rest)))
}
