//! OpenStack Swift's `s3api`: a server that others wrote, and that demands the digest of a multi-delete.

use anyhow::{bail, ensure};
use bytes::Bytes;
use checkpoint_fs::{
    DeleteOptions, ErrorKind, ObjectPath, Registry, StorageExt, StorageOptions, StorageRef, WriteMode, WriteOptions,
};
use checkpoint_testkit::conformance::{Settings, Verdict, run_all};
use checkpoint_testkit::server::SwiftServer;

async fn server() -> anyhow::Result<(&'static SwiftServer, String)> {
    let started = tokio::task::spawn_blocking(|| {
        let server = SwiftServer::shared()?;
        anyhow::Ok((server, server.access().new_bucket()?))
    });
    started.await?
}

async fn open(server: &SwiftServer, url: &str) -> anyhow::Result<StorageRef> {
    let registry = Registry::with_environment(server.access().environment());
    Ok(registry.open_dir(url, &StorageOptions::new()).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_swift_conforms() -> anyhow::Result<()> {
    let (server, bucket) = server().await?;
    println!("OpenStack Swift, started here, at {}", server.access().endpoint);
    let registry = Registry::with_environment(server.access().environment());
    let options = StorageOptions::new();
    let mut settings = Settings::default();
    // Two pages, and time for them: an object costs four processes in Python some work.
    settings.keys = 1100;
    settings.timeout *= 2;
    let report = run_all(&settings, |dir| {
        let url = format!("s3://{bucket}/deep in/a+bucket/{dir}");
        let (registry, options) = (&registry, &options);
        async move {
            let storage = registry.open_dir(&url, options).await?;
            // The first answer tells who it is, and what can be promised.
            storage.stat_optional(&ObjectPath::parse("nothing")?).await?;
            Ok(storage)
        }
    })
    .await;
    println!("{report}");
    let passed = report.results().iter().filter(|(_, verdict)| *verdict == Verdict::Passed).count();
    ensure!(report.failed().is_empty() && passed > 0, "failed: {:?}", report.failed());
    for name in ["of_many_creators_exactly_one_wins", "streamed_and_whole_creators_share_one_race"] {
        ensure!(!matches!(report.verdict(name), Some(Verdict::Passed)), "Swift lets several win: {name}");
    }
    Ok(())
}

/// Swift looks whether an object exists and then writes; so no create-only write is promised or made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_swift_promises_no_create_only_write() -> anyhow::Result<()> {
    let (server, bucket) = server().await?;
    let storage = open(server, &format!("s3://{bucket}/creating")).await?;
    let path = ObjectPath::parse("k")?;
    ensure!(storage.stat_optional(&path).await?.is_none());
    ensure!(!storage.capabilities().write_if_absent, "its first answer tells who it is");
    let create = WriteOptions::new().mode(WriteMode::IfAbsent);
    let Err(error) = storage.write(&path, Bytes::from_static(b"x"), create).await else { bail!("it was written") };
    ensure!(error.kind() == ErrorKind::Unsupported, "{error:?}");
    ensure!(error.hint().is_some_and(|hint| hint.contains("--lease-url")), "{error:?}");
    Ok(())
}

/// Keys that a digest of anything but the very bytes sent would not fit.
const KEYS: [&str; 4] = ["plain", "a b+c%d", "<&>\"'", "é 日本"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_swift_refuses_a_multi_delete_without_its_digest() -> anyhow::Result<()> {
    let (server, bucket) = server().await?;
    let storage = open(server, &format!("s3://{bucket}")).await?;
    let keys = KEYS.into_iter().map(ObjectPath::parse).collect::<Result<Vec<_>, _>>()?;
    for key in &keys {
        storage.write(key, Bytes::from_static(b"x"), WriteOptions::new()).await?.into_result(storage.url())?;
    }
    let body = b"<Delete><Object><Key>plain</Key></Object></Delete>";
    let target = format!("/{bucket}?delete=");
    for (headers, code) in [
        (&[][..], "InvalidRequest"),
        // That of an empty body.
        (&[("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")][..], "BadDigest"),
    ] {
        let (status, said) = server.access().send("POST", &target, headers, body)?;
        ensure!(status == 400 && said.contains(code), "{headers:?}: status={status} answer={said}");
    }
    ensure!(storage.list_files(&ObjectPath::root(), true).await?.len() == KEYS.len(), "a refused request deleted");
    let failures = storage.delete_many(keys, DeleteOptions::new()).await?;
    ensure!(failures.is_empty(), "failures: {failures:?}");
    ensure!(storage.list_files(&ObjectPath::root(), true).await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_swift_tells_a_missing_object_from_a_missing_bucket() -> anyhow::Result<()> {
    let (server, bucket) = server().await?;
    let storage = open(server, &format!("s3://{bucket}/root")).await?;
    let path = ObjectPath::parse("none")?;
    storage.delete(&path, DeleteOptions::new()).await?;
    ensure!(storage.delete_many(vec![path.clone()], DeleteOptions::new()).await?.is_empty());
    let nowhere = open(server, "s3://no-such-bucket-anywhere/root").await?;
    let one = nowhere.delete(&path, DeleteOptions::new()).await;
    let many = nowhere.delete_many(vec![path], DeleteOptions::new()).await;
    for error in [one.err(), many.err()] {
        ensure!(error.as_ref().is_some_and(|error| error.kind() == ErrorKind::NotFound), "{error:?}");
    }
    Ok(())
}
