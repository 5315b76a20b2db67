//! Tests of what only a directory tree has; the shared contract is tested by the conformance suite.

mod links;
mod listing;
mod litter;
mod mounts;
mod publishing;
mod reading;
mod removing;
mod renaming;

use std::path::Path;

use tempfile::TempDir;

use super::publish::Placer;
use super::*;
use crate::storage::StorageExt;

/// The two ways of creating without replacing.
const PLACERS: [fn(bool) -> Placer; 2] = [Placer::new, |_| Placer::by_link()];

/// A fresh directory and a storage in it. Durability is not what these tests can see, so they do not wait
/// for the disk.
fn scratch() -> (TempDir, PosixStorage) {
    scratch_with(Placer::new)
}

fn scratch_with(placer: impl FnOnce(bool) -> Placer) -> (TempDir, PosixStorage) {
    let dir = tempfile::tempdir().expect("temp dir");
    let storage = PosixStorage::open_with(&dir.path().join("root"), PosixOptions::new().fsync(false), placer);
    (dir, storage.expect("opens"))
}

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("valid path")
}

async fn put(storage: &PosixStorage, at: &str, bytes: &'static str) {
    let outcome = storage.write(&path(at), bytes.into(), WriteOptions::new()).await.expect("writes");
    assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
}

async fn get(storage: &PosixStorage, at: &str) -> Result<String> {
    let read = storage.read(&path(at), ReadOptions::new()).await?;
    Ok(String::from_utf8(read.bytes.to_vec()).expect("text"))
}

async fn kind_of_reading(storage: &PosixStorage, at: &str) -> ErrorKind {
    get(storage, at).await.expect_err("cannot be read").kind()
}

/// Everything below a directory as the kernel shows it, hidden or not.
fn on_disk(dir: &Path) -> Vec<String> {
    fn visit(dir: &Path, base: &Path, into: &mut Vec<String>) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for entry in entries.map(|e| e.expect("entry")) {
            let inside = entry.path();
            into.push(inside.strip_prefix(base).expect("inside").to_string_lossy().into_owned());
            if entry.file_type().expect("type").is_dir() {
                visit(&inside, base, into);
            }
        }
    }
    let mut found = Vec::new();
    visit(dir, dir, &mut found);
    found.sort();
    found
}

/// A guard that allows `allowed` questions and refuses the next.
fn guard_after(allowed: usize) -> Option<Guard> {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Some(Guard::new(move || {
        if asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < allowed {
            Ok(Duration::from_secs(1))
        } else {
            Err(Error::new(ErrorKind::Conflict, "the lease is over"))
        }
    }))
}
