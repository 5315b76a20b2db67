//! Copies and renames: whole or not at all, and refused where the storage cannot.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{CopyOptions, ErrorKind, RenameOptions, WriteMode, WriteOutcome};

use super::creating::read_while;
use super::subject::{Subject, done, expect_exists, expect_kind, noise, path};
use super::{Case, Needs, case};

const COPIES: Needs = Needs { text: "copy_if_absent", held: |c| c.copy_if_absent };
const NO_COPIES: Needs = Needs { text: "no copy_if_absent", held: |c| !c.copy_if_absent };
const RENAMES: Needs = Needs { text: "atomic_rename", held: |c| c.atomic_rename };
const NO_RENAMES: Needs = Needs { text: "no atomic_rename", held: |c| !c.atomic_rename };

pub(super) const CASES: &[Case] = &[
    case!(a_copy_has_the_same_bytes_and_leaves_the_source),
    case!(readers_see_whole_versions_while_an_object_is_copied_over),
    case!(a_copy_refuses_to_replace, COPIES),
    case!(a_storage_that_cannot_copy_without_replacing_says_so, NO_COPIES),
    case!(a_rename_moves_the_object, RENAMES),
    case!(a_rename_to_its_own_name_changes_nothing, RENAMES),
    case!(a_rename_refuses_to_replace, RENAMES),
    case!(of_many_renames_to_one_name_exactly_one_wins, RENAMES),
    case!(a_storage_that_cannot_rename_says_so, NO_RENAMES),
];

async fn copy(s: &Subject, from: &str, to: &str, mode: WriteMode) -> Result<WriteOutcome> {
    let answer = s.storage.copy(&path(from)?, &path(to)?, CopyOptions::new().mode(mode)).await;
    answer.with_context(|| format!("copy of {from:?} to {to:?}"))
}

async fn rename(s: &Subject, from: &str, to: &str, mode: WriteMode) -> Result<WriteOutcome> {
    let answer = s.storage.rename(&path(from)?, &path(to)?, RenameOptions::new().mode(mode)).await;
    answer.with_context(|| format!("rename of {from:?} to {to:?}"))
}

async fn a_copy_has_the_same_bytes_and_leaves_the_source(s: &Subject) -> Result<()> {
    let bytes = noise(1024 * 1024, 1);
    s.put("a b/+%é?#", bytes.clone()).await?;
    s.put("empty", "").await?;
    for (from, bytes) in [("a b/+%é?#", bytes), ("empty", Bytes::new())] {
        for to in ["new/d/x", "new/d/x", "x &<y"] {
            let meta = done(copy(s, from, to, WriteMode::Overwrite).await?)?;
            ensure!(meta.size == bytes.len() as u64, "the copy says size={}", meta.size);
            s.expect(to, &bytes).await?;
            s.expect(from, &bytes).await?;
        }
    }
    s.put("empty", "changed").await?;
    s.expect("x &<y", "").await
}

async fn readers_see_whole_versions_while_an_object_is_copied_over(s: &Subject) -> Result<()> {
    let version = |number: u8| Bytes::from(vec![number; 100_000 + usize::from(number) * 1000]);
    s.put("v1", version(1)).await?;
    s.put("v2", version(2)).await?;
    s.put("x", version(2)).await?;
    let change = async {
        for round in 0..30 {
            done(copy(s, if round % 2 == 0 { "v1" } else { "v2" }, "x", WriteMode::Overwrite).await?)?;
        }
        Ok(())
    };
    read_while(s, "x", change).await
}

async fn a_copy_refuses_to_replace(s: &Subject) -> Result<()> {
    s.put("a", "a").await?;
    s.put("b", "b").await?;
    expect_exists(copy(s, "a", "b", WriteMode::IfAbsent).await?)?;
    s.expect("b", "b").await?;
    done(copy(s, "a", "d/c", WriteMode::IfAbsent).await?)?;
    s.expect("d/c", "a").await?;
    s.expect_exactly(&["a", "b", "d/c"]).await
}

