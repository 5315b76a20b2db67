use std::os::unix::fs::symlink;

use super::*;

/// A root with a file in it, a secret beside it, and links of every kind between them.
async fn linked() -> (TempDir, PosixStorage) {
    let (dir, storage) = scratch();
    put(&storage, "in/file", "inside").await;
    let root = dir.path().join("root");
    std::fs::create_dir(dir.path().join("outside")).expect("made");
    std::fs::write(dir.path().join("outside/secret"), "secret").expect("writes");
    symlink("in/file", root.join("good")).expect("links");
    symlink("in", root.join("good-dir")).expect("links");
    symlink(root.join("in/file"), root.join("good-absolute")).expect("links");
    symlink(root.join("in"), root.join("good-absolute-dir")).expect("links");
    symlink("../outside/secret", root.join("bad")).expect("links");
    symlink("../outside", root.join("bad-dir")).expect("links");
    symlink(dir.path().join("outside/secret"), root.join("bad-absolute")).expect("links");
    symlink("/proc/self/cwd", root.join("bad-magic")).expect("links");
    symlink("nowhere", root.join("dangling")).expect("links");
    symlink("loop-b", root.join("loop-a")).expect("links");
    symlink("loop-a", root.join("loop-b")).expect("links");
    (dir, storage)
}

const GOOD: [&str; 4] = ["good", "good-dir/file", "good-absolute", "good-absolute-dir/file"];
const BAD: [&str; 3] = ["bad", "bad-dir/secret", "bad-absolute"];

#[tokio::test]
async fn links_that_stay_inside_are_followed_and_others_are_refused() {
    let (_dir, storage) = linked().await;
    for at in GOOD {
        assert_eq!(get(&storage, at).await.expect("inside"), "inside", "{at}");
        assert_eq!(storage.stat(&path(at), StatOptions::new()).await.expect("inside").size, 6, "{at}");
    }
    for at in BAD {
        let error = get(&storage, at).await.expect_err("outside");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{at}: {error}");
        assert!(error.hint().is_some_and(|h| h.contains("follow_symlinks")), "{at}");
        let error = storage.stat(&path(at), StatOptions::new()).await.expect_err("outside");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{at}");
        assert!(storage.copy(&path(at), &path("copy"), CopyOptions::new()).await.is_err(), "{at}");
    }
    assert_eq!(kind_of_reading(&storage, "dangling").await, ErrorKind::NotFound);
    assert_eq!(kind_of_reading(&storage, "loop-a").await, ErrorKind::InvalidConfig);
    assert!(get(&storage, "bad-magic/x").await.is_err());
}

#[tokio::test]
async fn the_same_holds_without_openat2() {
    let (dir, _storage) = linked().await;
    let root = Root::new(dir.path().join("root"), false);
    let open = |at: &str| {
        let fd = root.directory(&ObjectPath::root()).expect("opens");
        root.resolve(&fd, &path(at), OFlags::RDONLY)
    };
    for at in GOOD {
        assert!(open(at).is_ok(), "{at}");
    }
    for at in BAD {
        assert!(matches!(open(at), Err(Fault::Leaves)), "{at}");
    }
    assert!(matches!(open("dangling"), Err(Fault::Os(Errno::NOENT))));
}

