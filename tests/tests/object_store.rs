//! The integration suite of the `object_store` crate, over this project's storages.

#![expect(clippy::print_stdout, reason = "says what a storage cannot have")]

use std::sync::Arc;

use checkpoint_fs::{Environment, MemoryStorage, ObjectStoreAdapter, Registry, StorageOptions, StorageRef};
use checkpoint_testkit::server::S3Server;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, integration};

/// All parts of the suite that the storage's capabilities allow, below a URL. Each part begins with an empty
/// store, and some leave objects behind.
async fn suite(registry: &Registry, base: &str) -> anyhow::Result<()> {
    let open = async |part: &str| registry.open_dir(&format!("{base}/{part}"), &StorageOptions::new()).await;
    let store = async |part: &str| open(part).await.map(ObjectStoreAdapter::new);
    integration::put_get_delete_list(&store("put_get_delete_list").await?).await;
    integration::put_opts(&store("put_opts").await?, false).await;
    integration::stream_get(&store("stream_get").await?).await;
    integration::list_uses_directories_correctly(&store("list_uses_directories_correctly").await?).await;
    integration::list_with_delimiter(&store("list_with_delimiter").await?).await;
    integration::rename_and_copy(&store("rename_and_copy").await?).await;
    integration::copy_rename_nonexistent_object(&store("copy_rename_nonexistent_object").await?).await;
    integration::multipart_race_condition(&store("multipart_race_condition").await?, true).await;
    integration::multipart_out_of_order(&store("multipart_out_of_order").await?).await;
    integration::list_with_offset_exclusivity(&store("list_with_offset_exclusivity").await?).await;
    integration::copy_if_not_exists(&store("copy_if_not_exists").await?).await;
    let capabilities = open("capabilities").await?.capabilities().clone();
    if capabilities.directories {
        println!("n/a: get_opts at {base}: a directory has no entity tags");
    } else {
        integration::get_opts(&store("get_opts").await?).await;
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
