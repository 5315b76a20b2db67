//! One fsync of a directory for all who wait for it at the same moment.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::publish::Identity;
use super::root::sync_directory;

/// Groups the fsyncs of each directory. Who comes while one is at work waits for the next, which covers all
/// that came in between: it begins after each of them had changed the directory.
#[derive(Debug, Default)]
pub(super) struct DirectorySyncs {
    directories: Mutex<HashMap<Identity, Rounds>>,
    ended: Condvar,
}

/// The fsyncs of one directory, numbered.
#[derive(Debug, Default)]
struct Rounds {
    /// The round that those join who come now. It has not begun.
    open: u64,
    /// Rounds before this one have ended.
    ended: u64,
    running: bool,
    /// Rounds that failed, while callers are inside.
    failed: HashMap<u64, Errno>,
    /// Callers inside.
    users: usize,
}

impl DirectorySyncs {
    /// Puts the entries of a directory on disk, as they are now or later. Blocks.
    pub(super) fn sync(&self, dir: &OwnedFd) -> Result<(), Errno> {
        let identity = Identity::of(&rustix::fs::fstat(dir)?);
        self.sync_with(identity, || sync_directory(dir, true))
    }

    fn sync_with(&self, directory: Identity, fsync: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        let mut directories = self.lock();
        let rounds = directories.entry(directory).or_default();
        rounds.users += 1;
        let mine = rounds.open;
        loop {
            let rounds = directories.entry(directory).or_default();
            if rounds.ended > mine {
                let failed = rounds.failed.get(&mine).copied();
                rounds.users -= 1;
                if rounds.users == 0 {
                    directories.remove(&directory);
                }
                return failed.map_or(Ok(()), Err);
            }
            if rounds.running {
                directories = self.ended.wait(directories).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            rounds.running = true;
            rounds.open += 1;
            drop(directories);
            let synced = fsync();
            directories = self.lock();
            directories.entry(directory).or_default().end(mine, synced);
            self.ended.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, Rounds>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rounds {
    /// Ends a round. The kernel tells of a lost write once: so a failure is also that of those who wait for
    /// the next round, whose entries may have been in what was lost.
    fn end(&mut self, round: u64, synced: Result<(), Errno>) {
        self.running = false;
        self.ended = round + 1;
        if let Err(errno) = synced {
            self.failed.insert(round, errno);
            self.failed.insert(self.open, errno);
            self.open += 1;
            self.ended = self.open;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const DIRECTORY: Identity = Identity::new(1, 2);

    /// Starts one fsync, lets five callers come meanwhile, and ends it with `answer`: gives how often was
    /// synced, and how many were told of a failure.
    fn six_callers(answer: Result<(), Errno>) -> (usize, usize) {
        let (syncs, calls) = (DirectorySyncs::default(), AtomicUsize::new(0));
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let fsync = || match calls.fetch_add(1, Ordering::SeqCst) {
            0 => {
                let released = released.lock().expect("no panic");
                released.recv().expect("released");
                answer
            }
            _ => Ok(()),
        };
        let inside = || syncs.lock().get(&DIRECTORY).map_or(0, |rounds| rounds.users);
        let failed = std::thread::scope(|scope| {
            let caller = || scope.spawn(|| syncs.sync_with(DIRECTORY, fsync));
            let mut callers = vec![caller()];
            while calls.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            callers.extend((0..5).map(|_| caller()));
            while inside() < 6 {
                std::thread::yield_now();
            }
            release.send(()).expect("is waited for");
            callers.into_iter().map(|c| c.join().expect("no panic")).filter(Result::is_err).count()
        });
        assert!(syncs.lock().is_empty(), "nothing is kept");
        (calls.load(Ordering::SeqCst), failed)
    }

    #[test]
    fn who_comes_meanwhile_shares_the_next_fsync() {
        assert_eq!(six_callers(Ok(())), (2, 0));
    }

    #[test]
    fn a_failure_is_told_to_all_who_were_there() {
        assert_eq!(six_callers(Err(Errno::IO)), (1, 6));
    }

    #[test]
    fn directories_do_not_wait_for_each_other() {
        let syncs = DirectorySyncs::default();
        let nested = || syncs.sync_with(Identity::new(1, 3), || Ok(()));
        assert_eq!(syncs.sync_with(DIRECTORY, nested), Ok(()));
        assert_eq!(syncs.sync_with(DIRECTORY, || Err(Errno::IO)), Err(Errno::IO));
        assert_eq!(syncs.sync_with(DIRECTORY, || Ok(())), Ok(()), "the next is a new one");
    }
}
