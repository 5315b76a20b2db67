//! Copies and renames inside one root.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::fault::Fault;
use super::publish::{Identity, Place, Placed, Staged, meta_of};
use super::root::tries;
use super::{Inner, Outcome};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::{CopyOptions, RenameOptions, WriteMode, WriteOutcome};

impl Inner {
    /// Copies to a temporary file beside the target, by the kernel where it can, then publishes that.
    pub(super) fn copy(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: &CopyOptions,
    ) -> Result<WriteOutcome, Fault> {
        let guard = options.guard.as_ref();
        Guard::check(guard)?;
        self.check_mode(options.mode)?;
        let (source, stat) = self.object(from, OFlags::RDONLY)?;
        let size = meta_of(&stat).size;
        let at_target = |fault: Fault| Fault::Ready(fault.into_error("copy", self.url_of(to)));
        let (dir, name) = self.target(to).map_err(at_target)?;
        let mut staged = self.stage(&dir).map_err(at_target)?;
        let copied =
            std::io::copy(&mut File::from(source).take(size), staged.file()).map_err(|e| at_target(e.into()))?;
        if copied != size {
            return Err(Fault::Shrunk { expected: size, got: copied });
        }
        let outcome = self.publish(staged, name, options.mode, true, guard).map_err(at_target)?;
        Ok(self.outcome("copy", to, outcome))
    }

    /// Moves a name. A symbolic link is moved as a link.
    ///
    /// Where the file system lacks the no-replace rename, `IfAbsent` gives the object its new name
    /// atomically and takes the old one away after; a crash between leaves both. Two such renames of one
    /// source to one target may both say done.
    pub(super) fn rename(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: &RenameOptions,
    ) -> Result<WriteOutcome, Fault> {
        let guard = options.guard.as_ref();
        Guard::check(guard)?;
        if !self.capabilities.atomic_rename {
            return Err(Fault::NoCreateOnly);
        }
        let at_target = |fault: Fault| Fault::Ready(fault.into_error("rename", self.url_of(to)));
        let (_, object) = match options.settle && self.options.fsync {
            true => self.settled(from)?,
            false => self.object(from, OFlags::PATH)?,
        };
        let (from_dir, from_name) = self.target(from)?;
        let (to_dir, to_name) = self.target(to).map_err(at_target)?;
        let source_dir = self.root.directory(&from_dir)?;
        let source = Place { dir: &source_dir, name: from_name };
        let file = Identity::of(&source.stat()?);
        let prepared = self.prepare(&to_dir).map_err(at_target)?;
        // A file that keeps a sweeper of empty directories from the target's.
        let mut held: Option<Staged> = None;
        let mut tries = tries();
        let (placed, target_dir) = loop {
            Guard::check(guard)?;
            let target_dir = held.as_ref().map_or(&prepared, Staged::dir);
            let target = Place { dir: target_dir, name: to_name };
            let twins = options.mode == WriteMode::Overwrite && from != to && target.holds(file) == Ok(true);
            if twins && !same_place(&source_dir, target_dir, from_name, to_name)? {
                break (self.placer.merge(source)?, target_dir);
            }
            match self.placer.place(file, source, target, options.mode) {
                // The source is there: the target's directory was removed meanwhile. Make it again.
                Err(Fault::Os(Errno::NOENT)) if source.holds(file) == Ok(true) => {
                    tries.next().ok_or_else(|| at_target(Fault::Os(Errno::BUSY)))?;
                    held = Some(self.stage(&to_dir).map_err(at_target)?);
                }
                answer => break (answer?, target_dir),
            }
        };
        let outcome = match placed {
            Placed::Exists => Outcome::AlreadyExists,
            Placed::Unclear(errno) | Placed::Done { leftover: Some(errno) } => Outcome::Unknown(errno),
            Placed::Done { leftover: None } => {
                // The new name first: a crash between leaves both names rather than none.
                let synced = self
                    .sync_entries(target_dir, self.options.fsync)
                    .and_then(|()| self.sync_entries(&source_dir, self.options.fsync && from_dir != to_dir));
                match synced {
                    Ok(()) => Outcome::Done(meta_of(&object)),
                    Err(errno) => Outcome::Unknown(errno),
                }
            }
        };
        Ok(self.outcome("rename", to, outcome))
    }
}

impl Inner {
    /// Puts an object's bytes on disk, whoever wrote them.
    fn settled(&self, path: &ObjectPath) -> Result<(OwnedFd, Stat), Fault> {
        let (fd, stat) = self.object(path, OFlags::RDONLY)?;
        rustix::fs::fsync(&fd)?;
        Ok((fd, stat))
    }
}

/// Whether two paths are one entry of one directory, reached by different ways.
fn same_place(a: &OwnedFd, b: &OwnedFd, a_name: &str, b_name: &str) -> Result<bool, Errno> {
    Ok(a_name == b_name && Identity::of(&rustix::fs::fstat(a)?) == Identity::of(&rustix::fs::fstat(b)?))
}
