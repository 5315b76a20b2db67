//! The root directory, and the only ways from it to what is inside: nothing here can leave it.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::fault::Fault;
use crate::path::ObjectPath;

/// Flags of a directory that is read, synced, or worked in.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// So often a call is tried again at once when another process removes or swaps what it stands on.
const RACES: usize = 64;
/// So often with a pause before it.
const PATIENT_RACES: usize = 4096;
const PAUSE: Duration = Duration::from_millis(1);

/// The tries of a call that cannot go another way when it is overtaken, for some seconds in all.
pub(super) fn tries() -> impl Iterator<Item = ()> {
    let patient = std::iter::repeat_with(|| std::thread::sleep(PAUSE)).take(PATIENT_RACES);
    std::iter::repeat_n((), RACES).chain(patient)
}

/// A root directory. It may not exist yet; it is opened anew by each call, so it may come and go.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    follow_symlinks: bool,
}

impl Root {
    pub(super) fn new(path: PathBuf, follow_symlinks: bool) -> Self {
        Self { path, follow_symlinks }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(CWD, &self.path, DIRECTORY, Mode::empty())
    }

    /// Opens a directory inside.
    pub(super) fn directory(&self, path: &ObjectPath) -> Result<OwnedFd, Fault> {
        if path.is_root() { Ok(self.open()?) } else { self.beneath(path, DIRECTORY) }
    }

    /// Opens anything inside. Symbolic links are followed while they stay inside the root.
    pub(super) fn beneath(&self, path: &ObjectPath, flags: OFlags) -> Result<OwnedFd, Fault> {
        let root = self.open()?;
        let flags = flags | OFlags::CLOEXEC;
        if self.follow_symlinks {
            return Ok(rustix::fs::openat(&root, path.as_str(), flags, Mode::empty())?);
        }
        match open_in_kernel(&root, path.as_str(), flags) {
            Some(answer) => Ok(answer?),
            None => self.resolve(&root, path, flags),
        }
    }

    /// For kernels without `openat2`, and for absolute links, which it refuses even when they lead back
    /// inside: resolve the links first, then walk the result without following any.
    pub(super) fn resolve(&self, root: &OwnedFd, path: &ObjectPath, flags: OFlags) -> Result<OwnedFd, Fault> {
        let mut last = Fault::Os(Errno::AGAIN);
        for _ in 0..RACES {
            let base = fs::canonicalize(&self.path)?;
            let target = fs::canonicalize(self.path.join(path.as_str()))?;
            let inside = target.strip_prefix(&base).map_err(|_| Fault::Leaves)?;
            match walk_without_links(root, inside, flags) {
                Ok(fd) => return Ok(fd),
                // A link appeared where none was a moment ago: look again.
                Err(errno @ (Errno::LOOP | Errno::NOTDIR | Errno::NOENT)) => last = Fault::Os(errno),
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(last)
    }

    /// Opens a directory inside, making it and its parents. With `sync`, the entry of each directory made
    /// is on disk when this returns.
    pub(super) fn ensure(&self, path: &ObjectPath, sync: bool) -> Result<OwnedFd, Fault> {
        for () in tries() {
            match self.directory(path) {
                Err(Fault::Os(Errno::NOENT)) => {}
                Err(Fault::Os(Errno::NOTDIR)) => return Err(Fault::ParentIsFile),
                answer => return answer,
            }
            let Some(parent) = path.parent() else {
                make_with_parents(&self.path, sync)?;
                continue;
            };
            let parent = self.ensure(&parent, sync)?;
            match rustix::fs::mkdirat(&parent, path.name(), Mode::from_raw_mode(0o777)) {
                Ok(()) => {
                    // Opened before the disk is waited for, in which time it may be removed again.
                    let made = self.directory(path);
                    sync_directory(&parent, sync)?;
                    if made.is_ok() {
                        return made;
                    }
                }
                Err(Errno::EXIST) => {
                    let there = rustix::fs::statat(&parent, path.name(), AtFlags::SYMLINK_NOFOLLOW);
                    let is_link = there.is_ok_and(|stat| file_type(&stat) == FileType::Symlink);
                    if is_link && matches!(self.directory(path), Err(Fault::Os(Errno::NOENT))) {
                        return Err(Fault::Dangling);
                    }
                }
                // The parent was removed meanwhile.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Fault::Os(Errno::BUSY))
    }

    /// Syncs the directories from `path` up to the root, and the one that holds the root where it can be
    /// opened: another process may have made them and not synced them yet.
    pub(super) fn sync_chain(&self, path: &ObjectPath) -> Result<(), Fault> {
        let mut next = path.parent();
        while let Some(dir) = next {
            match self.directory(&dir) {
                Ok(fd) => sync_directory(&fd, true)?,
                // Open for passing through only: not made by this storage, then.
                Err(Fault::Os(Errno::ACCESS)) => {}
                Err(fault) => return Err(fault),
            }
            next = dir.parent();
        }
        if let Some(Ok(holder)) = self.path.parent().map(|p| rustix::fs::openat(CWD, p, DIRECTORY, Mode::empty())) {
            sync_directory(&holder, true)?;
        }
        Ok(())
    }
}

/// `openat2` confined to the directory; `None` where the kernel lacks it or refuses for a link that must
/// be looked at more closely.
fn open_in_kernel(root: &OwnedFd, path: &str, flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
    use rustix::fs::ResolveFlags;
    static MISSING: AtomicBool = AtomicBool::new(false);
    if MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let confined = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RACES {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), confined) {
            // A rename somewhere under the root happened at the same time.
            Err(Errno::AGAIN) => {}
            Err(Errno::XDEV) => return None,
            Err(Errno::NOSYS) => {
                MISSING.store(true, Ordering::Relaxed);
                return None;
            }
            // What old container runtimes answer for calls they do not know.
            Err(Errno::PERM) => return None,
            answer => return Some(answer),
        }
    }
    None
}

fn walk_without_links(root: &OwnedFd, inside: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at: Option<OwnedFd> = None;
    let mut rest = inside.iter().peekable();
    while let Some(name) = rest.next() {
        let flags = if rest.peek().is_some() { step } else { flags | OFlags::NOFOLLOW };
        at = Some(rustix::fs::openat(at.as_ref().unwrap_or(root), name, flags, Mode::empty())?);
    }
    match at {
        Some(fd) => Ok(fd),
        // A link to the root itself.
        None => rustix::fs::openat(root, ".", flags, Mode::empty()),
    }
}

/// Makes the root: each missing directory above it, from the top, each entry synced.
fn make_with_parents(path: &Path, sync: bool) -> Result<(), Fault> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        match fs::create_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if fs::symlink_metadata(dir).is_ok_and(|m| m.is_symlink()) && !dir.exists() {
                    return Err(Fault::Dangling);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Err(Fault::ParentIsFile),
            Err(error) => return Err(error.into()),
        }
        if let Some(holder) = dir.parent() {
            sync_directory(&rustix::fs::openat(CWD, holder, DIRECTORY, Mode::empty())?, sync)?;
        }
    }
    Ok(())
}

/// Puts a directory's entries on disk. Some file systems have no such call for directories, and those keep
/// no entries to lose; they answer `EINVAL`.
pub(super) fn sync_directory(dir: impl AsFd, sync: bool) -> Result<(), Errno> {
    if !sync {
        return Ok(());
    }
    match rustix::fs::fsync(dir) {
        Err(Errno::INVAL | Errno::OPNOTSUPP) => {
            tracing::debug!("this file system cannot sync directories");
            Ok(())
        }
        answer => answer,
    }
}

/// The type in a file's metadata.
pub(super) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
