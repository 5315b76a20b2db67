use super::*;

#[tokio::test]
async fn a_rename_moves_replaces_or_refuses() {
    for placer in PLACERS {
        let (dir, storage) = scratch_with(placer);
        for (at, text) in [("a", "a"), ("b", "b"), ("d/c", "c")] {
            put(&storage, at, text).await;
        }
        let create = RenameOptions::new().mode(WriteMode::IfAbsent);
        let outcome = storage.rename(&path("a"), &path("b"), create.clone()).await.expect("answers");
        assert!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
        let outcome = storage.rename(&path("a"), &path("new/e"), create.clone()).await.expect("answers");
        assert!(matches!(outcome, WriteOutcome::Done(ref meta) if meta.size == 1), "{outcome:?}");
        let outcome = storage.rename(&path("b"), &path("d/c"), RenameOptions::new()).await.expect("answers");
        assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
        assert_eq!(on_disk(&dir.path().join("root")), ["d", "d/c", "new", "new/e"]);
        assert_eq!(get(&storage, "d/c").await.expect("there"), "b");
        for missing in ["a", "d", "none/below", ""] {
            let error = storage.rename(&path(missing), &path("x"), create.clone()).await.expect_err("no object");
            assert_eq!(error.kind(), ErrorKind::NotFound, "{missing}");
        }
        for mode in [WriteMode::Overwrite, WriteMode::IfAbsent] {
            let options = RenameOptions::new().mode(mode);
            let error = storage.rename(&path("d/c"), &path("new"), options).await.expect_err("a directory is there");
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
    }
}

#[tokio::test]
async fn two_names_of_one_file_end_as_one() {
    let (dir, storage) = scratch();
    put(&storage, "from", "1").await;
    let root = dir.path().join("root");
    std::fs::hard_link(root.join("from"), root.join("to")).expect("links");
    let outcome = storage.rename(&path("from"), &path("to"), RenameOptions::new()).await.expect("answers");
    assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    assert_eq!(on_disk(&root), ["to"]);
    let outcome = storage.rename(&path("to"), &path("to"), RenameOptions::new()).await.expect("answers");
    assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    std::os::unix::fs::symlink(".", root.join("here")).expect("links");
    let outcome = storage.rename(&path("to"), &path("here/to"), RenameOptions::new()).await.expect("answers");
    assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    assert_eq!(get(&storage, "to").await.expect("never lost"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_renames_to_one_name_exactly_one_wins() {
    for placer in PLACERS {
        let (dir, storage) = scratch_with(placer);
        let storage = Arc::new(storage);
        for racer in 0..16 {
            let at = path(&format!("from-{racer}"));
            let wrote = storage.write(&at, Bytes::from(racer.to_string()), WriteOptions::new()).await;
            assert!(matches!(wrote, Ok(WriteOutcome::Done(_))));
        }
        let racers = (0..16).map(|racer| {
            let storage = Arc::clone(&storage);
            tokio::spawn(async move {
                let options = RenameOptions::new().mode(WriteMode::IfAbsent);
                let answer = storage.rename(&path(&format!("from-{racer}")), &path("to"), options).await;
                (racer, matches!(answer.expect("answers"), WriteOutcome::Done(_)))
            })
        });
        let answers = futures::future::join_all(racers).await;
        let winners: Vec<i32> =
            answers.into_iter().map(|a| a.expect("no panic")).filter(|a| a.1).map(|a| a.0).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(get(&storage, "to").await.expect("there"), winners[0].to_string());
        assert_eq!(on_disk(&dir.path().join("root")).len(), 16, "the losers keep their names");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_renames_of_one_source_exactly_one_finds_it() {
    let (_dir, storage) = scratch();
    let storage = Arc::new(storage);
    for (round, mode) in [WriteMode::Overwrite, WriteMode::IfAbsent].into_iter().cycle().take(20).enumerate() {
        put(&storage, "from", "1").await;
        let racers = (0..8).map(|_| {
            let storage = Arc::clone(&storage);
            let options = RenameOptions::new().mode(mode);
            tokio::spawn(async move { storage.rename(&path("from"), &path(&format!("to-{round}")), options).await })
        });
        let mut done = 0;
        for answer in futures::future::join_all(racers).await {
            match answer.expect("no panic") {
                Ok(WriteOutcome::Done(_)) => done += 1,
                Ok(outcome) => panic!("{outcome:?}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
            }
        }
        assert_eq!(done, 1);
    }
}

/// Also where the disk is waited for, which takes longer than the sweeper does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renames_and_writes_outlive_a_sweeper_of_empty_directories() {
    for (fsync, rounds) in [(false, 200), (true, 50)] {
        let dir = tempfile::tempdir().expect("temp dir");
        let storage = PosixStorage::open(&dir.path().join("root"), PosixOptions::new().fsync(fsync)).expect("opens");
        let target = dir.path().join("root/d/e");
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let sweeper = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = std::fs::remove_dir(&target);
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        for round in 0..rounds {
            put(&storage, "from", "1").await;
            let to = format!("d/e/{round}");
            let outcome = storage.rename(&path("from"), &path(&to), RenameOptions::new()).await.expect("moves");
            assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
            storage.delete(&path(&to), DeleteOptions::new()).await.expect("deletes");
            put(&storage, &to, "1").await;
            storage.delete(&path(&to), DeleteOptions::new()).await.expect("deletes");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        sweeper.join().expect("no panic");
    }
}

#[tokio::test]
async fn what_is_written_unsettled_is_there_at_once_and_settles_by_its_rename() {
    let (dir, storage) = scratch();
    let written = storage.write(&path("d/a"), "whole".into(), WriteOptions::new().unsettled(true)).await;
    assert!(matches!(written.expect("writes"), WriteOutcome::Done(_)));
    assert_eq!(get(&storage, "d/a").await.expect("there"), "whole");
    let mut writer = storage.writer(&path("d/b"), WriteOptions::new().unsettled(true)).await.expect("starts");
    writer.write("streamed".into()).await.expect("writes");
    assert!(matches!(writer.finish().await.expect("publishes"), WriteOutcome::Done(_)));
    for (from, to, bytes) in [("d/a", "x", "whole"), ("d/b", "y", "streamed")] {
        let options = RenameOptions::new().mode(WriteMode::IfAbsent).settle(true);
        let renamed = storage.rename(&path(from), &path(to), options.clone()).await.expect("renames");
        assert!(matches!(renamed, WriteOutcome::Done(meta) if meta.size == bytes.len() as u64));
        assert_eq!(get(&storage, to).await.expect("there"), bytes);
        let error = storage.rename(&path(from), &path(to), options).await.expect_err("is gone");
        assert!(error.is_not_found(), "{error}");
    }
    assert_eq!(on_disk(&dir.path().join("root")), ["d", "x", "y"]);
}
