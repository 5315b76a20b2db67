//! A directory of this machine, or of a shared mount.
//!
//! - *Publishing*: a temporary file in the same directory, fsync, one atomic step to its name, fsync of the
//!   directory, one for all who wait for it. There is one way to do it, and `publish` owns it. Directories made on the way are synced
//!   from the top down before anything is placed in them.
//! - *Create only*: `renameat2(RENAME_NOREPLACE)`, or `link` and `unlink` where the file system lacks it.
//!   A lost reply is settled by the inode, which only this write has.
//! - *The root*: nothing outside it is reached. `openat2` confines the kernel's own walk; without it, links
//!   are resolved first and the result is walked without following any.
//! - *Litter*: temporary files carry their maker's boot, namespace, process and start. A process removes
//!   those of dead processes from each directory that it writes to, once.

mod fault;
mod group;
mod litter;
mod options;
mod prepare;
mod probe;
mod publish;
mod remove;
mod root;
mod sweep;
mod transfer;
mod walk;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use self::fault::Fault;
use self::group::DirectorySyncs;

pub use self::options::PosixOptions;
pub(crate) use self::options::PosixScheme;
use self::publish::{Placed, Placer, Staged, meta_of};
use self::root::{Root, file_type};
use self::writer::PosixWriter;
use crate::capability::Capabilities;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::{
    CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta, ReadOptions,
    ReadResult, RenameOptions, StatOptions, Storage, StorageWriter, WriteMode, WriteOptions, WriteOutcome,
};

/// A storage in a directory. Its methods need a tokio runtime, whose blocking threads do the work.
///
/// Names are kept as they are, byte for byte; two names that differ only in case or in Unicode
/// normalisation are two objects where the file system keeps them apart. A symbolic link inside the root is
/// followed by reads and listings while it stays inside; writing to its name replaces the link, deleting it
/// removes the link. Sockets, pipes and devices do not appear.
#[derive(Debug)]
pub struct PosixStorage {
    inner: Arc<Inner>,
}

/// What the threads share.
#[derive(Debug)]
struct Inner {
    root: Root,
    url: String,
    options: PosixOptions,
    capabilities: Capabilities,
    placer: Placer,
    syncs: DirectorySyncs,
    known: Mutex<HashSet<ObjectPath>>,
}

impl PosixStorage {
    /// Opens a directory, which need not exist: the first write makes it, with its parents. Blocks for a
    /// few system calls. A directory that cannot be written opens too, without the capabilities that need
    /// writing.
    ///
    /// # Errors
    /// `InvalidConfig` when the root is a file, or cannot be made absolute.
    pub fn open(root: &Path, options: PosixOptions) -> Result<Self> {
        Self::open_with(root, options, Placer::new)
    }

    fn open_with(root: &Path, options: PosixOptions, placer: impl FnOnce(bool) -> Placer) -> Result<Self> {
        let shown = root.to_string_lossy();
        let absolute = std::path::absolute(root).map_err(|e| {
            Error::invalid_config("the path cannot be made absolute")
                .with_operation("open")
                .with_url(shown.as_ref())
                .with_source(e)
        })?;
        // Without a slash at the end.
        let root: PathBuf = absolute.components().collect();
        if root.metadata().is_ok_and(|m| !m.is_dir()) {
            return Err(Error::invalid_config("the path is a file, and a directory is needed")
                .with_operation("open")
                .with_url(shown));
        }
        // A URL here has no slash at its end.
        let url = if root == Path::new("/") { "/.".to_owned() } else { root.to_string_lossy().into_owned() };
        let (capabilities, local) = probe::capabilities(&root);
        let root = Root::new(root, options.follow_symlinks);
        let known = Mutex::default();
        let (placer, syncs) = (placer(local), DirectorySyncs::default());
        Ok(Self { inner: Arc::new(Inner { root, url, options, capabilities, placer, syncs, known }) })
    }

