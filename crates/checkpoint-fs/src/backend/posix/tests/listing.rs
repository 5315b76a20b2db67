use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

async fn listed(storage: &PosixStorage, prefix: &str, options: ListOptions) -> Vec<String> {
    storage.list(&path(prefix), options).map(|e| e.expect("entry").path().to_string()).collect().await
}

#[tokio::test]
async fn listings_come_in_byte_order_of_whole_paths() {
    let (_dir, storage) = scratch();
    for at in ["a/x", "a.b", "a0", "a-", "b/c/d", "b/c.d", ".hidden", "é"] {
        put(&storage, at, "1").await;
    }
    let all = listed(&storage, "", ListOptions::new().recursive(true)).await;
    assert_eq!(all, [".hidden", "a-", "a.b", "a/x", "a0", "b/c.d", "b/c/d", "é"]);
    let level = listed(&storage, "", ListOptions::new()).await;
    assert_eq!(level, [".hidden", "a", "a-", "a.b", "a0", "b", "é"]);
    for start in ["", "a", "a/x", "a.z", "a/x/y", "b", "b/c", "b/c/d", "b/c/e", "zz"] {
        let options = ListOptions::new().recursive(true).start_after(Some(path(start)));
        let expected: Vec<_> = all.iter().filter(|p| p.as_str() > start).cloned().collect();
        assert_eq!(listed(&storage, "", options).await, expected, "{start}");
    }
    assert_eq!(listed(&storage, "a.b", ListOptions::new()).await, [""; 0], "a file has nothing below it");
    assert_eq!(listed(&storage, "none/such", ListOptions::new()).await, [""; 0]);
}

#[tokio::test]
async fn names_that_are_no_paths_are_reported_and_the_rest_is_listed() {
    let (dir, storage) = scratch();
    put(&storage, "good", "1").await;
    let root = dir.path().join("root");
    std::fs::write(root.join(OsStr::from_bytes(b"bad\xff")), "1").expect("writes");
    std::fs::write(root.join("line\nbreak"), "1").expect("writes");
    std::fs::create_dir(root.join(OsStr::from_bytes(b"dir\xfe"))).expect("made");
    for recursive in [false, true] {
        let entries: Vec<_> =
            storage.list(&ObjectPath::root(), ListOptions::new().recursive(recursive)).collect().await;
        let shown: Vec<_> = entries
            .iter()
            .map(|e| match e {
                Ok(entry) => entry.path().to_string(),
                Err(error) => format!("{:?} {}", error.kind(), error.message().rsplit("name=").next().expect("name")),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "InvalidConfig \"bad\u{fffd}\"",
                "InvalidConfig \"dir\u{fffd}\"",
                "good",
                "InvalidConfig \"line\\nbreak\""
            ]
        );
    }
}

#[tokio::test]
async fn special_files_and_litter_do_not_appear() {
    let (dir, storage) = scratch();
    put(&storage, "d/x", "1").await;
    let root = dir.path().join("root/d");
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).expect("pipe");
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).expect("binds");
    std::fs::write(root.join(super::super::litter::new_name()), "1").expect("writes");
    std::fs::write(root.join(".ckpt-tmp-of-somebody"), "1").expect("writes");
    let all = listed(&storage, "", ListOptions::new().recursive(true)).await;
    assert_eq!(all, ["d/.ckpt-tmp-of-somebody", "d/x"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_is_dropped_half_way_frees_its_thread() {
    let (dir, storage) = scratch();
    storage.create_dir(&ObjectPath::root(), CreateDirOptions::new()).await.expect("made");
    for i in 0..5_000 {
        std::fs::write(dir.path().join(format!("root/{i:05}")), "").expect("writes");
    }
    let mut listing = storage.list(&ObjectPath::root(), ListOptions::new());
    assert_eq!(listing.next().await.expect("one").expect("entry").path().as_str(), "00000");
    drop(listing);
    for _ in 0..1000 {
        if Arc::strong_count(&storage.inner) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the walk still runs");
}
