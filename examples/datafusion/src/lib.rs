//! SQL over Parquet files on any store that checkpoint-fs opens: `cos://`, `oss://`, `tclake://`, and the others.

use std::sync::Arc;

use anyhow::{Context, Result};
use checkpoint_fs::{Location, ObjectStoreAdapter, Registry, StorageOptions};
use datafusion::prelude::{DataFrame, ParquetReadOptions, SessionContext};
use url::Url;

/// Runs a query in which the Parquet files below `directory` are the table `t`.
///
/// The store is opened at its root, so that DataFusion's paths are its keys.
///
/// # Errors
/// When the store cannot be opened, and what DataFusion finds wrong with the query or the files.
pub async fn query(registry: &Registry, directory: &str, sql: &str) -> Result<DataFrame> {
    let location = Location::parse(directory)?;
    let root = format!("{}://{}", location.scheme(), location.authority());
    let storage = registry.open_dir(&root, &StorageOptions::new()).await?;
    let context = SessionContext::new();
    context.register_object_store(&Url::parse(&root)?, Arc::new(ObjectStoreAdapter::new(storage)));
    let table = format!("{}/", directory.trim_end_matches('/'));
    context.register_parquet("t", &table, ParquetReadOptions::default()).await.context("reading the files' schema")?;
    Ok(context.sql(sql).await?)
}
