//! The one way that bytes get a name: a temporary file in the same directory, synced, then placed.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::fault::Fault;
use super::litter;
use super::root::file_type;
use crate::storage::{ObjectMeta, WriteMode};

/// How placing a file under a name ended.
#[derive(Debug)]
pub(super) enum Placed {
    /// It has the name. `leftover` says why its old name could not be removed, where it could not.
    Done { leftover: Option<Errno> },
    /// Another file has the name; nothing was changed.
    Exists,
    /// The call failed, and looking did not tell whether the file has the name.
    Unclear(Errno),
}

/// A name in an open directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) dir: &'a OwnedFd,
    pub(super) name: &'a str,
}

impl Place<'_> {
    pub(super) fn stat(self) -> Result<Stat, Errno> {
        rustix::fs::statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn remove(self) -> Result<(), Errno> {
        rustix::fs::unlinkat(self.dir, self.name, AtFlags::empty())
    }

    /// Takes away the old name of a file that has its new one.
    fn leave(self) -> Placed {
        Placed::Done { leftover: self.remove().err().filter(|errno| *errno != Errno::NOENT) }
    }

    /// Whether the name is of this file; an error where that cannot be seen.
    pub(super) fn holds(self, file: Identity) -> Result<bool, Errno> {
        match self.stat() {
            Ok(stat) => Ok(Identity::of(&stat) == file),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

/// Device and inode: the same file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity(u64, u64);

impl Identity {
    #[cfg(test)]
    pub(super) const fn new(device: u64, inode: u64) -> Self {
        Self(device, inode)
    }

    pub(super) fn of(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// Places files under names, replacing or not.
#[derive(Debug)]
pub(super) struct Placer {
    /// `renameat2` with `RENAME_NOREPLACE` does not work here (NFS, some FUSE mounts); links do. Found out
    /// by the first call that meets it.
    by_link: AtomicBool,
    /// The disk is of this machine: a failed call had no effect. A file server may have done what it
    /// was asked, and its reply be lost; the client's second try fails then.
    local: bool,
}

impl Placer {
    pub(super) fn new(local: bool) -> Self {
        Self { by_link: AtomicBool::new(false), local }
    }

    /// For a file server without the no-replace rename.
    #[cfg(test)]
    pub(super) fn by_link() -> Self {
        Self { by_link: AtomicBool::new(true), local: false }
    }

    /// Moves `file` from one name to another, in one atomic step.
    ///
    /// Where only hard links can refuse to replace, the new name appears atomically and the old one is
    /// removed after: a crash between leaves both, which are the same file.
    pub(super) fn place(
        &self,
        file: Identity,
        from: Place<'_>,
        to: Place<'_>,
        mode: WriteMode,
    ) -> Result<Placed, Fault> {
        match mode {
            WriteMode::Overwrite => self.replace(file, from, to),
            WriteMode::IfAbsent => self.create(file, from, to),
        }
    }

    /// Takes away one of two names of a file, which a crash may have left: between them a rename does
    /// nothing and says it did.
    pub(super) fn merge(&self, from: Place<'_>) -> Result<Placed, Fault> {
        match from.remove() {
            // Another rename of the same file was faster.
            Err(Errno::NOENT) if self.local => Err(Fault::Os(Errno::NOENT)),
            Ok(()) | Err(Errno::NOENT) => Ok(Placed::Done { leftover: None }),
            Err(errno) => Ok(Placed::Done { leftover: Some(errno) }),
        }
    }

    fn create(&self, file: Identity, from: Place<'_>, to: Place<'_>) -> Result<Placed, Fault> {
        let mut renamed = None;
        if !self.by_link.load(Ordering::Relaxed) {
            match rustix::fs::renameat_with(from.dir, from.name, to.dir, to.name, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(Placed::Done { leftover: None }),
                Err(Errno::EXIST) => return self.exists(file, from, to),
                Err(errno) if lacks_call(errno) => renamed = Some(errno),
                Err(errno) => return self.settle(file, from, to, errno),
            }
        }
        match rustix::fs::linkat(from.dir, from.name, to.dir, to.name, AtFlags::empty()) {
            Ok(()) => {
                self.by_link.store(true, Ordering::Relaxed);
                Ok(from.leave())
            }
            // A file server may have made the link, lost the reply, and refused the client's second try.
            Err(Errno::EXIST) if !self.local && to.holds(file) == Ok(true) => Ok(from.leave()),
            Err(Errno::EXIST) => self.exists(file, from, to),
            // Refused both times for the same reason: that is the directory, not the call.
            Err(Errno::PERM) if renamed == Some(Errno::PERM) => Err(Fault::Os(Errno::PERM)),
            Err(errno) if lacks_call(errno) => Err(Fault::NoCreateOnly),
            Err(errno) => self.settle(file, from, to, errno),
        }
    }

    fn replace(&self, file: Identity, from: Place<'_>, to: Place<'_>) -> Result<Placed, Fault> {
        match rustix::fs::renameat(from.dir, from.name, to.dir, to.name) {
            Ok(()) => Ok(Placed::Done { leftover: None }),
            Err(Errno::ISDIR) => Err(Fault::IsDirectory),
            Err(errno) => self.settle(file, from, to, errno),
        }
    }

    /// The name is taken: by a directory, by another file, or by this one after a lost reply.
    fn exists(&self, file: Identity, from: Place<'_>, to: Place<'_>) -> Result<Placed, Fault> {
        match to.stat() {
            Ok(stat) if file_type(&stat) == FileType::Directory => Err(Fault::IsDirectory),
            Ok(stat) if !self.local && Identity::of(&stat) == file && from.holds(file) == Ok(false) => {
                Ok(Placed::Done { leftover: None })
            }
            _ => Ok(Placed::Exists),
        }
    }

    /// A call failed. Where that says nothing about its effect, look at both names.
    fn settle(&self, file: Identity, from: Place<'_>, to: Place<'_>, errno: Errno) -> Result<Placed, Fault> {
        if self.local {
            return Err(Fault::Os(errno));
        }
        match (from.holds(file), to.holds(file)) {
            (Ok(false), Ok(true)) => Ok(Placed::Done { leftover: None }),
            (Ok(true), Ok(true)) => Ok(from.leave()),
            (Ok(true), Ok(false)) => Err(Fault::Os(errno)),
            // The old name cannot be read, or both are gone: somebody else was at work.
            _ => Ok(Placed::Unclear(errno)),
        }
    }
}

/// What file systems and sandboxes answer when they lack a call or its flag.
fn lacks_call(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM)
}

/// A temporary file being filled. Dropped before it is placed, it removes itself.
#[derive(Debug)]
pub(super) struct Staged {
    dir: OwnedFd,
    name: String,
    file: File,
    placed: bool,
}

impl Staged {
    /// Makes one in a directory, which it keeps open.
    pub(super) fn create(dir: OwnedFd) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        loop {
            let name = litter::new_name();
            match rustix::fs::openat(&dir, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(fd) => return Ok(Self { dir, name, file: File::from(fd), placed: false }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::fstat(&self.file)
    }

    /// Puts the bytes on disk, still without the name.
    pub(super) fn seal(&self, sync: bool) -> Result<(), Errno> {
        if sync { rustix::fs::fsync(&self.file) } else { Ok(()) }
    }

    /// Gives the file its name in the same directory; its metadata comes with [`Placed::Done`].
    pub(super) fn place(
        &mut self,
        placer: &Placer,
        name: &str,
        mode: WriteMode,
    ) -> Result<(Placed, ObjectMeta), Fault> {
        let stat = self.stat()?;
        let from = Place { dir: &self.dir, name: &self.name };
        let placed = placer.place(Identity::of(&stat), from, Place { dir: &self.dir, name }, mode);
        let placed = placed.map_err(|fault| if fault.is_missing() { Fault::Vanished } else { fault })?;
        // A leftover name is tried again on drop, and is litter of ours after that.
        self.placed = matches!(placed, Placed::Done { leftover: None });
        Ok((placed, meta_of(&stat)))
    }

    /// Removes the file.
    pub(super) fn discard(mut self) -> Result<(), Errno> {
        self.placed = true;
        Place { dir: &self.dir, name: &self.name }.remove()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.placed
            && let Err(errno) = (Place { dir: &self.dir, name: &self.name }.remove())
            && errno != Errno::NOENT
        {
            tracing::debug!(name = self.name, %errno, "a temporary file stays behind");
        }
    }
}

/// The public metadata of a file.
pub(super) fn meta_of(stat: &Stat) -> ObjectMeta {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    ObjectMeta::new(size).with_last_modified(modified(stat))
}

fn modified(stat: &Stat) -> Option<SystemTime> {
    let nanos = Duration::from_nanos(u64::from(u32::try_from(stat.st_mtime_nsec).ok()?));
    let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
    let whole = if stat.st_mtime < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    whole?.checked_add(nanos)
}
