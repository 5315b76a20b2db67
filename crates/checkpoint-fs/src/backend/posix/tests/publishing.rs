use std::fs::File;

use super::super::publish::{Identity, Place};
use super::*;

#[tokio::test]
async fn the_first_write_makes_the_root_and_everything_above_it() {
    let dir = tempfile::tempdir().expect("temp dir");
    let storage = PosixStorage::open(&dir.path().join("a/b/root/"), PosixOptions::new()).expect("opens");
    assert!(!dir.path().join("a").exists(), "opening makes nothing");
    put(&storage, "c/d/x", "1").await;
    assert_eq!(on_disk(dir.path()), ["a", "a/b", "a/b/root", "a/b/root/c", "a/b/root/c/d", "a/b/root/c/d/x"]);
    assert_eq!(storage.url(), dir.path().join("a/b/root").to_string_lossy());
}

#[tokio::test]
async fn a_root_that_is_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("temp file");
    let error = PosixStorage::open(file.path(), PosixOptions::new()).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_racers_exactly_one_creates_and_its_bytes_stay() {
    for placer in PLACERS {
        let (dir, storage) = scratch_with(placer);
        let storage = Arc::new(storage);
        for round in 0..10 {
            let at = path(&format!("round-{round}"));
            let racers = (0..24).map(|racer| {
                let (storage, at) = (Arc::clone(&storage), at.clone());
                tokio::spawn(async move {
                    let options = WriteOptions::new().mode(WriteMode::IfAbsent);
                    let bytes = Bytes::from(format!("racer {racer}"));
                    (racer, storage.write(&at, bytes, options).await.expect("answers"))
                })
            });
            let mut winners = Vec::new();
            for answer in futures::future::join_all(racers).await {
                match answer.expect("no panic") {
                    (racer, WriteOutcome::Done(_)) => winners.push(racer),
                    (_, WriteOutcome::AlreadyExists) => {}
                    (_, WriteOutcome::Unknown(error)) => panic!("{error}"),
                }
            }
            assert_eq!(winners.len(), 1);
            assert_eq!(get(&storage, at.as_str()).await.expect("there"), format!("racer {}", winners[0]));
        }
        assert_eq!(on_disk(&dir.path().join("root")).len(), 10, "no temporary file is left");
    }
}

#[tokio::test]
async fn a_guard_that_refuses_at_any_moment_leaves_nothing() {
    let (dir, storage) = scratch();
    put(&storage, "kept", "old").await;
    for allowed in 0..2 {
        for mode in [WriteMode::Overwrite, WriteMode::IfAbsent] {
            let options = WriteOptions::new().mode(mode).guard(guard_after(allowed));
            let error = storage.write(&path("x"), "1".into(), options.clone()).await.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Conflict);
            let options = CopyOptions::new().mode(mode).guard(guard_after(allowed));
            assert!(storage.copy(&path("kept"), &path("x"), options).await.is_err());
            let options = RenameOptions::new().mode(mode).guard(guard_after(allowed));
            assert!(storage.rename(&path("kept"), &path("x"), options).await.is_err());
        }
    }
    let options = WriteOptions::new().guard(guard_after(3));
    let mut writer = storage.writer(&path("x"), options).await.expect("starts");
    writer.write("1".into()).await.expect("writes");
    assert!(writer.finish().await.is_err(), "asked again right before the name is given");
    assert_eq!(on_disk(&dir.path().join("root")), ["kept"]);
    let options = WriteOptions::new().guard(guard_after(2));
    storage.write(&path("x"), "1".into(), options).await.map(|_| ()).expect("two questions are all");
}

#[tokio::test]
async fn names_that_cannot_be_are_errors_and_leave_nothing() {
    let (dir, storage) = scratch();
    put(&storage, "file", "1").await;
    storage.create_dir(&path("dir"), CreateDirOptions::new()).await.expect("made");
    let long = "n".repeat(256);
    let reserved = super::super::litter::new_name();
    let cases = [
        (long.as_str(), ErrorKind::InvalidConfig),
        (reserved.as_str(), ErrorKind::InvalidConfig),
        ("", ErrorKind::InvalidConfig),
        ("dir", ErrorKind::AlreadyExists),
        ("file/below", ErrorKind::AlreadyExists),
        ("file/far/below", ErrorKind::AlreadyExists),
    ];
    for (at, kind) in cases {
        for mode in [WriteMode::Overwrite, WriteMode::IfAbsent] {
            let answer = storage.write(&path(at), "1".into(), WriteOptions::new().mode(mode)).await;
            let error = answer.expect_err("refused");
            assert_eq!((error.kind(), error.operation()), (kind, "write"), "{at}: {error}");
            assert!(error.url().ends_with(at), "{at}: {error}");
        }
    }
    put(&storage, &"n".repeat(255), "1").await;
    let deep = vec!["d".repeat(200); 25].join("/");
    let error = storage.write(&path(&deep), "1".into(), WriteOptions::new()).await.expect_err("too long");
    assert_eq!((error.kind(), error.service_code()), (ErrorKind::InvalidConfig, Some("ENAMETOOLONG")));
    assert_eq!(on_disk(&dir.path().join("root")).iter().filter(|n| n.contains(".ckpt-tmp-")).count(), 0);
}

