//! The S3 backend against a real server: what mocks cannot prove.

#![expect(clippy::print_stderr, reason = "says which server is tested")]

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use checkpoint_fs::{
    CopyOptions, DeleteOptions, Entry, ErrorKind, ListOptions, ObjectPath, ReadOptions, Registry, Retry, StatOptions,
    Storage, StorageExt, StorageOptions, StorageRef, WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_testkit::server::{ObjectStore, RgwServer, S3Server};
use futures::{StreamExt, TryStreamExt};

fn server() -> &'static S3Server {
    let server = S3Server::shared().expect("a real server is needed");
    eprintln!("S3 server: {}", server.describe());
    server
}

fn registry() -> Registry {
    Registry::with_environment(server().access().environment())
}

/// A storage in a bucket of its own.
async fn storage() -> StorageRef {
    let bucket = server().access().new_bucket().expect("makes a bucket");
    registry().open_dir(&format!("s3://{bucket}/a root"), &StorageOptions::new()).await.expect("opens")
}

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("valid")
}

async fn put(storage: &dyn Storage, key: &str, bytes: impl Into<Bytes>) {
    let outcome = storage.write(&path(key), bytes.into(), WriteOptions::new()).await.expect("writes");
    assert!(matches!(outcome, WriteOutcome::Done(_)), "{key:?}: {outcome:?}");
}

async fn names(storage: &dyn Storage, prefix: &str, options: ListOptions) -> BTreeSet<String> {
    let entries: Vec<Entry> = storage.list(&path(prefix), options).try_collect().await.expect("lists");
    let names: BTreeSet<String> = entries
        .iter()
        .map(|entry| match entry {
            Entry::File { path, .. } => path.to_string(),
            Entry::Dir { path } => format!("{path}/"),
        })
        .collect();
    assert_eq!(names.len(), entries.len(), "each once");
    names
}

const ODD_KEYS: [&str; 19] = [
    "plain",
    "with space",
    " leading and trailing ",
    "tab\tinside",
    "plus+sign",
    "percent%sign",
    "percent%2Fescape%20",
    "hash#and?question=mark&more;semi",
    ".hidden",
    "...",
    "dir/.hidden/..x",
    "quotes\"'`and<angle>&amp;",
    "brackets[]{}()|\\^~!*$@,:",
    "unicode é 日本語 \u{1F600}",
    "e\u{301} is not é",
    "\u{a0}no-break blanks\u{3000}",
    "control\u{1}character\u{7f}",
    "k",
    "k/child",
];

#[tokio::test]
async fn s3_odd_keys_round_trip_in_every_operation() {
    let storage = storage().await;
    let longest = "x".repeat(storage.capabilities().max_path);
    let keys: Vec<&str> = ODD_KEYS.iter().copied().chain([longest.as_str()]).collect();
    for key in &keys {
        put(&*storage, key, key.to_string()).await;
    }
    for key in &keys {
        let read = storage.read(&path(key), ReadOptions::new()).await.expect("reads");
        assert_eq!(read.bytes, key.as_bytes(), "{key:?}");
        let stat = storage.stat(&path(key), StatOptions::new()).await.expect("stats");
        assert_eq!((stat.size, &stat.etag), (key.len() as u64, &read.meta.etag), "{key:?}");
        assert!(stat.last_modified.is_some());
    }
    let all: BTreeSet<String> = keys.iter().map(|k| k.to_string()).collect();
    assert_eq!(names(&*storage, "", ListOptions::new().recursive(true)).await, all);
    for key in ODD_KEYS {
        let target = path("copies").join_path(&path(key));
        let outcome = storage.copy(&path(key), &target, CopyOptions::new()).await.expect("copies");
        let WriteOutcome::Done(meta) = outcome else { panic!("{key:?}: {outcome:?}") };
        assert_eq!(meta.size, key.len() as u64);
        assert_eq!(storage.read(&target, ReadOptions::new()).await.expect("reads").bytes, key.as_bytes());
    }
    storage.delete(&path(" leading and trailing "), DeleteOptions::new()).await.expect("deletes");
    let copies = ODD_KEYS.iter().map(|k| path("copies").join_path(&path(k)));
    let targets = keys.iter().map(|k| path(k)).chain(copies).chain([path("never there")]).collect();
    let failures = storage.delete_many(targets, DeleteOptions::new()).await.expect("deletes");
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(names(&*storage, "", ListOptions::new().recursive(true)).await, BTreeSet::new());
}

