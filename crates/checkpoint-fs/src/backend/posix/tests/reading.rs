use super::*;

#[tokio::test]
async fn ranges_are_cut_at_the_end() {
    let (_dir, storage) = scratch();
    put(&storage, "x", "0123456789").await;
    let cases = [(0..10, "0123456789"), (3..5, "34"), (9..100, "9"), (10..20, ""), (50..60, ""), (4..4, "")];
    for (range, expected) in cases {
        let read = storage.read(&path("x"), ReadOptions::new().range(Some(range.clone()))).await.expect("reads");
        assert_eq!((&read.bytes[..], read.meta.size), (expected.as_bytes(), 10), "{range:?}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "what a caller may get wrong")]
    let backwards = 5..2;
    let read = storage.read(&path("x"), ReadOptions::new().range(Some(backwards))).await.expect("reads");
    assert!(read.bytes.is_empty());
}

#[tokio::test]
async fn what_is_no_regular_file_is_not_found() {
    let (dir, storage) = scratch();
    put(&storage, "dir/x", "1").await;
    let root = dir.path().join("root");
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).expect("binds");
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).expect("pipe");
    for at in ["", "dir", "socket", "pipe", "nothing", "dir/x/below", "nothing/below"] {
        assert_eq!(kind_of_reading(&storage, at).await, ErrorKind::NotFound, "{at}");
        let error = storage.stat(&path(at), StatOptions::new()).await.expect_err("no object");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NotFound, "stat"), "{at}");
        let copy = storage.copy(&path(at), &path("copy"), CopyOptions::new()).await.expect_err("no object");
        assert_eq!(copy.kind(), ErrorKind::NotFound, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_shrinks_under_a_read_is_corrupt_and_never_short() {
    let (dir, storage) = scratch();
    let size = 32 * 1024 * 1024_u64;
    let file = dir.path().join("root/x");
    put(&storage, "x", "").await;
    let mut caught = 0;
    for round in 0..200_u64 {
        let handle = std::fs::OpenOptions::new().write(true).open(&file).expect("opens");
        handle.set_len(size).expect("grows");
        let wait = Duration::from_micros(round * 100);
        let shrink = std::thread::spawn(move || {
            std::thread::sleep(wait);
            handle.set_len(size / 4).expect("shrinks");
        });
        match storage.read(&path("x"), ReadOptions::new()).await {
            Ok(read) => assert_eq!(read.bytes.len() as u64, read.meta.size),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                caught += 1;
            }
        }
        shrink.join().expect("no panic");
        if caught > 0 {
            return;
        }
    }
    panic!("no read met a shrinking file");
}

#[tokio::test]
async fn the_root_of_the_file_system_is_a_root_like_any_other() {
    let (dir, storage) = scratch();
    put(&storage, "x", "1").await;
    let everything = PosixStorage::open(Path::new("/"), PosixOptions::new()).expect("opens");
    let at = path(dir.path().join("root/x").to_str().expect("text").trim_start_matches('/'));
    assert_eq!(&everything.read(&at, ReadOptions::new()).await.expect("reads").bytes[..], b"1");
    let location = crate::Location::parse(&everything.url_of(&at)).expect("a URL that leads back");
    assert_eq!(location.path(), &at);
}
