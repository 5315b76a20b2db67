//! Deletes: what is named goes, what is not named stays, and what is missing is no error.

use anyhow::{Result, ensure};
use checkpoint_fs::{CreateDirOptions, DeleteOptions, ObjectPath};

use super::subject::{Subject, path};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case!(a_delete_takes_one_object_and_no_other),
    case!(a_delete_of_nothing_is_no_error),
    case!(many_are_deleted_over_several_batches),
    case!(directories_can_be_made_and_hold_no_object),
];

async fn a_delete_takes_one_object_and_no_other(s: &Subject) -> Result<()> {
    for name in ["a/x", "a/xy", "a/b/x", "ab", "x"] {
        s.put(name, name).await?;
    }
    s.storage.delete(&path("a/x")?, DeleteOptions::new()).await?;
    s.expect_missing("a/x").await?;
    s.expect_exactly(&["a/xy", "a/b/x", "ab", "x"]).await?;
    // A name that is only a directory's holds no object, and nothing below it goes.
    s.storage.delete(&path("a")?, DeleteOptions::new()).await?;
    s.expect_exactly(&["a/xy", "a/b/x", "ab", "x"]).await
}

async fn a_delete_of_nothing_is_no_error(s: &Subject) -> Result<()> {
    s.put("a", "a").await?;
    for name in ["none", "none/below", "a/below"] {
        s.storage.delete(&path(name)?, DeleteOptions::new()).await?;
    }
    s.put("gone", "x").await?;
    for _ in 0..2 {
        s.storage.delete(&path("gone")?, DeleteOptions::new()).await?;
    }
    let failures = s.storage.delete_many(Vec::new(), DeleteOptions::new()).await?;
    ensure!(failures.is_empty(), "failures of no keys: {failures:?}");
    s.expect_exactly(&["a"]).await
}

async fn many_are_deleted_over_several_batches(s: &Subject) -> Result<()> {
    let written: Vec<String> = (0..901).map(|i| format!("d{}/k {i}+%&<é", i % 3)).collect();
    s.put_names(&written).await?;
    s.put_names(&["d0/stay".to_owned(), "stay".to_owned()]).await?;
    let missing = (0..100).map(|i| format!("d{}/missing {i}", i % 5));
    let named: Vec<ObjectPath> = written.iter().cloned().chain(missing).map(|n| path(&n)).collect::<Result<_>>()?;
    ensure!(named.len() == 1001, "more than one batch of any store");
    let failures = s.storage.delete_many(named, DeleteOptions::new()).await?;
    ensure!(failures.is_empty(), "failures: {failures:?}");
    for name in [&written[0], &written[450], &written[900]] {
        s.expect_missing(name).await?;
    }
    s.expect_exactly(&["d0/stay", "stay"]).await
}

async fn directories_can_be_made_and_hold_no_object(s: &Subject) -> Result<()> {
    for _ in 0..2 {
        s.storage.create_dir(&path("d/e")?, CreateDirOptions::new()).await?;
    }
    s.expect_missing("d/e").await?;
    ensure!(s.list_all().await?.is_empty(), "a directory is listed as an object: {:?}", s.list_all().await?);
    s.put("d/e/x", "x").await?;
    s.storage.create_dir(&path("d/e")?, CreateDirOptions::new()).await?;
    s.expect("d/e/x", "x").await?;
    s.expect_exactly(&["d/e/x"]).await
}
