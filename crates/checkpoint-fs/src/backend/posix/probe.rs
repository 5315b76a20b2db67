//! What a directory's file system can do, found out once when the storage is opened.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Mode, RenameFlags};
use rustix::io::Errno;

use super::publish::Staged;
use super::root::DIRECTORY;
use crate::capability::Capabilities;

/// What is known of a type of file system.
struct Traits {
    /// A disk of this machine. Creating without replacing works there, so that nothing has to be tried.
    local: bool,
    /// Listings show what other machines did a moment ago, or there are no other machines.
    coherent: bool,
}

/// Types by the number that `statfs` gives. Absent ones are tried out, and their listings are not relied
/// on: NFS, SMB and FUSE cache directories for a while.
fn traits(kind: u32) -> Traits {
    match kind {
        // ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, ZFS, overlayfs, bcachefs.
        0xEF53 | 0x5846_5342 | 0x9123_683E | 0x0102_1994 | 0xF2F5_2010 | 0x2FC1_2FC1 | 0x794C_7630 | 0xCA45_1A4E => {
            Traits { local: true, coherent: true }
        }
        // Ceph, Lustre, GPFS keep listings coherent between machines.
        0x00C3_6400 | 0x0BD0_0BD0 | 0x4750_4653 => Traits { local: false, coherent: true },
        _ => Traits { local: false, coherent: false },
    }
}

/// The capabilities of a root, or of the nearest directory above it when it does not exist yet; and whether
/// that is on a disk of this machine.
///
/// Opening a directory to read it must not change it, so nothing is written where the type of the file
/// system tells enough. Elsewhere two empty files are made and removed.
pub(super) fn capabilities(root: &Path) -> (Capabilities, bool) {
    let mut capabilities = Capabilities {
        atomic_rename: false,
        write_if_absent: false,
        copy_if_absent: false,
        consistent_list: false,
        ordered_list: true,
        max_delete_batch: 1000,
        max_path: 4095_usize.saturating_sub(root.as_os_str().len() + 1),
        max_segment: 255,
        directories: true,
        durable: true,
        versioning: None,
    };
    let nearest = root.ancestors().find(|dir| dir.exists());
    let Some(Ok(dir)) = nearest.map(|d| rustix::fs::openat(CWD, d, DIRECTORY, Mode::empty())) else {
        return (capabilities, false);
    };
    let Ok(info) = rustix::fs::fstatfs(&dir) else { return (capabilities, false) };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number has 32 bits")]
    let traits = traits(info.f_type as u32);
    capabilities.consistent_list = traits.coherent;
    let writable = rustix::fs::accessat(&dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    let creates = writable && (traits.local || can_create(dir));
    capabilities.atomic_rename = creates;
    capabilities.write_if_absent = creates;
    capabilities.copy_if_absent = creates;
    (capabilities, traits.local)
}

/// Tries both ways of creating without replacing, against a name that is taken: a file system that
/// ignores the flag would replace it.
fn can_create(dir: OwnedFd) -> bool {
    match try_create(dir) {
        Ok(answer) => answer,
        // A full disk says nothing about the calls. Each write tries them again, and refuses when neither
        // works.
        Err(errno) => matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::MFILE | Errno::NFILE),
    }
}

fn try_create(dir: OwnedFd) -> Result<bool, Errno> {
    let other = dir.try_clone().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    let (a, b) = (Staged::create(dir)?, Staged::create(other)?);
    let renamed = rustix::fs::renameat_with(a.dir(), a.name(), b.dir(), b.name(), RenameFlags::NOREPLACE);
    let linked = rustix::fs::linkat(a.dir(), a.name(), b.dir(), b.name(), AtFlags::empty());
    Ok(renamed == Err(Errno::EXIST) || linked == Err(Errno::EXIST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_directory_can_do_everything_and_is_not_changed_by_asking() {
        let dir = tempfile::tempdir().expect("temp dir");
        let before = std::fs::metadata(dir.path()).expect("stat").modified().expect("mtime");
        let (found, _) = capabilities(&dir.path().join("not/there/yet"));
        assert!(found.write_if_absent && found.atomic_rename && found.copy_if_absent);
        assert_eq!(std::fs::metadata(dir.path()).expect("stat").modified().expect("mtime"), before);
    }

    #[test]
    fn trying_finds_a_way_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("temp dir");
        let fd = rustix::fs::openat(CWD, dir.path(), DIRECTORY, Mode::empty()).expect("opens");
        assert_eq!(try_create(fd), Ok(true));
        assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0);
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_claimed() {
        let (found, local) = capabilities(Path::new("/proc/checkpoint"));
        assert!(!found.write_if_absent && !found.atomic_rename && !found.consistent_list && !local);
    }
}