#[tokio::test]
async fn a_writer_shows_nothing_before_it_finishes_and_nothing_when_dropped() {
    let (dir, storage) = scratch();
    let root = dir.path().join("root");
    let mut writer = storage.writer(&path("d/x"), WriteOptions::new()).await.expect("starts");
    writer.write("12".into()).await.expect("writes");
    assert_eq!(on_disk(&root).len(), 2, "the directory and a temporary file");
    assert!(storage.list_files(&ObjectPath::root(), true).await.expect("lists").is_empty());
    drop(writer);
    assert_eq!(on_disk(&root), ["d"]);
    let mut writer = storage.writer(&path("d/x"), WriteOptions::new()).await.expect("starts");
    writer.write("12".into()).await.expect("writes");
    writer.write("345".into()).await.expect("writes");
    let WriteOutcome::Done(meta) = writer.finish().await.expect("publishes") else { panic!("not done") };
    assert_eq!(meta.size, 5);
    let writer = storage.writer(&path("d/x"), WriteOptions::new()).await.expect("starts");
    writer.abort().await.expect("gives up");
    assert_eq!(on_disk(&root), ["d", "d/x"]);
    assert_eq!(get(&storage, "d/x").await.expect("there"), "12345");
}

#[tokio::test]
async fn a_write_outlives_directories_that_are_removed_under_it() {
    let (dir, storage) = scratch();
    for round in 0..50 {
        put(&storage, "d/e/x", "1").await;
        assert!(dir.path().join("root/d/e/x").exists(), "{round}");
        std::fs::remove_dir_all(dir.path().join("root")).expect("removes");
    }
}

/// A file with a second name, as a file server leaves it that made a link and lost its reply.
#[test]
fn a_link_made_and_reported_as_failed_counts_as_made() {
    let dir = tempfile::tempdir().expect("temp dir");
    let fd: OwnedFd = File::open(dir.path()).expect("opens").into();
    let place = |name| Place { dir: &fd, name };
    let placer = Placer::by_link();
    std::fs::write(dir.path().join("temp-1"), "1").expect("writes");
    std::fs::hard_link(dir.path().join("temp-1"), dir.path().join("published")).expect("links");
    let file = Identity::of(&place("temp-1").stat().expect("stat"));
    let placed = placer.place(file, place("temp-1"), place("published"), WriteMode::IfAbsent).expect("answers");
    assert!(matches!(placed, Placed::Done { leftover: None }), "{placed:?}");
    assert!(!dir.path().join("temp-1").exists(), "the old name is gone");
    std::fs::write(dir.path().join("temp-2"), "2").expect("writes");
    let file = Identity::of(&place("temp-2").stat().expect("stat"));
    let placed = placer.place(file, place("temp-2"), place("published"), WriteMode::IfAbsent).expect("answers");
    assert!(matches!(placed, Placed::Exists), "another file: {placed:?}");
}

/// A rename that the server did, whose reply was lost: the second try finds no source.
#[test]
fn a_rename_done_and_reported_as_failed_counts_as_done() {
    let dir = tempfile::tempdir().expect("temp dir");
    let fd: OwnedFd = File::open(dir.path()).expect("opens").into();
    let place = |name| Place { dir: &fd, name };
    std::fs::write(dir.path().join("published"), "1").expect("writes");
    let file = Identity::of(&place("published").stat().expect("stat"));
    let placed = Placer::new(false).place(file, place("temp"), place("published"), WriteMode::Overwrite);
    assert!(matches!(placed, Ok(Placed::Done { leftover: None })), "{placed:?}");
    std::fs::write(dir.path().join("other"), "2").expect("writes");
    let placed = Placer::new(false).place(file, place("temp"), place("other"), WriteMode::Overwrite);
    assert!(matches!(placed, Ok(Placed::Unclear(Errno::NOENT))), "neither name is ours: {placed:?}");
}

#[tokio::test]
async fn a_temporary_file_that_somebody_removes_fails_the_write_and_is_no_missing_object() {
    let (dir, storage) = scratch();
    let mut writer = storage.writer(&path("x"), WriteOptions::new()).await.expect("starts");
    writer.write("1".into()).await.expect("writes");
    for name in on_disk(&dir.path().join("root")) {
        std::fs::remove_file(dir.path().join("root").join(name)).expect("removes");
    }
    assert_eq!(writer.finish().await.expect_err("lost").kind(), ErrorKind::Io);
    assert_eq!(kind_of_reading(&storage, "x").await, ErrorKind::NotFound);
}
