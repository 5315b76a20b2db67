//! Creating without replacing: of many racers exactly one wins, or the storage says that it cannot.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{DeleteOptions, ErrorKind, WriteMode, WriteOptions, WriteOutcome};

use super::subject::{Subject, done, expect_exists, expect_kind, noise, path};
use super::{Case, Needs, case};

const CREATES: Needs = Needs { text: "write_if_absent", held: |c| c.write_if_absent };
const REFUSES: Needs = Needs { text: "no write_if_absent", held: |c| !c.write_if_absent };

pub(super) const CASES: &[Case] = &[
    case!(creating_refuses_to_replace, CREATES),
    case!(of_many_creators_exactly_one_wins, CREATES),
    case!(streamed_and_whole_creators_share_one_race, CREATES),
    case!(a_streamed_creator_refuses_to_replace, CREATES),
    case!(a_storage_that_cannot_create_says_so, REFUSES),
];

async fn creating_refuses_to_replace(s: &Subject) -> Result<()> {
    done(s.create("d/x", "first").await?)?;
    for bytes in ["second", "first", ""] {
        expect_exists(s.create("d/x", bytes).await?).with_context(|| format!("bytes {bytes:?}"))?;
    }
    s.expect("d/x", "first").await?;
    s.storage.delete(&path("d/x")?, DeleteOptions::new()).await?;
    done(s.create("d/x", "third").await?).context("after a delete")?;
    s.put("d/x", "fourth").await?;
    expect_exists(s.create("d/x", "fifth").await?).context("after an overwrite")?;
    s.put("empty", "").await?;
    expect_exists(s.create("empty", "x").await?).context("over an empty object")?;
    s.expect("d/x", "fourth").await
}

/// Expects one winner, whose bytes are there.
async fn expect_one_winner(s: &Subject, name: &str, outcomes: Vec<(Bytes, WriteOutcome)>) -> Result<()> {
    let mut winners = Vec::new();
    for (bytes, outcome) in outcomes {
        match outcome {
            WriteOutcome::Done(_) => winners.push(bytes),
            WriteOutcome::AlreadyExists => {}
            WriteOutcome::Unknown(error) => return Err(error).context("an outcome is unknown"),
        }
    }
    ensure!(winners.len() == 1, "{} writers were told that they won", winners.len());
    s.expect(name, &winners[0]).await
}

async fn of_many_creators_exactly_one_wins(s: &Subject) -> Result<()> {
    for round in 0..s.settings.rounds {
        let name = format!("round-{round}/x");
        let racers = (0..s.settings.racers).map(|racer| {
            let (storage, name) = (s.storage.clone(), name.clone());
            let bytes = noise(1000 + racer, racer as u32);
            tokio::spawn(async move {
                let options = WriteOptions::new().mode(WriteMode::IfAbsent);
                let outcome = storage.write(&path(&name)?, bytes.clone(), options).await?;
                anyhow::Ok((bytes, outcome))
            })
        });
        let mut outcomes = Vec::new();
        for answer in futures::future::join_all(racers).await {
            outcomes.push(answer??);
        }
        expect_one_winner(s, &name, outcomes).await?;
    }
    Ok(())
}

async fn streamed_and_whole_creators_share_one_race(s: &Subject) -> Result<()> {
    for round in 0..s.settings.rounds {
        let name = format!("round-{round}");
        let racers = (0..6_u32).map(|racer| {
            let (storage, name) = (s.storage.clone(), name.clone());
            let bytes = noise(1000, racer);
            tokio::spawn(async move {
                let options = WriteOptions::new().mode(WriteMode::IfAbsent);
                let outcome = if racer % 2 == 0 {
                    storage.write(&path(&name)?, bytes.clone(), options).await?
                } else {
                    let mut writer = storage.writer(&path(&name)?, options).await?;
                    writer.write(bytes.clone()).await?;
                    writer.finish().await?
                };
                anyhow::Ok((bytes, outcome))
            })
        });
        let mut outcomes = Vec::new();
        for answer in futures::future::join_all(racers).await {
            outcomes.push(answer??);
        }
        expect_one_winner(s, &name, outcomes).await?;
    }
    Ok(())
}

async fn a_streamed_creator_refuses_to_replace(s: &Subject) -> Result<()> {
    s.put("x", "first").await?;
    for size in [10, s.settings.large] {
        let options = WriteOptions::new().mode(WriteMode::IfAbsent);
        let mut writer = s.storage.writer(&path("x")?, options).await?;
        let answer = match writer.write(noise(size, 1)).await {
            Ok(()) => writer.finish().await?,
            Err(error) => return Err(error).context("write"),
        };
        expect_exists(answer).with_context(|| format!("{size} bytes"))?;
    }
    s.expect("x", "first").await?;
    s.expect_exactly(&["x"]).await
}

async fn a_storage_that_cannot_create_says_so(s: &Subject) -> Result<()> {
    let options = WriteOptions::new().mode(WriteMode::IfAbsent);
    let answer = s.storage.write(&path("x")?, "x".into(), options.clone()).await;
    expect_kind(answer, ErrorKind::Unsupported, "create")?;
    // A writer may say so at its start or at its end.
    let answer = match s.storage.writer(&path("x")?, options).await {
        Ok(writer) => writer.finish().await,
        Err(error) => Err(error),
    };
    expect_kind(answer, ErrorKind::Unsupported, "streamed create")?;
    s.expect_missing("x").await
}
