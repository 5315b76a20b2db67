//! The checks: each does to a scratch directory what a job would do, and looks at what came of it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use checkpoint_fs::{
    CopyOptions, DeleteOptions, Entry, ListOptions, ObjectPath, ReadOptions, RenameOptions, StatOptions, StorageExt,
    StorageRef, WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_store::RuntimeRef;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};

use super::verdict::{Checked, Verdict, Wrong};

/// Writers that race for one object.
const RACERS: usize = 8;
/// Bytes of the streamed object: more than one part.
const LARGE: usize = 9 << 20;
/// Bytes of one piece of it.
const PIECE: usize = 1 << 20;
/// How far the clocks may be apart before it is worth a word, and before services refuse requests.
const SKEW_NOTED: Duration = Duration::from_secs(60);
const SKEW_REFUSED: Duration = Duration::from_secs(300);
/// Names with everything that a multi-delete has to escape.
const ODD_NAMES: [&str; 6] = ["plain", "a b+c", "&<>\"'", "%41 #?", "\u{e9}\u{1F600}", ".hidden"];

/// A scratch directory, and what the checks need besides.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) storage: StorageRef,
    pub(super) runtime: RuntimeRef,
}

impl Scratch {
    /// An empty directory lists as empty.
    pub(super) async fn list(&self) -> Checked {
        let entries = self.names("").await?;
        if entries.is_empty() { holds("") } else { wrong("an unused directory is not empty", "report this") }
    }

    /// A plain write, and how far its time is from this machine's.
    pub(super) async fn put(&self) -> Checked {
        self.write("object", Bytes::from_static(b"0123456789")).await?;
        holds("10 bytes")
    }

    /// The clock of the service against this machine's, by the time of an object just written.
    pub(super) async fn clock(&self) -> Checked {
        let before = self.runtime.now();
        self.write("clock", Bytes::from_static(b"tick")).await?;
        let after = self.runtime.now();
        let Some(theirs) = self.storage.stat(&path("clock")?, StatOptions::new()).await?.last_modified else {
            return Ok(Verdict::NotHere("the storage gives no times".to_owned()));
        };
        let skew = apart(theirs, before, after);
        let seen = format!("{} s apart", skew.as_secs());
        if skew < SKEW_NOTED {
            return Ok(Verdict::Holds(format!("less than {} s apart", skew.as_secs() + 1)));
        }
        let advice = "set this machine's clock, for example with NTP: services refuse requests from 5 to 15 minutes on";
        if skew < SKEW_REFUSED { Ok(Verdict::Noted(seen, advice)) } else { wrong(seen, advice) }
    }

    /// A write that must not replace, twice.
    pub(super) async fn put_if_absent(&self) -> Checked {
        if !self.storage.capabilities().write_if_absent {
            return Err(self.no_create_only());
        }
        let create = WriteOptions::new().mode(WriteMode::IfAbsent);
        let first = self.storage.write(&path("created")?, Bytes::from_static(b"1"), create.clone()).await?;
        if let Some(other) = not_done(first)? {
            return wrong(format!("the first one {other}"), "try again");
        }
        match self.storage.write(&path("created")?, Bytes::from_static(b"2"), create).await? {
            WriteOutcome::AlreadyExists => {}
            WriteOutcome::Done(_) => return Err(self.no_create_only()),
            WriteOutcome::Unknown(error) => return Err(error.into()),
        }
        let read = self.storage.read(&path("created")?, ReadOptions::new()).await?;
        if read.bytes != "1" {
            return Err(self.no_create_only());
        }
        holds("the second was refused")
    }

    /// Several at once: one wins.
    pub(super) async fn race(&self) -> Checked {
        if !self.storage.capabilities().write_if_absent {
            return Ok(Verdict::NotHere("there is no create-only write".to_owned()));
        }
        let at = path("raced")?;
        let racers = (0..RACERS).map(|n| {
            let create = WriteOptions::new().mode(WriteMode::IfAbsent);
            self.storage.write(&at, Bytes::from(n.to_string()), create)
        });
        let mut winners = Vec::new();
        for (n, outcome) in join_all(racers).await.into_iter().enumerate() {
            if not_done(outcome?)?.is_none() {
                winners.push(n.to_string());
            }
        }
        let there = self.storage.read(&at, ReadOptions::new()).await?.bytes;
        if winners.len() != 1 || winners[0].as_bytes() != there {
            let what = format!("of {RACERS} at once {} were told that they had won", winners.len());
            return wrong(what, "do not share a checkpoint there: use --lease-url or --assume-exclusive");
        }
        holds(format!("{RACERS} at once, one won"))
    }

