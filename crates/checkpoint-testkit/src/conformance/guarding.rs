//! Guards: a call whose right has run out has no effect, and returns the guard's own error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checkpoint_fs::{
    CopyOptions, CreateDirOptions, DeleteOptions, Error, ErrorKind, Guard, ListOptions, ReadOptions, RenameOptions,
    StatOptions, WriteMode, WriteOptions,
};
use futures::stream::TryStreamExt;

use super::subject::{Subject, done, noise, path};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case!(a_guard_that_refuses_stops_every_call),
    case!(a_guard_that_allows_is_asked_and_lets_pass),
    case!(a_stream_whose_right_runs_out_is_not_published),
];

/// The text by which the guard's own error is known again.
const OVER: &str = "the right of this guard is over";

fn over() -> Error {
    Error::new(ErrorKind::Conflict, OVER)
}

fn expect_over<T>(answer: checkpoint_fs::Result<T>, what: &str) -> Result<()> {
    match answer {
        Ok(_) => anyhow::bail!("{what} went on, against its guard"),
        Err(error) => {
            ensure!(error.kind() == ErrorKind::Conflict && error.message() == OVER, "{what} failed otherwise: {error}");
            Ok(())
        }
    }
}

async fn a_guard_that_refuses_stops_every_call(s: &Subject) -> Result<()> {
    s.put("a", "a").await?;
    s.put("b", "b").await?;
    let (a, b, new) = (path("a")?, path("b")?, path("d/new")?);
    let guard = || Some(Guard::new(|| Err(over())));
    let st = &s.storage;
    let mut modes = vec![WriteMode::Overwrite];
    if s.capabilities().write_if_absent {
        modes.push(WriteMode::IfAbsent);
    }
    for mode in modes {
        for to in [&b, &new] {
            let options = WriteOptions::new().mode(mode).guard(guard());
            expect_over(st.write(to, "x".into(), options.clone()).await, "write")?;
            let streamed = match st.writer(to, options).await {
                Ok(mut writer) => match writer.write("x".into()).await {
                    Ok(()) => writer.finish().await,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            expect_over(streamed, "writer")?;
            if mode == WriteMode::Overwrite || s.capabilities().copy_if_absent {
                expect_over(st.copy(&a, to, CopyOptions::new().mode(mode).guard(guard())).await, "copy")?;
            }
            if s.capabilities().atomic_rename {
                expect_over(st.rename(&a, to, RenameOptions::new().mode(mode).guard(guard())).await, "rename")?;
            }
        }
    }
    expect_over(st.delete(&a, DeleteOptions::new().guard(guard())).await, "delete")?;
    let both = vec![a.clone(), b.clone()];
    expect_over(st.delete_many(both, DeleteOptions::new().guard(guard())).await, "delete_many")?;
    expect_over(st.create_dir(&path("e")?, CreateDirOptions::new().guard(guard())).await, "create_dir")?;
    expect_over(st.read(&a, ReadOptions::new().guard(guard())).await, "read")?;
    expect_over(st.stat(&a, StatOptions::new().guard(guard())).await, "stat")?;
    let listing = st.list(&path("")?, ListOptions::new().guard(guard())).try_collect::<Vec<_>>();
    expect_over(listing.await, "list")?;
    s.expect("a", "a").await?;
    s.expect("b", "b").await?;
    s.expect_missing("d/new").await?;
    s.expect_exactly(&["a", "b"]).await?;
    let level = s.list("", ListOptions::new()).await?;
    ensure!(!level.contains(&"e/".to_owned()), "a directory was made against its guard");
    Ok(())
}

async fn a_guard_that_allows_is_asked_and_lets_pass(s: &Subject) -> Result<()> {
    let asked = Arc::new(AtomicUsize::new(0));
    let guard = Guard::new({
        let asked = Arc::clone(&asked);
        move || {
            asked.fetch_add(1, Ordering::SeqCst);
            Ok(Duration::from_secs(60))
        }
    });
    let st = &s.storage;
    let count = |what: &str| {
        ensure!(asked.swap(0, Ordering::SeqCst) > 0, "{what} did not ask its guard");
        anyhow::Ok(())
    };
    let guard = || Some(guard.clone());
    done(st.write(&path("a")?, "a".into(), WriteOptions::new().guard(guard())).await?)?;
    count("write")?;
    let mut writer = st.writer(&path("b")?, WriteOptions::new().guard(guard())).await?;
    writer.write("b".into()).await?;
    done(writer.finish().await?)?;
    count("writer")?;
    done(st.copy(&path("a")?, &path("c")?, CopyOptions::new().guard(guard())).await?)?;
    count("copy")?;
    st.delete(&path("b")?, DeleteOptions::new().guard(guard())).await?;
    count("delete")?;
    st.delete_many(vec![path("c")?], DeleteOptions::new().guard(guard())).await?;
    count("delete_many")?;
    s.expect_exactly(&["a"]).await
}

async fn a_stream_whose_right_runs_out_is_not_published(s: &Subject) -> Result<()> {
    for size in [10, s.settings.large] {
        let valid = Arc::new(AtomicBool::new(true));
        let guard = Guard::new({
            let valid = Arc::clone(&valid);
            move || if valid.load(Ordering::SeqCst) { Ok(Duration::from_secs(60)) } else { Err(over()) }
        });
        let options = WriteOptions::new().guard(Some(guard));
        let mut writer = s.storage.writer(&path("x")?, options).await?;
        writer.write(noise(size, 1)).await?;
        valid.store(false, Ordering::SeqCst);
        expect_over(writer.finish().await, "finish").with_context(|| format!("{size} bytes"))?;
        s.expect_missing("x").await?;
    }
    s.expect_exactly(&[]).await
}
