//! Directories that are written to: made where they are missing, put on disk, swept once.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::{MutexGuard, PoisonError};

use rustix::io::Errno;

use super::Inner;
use super::fault::Fault;
use super::publish::Staged;
use super::root::tries;
use super::sweep::{self, Sweep};
use crate::path::ObjectPath;

/// Directories that are remembered as swept and synced; beyond this the memory starts anew.
const KNOWN_DIRECTORIES: usize = 10_000;

impl Inner {
    /// Opens a directory to write to, made if missing. The first time, its litter is swept and the
    /// directories above it are synced, since whoever made them may not have got that far.
    pub(super) fn prepare(&self, dir: &ObjectPath) -> Result<OwnedFd, Fault> {
        for () in tries() {
            let fd = self.root.ensure(dir, self.options.fsync)?;
            if self.known().contains(dir) {
                return Ok(fd);
            }
            match self.sync_above(dir) {
                // One of them was removed meanwhile.
                Err(Fault::Os(Errno::NOENT)) => continue,
                synced => synced?,
            }
            self.meet(dir, &fd);
            return Ok(fd);
        }
        Err(Fault::Os(Errno::BUSY))
    }

    fn sync_above(&self, dir: &ObjectPath) -> Result<(), Fault> {
        if self.options.fsync { self.root.sync_chain(dir) } else { Ok(()) }
    }

    /// Sweeps a directory's litter, and remembers it.
    fn meet(&self, dir: &ObjectPath, fd: &OwnedFd) {
        match sweep::sweep(fd, Sweep::Gone) {
            Ok(0) => {}
            Ok(count) => tracing::debug!(url = self.url_of(dir), count, "removed what crashed writers left"),
            Err(errno) => tracing::debug!(url = self.url_of(dir), %errno, "litter could not be swept"),
        }
        let mut known = self.known();
        if known.len() >= KNOWN_DIRECTORIES {
            known.clear();
        }
        known.insert(dir.clone());
    }

    fn known(&self) -> MutexGuard<'_, HashSet<ObjectPath>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A temporary file in a directory, which is made if missing, and stays while the file is there.
    pub(super) fn stage(&self, dir: &ObjectPath) -> Result<Staged, Fault> {
        match self.prepare(dir).and_then(|fd| Ok(Staged::create(fd)?)) {
            Err(Fault::Os(Errno::NOENT)) => self.stage_in_haste(dir),
            answer => answer,
        }
    }

    /// The same beside a sweeper of empty directories: the file comes first, before the disk is waited for.
    fn stage_in_haste(&self, dir: &ObjectPath) -> Result<Staged, Fault> {
        self.root.ensure(&ObjectPath::root(), self.options.fsync)?;
        for () in tries() {
            match self.root.ensure(dir, false).and_then(|fd| Ok(Staged::create(fd)?)) {
                Err(Fault::Os(Errno::NOENT)) => {}
                staged => return staged.and_then(|staged| self.sync_above(dir).map(|()| staged)),
            }
        }
        Err(Fault::Os(Errno::BUSY))
    }
}
