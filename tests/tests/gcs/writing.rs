//! Writes and reads: lost answers, parts that arrive by half, and checksums.

use anyhow::{Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{CopyOptions, ErrorKind, ReadOptions, Retry, Storage, WriteOptions, WriteOutcome};
use checkpoint_testkit::mock::Trouble;

use crate::bucket::{bytes_of, create, error_of, noise, path, start};

#[tokio::test]
async fn a_lost_answer_is_settled_by_the_token_of_the_write() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    mock.trouble_next(Trouble::LostAnswer, 1);
    let outcome = storage.write(&path("created")?, "mine".into(), create()).await?;
    ensure!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    let outcome = storage.write(&path("created")?, "mine".into(), create()).await?;
    ensure!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
    // Every attempt is lost; the read back is not.
    mock.trouble_next(Trouble::LostAnswer, 4);
    let outcome = storage.write(&path("over")?, "mine".into(), WriteOptions::new()).await?;
    ensure!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    // The read back is lost as well.
    mock.trouble_next(Trouble::LostAnswer, 8);
    let outcome = storage.write(&path("dark")?, "mine".into(), create()).await?;
    ensure!(matches!(outcome, WriteOutcome::Unknown(_)), "{outcome:?}");
    mock.trouble_next(Trouble::LostAnswer, 1);
    storage.copy(&path("created")?, &path("copied")?, CopyOptions::new()).await?.into_result("copied")?;
    ensure!(mock.names(&bucket).0 == ["root/copied", "root/created", "root/dark", "root/over"]);
    Ok(())
}

#[tokio::test]
async fn one_write_is_one_request_with_its_condition() -> Result<()> {
    let (mock, _, storage) = start()?;
    storage.write(&path("a")?, noise(100_000), create()).await?.into_result("a")?;
    let mut writer = storage.writer(&path("b")?, WriteOptions::new()).await?;
    writer.write(noise(100_000)).await?;
    writer.finish().await?.into_result("b")?;
    let requests = mock.requests();
    ensure!(requests.len() == 2, "{requests:?}");
    ensure!(requests[0].query.contains("uploadType=multipart") && requests[0].query.contains("ifGenerationMatch=0"));
    ensure!(requests[1].query.contains("uploadType=multipart") && !requests[1].query.contains("ifGenerationMatch"));
    Ok(())
}

#[tokio::test]
async fn what_asks_to_slow_down_is_tried_again_for_a_while() -> Result<()> {
    let (mock, _, storage) = start()?;
    mock.trouble_next(Trouble::SlowDown, 2);
    storage.write(&path("a")?, "a".into(), create()).await?.into_result("a")?;
    mock.trouble_next(Trouble::InternalError, 3);
    ensure!(bytes_of(&storage, "a").await? == "a");
    mock.trouble_next(Trouble::SlowDown, 4);
    let error = error_of(storage.write(&path("a")?, "b".into(), WriteOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::RateLimited && error.retry() == Retry::Exhausted, "{error:?}");
    ensure!(error.request_id().is_some_and(|id| id.starts_with("MOCK")), "{error:?}");
    ensure!(bytes_of(&storage, "a").await? == "a");
    Ok(())
}

#[tokio::test]
async fn parts_that_arrive_in_part_or_twice_make_the_right_object() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let bytes = noise(20 << 20);
    for trouble in [None, Some(Trouble::LostAnswer), Some(Trouble::InternalError)] {
        let mut writer = storage.writer(&path("large")?, WriteOptions::new()).await?;
        for (number, piece) in bytes.chunks(5 << 20).enumerate() {
            match trouble {
                None if number == 2 => mock.shorten_next_part(512 << 10),
                Some(trouble) if number == 2 => mock.trouble_next(trouble, 2),
                _ => {}
            }
            writer.write(Bytes::copy_from_slice(piece)).await?;
        }
        if let Some(trouble) = trouble {
            mock.trouble_next(trouble, 2);
        }
        let meta = writer.finish().await?.into_result("large")?;
        ensure!(meta.size == bytes.len() as u64, "{meta:?}");
        ensure!(bytes_of(&storage, "large").await? == bytes, "with {trouble:?}");
    }
    ensure!(mock.names(&bucket).1 == 0, "no session is left");
    Ok(())
}

#[tokio::test]
async fn a_part_of_which_nothing_arrives_ends_the_write() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let mut writer = storage.writer(&path("large")?, WriteOptions::new()).await?;
    writer.write(noise(8 << 20)).await?;
    mock.trouble_next(Trouble::InternalError, 8);
    let error = error_of(writer.write(noise(1)).await)?;
    ensure!(error.kind() == ErrorKind::Io && error.retry() == Retry::Exhausted, "{error:?}");
    writer.abort().await?;
    ensure!(mock.names(&bucket) == (Vec::new(), 0), "{:?}", mock.names(&bucket));
    Ok(())
}

#[tokio::test]
async fn bytes_without_their_checksum_are_not_taken() -> Result<()> {
    let (mock, _, storage) = start()?;
    storage.write(&path("a")?, noise(1000), create()).await?.into_result("a")?;
    mock.damage_next_downloads(2);
    ensure!(bytes_of(&storage, "a").await? == noise(1000));
    mock.damage_next_downloads(100);
    let error = error_of(storage.read(&path("a")?, ReadOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::Corrupt && error.retry() == Retry::Exhausted, "{error:?}");
    Ok(())
}
