//! Listings: a walk on a thread of its own, streamed to the caller.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::vec;

use futures::stream::{self, BoxStream, StreamExt};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::fault::Fault;
use super::publish::{Identity, meta_of};
use super::root::{DIRECTORY, file_type};
use super::{Inner, litter};
use crate::error::{Error, ErrorKind, Result};
use crate::path::ObjectPath;
use crate::storage::{Entry, ListOptions, ObjectMeta};

/// Entries that travel together, and batches that may wait for a slow reader.
const BATCH: usize = 256;
const WAITING: usize = 4;

type Batch = Vec<Result<Entry>>;

/// Lists in ascending byte order. Names of one directory are held in memory at a time, for each level of
/// the walk; a name that the system gives twice (a file replaced meanwhile) is given once.
///
/// An entry that cannot be listed (a link that leads out or nowhere, a name that is no path) comes as an
/// error in its place, and the listing goes on after it: an input that is silently missing would be worse.
pub(super) fn list(inner: Arc<Inner>, prefix: ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
    let start = async move {
        let (sender, mut receiver) = mpsc::channel::<Batch>(WAITING);
        let url = inner.url_of(&prefix);
        let walk = tokio::task::spawn_blocking(move || Walk::new(&inner, options, sender).run(&prefix));
        let batches = stream::poll_fn(move |context| receiver.poll_recv(context));
        // A walk that died must not look like one that came to its end.
        let end = stream::once(walk).filter_map(move |ended| {
            let lost = ended.err().map(|e| {
                let error = Error::new(ErrorKind::Io, "the listing was broken off");
                Err(error.with_operation("list").with_url(url.clone()).with_source(e))
            });
            async move { lost }
        });
        batches.flat_map(stream::iter).chain(end)
    };
    stream::once(start).flatten().boxed()
}

/// The caller does not listen any more.
struct Closed;

struct Walk<'a> {
    inner: &'a Inner,
    options: ListOptions,
    sender: mpsc::Sender<Batch>,
    batch: Batch,
}

/// One directory of the walk, with what is left of it.
struct Level {
    dir: OwnedFd,
    identity: Identity,
    path: ObjectPath,
    names: vec::IntoIter<Name>,
}

struct Name {
    text: CString,
    kind: Kind,
}

enum Kind {
    File,
    Directory,
    /// A link to a file inside the root.
    FileLink(ObjectMeta),
    /// A link to a directory inside the root.
    DirectoryLink,
    Broken(Fault),
}

impl<'a> Walk<'a> {
    fn new(inner: &'a Inner, options: ListOptions, sender: mpsc::Sender<Batch>) -> Self {
        Self { inner, options, sender, batch: Vec::new() }
    }

    fn run(mut self, prefix: &ObjectPath) {
        let done = match self.inner.root.directory(prefix).and_then(|dir| self.level(dir, prefix)) {
            Ok(level) => self.descend(level),
            Err(fault) if fault.is_missing() => Ok(()),
            Err(fault) => self.fail(prefix, fault),
        };
        if done.is_ok() {
            // Whether anybody listens to the last batch makes no difference.
            self.flush().ok();
        }
    }

