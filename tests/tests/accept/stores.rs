//! The same program over other stores: in memory, within one process, and on a real S3 server.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use checkpoint_cli::Exit;
use checkpoint_fs::{Environment, ObjectPath, Registry, StorageExt, StorageOptions, WriteOptions};
use checkpoint_testkit::server::S3Server;

use crate::support::worker;

/// One program after the other over storages that live as long as this value.
struct Place {
    registry: Registry,
    base: String,
}

impl Place {
    async fn ckpt(&self, args: &[&str]) -> Exit {
        let args = ["ckpt", "-q"].iter().chain(args).map(|arg| (*arg).into());
        Box::pin(checkpoint_cli::run(args, self.registry.clone())).await
    }

    async fn run(&self, extra: &[&str]) -> Exit {
        let at = |name: &str| format!("{}/{name}", self.base);
        let (input, output, checkpoint) = (at("input"), at("output"), at("checkpoint"));
        let job = ["run", "--input", &input, "--output", &output, "--checkpoint", &checkpoint, "--id-column", "id"];
        let tasks = ["--workers", "1", "--batch-size", "5", "--rows-per-task", "5", "--progress", "none"];
        self.ckpt(&[&job[..], &tasks, extra].concat()).await
    }

    async fn verify(&self) -> Exit {
        let (checkpoint, output) = (format!("{}/checkpoint", self.base), format!("{}/output", self.base));
        self.ckpt(&["verify", &checkpoint, "--output", &output]).await
    }

    async fn put(&self, name: &str, text: &str) -> Result<()> {
        let storage = self.registry.open_dir(&self.base, &StorageOptions::new()).await?;
        let written = storage
            .write(&ObjectPath::parse(name)?, Bytes::copy_from_slice(text.as_bytes()), WriteOptions::new())
            .await?;
        written.into_result(&self.base)?;
        Ok(())
    }

    /// The files below a directory with their sizes.
    async fn files(&self, dir: &str) -> Result<Vec<(String, u64)>> {
        let storage = self.registry.open_dir(&self.base, &StorageOptions::new()).await?;
        let found = storage.list_files(&ObjectPath::parse(dir)?, true).await?;
        let mut found: Vec<(String, u64)> = found.into_iter().map(|(p, m)| (p.as_str().to_owned(), m.size)).collect();
        found.sort();
        Ok(found)
    }

    /// The IDs in the JSON lines of the output, sorted.
    async fn output_ids(&self) -> Result<Vec<i64>> {
        let storage = self.registry.open_dir(&self.base, &StorageOptions::new()).await?;
        let mut ids = Vec::new();
        for (path, _) in self.files("output").await? {
            if path.ends_with(".jsonl") && !path.contains("/_") {
                let bytes = storage.read(&ObjectPath::parse(path)?, Default::default()).await?.bytes;
                for line in std::str::from_utf8(&bytes)?.lines() {
                    let row: serde_json::Value = serde_json::from_str(line)?;
                    ids.push(row["id"].as_i64().context("an ID")?);
                }
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }
}

/// Half done, resumed, verified, ended, run again; a pending record rolled forward, a damaged one named.
async fn half_done_and_resumed(place: &Place) -> Result<()> {
    for part in 0..4_i64 {
        let lines: String =
            (part * 10..part * 10 + 10).map(|n| format!("{{\"id\": {n}, \"text\": \"row {n}\"}}\n")).collect();
        place.put(&format!("input/part-{part}.jsonl"), &lines).await?;
    }
    let failing = worker("--fail-after 20");
    ensure!(place.run(&["--exec", &failing]).await == Exit::No, "the worker fails half way");
    ensure!(place.output_ids().await? == (0..20).collect::<Vec<i64>>());
    ensure!(place.verify().await == Exit::Done, "half is whole");

    // A commit taken back: its pending record and its data are there.
    let storage = place.registry.open_dir(&place.base, &StorageOptions::new()).await?;
    let records = place.files("checkpoint").await?;
    let (record, _) =
        records.iter().find(|(p, _)| p.ends_with(".parquet") && !p.contains("_meta")).context("a record")?;
    let name = record.trim_start_matches("checkpoint/").to_owned();
    let from = ObjectPath::parse(record.as_str())?;
    let bytes = storage.read(&from, Default::default()).await?.bytes;
    let pending = ObjectPath::parse(format!("checkpoint/_meta/pending/{name}"))?;
    storage.write(&pending, bytes.clone(), WriteOptions::new()).await?.into_result(&place.base)?;
    storage.delete(&from, Default::default()).await?;

    // A damaged record beside it stops everything, by name.
    let (other, _) =
        records.iter().rfind(|(p, _)| p.ends_with(".parquet") && !p.contains("_meta")).context("two records")?;
    let other = ObjectPath::parse(other.as_str())?;
    let whole = storage.read(&other, Default::default()).await?.bytes;
    storage.write(&other, Bytes::new(), WriteOptions::new()).await?.into_result(&place.base)?;
    ensure!(place.run(&[]).await == Exit::BadData, "a record of zero bytes");
    storage.write(&other, whole, WriteOptions::new()).await?.into_result(&place.base)?;

    ensure!(place.run(&["--keep-checkpoint"]).await == Exit::Done);
    ensure!(place.output_ids().await? == (0..40).collect::<Vec<i64>>());
    ensure!(place.verify().await == Exit::Done);
    let before = place.files("output").await?;
    ensure!(place.run(&[]).await == Exit::Done, "the end");
    ensure!(place.files("checkpoint").await?.is_empty(), "{:?}", place.files("checkpoint").await?);
    ensure!(place.run(&[]).await == Exit::Done, "complete already");
    ensure!(place.output_ids().await? == (0..40).collect::<Vec<i64>>());
    let after: Vec<_> = place.files("output").await?.into_iter().filter(|(p, _)| !p.contains("/_")).collect();
    ensure!(before == after, "the data is as it was");

    // Input that grew after the end.
    place.put("input/part-9.jsonl", "{\"id\": 99, \"text\": \"new\"}\n").await?;
    ensure!(place.run(&[]).await == Exit::Conflict, "the output has rows of a checkpoint that is gone");
    ensure!(place.output_ids().await?.len() == 40);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_in_memory() -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let base = format!("memory://accept/{}", NEXT.fetch_add(1, Ordering::Relaxed));
    half_done_and_resumed(&Place { registry: Registry::with_environment(Environment::default()), base }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_job_on_a_real_server() -> Result<()> {
    let server = tokio::task::spawn_blocking(S3Server::shared).await??;
    println!("S3 server: {}", server.describe());
    let bucket = tokio::task::spawn_blocking(|| server.access().new_bucket()).await??;
    let registry = Registry::with_environment(server.access().environment());
    half_done_and_resumed(&Place { registry, base: format!("s3://{bucket}/deep in/a+place") }).await
}