    /// The whole object, as it was written.
    pub(super) async fn get(&self) -> Checked {
        let read = self.storage.read(&path("object")?, ReadOptions::new()).await?;
        if read.bytes != "0123456789" || read.meta.size != 10 {
            return wrong(
                format!("other bytes came back: bytes={}", read.bytes.len()),
                "something on the way changes data",
            );
        }
        holds("")
    }

    /// A range of it.
    pub(super) async fn range(&self) -> Checked {
        let read = self.storage.read(&path("object")?, ReadOptions::new().range(Some(3..6))).await?;
        if read.bytes != "345" {
            return wrong(
                format!("other bytes came back: bytes={}", read.bytes.len()),
                "something on the way changes data",
            );
        }
        holds("")
    }

    /// Objects show in a listing that starts after they were written, and are gone from one after their delete.
    pub(super) async fn list_after_write(&self) -> Checked {
        for round in 0..5 {
            let name = format!("listed/{round}");
            self.write(&name, Bytes::from_static(b"x")).await?;
            if !self.names("listed").await?.contains(&name) {
                return self.lagging("what was just written");
            }
            self.storage.delete(&path(&name)?, DeleteOptions::new()).await?;
            if self.names("listed").await?.contains(&name) {
                return self.lagging("what was just deleted");
            }
        }
        holds("5 times at once")
    }

    /// A copy inside the storage.
    pub(super) async fn copy(&self) -> Checked {
        let copied = self.storage.copy(&path("object")?, &path("copied")?, CopyOptions::new()).await?;
        if let Some(other) = not_done(copied)? {
            return wrong(format!("the copy {other}"), "try again");
        }
        let read = self.storage.read(&path("copied")?, ReadOptions::new()).await?;
        if read.bytes == "0123456789" { holds("") } else { wrong("the copy holds other bytes", "report this") }
    }

    /// A rename that must not replace.
    pub(super) async fn rename(&self) -> Checked {
        if !self.storage.capabilities().atomic_rename {
            return Ok(Verdict::NotHere("this kind of store has no atomic rename, and none is needed".to_owned()));
        }
        self.write("from", Bytes::from_static(b"x")).await?;
        let options = RenameOptions::new().mode(WriteMode::IfAbsent);
        match self.storage.rename(&path("from")?, &path("object")?, options.clone()).await? {
            WriteOutcome::AlreadyExists => {}
            other => return wrong(format!("a file was replaced: {other:?}"), "use --lease-url or --assume-exclusive"),
        }
        match not_done(self.storage.rename(&path("from")?, &path("to")?, options).await?)? {
            None => holds("does not replace"),
            Some(other) => wrong(format!("the rename {other}"), "try again"),
        }
    }

    /// An object that goes up in parts.
    pub(super) async fn multipart(&self) -> Checked {
        let mut writer = self.storage.writer(&path("large")?, WriteOptions::new()).await?;
        for piece in 0..LARGE / PIECE {
            let filled = Bytes::from(vec![u8::try_from(piece).unwrap_or_default(); PIECE]);
            if let Err(error) = writer.write(filled).await {
                drop(writer.abort().await);
                return Err(error.into());
            }
        }
        if let Some(other) = not_done(writer.finish().await?)? {
            return wrong(format!("the upload {other}"), "try again");
        }
        for piece in [0, LARGE / PIECE - 1] {
            let start = (piece * PIECE) as u64;
            let read = self.storage.read(&path("large")?, ReadOptions::new().range(Some(start..start + 4))).await?;
            if read.meta.size != LARGE as u64 || read.bytes.iter().any(|byte| usize::from(*byte) != piece) {
                return wrong("other bytes came back", "something on the way changes data");
            }
        }
        holds(format!("{} MiB", LARGE >> 20))
    }

