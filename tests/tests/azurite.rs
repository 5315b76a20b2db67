//! The Azure backend against Microsoft's emulator: what the conformance suite does not ask.

use bytes::Bytes;
use checkpoint_fs::{
    CopyOptions, DeleteOptions, ErrorKind, ObjectPath, ReadOptions, Registry, StatOptions, StorageExt, StorageOptions,
    StorageRef, WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_testkit::server::Azurite;

fn server() -> &'static Azurite {
    Azurite::shared().expect("Azurite is needed")
}

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("valid")
}

/// A storage in a container of its own.
async fn storage() -> StorageRef {
    let url = format!("az://{}/a root", server().new_container().expect("makes a container"));
    Registry::with_environment(server().environment()).open_dir(&url, &StorageOptions::new()).await.expect("opens")
}

/// The same container, with other options and nothing in the environment.
async fn open(container: &str, options: serde_json::Value) -> StorageRef {
    let options = StorageOptions::from_value(serde_json::json!({ "az": options })).expect("the right shape");
    let registry = Registry::with_environment(checkpoint_fs::Environment::default());
    registry.open_dir(&format!("az://{container}/a root"), &options).await.expect("opens")
}

fn block(byte: u8) -> Bytes {
    Bytes::from(vec![byte; 9 << 20])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_works_with_a_signature_in_the_url() {
    let container = server().new_container().expect("makes a container");
    let sas = server().account_sas("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z").expect("signs");
    let storage = open(&container, serde_json::json!({"account_host": server().endpoint(), "sas_token": sas})).await;
    let create = WriteOptions::new().mode(WriteMode::IfAbsent);
    let outcome = storage.write(&path("a b"), "1".into(), create.clone()).await.expect("writes");
    assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    let outcome = storage.write(&path("a b"), "2".into(), create).await.expect("answers");
    assert!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
    let outcome = storage.copy(&path("a b"), &path("c"), CopyOptions::new()).await.expect("copies");
    assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    assert_eq!(storage.list_files(&ObjectPath::root(), true).await.expect("lists").len(), 2);
    let failures = storage.delete_many(vec![path("a b"), path("c")], DeleteOptions::new()).await.expect("deletes");
    assert!(failures.is_empty(), "{failures:?}");
    assert!(storage.list_files(&ObjectPath::root(), true).await.expect("lists").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_and_stale_credentials_are_not_accepted() {
    let container = server().new_container().expect("makes a container");
    let host = server().endpoint();
    let stale = server().account_sas("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z").expect("signs");
    let forged = server().account_sas("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z").expect("signs");
    let forged = forged.replace("sp=rwdlac", "sp=rwdlacx");
    for (what, options) in [
        ("a wrong key", serde_json::json!({"account_host": host, "account_key": "aHVudGVyMg=="})),
        ("a stale signature", serde_json::json!({"account_host": host, "sas_token": stale})),
        ("a forged signature", serde_json::json!({"account_host": host, "sas_token": forged})),
    ] {
        let storage = open(&container, options).await;
        let error = storage.stat(&path("x"), StatOptions::new()).await.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{what}: {error}");
        assert!(error.service_code().is_some() && error.request_id().is_some(), "{what}: {error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("clock")), "{what}: {error:?}");
        let shown = format!("{error:?} {storage:?}");
        for secret in ["aHVudGVyMg", "sig="] {
            assert!(!shown.contains(secret), "{what}: {shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_container_is_named_as_such() {
    let storage = open("nowhere", serde_json::json!({"connection_string": server().connection_string()})).await;
    let error = storage.write(&path("x"), "x".into(), WriteOptions::new()).await.expect_err("no container");
    assert_eq!((error.kind(), error.service_code()), (ErrorKind::NotFound, Some("ContainerNotFound")), "{error}");
    let error = storage.delete(&path("x"), DeleteOptions::new()).await.expect_err("no container");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_streams_that_must_not_replace_one_wins() {
    let storage = storage().await;
    let create = WriteOptions::new().mode(WriteMode::IfAbsent);
    let mut first = storage.writer(&path("x"), create.clone()).await.expect("opens");
    let mut second = storage.writer(&path("x"), create.clone()).await.expect("opens");
    first.write(block(1)).await.expect("writes");
    second.write(block(2)).await.expect("writes");
    let (first, second) = (first.finish().await.expect("answers"), second.finish().await.expect("answers"));
    assert!(matches!(first, WriteOutcome::Done(_)), "{first:?}");
    assert!(matches!(second, WriteOutcome::AlreadyExists), "{second:?}");
    let mut late = storage.writer(&path("x"), create).await.expect("opens");
    late.write(block(3)).await.expect("writes");
    let late = late.finish().await.expect("answers");
    assert!(matches!(late, WriteOutcome::AlreadyExists), "{late:?}");
    assert_eq!(storage.read(&path("x"), ReadOptions::new()).await.expect("reads").bytes, block(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_streams_to_one_name_the_later_one_is_told() {
    let storage = storage().await;
    let mut first = storage.writer(&path("x"), WriteOptions::new()).await.expect("opens");
    let mut second = storage.writer(&path("x"), WriteOptions::new()).await.expect("opens");
    first.write(block(1)).await.expect("writes");
    second.write(block(2)).await.expect("writes");
    assert!(matches!(first.finish().await.expect("answers"), WriteOutcome::Done(_)));
    // Azure forgot its blocks when the first was published. Azurite keeps them, which is as good.
    match second.finish().await {
        Ok(WriteOutcome::Done(_)) => {}
        Ok(other) => panic!("{other:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
    }
    let bytes = storage.read(&path("x"), ReadOptions::new()).await.expect("reads").bytes;
    assert!(bytes == block(1) || bytes == block(2), "never a mixture");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_azure_would_change_are_refused() {
    let storage = storage().await;
    for name in ["a\\b", "dot.", "d./x", "tab\tx"] {
        let error = storage.write(&path(name), "x".into(), WriteOptions::new()).await.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    assert!(storage.list_files(&ObjectPath::root(), true).await.expect("lists").is_empty());
    let long = format!("{}/{}", "é".repeat(250), "n".repeat(400));
    storage.write(&path(&long), "x".into(), WriteOptions::new()).await.map(drop).expect("900 bytes are no trouble");
    assert_eq!(storage.list_files(&ObjectPath::root(), true).await.expect("lists")[0].0, path(&long));
}
