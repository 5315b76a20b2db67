//! Directories: copies, fixtures, and pictures of them to compare.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The bytes of every file below a directory, and its directories as `None`, by relative path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree(pub(crate) BTreeMap<String, Option<Vec<u8>>>);

impl Tree {
    /// Takes the picture; of nothing when there is no directory.
    pub(crate) fn of(dir: &Path) -> Self {
        let mut entries = BTreeMap::new();
        if dir.exists() {
            walk(dir, dir, &mut entries);
        }
        Self(entries)
    }

    /// The paths of the files.
    pub(crate) fn files(&self) -> Vec<&str> {
        self.0.iter().filter(|(_, bytes)| bytes.is_some()).map(|(path, _)| path.as_str()).collect()
    }

    /// Fails the test, naming the paths that differ and not their bytes, unless both are the same.
    #[track_caller]
    pub(crate) fn is(&self, other: &Tree) {
        let differs: Vec<&String> = self.0.keys().filter(|path| self.0.get(*path) != other.0.get(*path)).collect();
        let added: Vec<&String> = other.0.keys().filter(|path| !self.0.contains_key(*path)).collect();
        assert!(differs.is_empty() && added.is_empty(), "changed or gone: {differs:?}, added: {added:?}");
    }
}

fn walk(root: &Path, dir: &Path, entries: &mut BTreeMap<String, Option<Vec<u8>>>) {
    for entry in std::fs::read_dir(dir).expect("a directory lists") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
        if path.is_dir() {
            entries.insert(name, None);
            walk(root, &path, entries);
        } else {
            entries.insert(name, Some(std::fs::read(&path).expect("a file reads")));
        }
    }
}

/// Copies a directory with all below it.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory is made");
    for entry in std::fs::read_dir(from).expect("a directory lists") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_dir(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a file copies");
        }
    }
}

/// Where a fixture of the repository is.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name)
}