#[tokio::test]
async fn s3_a_key_beyond_the_limit_is_refused() {
    let storage = storage().await;
    let long = path(&"x".repeat(storage.capabilities().max_path + 1));
    let error = storage.write(&long, Bytes::new(), WriteOptions::new()).await.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn s3_levels_pages_and_positions_of_listings() {
    let storage = storage().await;
    let numbered: Vec<String> = (0..2_300).map(|n| format!("many/{n:05}")).collect();
    futures::stream::iter(numbered.clone())
        .for_each_concurrent(32, |key| {
            let storage = Arc::clone(&storage);
            async move { put(&*storage, &key, "x").await }
        })
        .await;
    for key in ["many/sub/a", "many/sub/b", "many/00005x/deep/er", "manyother"] {
        put(&*storage, key, "x").await;
    }
    let recursive = names(&*storage, "many", ListOptions::new().recursive(true)).await;
    assert_eq!(recursive.len(), 2_303);
    let level = names(&*storage, "many", ListOptions::new()).await;
    assert_eq!(level.len(), 2_302);
    assert!(level.contains("many/sub/") && level.contains("many/00005x/"));
    let after = |key: &str| ListOptions::new().start_after(Some(path(key)));
    let rest = names(&*storage, "many", after("many/02297").recursive(true)).await;
    assert_eq!(rest, ["many/02298", "many/02299", "many/sub/a", "many/sub/b"].map(str::to_owned).into());
    assert_eq!(names(&*storage, "many", after("many/sub")).await, BTreeSet::new());
    assert_eq!(names(&*storage, "many", after("many/02299")).await, ["many/sub/".to_owned()].into());
    assert_eq!(names(&*storage, "nothing/here", ListOptions::new()).await, BTreeSet::new());

    let all = recursive.iter().map(|k| path(k)).collect();
    assert!(storage.delete_many(all, DeleteOptions::new()).await.expect("deletes").is_empty());
    assert_eq!(names(&*storage, "", ListOptions::new()).await, ["manyother".to_owned()].into());
}

#[tokio::test]
async fn s3_ranges_are_cut_at_the_end() {
    let storage = storage().await;
    put(&*storage, "ten", "0123456789").await;
    put(&*storage, "none", "").await;
    let read = |key: &'static str, range: std::ops::Range<u64>| {
        let storage = Arc::clone(&storage);
        async move {
            let read = storage.read(&path(key), ReadOptions::new().range(Some(range.clone()))).await;
            let read = read.unwrap_or_else(|e| panic!("{key} {range:?}: {e:?}"));
            (String::from_utf8(read.bytes.to_vec()).expect("text"), read.meta.size)
        }
    };
    for (range, expected) in [
        (0..10, "0123456789"),
        (2..5, "234"),
        (7..99, "789"),
        (9..u64::MAX, "9"),
        (10..12, ""),
        (50..60, ""),
        (4..4, ""),
    ] {
        assert_eq!(read("ten", range.clone()).await, (expected.to_owned(), 10), "{range:?}");
    }
    assert_eq!(read("none", 0..5).await, (String::new(), 0));
    let missing = storage.read(&path("missing"), ReadOptions::new().range(Some(3..3))).await;
    assert!(missing.expect_err("missing").is_not_found());
    assert!(storage.read(&ObjectPath::root(), ReadOptions::new()).await.expect_err("no object").is_not_found());
}

#[tokio::test]
async fn s3_of_many_racers_exactly_one_creates() {
    let storage = storage().await;
    for round in 0..5 {
        let key = path(&format!("round-{round}"));
        let racers = (0..20u8).map(|racer| {
            let (storage, key) = (Arc::clone(&storage), key.clone());
            tokio::spawn(async move {
                let create = WriteOptions::new().mode(WriteMode::IfAbsent);
                storage.write(&key, Bytes::from(vec![racer]), create).await.expect("answers")
            })
        });
        let outcomes = futures::future::join_all(racers).await;
        let won: Vec<u8> = (0..20u8)
            .zip(outcomes)
            .filter_map(|(racer, outcome)| match outcome.expect("ran") {
                WriteOutcome::Done(_) => Some(racer),
                WriteOutcome::AlreadyExists => None,
                WriteOutcome::Unknown(error) => panic!("{error:?}"),
            })
            .collect();
        assert_eq!(won.len(), 1, "round {round}");
        assert_eq!(storage.read(&key, ReadOptions::new()).await.expect("reads").bytes, won.as_slice());
    }
}

