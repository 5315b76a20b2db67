//! Reads, writes, listings and deletes over connections that break, stall and lie.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use checkpoint_fs::{
    CopyOptions, DeleteOptions, ErrorKind, ListOptions, ObjectPath, ReadOptions, Retry, StorageExt, StorageRef,
    WriteOutcome,
};
use checkpoint_testkit::proxy::{Hardship, Passing};
use checkpoint_tests::{Backend, Stand, on_each_backend};
use futures::TryStreamExt;

use crate::objects::{bounded, changes, create, failed, get, noise, path, put};

on_each_backend! {
    reads_survive,
    reads_end_with_their_kind,
    a_length_that_lies_gives_no_part_of_an_object,
    what_never_ends_is_not_read_for_ever,
    ranges_and_descriptions_survive,
    writes_survive,
    writes_that_never_work_are_not_done,
    listings_are_whole_or_fail,
    deletes_and_copies_survive,
    half_of_the_requests_are_refused,
    refused_for_good,
}

/// What passes, or does not, and the kind of error in which it ends where it does not.
fn hardships() -> Vec<(Hardship, ErrorKind)> {
    vec![
        (Hardship::ResetRequest, ErrorKind::Io),
        (Hardship::ResetAnswer, ErrorKind::Io),
        (Hardship::ResetBody, ErrorKind::Corrupt),
        (Hardship::Silence, ErrorKind::Timeout),
        (Hardship::StalledBody, ErrorKind::Timeout),
        (Hardship::CutBody, ErrorKind::Corrupt),
        (Hardship::ShorterThanSaid, ErrorKind::Corrupt),
        (Hardship::UnsaidLength, ErrorKind::Corrupt),
    ]
}

