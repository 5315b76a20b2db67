//! The integration suite of the `object_store` crate, over storages of this project.

use checkpoint_fs::{ObjectStoreAdapter, Registry, StorageOptions};
use object_store::integration;

/// Runs all parts of the suite that apply, below a URL, and gives those that do not with the reason. Each part
/// begins with an empty store, and some leave objects behind. A part that does not hold panics, as that crate
/// wrote it. `last_writer_wins` says what becomes of two streams to one name: both may end and the later one stays,
/// or the first to end makes the other fail, as on Azure.
///
/// # Errors
/// When a storage cannot be opened.
pub async fn object_store_suite(
    registry: &Registry,
    base: &str,
    last_writer_wins: bool,
) -> anyhow::Result<Vec<&'static str>> {
    let open = async |part: &str| registry.open_dir(&format!("{base}/{part}"), &StorageOptions::new()).await;
    let store = async |part: &str| open(part).await.map(ObjectStoreAdapter::new);
    integration::put_get_delete_list(&store("put_get_delete_list").await?).await;
    integration::put_opts(&store("put_opts").await?, false).await;
    integration::stream_get(&store("stream_get").await?).await;
    integration::list_uses_directories_correctly(&store("list_uses_directories_correctly").await?).await;
    integration::list_with_delimiter(&store("list_with_delimiter").await?).await;
    integration::rename_and_copy(&store("rename_and_copy").await?).await;
    integration::copy_if_not_exists(&store("copy_if_not_exists").await?).await;
    integration::copy_rename_nonexistent_object(&store("copy_rename_nonexistent_object").await?).await;
    integration::multipart_race_condition(&store("multipart_race_condition").await?, last_writer_wins).await;
    integration::multipart_out_of_order(&store("multipart_out_of_order").await?).await;
    integration::list_with_offset_exclusivity(&store("list_with_offset_exclusivity").await?).await;
    if open("capabilities").await?.capabilities().directories {
        return Ok(vec!["get_opts: a directory has no entity tags"]);
    }
    integration::get_opts(&store("get_opts").await?).await;
    Ok(Vec::new())
}
