//! DataFusion writes and reads a table on `cos://`: here on the mock that checks every request as COS does.

use std::sync::Arc;

use anyhow::{Result, ensure};
use checkpoint_fs::{ObjectStoreAdapter, Registry, StorageOptions};
use checkpoint_testkit::mock::{CosMock, CosSettings};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::SessionContext;
use url::Url;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_on_cos_is_written_and_queried() -> Result<()> {
    let mock = CosMock::start(CosSettings::default())?;
    let bucket = mock.new_bucket();
    let registry = Registry::with_environment(mock.environment());

    let root = format!("cos://{bucket}");
    let storage = registry.open_dir(&root, &StorageOptions::new()).await?;
    let writer = SessionContext::new();
    writer.register_object_store(&Url::parse(&root)?, Arc::new(ObjectStoreAdapter::new(storage)));
    let rows = writer.sql("SELECT value AS n, value % 7 AS k FROM generate_series(1, 10000)").await?;
    rows.write_parquet(&format!("{root}/deep/table/"), DataFrameWriteOptions::new(), None).await?;
    ensure!(mock.names(&bucket).0.iter().any(|name| name.starts_with("deep/table/")));

    let sql = "SELECT sum(n) AS total FROM t WHERE k = 3";
    let batches = datafusion_on_checkpoint_fs::query(&registry, &format!("{root}/deep/table"), sql).await?;
    let batches = batches.collect().await?;
    let total = batches[0].column(0).as_primitive::<Int64Type>().value(0);
    let expected: i64 = (1..=10_000).filter(|n| n % 7 == 3).sum();
    ensure!(total == expected, "{total} is not {expected}");
    Ok(())
}