#[tokio::test]
async fn nothing_is_written_or_deleted_through_a_link_that_leaves() {
    let (dir, storage) = linked().await;
    let at = path("bad-dir/secret");
    for error in [
        storage.write(&at, "x".into(), WriteOptions::new()).await.expect_err("refused"),
        storage.write(&at, "x".into(), WriteOptions::new().mode(WriteMode::IfAbsent)).await.expect_err("refused"),
        storage.writer(&at, WriteOptions::new()).await.expect_err("refused"),
        storage.delete(&at, DeleteOptions::new()).await.expect_err("refused"),
        storage.rename(&at, &path("x"), RenameOptions::new()).await.expect_err("refused"),
        storage.rename(&path("in/file"), &at, RenameOptions::new()).await.expect_err("refused"),
        storage.copy(&path("in/file"), &at, CopyOptions::new()).await.expect_err("refused"),
        storage.create_dir(&path("bad-dir/new"), CreateDirOptions::new()).await.expect_err("refused"),
    ] {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
    let many = vec![at.clone(), path("in/file"), path("bad-dir/other")];
    let failures = storage.delete_many(many, DeleteOptions::new()).await.expect("answers key by key");
    let failed: Vec<_> = failures.iter().map(|f| (f.path.as_str(), f.error.kind())).collect();
    let denied = ErrorKind::PermissionDenied;
    assert_eq!(failed, [("bad-dir/secret", denied), ("bad-dir/other", denied)]);
    assert!(!dir.path().join("root/in/file").exists(), "the one inside is deleted");
    assert_eq!(on_disk(&dir.path().join("outside")), ["secret"]);
    assert_eq!(std::fs::read_to_string(dir.path().join("outside/secret")).expect("there"), "secret");
}

#[tokio::test]
async fn writing_to_a_link_replaces_the_link_and_deleting_removes_it() {
    let (dir, storage) = linked().await;
    put(&storage, "bad", "mine").await;
    storage.delete(&path("bad-absolute"), DeleteOptions::new()).await.expect("removes");
    assert_eq!(get(&storage, "bad").await.expect("a file now"), "mine");
    assert_eq!(std::fs::read_to_string(dir.path().join("outside/secret")).expect("there"), "secret");
    assert!(dir.path().join("root/bad-absolute").symlink_metadata().is_err());
    let options = WriteOptions::new().mode(WriteMode::IfAbsent);
    let outcome = storage.write(&path("dangling"), "x".into(), options).await.expect("answers");
    assert!(matches!(outcome, WriteOutcome::AlreadyExists), "a link that leads nowhere is there all the same");
}

#[tokio::test]
async fn a_listing_shows_what_is_inside_and_reports_what_is_not() {
    let (dir, storage) = linked().await;
    symlink("..", dir.path().join("root/in/up")).expect("links");
    let entries: Vec<_> = storage.list(&ObjectPath::root(), ListOptions::new().recursive(true)).collect().await;
    let (good, bad): (Vec<_>, Vec<_>) = entries.into_iter().partition(Result::is_ok);
    let good: Vec<_> = good.into_iter().map(|e| e.expect("good").path().to_string()).collect();
    assert_eq!(good, ["good", "good-absolute", "good-absolute-dir/file", "good-dir/file", "in/file"]);
    let mut bad: Vec<_> = bad
        .into_iter()
        .map(|e| e.expect_err("bad"))
        .map(|e| (e.url().rsplit('/').next().expect("name").to_owned(), e.kind()))
        .collect();
    bad.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        bad,
        [
            ("bad".to_owned(), ErrorKind::PermissionDenied),
            ("bad-absolute".to_owned(), ErrorKind::PermissionDenied),
            ("bad-dir".to_owned(), ErrorKind::PermissionDenied),
            ("bad-magic".to_owned(), ErrorKind::PermissionDenied),
            ("dangling".to_owned(), ErrorKind::Corrupt),
            ("loop-a".to_owned(), ErrorKind::InvalidConfig),
            ("loop-b".to_owned(), ErrorKind::InvalidConfig),
        ]
    );
}

#[tokio::test]
async fn with_the_option_links_lead_anywhere() {
    let (dir, _storage) = linked().await;
    let options = PosixOptions::new().fsync(false).follow_symlinks(true);
    let storage = PosixStorage::open(&dir.path().join("root"), options).expect("opens");
    for at in BAD {
        assert_eq!(get(&storage, at).await.expect("followed"), "secret", "{at}");
    }
    put(&storage, "bad-dir/new", "1").await;
    assert_eq!(on_disk(&dir.path().join("outside")), ["new", "secret"]);
}

#[tokio::test]
async fn the_root_itself_may_be_a_link() {
    let (dir, _storage) = linked().await;
    symlink("root", dir.path().join("alias")).expect("links");
    let options = PosixOptions::new().fsync(false);
    let storage = PosixStorage::open(&dir.path().join("alias"), options).expect("opens");
    for at in GOOD {
        assert_eq!(get(&storage, at).await.expect("inside"), "inside", "{at}");
    }
    put(&storage, "new/x", "1").await;
    assert!(dir.path().join("root/new/x").exists());
    std::fs::create_dir(dir.path().join("empty")).expect("made");
    symlink("empty", dir.path().join("empty-alias")).expect("links");
    let storage = PosixStorage::open(&dir.path().join("empty-alias"), PosixOptions::new()).expect("opens");
    storage.delete(&ObjectPath::root(), DeleteOptions::new()).await.expect("no error");
    put(&storage, "x", "1").await;
    assert!(dir.path().join("empty/x").exists(), "the link still leads somewhere");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_swapped_for_a_link_leads_nowhere_else() {
    let (dir, storage) = linked().await;
    let root = dir.path().join("root");
    std::fs::create_dir(root.join("honest")).expect("made");
    std::fs::write(root.join("honest/secret"), "mine").expect("writes");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (stop, root) = (Arc::clone(&stop), root.clone());
        symlink("../outside", root.join("swap-link")).expect("links");
        move || {
            let exchange = rustix::fs::RenameFlags::EXCHANGE;
            let cwd = rustix::fs::CWD;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let (a, b) = (root.join("honest"), root.join("swap-link"));
                rustix::fs::renameat_with(cwd, a, cwd, b, exchange).expect("swaps");
            }
        }
    });
    let (mut honest, mut refused) = (0, 0);
    for _ in 0..2000 {
        match get(&storage, "honest/secret").await {
            Ok(text) => {
                assert_eq!(text, "mine");
                honest += 1;
            }
            Err(_) => refused += 1,
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().expect("no panic");
    assert!(honest > 0 && refused > 0, "both were met: {honest} {refused}");
}
