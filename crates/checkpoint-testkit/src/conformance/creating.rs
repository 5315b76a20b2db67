//! Writes of whole objects: what is written is what is read, under every name, and never half of it.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{ObjectPath, StatOptions, WriteOptions};

use super::subject::{Subject, noise, path};
use super::{Case, Needs, case};

const FLAT: Needs = Needs { text: "no directories", held: |c| !c.directories };

pub(super) const CASES: &[Case] = &[
    case!(objects_of_all_sizes_come_back),
    case!(a_write_replaces_all_of_the_old_object),
    case!(readers_see_whole_versions_while_an_object_is_replaced),
    case!(many_writers_at_once_do_not_disturb_each_other),
    case!(an_object_and_objects_below_its_name_live_together, FLAT),
    case!(the_root_is_no_object),
];

async fn objects_of_all_sizes_come_back(s: &Subject) -> Result<()> {
    for (name, size) in [("empty", 0), ("one", 1), ("odd", 4097), ("d/e/mebibyte", 1024 * 1024)] {
        let bytes = noise(size, size as u32);
        let written = s.put(name, bytes.clone()).await?;
        ensure!(written.size == size as u64, "the write of {name} says size={}", written.size);
        s.expect(name, bytes).await?;
        let stat = s.storage.stat(&path(name)?, StatOptions::new()).await?;
        ensure!(stat.size == size as u64, "stat of {name} says size={}", stat.size);
    }
    Ok(())
}

async fn a_write_replaces_all_of_the_old_object(s: &Subject) -> Result<()> {
    let first = s.put("x", noise(10_000, 1)).await?;
    let second = s.put("x", "short").await?;
    s.expect("x", "short").await?;
    ensure!(
        first.etag.is_none() || first.etag != second.etag,
        "two versions with different bytes have one etag: {:?}",
        first.etag
    );
    s.put("x", Bytes::new()).await?;
    s.expect("x", "").await
}

/// A version is one byte repeated; its length follows from the byte.
fn version(number: u8) -> Bytes {
    Bytes::from(vec![number; 100_000 + usize::from(number) * 1000])
}

/// Expects bytes to be a whole version.
pub(super) fn expect_version(bytes: &Bytes) -> Result<()> {
    let first = *bytes.first().context("no bytes")?;
    ensure!(*bytes == version(first), "torn: {} bytes, the first is {first}", bytes.len());
    Ok(())
}

/// Reads `name` again and again while `change` runs; each read must give a whole version.
pub(super) async fn read_while(s: &Subject, name: &str, change: impl Future<Output = Result<()>>) -> Result<()> {
    let over = AtomicBool::new(false);
    let reader = async {
        let mut reads = 0;
        while !over.load(Ordering::Relaxed) || reads == 0 {
            expect_version(&s.get(name).await?)?;
            reads += 1;
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    let changer = async {
        let changed = change.await;
        over.store(true, Ordering::Relaxed);
        changed
    };
    let (read, changed): (Result<()>, Result<()>) = futures::future::join(reader, changer).await;
    changed.and(read)
}

async fn readers_see_whole_versions_while_an_object_is_replaced(s: &Subject) -> Result<()> {
    s.put("x", version(0)).await?;
    let change = async {
        for number in 1..40 {
            s.put("x", version(number)).await?;
        }
        Ok(())
    };
    read_while(s, "x", change).await?;
    s.expect("x", version(39)).await
}

async fn many_writers_at_once_do_not_disturb_each_other(s: &Subject) -> Result<()> {
    let writes = (0..64_u32).map(|i| async move {
        s.put(&format!("d{}/own-{i}", i % 4), noise(1000, i)).await?;
        let shared = s.storage.write(&path("shared")?, version(i as u8), WriteOptions::new()).await?;
        super::subject::done(shared)?;
        s.expect(&format!("d{}/own-{i}", i % 4), noise(1000, i)).await
    });
    futures::future::try_join_all(writes).await?;
    expect_version(&s.get("shared").await?)?;
    for i in 0..64 {
        s.expect(&format!("d{}/own-{i}", i % 4), noise(1000, i)).await?;
    }
    Ok(())
}

async fn an_object_and_objects_below_its_name_live_together(s: &Subject) -> Result<()> {
    s.put("k", "object").await?;
    s.put("k/child", "child").await?;
    s.expect("k", "object").await?;
    s.expect("k/child", "child").await?;
    s.storage.delete(&path("k")?, checkpoint_fs::DeleteOptions::new()).await?;
    s.expect_missing("k").await?;
    s.expect("k/child", "child").await
}

async fn the_root_is_no_object(s: &Subject) -> Result<()> {
    let root = ObjectPath::root();
    for mode in [checkpoint_fs::WriteMode::Overwrite, checkpoint_fs::WriteMode::IfAbsent] {
        let answer = s.storage.write(&root, "x".into(), WriteOptions::new().mode(mode)).await;
        ensure!(answer.is_err(), "a write to the root gave {answer:?}");
    }
    s.expect_missing("").await?;
    s.expect_exactly(&[]).await
}
