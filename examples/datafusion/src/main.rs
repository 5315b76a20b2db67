//! `datafusion-on-checkpoint-fs cos://bucket/table 'SELECT count(*) FROM t'`

use anyhow::{Context, Result};
use checkpoint_fs::Registry;

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: datafusion-on-checkpoint-fs URL SQL";
    let (url, sql) = (args.next().context(usage)?, args.next().context(usage)?);
    datafusion_on_checkpoint_fs::query(&Registry::from_process(), &url, &sql).await?.show().await?;
    Ok(())
}