async fn a_storage_that_cannot_copy_without_replacing_says_so(s: &Subject) -> Result<()> {
    s.put("a", "a").await?;
    let options = CopyOptions::new().mode(WriteMode::IfAbsent);
    expect_kind(s.storage.copy(&path("a")?, &path("b")?, options).await, ErrorKind::Unsupported, "copy")?;
    s.expect_missing("b").await
}

async fn a_rename_moves_the_object(s: &Subject) -> Result<()> {
    let bytes = noise(100_000, 1);
    for mode in [WriteMode::Overwrite, WriteMode::IfAbsent] {
        s.put("a b/+%é", bytes.clone()).await?;
        let to = format!("new {mode:?}/x");
        let meta = done(rename(s, "a b/+%é", &to, mode).await?)?;
        ensure!(meta.size == bytes.len() as u64, "the rename says size={}", meta.size);
        s.expect(&to, &bytes).await?;
        s.expect_missing("a b/+%é").await?;
        let again = s.storage.rename(&path("a b/+%é")?, &path("y")?, RenameOptions::new().mode(mode)).await;
        expect_kind(again, ErrorKind::NotFound, "rename of a missing object")?;
    }
    s.put("a", "a").await?;
    s.put("b", "b").await?;
    done(rename(s, "a", "b", WriteMode::Overwrite).await?)?;
    s.expect("b", "a").await?;
    s.expect_exactly(&["b", "new IfAbsent/x", "new Overwrite/x"]).await
}

async fn a_rename_to_its_own_name_changes_nothing(s: &Subject) -> Result<()> {
    s.put("d/a", "a").await?;
    s.put("d/b", "b").await?;
    for settle in [false, true] {
        let options = RenameOptions::new().settle(settle);
        let meta = done(s.storage.rename(&path("d/a")?, &path("d/a")?, options).await?)?;
        ensure!(meta.size == 1, "the rename says size={}", meta.size);
        s.expect("d/a", "a").await?;
        s.expect_exactly(&["d/a", "d/b"]).await?;
    }
    expect_exists(rename(s, "d/a", "d/a", WriteMode::IfAbsent).await?)?;
    s.expect("d/a", "a").await
}

async fn a_rename_refuses_to_replace(s: &Subject) -> Result<()> {
    s.put("a", "a").await?;
    s.put("b", "b").await?;
    expect_exists(rename(s, "a", "b", WriteMode::IfAbsent).await?)?;
    s.expect("a", "a").await?;
    s.expect("b", "b").await
}

async fn of_many_renames_to_one_name_exactly_one_wins(s: &Subject) -> Result<()> {
    for round in 0..s.settings.rounds {
        let to = format!("to-{round}");
        for racer in 0..s.settings.racers {
            s.put(&format!("{round}/{racer}"), format!("racer {racer}")).await?;
        }
        let racers = (0..s.settings.racers).map(|racer| {
            let (storage, from, to) = (s.storage.clone(), format!("{round}/{racer}"), to.clone());
            tokio::spawn(async move {
                let options = RenameOptions::new().mode(WriteMode::IfAbsent);
                anyhow::Ok(storage.rename(&path(&from)?, &path(&to)?, options).await?)
            })
        });
        let mut winners = Vec::new();
        for (racer, answer) in futures::future::join_all(racers).await.into_iter().enumerate() {
            if matches!(answer??, WriteOutcome::Done(_)) {
                winners.push(racer);
                s.expect_missing(&format!("{round}/{racer}")).await?;
            } else {
                s.expect(&format!("{round}/{racer}"), format!("racer {racer}")).await?;
            }
        }
        ensure!(winners.len() == 1, "{} racers were told that they won", winners.len());
        s.expect(&to, format!("racer {}", winners[0])).await?;
    }
    Ok(())
}

async fn a_storage_that_cannot_rename_says_so(s: &Subject) -> Result<()> {
    s.put("a", "a").await?;
    for mode in [WriteMode::Overwrite, WriteMode::IfAbsent] {
        let answer = s.storage.rename(&path("a")?, &path("b")?, RenameOptions::new().mode(mode)).await;
        expect_kind(answer, ErrorKind::Unsupported, "rename")?;
    }
    s.expect("a", "a").await?;
    s.expect_missing("b").await
}