    fn descend(&mut self, first: Level) -> Result<(), Closed> {
        let mut levels = vec![first];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                levels.pop();
                continue;
            };
            let path = match name.text.to_str().ok().and_then(|text| level.path.join(text).ok()) {
                Some(path) => path,
                None => {
                    let at = level.path.clone();
                    self.fail(&at, Fault::Unreachable(name.text.to_string_lossy().into_owned()))?;
                    continue;
                }
            };
            let opened = match name.kind {
                Kind::Broken(fault) => {
                    self.fail(&path, fault)?;
                    continue;
                }
                Kind::FileLink(meta) => {
                    self.file(path, meta)?;
                    continue;
                }
                Kind::File => {
                    match rustix::fs::statat(&level.dir, &name.text, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) if file_type(&stat) == FileType::RegularFile => self.file(path, meta_of(&stat))?,
                        // Gone, or something else by now.
                        Ok(_) | Err(Errno::NOENT) => {}
                        Err(errno) => self.fail(&path, errno.into())?,
                    }
                    continue;
                }
                Kind::Directory | Kind::DirectoryLink if !self.options.recursive => {
                    if self.wanted(&path) {
                        self.give(Ok(Entry::Dir { path }))?;
                    }
                    continue;
                }
                Kind::Directory | Kind::DirectoryLink if self.all_before_start(&path) => continue,
                Kind::Directory => {
                    rustix::fs::openat(&level.dir, &name.text, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
                        .map_err(Fault::Os)
                }
                Kind::DirectoryLink => self.inner.root.directory(&path),
            };
            match opened.and_then(|dir| self.level(dir, &path)) {
                // A link to a directory that it lies in: its files are listed under their own paths.
                Ok(next) if levels.iter().any(|l| l.identity == next.identity) => {}
                Ok(next) => levels.push(next),
                Err(fault) if fault.is_missing() => {}
                Err(fault) => self.fail(&path, fault)?,
            }
        }
        Ok(())
    }

    /// Reads a directory's names, sorts them, and finds out what each is where the system did not say.
    fn level(&self, dir: OwnedFd, path: &ObjectPath) -> Result<Level, Fault> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let text = entry.file_name();
            if matches!(text.to_bytes(), b"." | b"..") || litter::maker_of(text.to_bytes()).is_some() {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => rustix::fs::statat(&dir, text, AtFlags::SYMLINK_NOFOLLOW).map(|s| file_type(&s)),
                known => Ok(known),
            };
            let kind = match kind {
                Ok(FileType::RegularFile) => Kind::File,
                Ok(FileType::Directory) => Kind::Directory,
                Ok(FileType::Symlink) => match self.follow(&dir, text, path) {
                    Some(kind) => kind,
                    None => continue,
                },
                // Sockets, pipes and devices are no objects.
                Ok(_) | Err(Errno::NOENT) => continue,
                Err(errno) => Kind::Broken(errno.into()),
            };
            names.push(Name { text: text.to_owned(), kind });
        }
        names.sort_unstable_by(|a, b| self.key(a).cmp(self.key(b)));
        names.dedup_by(|a, b| a.text == b.text);
        let identity = Identity::of(&rustix::fs::fstat(&dir)?);
        Ok(Level { dir, identity, path: path.clone(), names: names.into_iter() })
    }

    /// The bytes that order a name: what is in a directory comes where `name/` does.
    fn key<'n>(&self, name: &'n Name) -> impl Iterator<Item = &'n u8> + use<'n> {
        let descends = self.options.recursive && matches!(name.kind, Kind::Directory | Kind::DirectoryLink);
        name.text.to_bytes().iter().chain(descends.then_some(&b'/'))
    }

    /// What a link leads to; `None` when the link is gone or leads to no file.
    fn follow(&self, dir: &OwnedFd, name: &std::ffi::CStr, parent: &ObjectPath) -> Option<Kind> {
        // A name that is no path is reported by the walk, once it is known to be no socket or pipe.
        let Some(path) = name.to_str().ok().and_then(|text| parent.join(text).ok()) else { return Some(Kind::File) };
        let target = self.inner.root.beneath(&path, OFlags::PATH);
        match target.and_then(|fd| Ok(rustix::fs::fstat(&fd)?)) {
            Ok(stat) => match file_type(&stat) {
                FileType::RegularFile => Some(Kind::FileLink(meta_of(&stat))),
                FileType::Directory => Some(Kind::DirectoryLink),
                _ => None,
            },
            Err(fault) if fault.is_missing() => {
                let still = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
                still.is_ok_and(|s| file_type(&s) == FileType::Symlink).then_some(Kind::Broken(Fault::Dangling))
            }
            Err(fault) => Some(Kind::Broken(fault)),
        }
    }

    fn wanted(&self, path: &ObjectPath) -> bool {
        self.options.start_after.as_ref().is_none_or(|after| path > after)
    }

    /// Whether everything in a directory comes before the start.
    fn all_before_start(&self, dir: &ObjectPath) -> bool {
        let Some(after) = &self.options.start_after else { return false };
        after.strip_prefix(dir).is_none() && format!("{dir}/").as_str() < after.as_str()
    }

    fn file(&mut self, path: ObjectPath, meta: ObjectMeta) -> Result<(), Closed> {
        if self.wanted(&path) { self.give(Ok(Entry::File { path, meta })) } else { Ok(()) }
    }

    fn fail(&mut self, path: &ObjectPath, fault: Fault) -> Result<(), Closed> {
        self.give(Err(fault.into_error("list", self.inner.url_of(path))))
    }

    fn give(&mut self, entry: Result<Entry>) -> Result<(), Closed> {
        self.batch.push(entry);
        if self.batch.len() < BATCH { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Closed> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.sender.blocking_send(std::mem::take(&mut self.batch)).map_err(|_| Closed)
    }
}