    /// Removes temporary files that crashed writers left in `prefix` and below, and gives how many: those
    /// of processes that are known to be dead, and those last changed at least `age` ago by the file
    /// system's own clock whose makers are not known to be alive (another machine's, say). A writer of
    /// another machine that pauses for longer than `age` would lose its file, so be generous: a day.
    ///
    /// Writes do the first half by themselves in each directory they touch.
    ///
    /// # Errors
    /// The first failure to list or to remove.
    pub async fn sweep_litter(&self, prefix: &ObjectPath, age: Duration) -> Result<u64> {
        let prefix = prefix.clone();
        self.run("sweep", prefix.clone(), move |inner| inner.sweep(&prefix, age)).await
    }

    /// Runs blocking work on a thread for it, and names its failure.
    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: ObjectPath,
        work: impl FnOnce(&Inner) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        let url = inner.url_of(&path);
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(done) => done.map_err(|fault| fault.into_error(operation, url)),
            Err(lost) => Err(Error::new(ErrorKind::Io, "the work was broken off")
                .with_operation(operation)
                .with_url(url)
                .with_source(lost)),
        }
    }
}

impl Inner {
    fn url_of(&self, path: &ObjectPath) -> String {
        if path.is_root() { self.url.clone() } else { format!("{}/{path}", self.url) }
    }

    /// Splits a path that is to be written into directory and name.
    fn target<'p>(&self, path: &'p ObjectPath) -> Result<(ObjectPath, &'p str), Fault> {
        let Some(parent) = path.parent() else { return Err(Fault::RootIsNoObject) };
        let name = path.name();
        if litter::maker_of(name.as_bytes()).is_some() {
            return Err(Fault::Reserved);
        }
        if name.len() > self.capabilities.max_segment {
            return Err(Fault::Os(Errno::NAMETOOLONG));
        }
        Ok((parent, name))
    }

    /// Syncs a filled temporary file, unless that may wait, and gives it its name. The guard is asked right before the name.
    fn publish(
        &self,
        mut staged: Staged,
        name: &str,
        mode: WriteMode,
        sync: bool,
        guard: Option<&Guard>,
    ) -> Result<Outcome, Fault> {
        let sync = sync && self.options.fsync;
        staged.seal(sync)?;
        Guard::check(guard)?;
        let (placed, meta) = staged.place(&self.placer, name, mode)?;
        Ok(match placed {
            Placed::Exists => Outcome::AlreadyExists,
            Placed::Unclear(errno) => Outcome::Unknown(errno),
            Placed::Done { .. } => match self.sync_entries(staged.dir(), sync) {
                Ok(()) => Outcome::Done(meta),
                // The name is there, and may not be after a power failure.
                Err(errno) => Outcome::Unknown(errno),
            },
        })
    }

    /// Puts a directory's entries on disk, together with all who wait for that.
    fn sync_entries(&self, dir: &OwnedFd, sync: bool) -> Result<(), Errno> {
        if sync { self.syncs.sync(dir) } else { Ok(()) }
    }

    fn outcome(&self, operation: &'static str, path: &ObjectPath, outcome: Outcome) -> WriteOutcome {
        match outcome {
            Outcome::Done(meta) => WriteOutcome::Done(meta),
            Outcome::AlreadyExists => WriteOutcome::AlreadyExists,
            Outcome::Unknown(errno) => WriteOutcome::Unknown(Fault::Os(errno).into_error(operation, self.url_of(path))),
        }
    }

    fn write(&self, path: &ObjectPath, bytes: &[u8], options: &WriteOptions) -> Result<Outcome, Fault> {
        Guard::check(options.guard.as_ref())?;
        self.check_mode(options.mode)?;
        let (dir, name) = self.target(path)?;
        let mut staged = self.stage(&dir)?;
        staged.write(bytes)?;
        self.publish(staged, name, options.mode, !options.unsettled, options.guard.as_ref())
    }

    fn check_mode(&self, mode: WriteMode) -> Result<(), Fault> {
        if mode == WriteMode::IfAbsent && !self.capabilities.write_if_absent {
            Err(Fault::NoCreateOnly)
        } else {
            Ok(())
        }
    }

    /// Opens an object to be looked at (`PATH`) or read; anything but a regular file is none.
    fn object(&self, path: &ObjectPath, flags: OFlags) -> Result<(OwnedFd, rustix::fs::Stat), Fault> {
        if path.is_root() {
            return Err(Fault::NotAnObject("the root of the storage"));
        }
        // A pipe must not be waited for, and the kernel is strict about what goes with `PATH`.
        let more = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
        let fd = self.root.beneath(path, flags | more).map_err(|fault| match fault {
            Fault::Os(Errno::NXIO) => Fault::NotAnObject("a socket"),
            other => other,
        })?;
        let stat = rustix::fs::fstat(&fd)?;
        match file_type(&stat) {
            FileType::RegularFile => Ok((fd, stat)),
            FileType::Directory => Err(Fault::NotAnObject("a directory")),
            _ => Err(Fault::NotAnObject("a special file")),
        }
    }

    fn read(&self, path: &ObjectPath, options: &ReadOptions) -> Result<ReadResult, Fault> {
        Guard::check(options.guard.as_ref())?;
        let (fd, stat) = self.object(path, OFlags::RDONLY)?;
        let meta = meta_of(&stat);
        let range =
            options.whole_or_range(meta.size).map_err(|e| e.with_operation("read").with_url(self.url_of(path)))?;
        let start = range.start.min(meta.size);
        let wanted = range.end.min(meta.size).saturating_sub(start);
        let length = usize::try_from(wanted).map_err(|_| Fault::TooLarge(wanted))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| Fault::TooLarge(wanted))?;
        while bytes.len() < length {
            let offset = start + bytes.len() as u64;
            let read = || rustix::io::pread(&fd, rustix::buffer::spare_capacity(&mut bytes), offset);
            if rustix::io::retry_on_intr(read)? == 0 {
                return Err(Fault::Shrunk { expected: meta.size, got: offset });
            }
        }
        // The vector may have been given more room than it asked for.
        bytes.truncate(length);
        Ok(ReadResult { bytes: Bytes::from(bytes), meta })
    }

    fn sweep(&self, prefix: &ObjectPath, age: Duration) -> Result<u64, Fault> {
        let first = match self.root.directory(prefix) {
            Err(fault) if fault.is_missing() => return Ok(0),
            answer => answer?,
        };
        Ok(sweep::sweep_tree(first, age)?)
    }
}

