//! Streamed writes: nothing is visible before the end, and nothing of one that is given up.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{StorageWriter, WriteOptions};

use super::subject::{Subject, done, noise, path};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case!(small_streams_come_back),
    case!(large_streams_come_back),
    case!(a_stream_is_invisible_until_it_finishes),
    case!(an_aborted_stream_leaves_nothing),
    case!(a_dropped_stream_leaves_nothing),
];

async fn start(s: &Subject, name: &str) -> Result<Box<dyn StorageWriter>> {
    s.storage.writer(&path(name)?, WriteOptions::new()).await.context("writer")
}

/// Writes in pieces of one size.
async fn feed(writer: &mut dyn StorageWriter, bytes: &Bytes, piece: usize) -> Result<()> {
    let mut rest = bytes.clone();
    while !rest.is_empty() {
        writer.write(rest.split_to(piece.min(rest.len()))).await?;
    }
    Ok(())
}

async fn small_streams_come_back(s: &Subject) -> Result<()> {
    let writer = start(s, "none").await?;
    ensure!(done(writer.finish().await?)?.size == 0, "a stream without writes is an empty object");
    s.expect("none", "").await?;
    let mut writer = start(s, "d/pieces").await?;
    for piece in ["one", "", " ", "two"] {
        writer.write(piece.into()).await?;
    }
    ensure!(done(writer.finish().await?)?.size == 7, "the size of all pieces");
    s.expect("d/pieces", "one two").await?;
    start(s, "d/pieces").await?.finish().await.map_err(Into::into).and_then(done)?;
    s.expect("d/pieces", "").await
}

async fn large_streams_come_back(s: &Subject) -> Result<()> {
    let bytes = noise(s.settings.large, 1);
    for (name, piece) in [("whole", bytes.len()), ("even", 8 * 1024 * 1024), ("odd", 1024 * 1024 + 3)] {
        let mut writer = start(s, name).await?;
        feed(writer.as_mut(), &bytes, piece).await?;
        let meta = done(writer.finish().await?)?;
        ensure!(meta.size == bytes.len() as u64, "{name}: size={}", meta.size);
        let got = s.get(name).await?;
        ensure!(got == bytes, "{name}: {} bytes came back, and not the ones written", got.len());
    }
    Ok(())
}

async fn a_stream_is_invisible_until_it_finishes(s: &Subject) -> Result<()> {
    s.put("old", "old").await?;
    let bytes = noise(s.settings.large, 2);
    for name in ["old", "new"] {
        let mut writer = start(s, name).await?;
        feed(writer.as_mut(), &bytes, 4 * 1024 * 1024).await?;
        if name == "old" {
            s.expect("old", "old").await?;
        } else {
            s.expect_missing("new").await?;
        }
        let listed = s.list_all().await?;
        ensure!(listed.iter().all(|n| ["old", "new"].contains(&n.as_str())), "a stream shows up as {listed:?}");
        ensure!(name == "old" || !listed.contains(&"new".to_owned()), "listed before its end");
        done(writer.finish().await?)?;
        ensure!(s.get(name).await? == bytes, "{name} holds other bytes");
    }
    s.expect_exactly(&["new", "old"]).await
}

async fn an_aborted_stream_leaves_nothing(s: &Subject) -> Result<()> {
    s.put("old", "old").await?;
    for size in [0, 10, s.settings.large] {
        for name in ["old", "d/new"] {
            let mut writer = start(s, name).await?;
            feed(writer.as_mut(), &noise(size, 1), 4 * 1024 * 1024).await?;
            writer.abort().await?;
        }
    }
    s.expect("old", "old").await?;
    s.expect_missing("d/new").await?;
    ensure!(s.list_all().await? == ["old"], "the storage holds {:?}", s.list_all().await?);
    Ok(())
}

async fn a_dropped_stream_leaves_nothing(s: &Subject) -> Result<()> {
    s.put("old", "old").await?;
    for size in [0, 10, s.settings.large] {
        for name in ["old", "d/new"] {
            let mut writer = start(s, name).await?;
            feed(writer.as_mut(), &noise(size, 1), 4 * 1024 * 1024).await?;
            drop(writer);
        }
    }
    s.expect("old", "old").await?;
    s.expect_missing("d/new").await?;
    ensure!(s.list_all().await? == ["old"], "the storage holds {:?}", s.list_all().await?);
    Ok(())
}
