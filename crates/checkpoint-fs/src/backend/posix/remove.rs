//! Deletes: files, links, and directories that are empty.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::Inner;
use super::fault::Fault;
use super::root::sync_directory;
use super::sweep::{self, Sweep};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::DeleteFailure;

/// The guard is asked again after so many deletes.
const GUARDED: usize = 1000;

impl Inner {
    pub(super) fn delete(&self, path: &ObjectPath, guard: Option<&Guard>) -> Result<(), Fault> {
        Guard::check(guard)?;
        let Some(parent) = path.parent() else { return self.delete_root() };
        let dir = match self.root.directory(&parent) {
            Err(fault) if fault.is_missing() => return Ok(()),
            answer => answer?,
        };
        if remove(&dir, path.name())? {
            sync_directory(&dir, self.options.fsync)?;
        }
        Ok(())
    }

    /// Deletes directory by directory, and syncs each once.
    pub(super) fn delete_many(
        &self,
        paths: Vec<ObjectPath>,
        guard: Option<&Guard>,
    ) -> Result<Vec<DeleteFailure>, Fault> {
        let mut directories: BTreeMap<ObjectPath, Vec<ObjectPath>> = BTreeMap::new();
        let mut failures = Vec::new();
        Guard::check(guard)?;
        for path in paths {
            match path.parent() {
                Some(parent) => directories.entry(parent).or_default().push(path),
                None => {
                    if let Err(fault) = self.delete_root() {
                        failures.push(self.failure(path, fault));
                    }
                }
            }
        }
        // Deepest first, so that a directory named after its files is empty by then.
        for (parent, paths) in directories.into_iter().rev() {
            let dir = match self.root.directory(&parent) {
                Ok(dir) => dir,
                Err(fault) if fault.is_missing() => continue,
                Err(_) => {
                    for path in paths {
                        // Opened again for each, so that each failure has its own cause.
                        if let Err(fault) = self.delete(&path, guard) {
                            failures.push(self.failure(path, fault));
                        }
                    }
                    continue;
                }
            };
            let mut removed = Vec::new();
            for (number, path) in paths.into_iter().enumerate() {
                if number % GUARDED == 0 {
                    Guard::check(guard)?;
                }
                match remove(&dir, path.name()) {
                    Ok(true) => removed.push(path),
                    Ok(false) => {}
                    Err(fault) => failures.push(self.failure(path, fault)),
                }
            }
            if !removed.is_empty()
                && let Err(errno) = sync_directory(&dir, self.options.fsync)
            {
                failures.extend(removed.into_iter().map(|path| self.failure(path, errno.into())));
            }
        }
        Ok(failures)
    }

    fn failure(&self, path: ObjectPath, fault: Fault) -> DeleteFailure {
        let error = fault.into_error("delete", self.url_of(&path));
        DeleteFailure { path, error }
    }

    /// Removes the root directory when it is empty.
    fn delete_root(&self) -> Result<(), Fault> {
        let root = match self.root.directory(&ObjectPath::root()) {
            Err(fault) if fault.is_missing() => return Ok(()),
            answer => answer?,
        };
        // A link stays, and so does what it leads to: without it, the link would lead nowhere.
        let path = self.root.path();
        if fs::symlink_metadata(path)?.is_symlink() {
            return Ok(());
        }
        sweep::sweep(&root, Sweep::Gone)?;
        match fs::remove_dir(path).map_err(Fault::from) {
            Ok(()) => {}
            Err(Fault::Os(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY)) => return Ok(()),
            Err(fault) => return Err(fault),
        }
        if let Some(holder) = path.parent() {
            sync_directory(fs::File::open(holder)?, self.options.fsync)?;
        }
        Ok(())
    }
}

/// Removes a name; gives whether there was something to remove. A directory that is not empty is no object,
/// and stays.
fn remove(dir: &OwnedFd, name: &str) -> Result<bool, Fault> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) => return Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
        Err(Errno::ISDIR) => {}
        Err(errno) => return Err(errno.into()),
    }
    match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        answer => return removed(answer),
    }
    // Perhaps what crashed writers left is all that it holds.
    let flags = super::root::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    let swept = rustix::fs::openat(dir, name, flags, rustix::fs::Mode::empty())
        .and_then(|inside| sweep::sweep(&inside, Sweep::Gone));
    if !swept.is_ok_and(|count| count > 0) {
        return Ok(false);
    }
    removed(rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
}

fn removed(answer: Result<(), Errno>) -> Result<bool, Fault> {
    match answer {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
