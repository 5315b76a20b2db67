//! Removing what crashed writers left.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::litter;
use super::publish::Staged;
use super::root::{DIRECTORY, file_type};

/// Which temporary files a sweep removes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sweep {
    /// Those whose makers are known to be gone.
    Gone,
    /// These, and those last changed at least `age` before `now`, by the store's clock, whose makers are
    /// not known to be alive.
    OlderThan {
        /// The store's time, as seconds and nanoseconds.
        now: Duration,
        /// How old they must be.
        age: Duration,
    },
}

/// Removes temporary files directly in a directory; gives how many. Other files are never touched.
pub(super) fn sweep(dir: impl AsFd, which: Sweep) -> Result<u64, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(&dir)? {
        let entry = entry?;
        if let Some(maker) = litter::maker_of(entry.file_name().to_bytes()) {
            found.push((entry.file_name().to_owned(), maker));
        }
    }
    let mut removed = 0;
    for (name, maker) in found {
        let Ok(stat) = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let doomed = maker.is_gone()
            || match which {
                Sweep::Gone => false,
                Sweep::OlderThan { now, age } => !maker.is_alive() && now.saturating_sub(changed(&stat)) >= age,
            };
        if !doomed || file_type(&stat) != FileType::RegularFile {
            continue;
        }
        match rustix::fs::unlinkat(&dir, &name, AtFlags::empty()) {
            Ok(()) => removed += 1,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(removed)
}

/// Sweeps a directory and all below it by age; links are not followed.
pub(super) fn sweep_tree(first: OwnedFd, age: Duration) -> Result<u64, Errno> {
    let which = Sweep::OlderThan { now: store_time(&first)?, age };
    let mut removed = 0;
    let mut waiting = vec![first];
    while let Some(dir) = waiting.pop() {
        removed += sweep(&dir, which)?;
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name: CString = entry.file_name().to_owned();
            let perhaps = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            if !perhaps || matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            match rustix::fs::openat(&dir, &name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(inside) => waiting.push(inside),
                // Gone, or no directory after all.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(removed)
}

/// The file system's own time, which a server's clock decides: that of a file made now.
fn store_time(dir: &OwnedFd) -> Result<Duration, Errno> {
    let dir = dir.try_clone().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    Ok(changed(&Staged::create(dir)?.stat()?))
}

fn changed(stat: &Stat) -> Duration {
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0)) + Duration::from_nanos(nanos.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::litter::Maker;
    use super::*;

    #[test]
    fn sweeps_by_death_and_by_age_and_touches_nothing_else() {
        let dir = tempfile::tempdir().expect("temp dir");
        let names =
            [Maker::ended().name(), Maker::current().name(), Maker::elsewhere().name(), ".ckpt-tmp-foreign".to_owned()];
        for name in &names {
            fs::write(dir.path().join(name), "x").expect("writes");
        }
        let fd = fs::File::open(dir.path()).expect("opens");
        let left = || names.iter().map(|n| dir.path().join(n).exists()).collect::<Vec<_>>();
        assert_eq!(sweep(&fd, Sweep::Gone), Ok(1));
        assert_eq!(left(), [false, true, true, true]);
        let changed = fs::metadata(dir.path().join(&names[2])).expect("stat").modified().expect("mtime");
        let now = changed.duration_since(std::time::UNIX_EPOCH).expect("after 1970") + Duration::from_secs(60);
        assert_eq!(sweep(&fd, Sweep::OlderThan { now, age: Duration::from_secs(61) }), Ok(0));
        assert_eq!(sweep(&fd, Sweep::OlderThan { now, age: Duration::from_secs(60) }), Ok(1));
        assert_eq!(left(), [false, true, false, true]);
    }
}
