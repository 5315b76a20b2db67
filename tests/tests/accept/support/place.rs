//! A fixed path outside of the temporary directories, which Ray's row hashes need, one user at a time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A directory at a fixed path, empty at first, gone at the end; others wait for it meanwhile.
#[derive(Debug)]
pub(crate) struct Lent {
    path: PathBuf,
    _lock: File,
}

impl Lent {
    /// Waits for the place and empties it.
    pub(crate) fn new(path: &Path) -> Self {
        let lock = path.with_extension("lock");
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory is made");
        let lock = File::create(lock).expect("a lock file is made");
        lock.lock().expect("the place becomes free");
        let _ = fs::remove_dir_all(path);
        fs::create_dir_all(path).expect("a directory is made");
        Self { path: path.to_owned(), _lock: lock }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