/// A 503 as the backend says it, and the kind of error that it ends in.
fn unavailable(backend: Backend) -> (Hardship, ErrorKind) {
    let xml = |code| format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>Slow down.</Message></Error>");
    let (body, kind) = match backend {
        Backend::S3 | Backend::Cos | Backend::Oss | Backend::Tclake => (xml("SlowDown"), ErrorKind::RateLimited),
        Backend::Az => (xml("ServerBusy"), ErrorKind::RateLimited),
        // It is asked to slow down by 429; this is a server that is not well.
        Backend::Gs => (r#"{"error": {"code": 503, "message": "Backend Error"}}"#.to_owned(), ErrorKind::Io),
    };
    (Hardship::Answered { status: 503, headers: Vec::new(), body }, kind)
}

/// A client of the stand that waits a second for each answer.
async fn hasty(stand: &Stand) -> Result<StorageRef> {
    bounded("open", stand.opening().patience(1.0).open()).await?.context("open")
}

/// A client for a hardship: hasty where nothing comes, and else not, so that the machine may be slow.
async fn client(stand: &Stand, hardship: &Hardship) -> Result<StorageRef> {
    match hardship {
        Hardship::Silence | Hardship::StalledBody => hasty(stand).await,
        _ => bounded("open", stand.open()).await?.context("open"),
    }
}

/// Objects of which each has its own hardship, for the first `times` requests that name it.
async fn each_its_own(stand: &Stand, storage: &StorageRef, method: &'static str, times: usize) -> Result<()> {
    let hardships = hardships();
    for number in 0..hardships.len() {
        put(storage, &name(number), noise(100_000 + number)).await?;
    }
    let struck = Mutex::new(BTreeMap::<usize, usize>::new());
    stand.proxy.plan(move |request| {
        let number = hardships.iter().enumerate().map(|(n, _)| n).find(|n| request.path.ends_with(&name(*n)))?;
        let mut struck = struck.lock().unwrap_or_else(PoisonError::into_inner);
        let count = struck.entry(number).or_default();
        *count += 1;
        (request.method == method && *count <= times).then(|| hardships[number].0.clone())
    });
    Ok(())
}

fn name(number: usize) -> String {
    format!("object-{number}")
}

async fn reads_survive(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = hasty(&stand).await?;
    each_its_own(&stand, &storage, "GET", 2).await?;
    let reads = hardships().into_iter().enumerate().map(|(number, (hardship, _))| {
        let storage = Arc::clone(&storage);
        async move {
            let read = bounded("read", get(&storage, &name(number))).await?;
            let bytes = read.with_context(|| format!("{hardship:?}"))?;
            ensure!(bytes == noise(100_000 + number), "{hardship:?}: {} bytes", bytes.len());
            Ok(())
        }
    });
    futures::future::try_join_all(reads).await?;
    ensure!(stand.proxy.struck() == 2 * hardships().len(), "struck {} times", stand.proxy.struck());
    Ok(())
}

async fn reads_end_with_their_kind(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = hasty(&stand).await?;
    each_its_own(&stand, &storage, "GET", usize::MAX).await?;
    let reads = hardships().into_iter().enumerate().map(|(number, (hardship, kind))| {
        let stand = &stand;
        async move {
            let storage = client(stand, &hardship).await?;
            let error = failed("read", bounded("read", get(&storage, &name(number))).await?)?;
            ensure!(error.kind() == kind && error.retry() == Retry::Exhausted, "{hardship:?}: {error:?}");
            ensure!(error.operation() == "read" && error.url().ends_with(&name(number)), "{hardship:?}: {error:?}");
            Ok(())
        }
    });
    futures::future::try_join_all(reads).await?;
    Ok(())
}

/// The whole, or an error: a length that is less than what the object has is never believed.
async fn a_length_that_lies_gives_no_part_of_an_object(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    let bytes = noise(100_000);
    put(&storage, "k", bytes.clone()).await?;
    for hardship in [Hardship::LongerThanSaid, Hardship::HalfDocument] {
        let lie = hardship.clone();
        stand.proxy.plan(move |request| (request.method == "GET" && request.number == 0).then(|| lie.clone()));
        let read = bounded("read", get(&storage, "k")).await?.with_context(|| format!("{hardship:?} once"))?;
        ensure!(read == bytes, "{hardship:?} once: {} bytes", read.len());
        let lie = hardship.clone();
        stand.proxy.plan(move |request| (request.method == "GET").then(|| lie.clone()));
        let error = failed("read", bounded("read", get(&storage, "k")).await?)?;
        ensure!(error.kind() == ErrorKind::Corrupt && error.retry() == Retry::Exhausted, "{hardship:?}: {error:?}");
    }
    Ok(())
}

/// An object and a page of a listing that go on for ever, with and without a length: memory is not filled with them.
async fn what_never_ends_is_not_read_for_ever(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    put(&storage, "k", noise(1000)).await?;
    for (length, is_part) in [(None, false), (Some(1 << 40), false), (Some(1 << 40), true)] {
        stand.proxy.plan(move |_| Some(Hardship::Endless { length, is_part }));
        let limited = ReadOptions::new().limit(Some(10_000));
        let error = failed("read", bounded("read", storage.read(&path("k")?, limited)).await?)?;
        ensure!(error.kind() == ErrorKind::Corrupt, "{length:?}: {error:?}");
        let error = failed("list", bounded("list", storage.list_files(&ObjectPath::root(), true)).await?)?;
        ensure!(error.kind() == ErrorKind::Corrupt, "{length:?}: {error:?}");
        let range = ReadOptions::new().range(Some(0..500));
        let read = bounded("read", storage.read(&path("k")?, range)).await?;
        // A server may send the whole for a part, if it says how long the whole is.
        match length.filter(|_| !is_part) {
            None => ensure!(failed("read", read)?.kind() == ErrorKind::Corrupt),
            Some(length) => {
                let read = read?;
                ensure!(read.bytes.len() == 500 && read.meta.size == length, "{:?}", read.meta);
            }
        }
    }
    // A whole object of a length that nobody says has one that is assumed.
    stand.proxy.plan(|_| Some(Hardship::Endless { length: None, is_part: false }));
    let error = failed("read", bounded("read", get(&storage, "k")).await?)?;
    ensure!(error.kind() == ErrorKind::Corrupt, "{error:?}");
    stand.proxy.calm();
    ensure!(get(&storage, "k").await? == noise(1000));
    Ok(())
}

async fn ranges_and_descriptions_survive(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = hasty(&stand).await?;
    let bytes = noise(100_000);
    put(&storage, "k", bytes.clone()).await?;
    let all = hardships().into_iter().map(|(hardship, _)| hardship);
    for hardship in all.chain([Hardship::LongerThanSaid, Hardship::HalfDocument, unavailable(backend).0]) {
        let strike = hardship.clone();
        stand.proxy.plan(move |request| (request.number == 0).then(|| strike.clone()));
        let options = checkpoint_fs::ReadOptions::new().range(Some(10_000..60_000));
        let read = bounded("range", storage.read(&path("k")?, options)).await?;
        let read = read.with_context(|| format!("range: {hardship:?}"))?;
        ensure!(read.bytes == bytes[10_000..60_000] && read.meta.size == 100_000, "{hardship:?}: {:?}", read.meta);
        let strike = hardship.clone();
        stand.proxy.plan(move |request| (request.number == 0).then(|| strike.clone()));
        let meta = bounded("stat", storage.stat(&path("k")?, checkpoint_fs::StatOptions::new())).await?;
        let meta = meta.with_context(|| format!("stat: {hardship:?}"))?;
        ensure!(meta.size == 100_000 && stand.proxy.struck() == 1, "{hardship:?}: {meta:?}");
    }
    Ok(())
}

async fn writes_survive(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = hasty(&stand).await?;
    let all = hardships().into_iter().map(|(hardship, _)| hardship);
    for (number, hardship) in all.chain([Hardship::HalfDocument, unavailable(backend).0]).enumerate() {
        for kind in ["create", "overwrite"] {
            let at = format!("{kind}-{number}");
            let strike = hardship.clone();
            stand.proxy.plan(move |request| (changes(request) && request.number == 0).then(|| strike.clone()));
            if kind == "create" {
                let outcome = bounded("write", create(&storage, &at, noise(50_000 + number))).await?;
                let outcome = outcome.with_context(|| format!("{hardship:?}"))?;
                ensure!(matches!(outcome, WriteOutcome::Done(_)), "{hardship:?}: {outcome:?}");
            } else {
                let wrote = bounded("write", put(&storage, &at, noise(50_000 + number))).await?;
                wrote.with_context(|| format!("{hardship:?}"))?;
            }
            ensure!(stand.proxy.struck() == 1, "{hardship:?} befell nobody");
            stand.proxy.calm();
            ensure!(get(&storage, &at).await? == noise(50_000 + number), "{hardship:?}");
        }
    }
    Ok(())
}

/// A write of which no answer ever comes is done only where a read back says so; else the object is the whole
/// of it or none, and the outcome says that it is not known.
async fn writes_that_never_work_are_not_done(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    for (at, hardship, applied) in [
        ("unseen", Hardship::ResetRequest, false),
        ("lost", Hardship::ResetAnswer, true),
        ("silent", Hardship::Silence, true),
    ] {
        let storage = client(&stand, &hardship).await?;
        let bytes = noise(50_000);
        let strike = hardship.clone();
        stand.proxy.plan(move |request| changes(request).then(|| strike.clone()));
        let answer = bounded("write", create(&storage, at, bytes.clone())).await?;
        stand.proxy.calm();
        match get(&storage, at).await {
            Ok(there) => ensure!(applied && there == bytes, "{hardship:?}: {} bytes are there", there.len()),
            Err(error) => ensure!(!applied && error.kind() == ErrorKind::NotFound, "{hardship:?}: {error:?}"),
        }
        match (applied, answer) {
            (true, Ok(WriteOutcome::Done(_))) => {}
            // It may come yet, for all that the client knows.
            (false, Ok(WriteOutcome::Unknown(error))) => {
                ensure!(error.kind() == ErrorKind::Io, "{hardship:?}: {error:?}");
            }
            (_, answer) => anyhow::bail!("{hardship:?}: {answer:?}"),
        }
        // Everything is lost, the read back too.
        let strike = hardship.clone();
        stand.proxy.plan(move |_| Some(strike.clone()));
        let kind = if hardship == Hardship::Silence { ErrorKind::Timeout } else { ErrorKind::Io };
        match bounded("write", create(&storage, &format!("{at}-2"), bytes.clone())).await? {
            Ok(WriteOutcome::Unknown(error)) => ensure!(error.kind() == kind, "{hardship:?}: {error:?}"),
            answer => anyhow::bail!("all is lost: {hardship:?}: {answer:?}"),
        }
        stand.proxy.calm();
    }
    Ok(())
}

async fn list(storage: &StorageRef, recursive: bool) -> Result<Result<usize, checkpoint_fs::Error>> {
    let listing = storage.list(&ObjectPath::root(), ListOptions::new().recursive(recursive).fresh(true));
    bounded("list", async { listing.try_collect::<Vec<_>>().await.map(|entries| entries.len()) }).await
}

async fn listings_are_whole_or_fail(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    for number in 0..30 {
        put(&storage, &format!("k {number}"), "x".into()).await?;
    }
    // A document tells by itself that it is not whole, whatever its length says.
    let lies = [(Hardship::HalfDocument, ErrorKind::Corrupt), (Hardship::LongerThanSaid, ErrorKind::Corrupt)];
    for (hardship, kind) in hardships().into_iter().chain(lies) {
        stand.proxy.calm();
        let storage = client(&stand, &hardship).await?;
        for recursive in [true, false] {
            let strike = hardship.clone();
            stand.proxy.plan(move |request| (request.number == 0).then(|| strike.clone()));
            let listed = list(&storage, recursive).await?.with_context(|| format!("{hardship:?}"))?;
            ensure!(listed == 30 && stand.proxy.struck() == 1, "{hardship:?}: {listed} of 30");
        }
        if matches!(hardship, Hardship::Silence | Hardship::StalledBody) {
            // A listing is waited for longer, and both were tried above.
            continue;
        }
        let strike = hardship.clone();
        stand.proxy.plan(move |_| Some(strike.clone()));
        let error = failed("list", list(&storage, true).await?)?;
        ensure!(error.kind() == kind && error.retry() == Retry::Exhausted, "{hardship:?}: {error:?}");
    }
    Ok(())
}

async fn deletes_and_copies_survive(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = hasty(&stand).await?;
    let all = hardships().into_iter().map(|(hardship, _)| hardship);
    for hardship in all.chain([Hardship::HalfDocument, unavailable(backend).0]) {
        let once = |request: &Passing| changes(request) && request.number == 0;
        put(&storage, "from", noise(20_000)).await?;
        let strike = hardship.clone();
        stand.proxy.plan(move |request| once(request).then(|| strike.clone()));
        let copied = bounded("copy", storage.copy(&path("from")?, &path("to")?, CopyOptions::new())).await?;
        let outcome = copied.with_context(|| format!("copy: {hardship:?}"))?;
        ensure!(matches!(outcome, WriteOutcome::Done(_)), "{hardship:?}: {outcome:?}");
        ensure!(get(&storage, "to").await? == noise(20_000), "{hardship:?}");
        put(&storage, "third", noise(10)).await?;

        let strike = hardship.clone();
        stand.proxy.plan(move |request| once(request).then(|| strike.clone()));
        bounded("delete", storage.delete(&path("third")?, DeleteOptions::new())).await?.context("delete")?;
        let strike = hardship.clone();
        stand.proxy.plan(move |request| once(request).then(|| strike.clone()));
        let both = vec![path("from")?, path("to")?];
        let failures = bounded("delete", storage.delete_many(both, DeleteOptions::new())).await?;
        let failures = failures.with_context(|| format!("delete many: {hardship:?}"))?;
        ensure!(failures.is_empty() && stand.proxy.struck() == 1, "{hardship:?}: {failures:?}");
        stand.proxy.calm();
        ensure!(storage.list_files(&ObjectPath::root(), true).await?.is_empty(), "{hardship:?}");
    }
    Ok(())
}

/// Every other request is refused with 503: all work is done all the same.
async fn half_of_the_requests_are_refused(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    stand.proxy.plan(move |request| (request.number % 2 == 0).then(|| unavailable(backend).0));
    let storage = bounded("open", stand.open()).await?.context("open")?;
    let all = async {
        for number in 0..4 {
            let at = format!("d/{number}");
            let outcome = create(&storage, &at, noise(1000 + number)).await?;
            ensure!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
            ensure!(get(&storage, &at).await? == noise(1000 + number));
        }
        let files = storage.list_files(&ObjectPath::root(), true).await?;
        ensure!(files.len() == 4, "{files:?}");
        storage.copy(&path("d/0")?, &path("e")?, CopyOptions::new()).await?.into_result("e")?;
        let paths = files.into_iter().map(|(path, _)| path).chain([path("e")?]).collect();
        let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
        ensure!(failures.is_empty(), "{failures:?}");
        ensure!(storage.list_files(&ObjectPath::root(), true).await?.is_empty());
        Ok(())
    };
    bounded("all", all).await??;
    ensure!(stand.proxy.struck() >= 10, "only {} requests were refused", stand.proxy.struck());
    Ok(())
}

async fn refused_for_good(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    put(&storage, "k", "x".into()).await?;
    stand.proxy.plan(move |_| Some(unavailable(backend).0));
    let read = failed("read", bounded("read", get(&storage, "k")).await?)?;
    let listed = failed("list", list(&storage, true).await?)?;
    let deleted = failed("delete", bounded("delete", storage.delete(&path("k")?, DeleteOptions::new())).await?)?;
    let written = match bounded("write", create(&storage, "new", "x".into())).await? {
        Ok(WriteOutcome::Unknown(error)) | Err(error) => error,
        Ok(outcome) => anyhow::bail!("{outcome:?}"),
    };
    let (_, kind) = unavailable(backend);
    for error in [read, listed, deleted, written] {
        ensure!(error.kind() == kind && error.retry() == Retry::Exhausted, "{error:?}");
    }
    Ok(())
}
