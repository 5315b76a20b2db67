//! Reads and metadata: ranges at their edges, and what a missing object means to each operation.

use anyhow::{Result, ensure};
use checkpoint_fs::{CopyOptions, DeleteOptions, Entry, ErrorKind, ListOptions, ReadOptions, StatOptions};
use futures::stream::TryStreamExt;

use super::subject::{Subject, expect_kind, noise, path};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case!(ranges_are_cut_at_the_end_of_the_object),
    case!(metadata_agrees_wherever_it_comes_from),
    case!(what_is_longer_than_its_reader_allows_is_refused),
    case!(a_missing_object_is_not_found),
    case!(a_directory_is_no_object),
];

async fn ranges_are_cut_at_the_end_of_the_object(s: &Subject) -> Result<()> {
    let bytes = noise(100_000, 1);
    let size = bytes.len() as u64;
    s.put("x", bytes.clone()).await?;
    s.put("empty", "").await?;
    let ranges = [
        0..size,
        0..1,
        size - 1..size,
        1..size - 1,
        65_535..65_537,
        0..size + 1,
        size - 1..u64::MAX,
        size..size + 1,
        size + 5..size + 9,
        7..7,
        0..0,
        size..size,
    ];
    for range in ranges {
        let read = s.storage.read(&path("x")?, ReadOptions::new().range(Some(range.clone()))).await?;
        let cut = range.start.min(size) as usize..range.end.min(size) as usize;
        ensure!(read.bytes == bytes[cut], "range {range:?} gave {} bytes", read.bytes.len());
        ensure!(read.meta.size == size, "range {range:?} says that the object has size={}", read.meta.size);
        let read = s.storage.read(&path("empty")?, ReadOptions::new().range(Some(range.clone()))).await?;
        ensure!(read.bytes.is_empty() && read.meta.size == 0, "range {range:?} of nothing gave {read:?}");
    }
    Ok(())
}

async fn metadata_agrees_wherever_it_comes_from(s: &Subject) -> Result<()> {
    let written = s.put("d/x", noise(1234, 1)).await?;
    let stat = s.storage.stat(&path("d/x")?, StatOptions::new()).await?;
    let read = s.storage.read(&path("d/x")?, ReadOptions::new()).await?.meta;
    ensure!((written.size, stat.size, read.size) == (1234, 1234, 1234), "sizes: {written:?} {stat:?} {read:?}");
    ensure!(stat.etag == read.etag, "etags of stat and read: {:?} {:?}", stat.etag, read.etag);
    ensure!(written.etag.is_none() || written.etag == stat.etag, "etags: {:?} {:?}", written.etag, stat.etag);
    ensure!(stat.etag.as_ref().is_none_or(|e| !e.contains('"')), "quotes in the etag: {:?}", stat.etag);
    if s.capabilities().consistent_list {
        let entries: Vec<Entry> = s.storage.list(&path("d")?, ListOptions::new()).try_collect().await?;
        let Some(Entry::File { meta, .. }) = entries.first() else { anyhow::bail!("listed: {entries:?}") };
        ensure!(meta.size == 1234, "the listing says size={}", meta.size);
        ensure!(meta.etag.is_none() || meta.etag == stat.etag, "etags: {:?} {:?}", meta.etag, stat.etag);
    }
    Ok(())
}

async fn what_is_longer_than_its_reader_allows_is_refused(s: &Subject) -> Result<()> {
    s.put("x", noise(100_000, 1)).await?;
    s.put("empty", "").await?;
    let limited = |limit| ReadOptions::new().limit(Some(limit));
    for limit in [100_000, u64::MAX] {
        let read = s.storage.read(&path("x")?, limited(limit)).await?;
        ensure!(read.bytes == noise(100_000, 1) && read.meta.size == 100_000, "limit {limit}: {:?}", read.meta);
    }
    for limit in [0, 1, 99_999] {
        expect_kind(s.storage.read(&path("x")?, limited(limit)).await, ErrorKind::Corrupt, "limited read")?;
    }
    ensure!(s.storage.read(&path("empty")?, limited(0)).await?.bytes.is_empty(), "nothing is no longer than nothing");
    // A range is its own limit.
    let read = s.storage.read(&path("x")?, limited(1).range(Some(10..30))).await?;
    ensure!(read.bytes == noise(100_000, 1)[10..30], "a range gave {} bytes", read.bytes.len());
    Ok(())
}

async fn a_missing_object_is_not_found(s: &Subject) -> Result<()> {
    s.put("there", "x").await?;
    for name in ["none", "none/below", "there/below", "ther", "there2"] {
        s.expect_missing(name).await?;
        let range = ReadOptions::new().range(Some(0..1));
        expect_kind(s.storage.read(&path(name)?, range).await, ErrorKind::NotFound, "range read")?;
        let copy = s.storage.copy(&path(name)?, &path("target")?, CopyOptions::new()).await;
        expect_kind(copy, ErrorKind::NotFound, "copy")?;
        s.storage.delete(&path(name)?, DeleteOptions::new()).await?;
        ensure!(s.list(name, ListOptions::new()).await?.is_empty(), "{name} lists something");
    }
    s.expect_exactly(&["there"]).await
}

async fn a_directory_is_no_object(s: &Subject) -> Result<()> {
    s.put("d/e/x", "x").await?;
    s.expect_missing("d").await?;
    s.expect_missing("d/e").await?;
    let copy = s.storage.copy(&path("d")?, &path("target")?, CopyOptions::new()).await;
    expect_kind(copy, ErrorKind::NotFound, "copy of a directory")?;
    s.expect_exactly(&["d/e/x"]).await
}