/// How a write ended, before an unknown end is given its name.
#[derive(Debug)]
enum Outcome {
    Done(ObjectMeta),
    AlreadyExists,
    Unknown(Errno),
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for PosixStorage {
    fn url(&self) -> &str {
        &self.inner.url
    }

    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        let path = path.clone();
        self.run("read", path.clone(), move |inner| inner.read(&path, &options)).await
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        let path = path.clone();
        self.run("write", path.clone(), move |inner| {
            inner.write(&path, &bytes, &options).map(|outcome| inner.outcome("write", &path, outcome))
        })
        .await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        let target = path.clone();
        let guard = options.guard.clone();
        let staged = self
            .run("write", path.clone(), move |inner| {
                Guard::check(guard.as_ref())?;
                inner.check_mode(options.mode)?;
                inner.stage(&inner.target(&target)?.0)
            })
            .await?;
        Ok(Box::new(PosixWriter::new(Arc::clone(&self.inner), path.clone(), staged, options)))
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        let path = path.clone();
        self.run("stat", path.clone(), move |inner| {
            Guard::check(options.guard.as_ref())?;
            inner.object(&path, OFlags::PATH).map(|(_, stat)| meta_of(&stat))
        })
        .await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        if let Err(error) = Guard::check(options.guard.as_ref()) {
            return stream::once(async { Err(error) }).boxed();
        }
        walk::list(Arc::clone(&self.inner), prefix.clone(), options)
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        let (from, to) = (from.clone(), to.clone());
        self.run("copy", from.clone(), move |inner| inner.copy(&from, &to, &options)).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        let path = path.clone();
        self.run("delete", path.clone(), move |inner| inner.delete(&path, options.guard.as_ref())).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        self.run("delete", ObjectPath::root(), move |inner| inner.delete_many(paths, options.guard.as_ref())).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        let path = path.clone();
        self.run("create_dir", path.clone(), move |inner| {
            Guard::check(options.guard.as_ref())?;
            inner.prepare(&path).map(|_| ())
        })
        .await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        let (from, to) = (from.clone(), to.clone());
        self.run("rename", from.clone(), move |inner| inner.rename(&from, &to, &options)).await
    }
}