#[tokio::test]
async fn s3_streamed_writes_of_every_size() {
    const MIB: usize = 1 << 20;
    let storage = storage().await;
    for size in [0, 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 19 * MIB] {
        for mode in [WriteMode::Overwrite, WriteMode::IfAbsent] {
            let key = path(&format!("{size}-{mode:?}"));
            let bytes: Vec<u8> = (0..size).map(|i| (i / 251 % 256) as u8).collect();
            let mut writer = storage.writer(&key, WriteOptions::new().mode(mode)).await.expect("opens");
            for piece in bytes.chunks(3 * MIB + 7) {
                writer.write(Bytes::copy_from_slice(piece)).await.expect("takes");
            }
            let before = storage.stat(&key, StatOptions::new()).await;
            assert!(before.expect_err("nothing is there before the end").is_not_found());
            let outcome = writer.finish().await.expect("finishes");
            let WriteOutcome::Done(meta) = outcome else { panic!("{size} {mode:?}: {outcome:?}") };
            let read = storage.read(&key, ReadOptions::new()).await.expect("reads");
            assert!(read.bytes == bytes, "{size} {mode:?}");
            assert_eq!((meta.size, meta.etag), (size as u64, read.meta.etag), "{size} {mode:?}");
        }
        let mut again = storage
            .writer(&path(&format!("{size}-Overwrite")), WriteOptions::new().mode(WriteMode::IfAbsent))
            .await
            .expect("opens");
        again.write(Bytes::from_static(b"late")).await.expect("takes");
        assert!(matches!(again.finish().await.expect("answers"), WriteOutcome::AlreadyExists), "{size}");
    }
    let mut given_up = storage.writer(&path("given up"), WriteOptions::new()).await.expect("opens");
    given_up.write(Bytes::from(vec![7; 17 * MIB])).await.expect("takes");
    given_up.abort().await.expect("aborts");
    assert!(storage.stat(&path("given up"), StatOptions::new()).await.expect_err("nothing").is_not_found());
}

#[tokio::test]
async fn s3_failures_have_the_right_kind_and_no_secret() {
    let bucket = server().access().new_bucket().expect("makes a bucket");
    let access = server().access();
    let open = |options: serde_json::Value, url: String| async move {
        let options = StorageOptions::from_value(serde_json::json!({ "s3": options })).expect("the right shape");
        registry().open_dir(&url, &options).await.expect("opens")
    };
    let wrong = "hunter2hunter2";
    for (options, bucket, kind) in [
        (serde_json::json!({"key": access.access_key, "secret": wrong}), bucket.as_str(), ErrorKind::Unauthenticated),
        (serde_json::json!({"key": "NOSUCHKEY", "secret": wrong}), bucket.as_str(), ErrorKind::Unauthenticated),
        (serde_json::json!({"anon": true}), bucket.as_str(), ErrorKind::PermissionDenied),
        (serde_json::json!({}), "no-such-bucket-at-all", ErrorKind::NotFound),
    ] {
        let storage = open(options, format!("s3://{bucket}/x")).await;
        let read = storage.read(&path("k"), ReadOptions::new()).await.expect_err("fails");
        assert_eq!(read.kind(), kind, "{read:?}");
        let listed: Vec<_> = storage.list(&ObjectPath::root(), ListOptions::new()).collect().await;
        let [Err(error)] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.service_code().is_some() && error.request_id().is_some(), "{error:?}");
        let write = storage.write(&path("k"), "x".into(), WriteOptions::new()).await.expect_err("fails");
        assert_eq!(write.kind(), kind, "{write:?}");
        let shown = format!("{read:?} {error:?} {write:?} {storage:?}");
        assert!(!shown.contains(wrong) && !shown.contains(&access.secret_key), "{shown}");
    }
    let storage = open(serde_json::json!({}), format!("s3a://{bucket}")).await;
    assert_eq!(storage.url(), format!("s3a://{bucket}"));
    let missing = storage.copy(&path("none"), &path("target"), CopyOptions::new()).await;
    assert!(missing.expect_err("no source").is_not_found());
    storage.delete(&path("none"), DeleteOptions::new()).await.expect("a missing object is fine");
    assert!(storage.read_optional(&path("none"), ReadOptions::new()).await.expect("answers").is_none());
}

/// Every daemon of the store is killed, and started again while a client is asking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_objects_survive_a_power_cut() {
    let mut server = RgwServer::start_with(ObjectStore::Disk).expect("Ceph is needed");
    let access = server.access().clone();
    let bucket = access.new_bucket().expect("makes a bucket");
    let registry = Registry::with_environment(access.environment());
    let storage = registry.open_dir(&format!("s3://{bucket}"), &StorageOptions::new()).await.expect("opens");
    for n in 0..50 {
        put(&*storage, &format!("k{n}"), format!("value {n}")).await;
    }
    server.kill();
    let error = storage.read(&path("k0"), ReadOptions::new()).await.expect_err("it is down");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Io, Retry::Exhausted), "{error:?}");
    let restarted = tokio::task::spawn_blocking(move || server.restart().map(|()| server));
    let _server = restarted.await.expect("ran").expect("starts again");
    assert_eq!(names(&*storage, "", ListOptions::new()).await.len(), 50);
    for n in 0..50 {
        let read = storage.read(&path(&format!("k{n}")), ReadOptions::new()).await.expect("reads");
        assert_eq!(read.bytes, format!("value {n}"));
    }
}
