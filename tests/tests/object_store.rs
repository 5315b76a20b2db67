//! The integration suite of the `object_store` crate, over this project's storages.

#![expect(clippy::print_stdout, reason = "says what a storage cannot have")]

use std::sync::Arc;

use checkpoint_fs::{Environment, MemoryStorage, ObjectStoreAdapter, Registry, StorageRef};
use checkpoint_testkit::mock::{CosMock, CosSettings, OssMock, OssSettings};
use checkpoint_testkit::object_store_suite;
use checkpoint_testkit::server::{Azurite, FakeGcsServer, S3Server};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

/// Runs the suite below a URL, and prints what does not apply.
async fn suite(registry: &Registry, base: &str) -> anyhow::Result<()> {
    let last_writer_wins = !base.starts_with("az:");
    for part in object_store_suite(registry, base, last_writer_wins).await? {
        println!("n/a   {part} ({base})");
    }
    Ok(())
}

fn registry() -> Registry {
    Registry::with_environment(Environment::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_passes() -> anyhow::Result<()> {
    suite(&registry(), "memory://object-store-suite").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posix_passes() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    suite(&registry(), dir.path().to_str().ok_or_else(|| anyhow::anyhow!("not UTF-8"))?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_passes() -> anyhow::Result<()> {
    let server = tokio::task::spawn_blocking(S3Server::shared).await??;
    println!("S3 server: {}", server.describe());
    let bucket = tokio::task::spawn_blocking(|| server.access().new_bucket()).await??;
    suite(&Registry::with_environment(server.access().environment()), &format!("s3://{bucket}/suite")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cos_and_oss_pass() -> anyhow::Result<()> {
    let cos = CosMock::start(CosSettings::default())?;
    let bucket = cos.new_bucket();
    suite(&Registry::with_environment(cos.environment()), &format!("cos://{bucket}/suite")).await?;
    let oss = OssMock::start(OssSettings::default())?;
    let bucket = oss.new_bucket();
    suite(&Registry::with_environment(oss.environment()), &format!("oss://{bucket}/suite")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gs_and_az_pass() -> anyhow::Result<()> {
    let gs = tokio::task::spawn_blocking(FakeGcsServer::shared).await??;
    suite(&Registry::with_environment(gs.environment()), &format!("gs://{}/suite", gs.new_bucket()?)).await?;
    let az = tokio::task::spawn_blocking(Azurite::shared).await??;
    let container = tokio::task::spawn_blocking(|| az.new_container()).await??;
    suite(&Registry::with_environment(az.environment()), &format!("az://{container}/suite")).await
}

fn memory() -> ObjectStoreAdapter {
    let storage: StorageRef = Arc::new(MemoryStorage::new("memory://adapter"));
    ObjectStoreAdapter::new(storage)
}

#[tokio::test]
async fn what_the_contracts_do_not_share_is_refused() {
    let store = memory();
    let (path, payload) = (Path::from("a"), PutPayload::from_static(b"x"));
    let mut options = PutOptions::from(PutMode::Overwrite);
    options.attributes.insert(object_store::Attribute::ContentType, "text/plain".into());
    let refused = store.put_opts(&path, payload.clone(), options).await.expect_err("attributes");
    assert!(matches!(refused, object_store::Error::NotImplemented { .. }), "{refused}");
    store.put(&path, payload).await.expect("writes");
    let refused = store.get_opts(&path, GetOptions::new().with_version(Some("1"))).await.expect_err("versions");
    assert!(matches!(refused, object_store::Error::NotImplemented { .. }), "{refused}");
    assert!(store.get_range(&path, 5..9).await.is_err(), "no bytes there");
}

/// Pieces of one object: reading it while it is replaced is an error, never a mixture.
#[tokio::test]
async fn a_large_object_is_read_in_pieces_of_one_version() {
    use futures::StreamExt;

    let store = memory();
    let (path, size) = (Path::from("big"), 20 << 20);
    store.put(&path, vec![1_u8; size].into()).await.expect("writes");
    let read = store.get(&path).await.expect("opens").bytes().await.expect("reads");
    assert_eq!((read.len(), read.iter().all(|b| *b == 1)), (size, true));
    let mut pieces = store.get(&path).await.expect("opens").into_stream();
    assert!(pieces.next().await.expect("a piece").is_ok());
    store.put(&path, vec![2_u8; size].into()).await.expect("writes");
    let error = pieces.next().await.expect("an answer").expect_err("another object");
    assert!(error.to_string().contains("changed while it was read"), "{error}");
}

#[tokio::test]
async fn parts_that_are_missing_are_not_passed_over() {
    let store = memory();
    let path = Path::from("parts");
    let mut upload = store.put_multipart(&path).await.expect("starts");
    drop(upload.put_part("lost".into()));
    upload.put_part("kept".into()).await.expect("takes it");
    assert!(upload.complete().await.is_err());
    upload.abort().await.expect("gives up");
    assert!(store.head(&path).await.is_err());
}