    /// Many objects with odd names in one request, all of them gone after.
    pub(super) async fn delete_many(&self) -> Checked {
        let names: Vec<String> = ODD_NAMES.iter().map(|name| format!("odd/{name}")).collect();
        for name in &names {
            self.write(name, Bytes::from_static(b"x")).await?;
        }
        let mut listed = self.names("odd").await?;
        listed.sort();
        let mut expected = names.clone();
        expected.sort();
        if listed != expected {
            return wrong(format!("odd names come back otherwise: {listed:?}"), "keep to plain names on this store");
        }
        let paths = names.iter().map(|name| path(name)).collect::<Result<Vec<_>, _>>()?;
        let failures = self.storage.delete_many(paths, DeleteOptions::new()).await?;
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure.error.into());
        }
        let left = self.names("odd").await?;
        if !left.is_empty() {
            return wrong(format!("objects were kept without an error: {left:?}"), "report this");
        }
        let batch = self.storage.capabilities().max_delete_batch;
        holds(if batch > 1 { format!("up to {batch} in a request") } else { "one by one".to_owned() })
    }

    /// Whether the bucket keeps old versions.
    pub(super) async fn versioning(&self) -> Checked {
        let capabilities = self.storage.capabilities();
        Ok(match capabilities.versioning {
            Some(state) if capabilities.write_if_absent => Verdict::Holds(state.to_string()),
            Some(state) => Verdict::Noted(state.to_string(), "with versions this store ignores create-only writes"),
            None => Verdict::NotHere("not asked, or not said".to_owned()),
        })
    }

    /// Removes everything again.
    pub(super) async fn clean_up(&self) -> Checked {
        let files = self.storage.list_files(&ObjectPath::root(), true).await?;
        let paths = files.into_iter().map(|(path, _)| path).collect();
        if let Some(failure) = self.storage.delete_many(paths, DeleteOptions::new()).await?.into_iter().next() {
            return Err(failure.error.into());
        }
        if self.storage.capabilities().directories {
            for dir in ["listed", "odd", ""] {
                self.storage.delete(&path(dir)?, DeleteOptions::new()).await?;
            }
        }
        holds("")
    }

    async fn write(&self, name: &str, bytes: Bytes) -> Result<(), Wrong> {
        match not_done(self.storage.write(&path(name)?, bytes, WriteOptions::new()).await?)? {
            None => Ok(()),
            Some(other) => Err(Wrong::new(format!("a plain write {other}"), "try again")),
        }
    }

    async fn names(&self, dir: &str) -> Result<Vec<String>, Wrong> {
        let entries: Vec<Entry> =
            self.storage.list(&path(dir)?, ListOptions::new().fresh(true)).boxed().try_collect().await?;
        Ok(entries.iter().map(|entry| entry.path().to_string()).collect())
    }

    fn no_create_only(&self) -> Wrong {
        let why = match self.storage.capabilities().versioning {
            Some(versioning) if !self.storage.capabilities().write_if_absent => format!(": versioning={versioning}"),
            _ => String::new(),
        };
        Wrong::new(
            format!("the store does not keep a write from replacing{why}"),
            "run jobs with --lease-url on a store that does, or with --assume-exclusive if only one can run",
        )
    }

    fn lagging(&self, what: &str) -> Checked {
        let seen = format!("a listing did not show {what} as it is");
        if self.storage.capabilities().consistent_list {
            return wrong(seen, "something caches listings on the way to this store: go around it");
        }
        Ok(Verdict::Noted(seen, "listings lag here; that costs a job repeated work and never a row"))
    }
}

fn holds(what: impl Into<String>) -> Checked {
    Ok(Verdict::Holds(what.into()))
}

fn wrong(what: impl Into<String>, advice: &str) -> Checked {
    Err(Wrong::new(what, advice))
}

fn path(text: &str) -> Result<ObjectPath, Wrong> {
    Ok(ObjectPath::parse(text)?)
}

/// `None` when it is done, else how it ended.
fn not_done(outcome: WriteOutcome) -> Result<Option<&'static str>, Wrong> {
    match outcome {
        WriteOutcome::Done(_) => Ok(None),
        WriteOutcome::AlreadyExists => Ok(Some("found another object there")),
        WriteOutcome::Unknown(error) => Err(error.into()),
    }
}

/// How far a time is from a span of this machine's.
fn apart(theirs: SystemTime, before: SystemTime, after: SystemTime) -> Duration {
    // Services tell the time in whole seconds.
    let late = theirs.duration_since(after).unwrap_or_default();
    let early = before.duration_since(theirs + Duration::from_secs(1)).unwrap_or_default();
    late.max(early)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_with_the_span_of_the_write() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (theirs, expected) in [(100, 0), (99, 0), (101, 0), (40, 58), (170, 69)] {
            assert_eq!(apart(at(theirs), at(99), at(101)), Duration::from_secs(expected), "{theirs}");
        }
    }
}
