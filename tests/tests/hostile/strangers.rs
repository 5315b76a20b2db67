//! Somebody else than the store answers: a proxy, a login page, a server that knows no such address.

use anyhow::{Result, ensure};
use checkpoint_cli::Exit;
use checkpoint_fs::{
    DeleteOptions, Environment, Error, ErrorKind, ObjectPath, Registry, Retry, StorageExt, StorageRef,
};
use checkpoint_testkit::proxy::Hardship;
use checkpoint_tests::{Backend, Stand, on_each_backend};

use crate::objects::{bounded, changes, failed, get, path, put};

on_each_backend! {
    answers_of_nobody,
    pages_of_strangers,
    listings_of_nobody,
    redirects_name_what_to_check,
    missing_buckets_are_usage,
}

fn answered(status: u16, kind: &str, body: &str) -> Hardship {
    let headers = vec![("Content-Type".to_owned(), kind.to_owned())];
    Hardship::Answered { status, headers, body: body.to_owned() }
}

/// An object `k` in a storage, and then the same answer to everything.
async fn answering(backend: Backend, answer: Hardship) -> Result<(Stand, StorageRef)> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    put(&storage, "k", "x".into()).await?;
    stand.proxy.plan(move |_| Some(answer.clone()));
    Ok((stand, storage))
}

async fn listing(storage: &StorageRef) -> Result<Error> {
    failed("list", bounded("list", storage.list_files(&ObjectPath::root(), true)).await?)
}

fn hints_at(error: &Error, words: &[&str]) -> bool {
    error.hint().is_some_and(|hint| words.iter().any(|word| hint.contains(word)))
}

/// A 404 that does not say that the object is missing: a proxy, an address that means something else. The object is
/// there all the same.
async fn answers_of_nobody(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    put(&storage, "k", "x".into()).await?;
    let nobody = answered(404, "text/plain", "404 page not found");
    stand.proxy.plan(move |request| changes(request).then(|| nobody.clone()));
    let delete = bounded("delete", storage.delete(&path("k")?, DeleteOptions::new())).await?;
    let many = bounded("delete", storage.delete_many(vec![path("k")?], DeleteOptions::new())).await?;
    let many = many.and_then(|kept| kept.into_iter().try_for_each(|failure| Err(failure.error)));
    for error in [failed("delete", delete)?, failed("delete many", many)?] {
        ensure!(error.kind() == ErrorKind::NotFound && error.retry() == Retry::Never, "{error:?}");
    }
    stand.proxy.calm();
    ensure!(get(&storage, "k").await? == "x");
    storage.delete(&path("k")?, DeleteOptions::new()).await?;
    storage.delete(&path("k")?, DeleteOptions::new()).await?;
    let failures = storage.delete_many(vec![path("k")?], DeleteOptions::new()).await?;
    ensure!(failures.is_empty(), "what is not there is no failure: {failures:?}");
    Ok(())
}

/// A login page with status 200 is nobody's object, and no empty bucket.
async fn pages_of_strangers(backend: Backend) -> Result<()> {
    for (kind, page) in [
        ("text/html", "<html>Login</html>"),
        ("text/html; charset=utf-8", "<!DOCTYPE html>\n<html><body>Log in<br></body>"),
        ("application/xml", "\n<!doctype HTML><title>Log in"),
    ] {
        let (stand, storage) = answering(backend, answered(200, kind, page)).await?;
        let mut errors = vec![listing(&storage).await?];
        if kind == "text/html" {
            errors.push(failed("read", bounded("read", get(&storage, "k")).await?)?);
        }
        for error in errors {
            ensure!(error.kind() == ErrorKind::Corrupt, "{kind}: {error:?}");
            ensure!(hints_at(&error, &["another server or a proxy"]), "{kind}: {error:?}");
        }
        stand.proxy.calm();
        ensure!(get(&storage, "k").await? == "x");
    }
    Ok(())
}

/// A 404 for a whole listing says that the bucket is not there, or that nobody's server was asked.
async fn listings_of_nobody(backend: Backend) -> Result<()> {
    for (kind, body) in [("text/plain", "404 page not found"), ("application/json", "{}"), ("", "")] {
        let (_stand, storage) = answering(backend, answered(404, kind, body)).await?;
        let error = listing(&storage).await?;
        ensure!(error.kind() == ErrorKind::NotFound && error.is_bucket_missing(), "{error:?}");
        ensure!(hints_at(&error, &["bucket's name", "container's name"]), "{error:?}");
    }
    let page = answered(404, "text/html", "<!DOCTYPE html><title>404 Not Found</title>");
    let (_stand, storage) = answering(backend, page).await?;
    let error = listing(&storage).await?;
    ensure!(error.kind() == ErrorKind::Io && hints_at(&error, &["another server or a proxy"]), "{error:?}");
    Ok(())
}

async fn redirects_name_what_to_check(backend: Backend) -> Result<()> {
    let elsewhere = ["evil.example", "x.eu-west-3"];
    for (status, body) in [
        (
            301,
            "<Error><Code>PermanentRedirect</Code><Message>Elsewhere.</Message><Endpoint>evil.example</Endpoint></Error>",
        ),
        (307, ""),
        (301, "<html>Moved Permanently</html>"),
    ] {
        let kind = if body.starts_with("<html") { "text/html" } else { "application/xml" };
        let mut answer = answered(status, kind, body);
        if let Hardship::Answered { headers, .. } = &mut answer {
            headers.push(("Location".to_owned(), "https://evil.example/".to_owned()));
            headers.push(("x-amz-bucket-region".to_owned(), "evil.example/x.eu-west-3".to_owned()));
        }
        let (_stand, storage) = answering(backend, answer).await?;
        let error = listing(&storage).await?;
        ensure!(error.kind() == ErrorKind::InvalidConfig, "{status} {body}: {error:?}");
        ensure!(hints_at(&error, &["endpoint"]), "{status} {body}: {error:?}");
        let told = format!("{error} {}", error.hint().unwrap_or_default());
        ensure!(!elsewhere.iter().any(|name| told.contains(name)), "{status} {body}: {error:?}");
    }
    Ok(())
}

/// A bucket that is not there is a wrong URL, whichever command finds it out.
async fn missing_buckets_are_usage(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let missing = match backend {
        Backend::S3 => "s3://no-such-bucket-anywhere",
        Backend::Cos => "cos://nowhere-1250000000",
        Backend::Oss => "oss://no-such-bucket-anywhere",
        Backend::Tclake => "tclake://volume/cat/db/nowhere",
        Backend::Gs => "gs://no-such-bucket-anywhere",
        Backend::Az => "az://no-such-container",
    };
    let registry = Registry::with_environment(stand.variables().into_iter().collect::<Environment>());
    let at = |name: &str| format!("{missing}/{name}");
    let here = tempfile::tempdir()?;
    let rows = here.path().join("rows.jsonl");
    std::fs::write(&rows, "{\"id\": 1}\n")?;
    let (rows, elsewhere) = (rows.display().to_string(), here.path().join("job").display().to_string());
    let job = |input: &str, output: &str, checkpoint: &str| {
        ["--input", input, "--output", output, "--checkpoint", checkpoint, "--id-column", "id"].map(str::to_owned)
    };
    let plain = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let with = |verb: &str, job: [String; 8]| [vec![verb.to_owned()], job.to_vec()].concat();
    for args in [
        plain(&["fs", "ls", &at("c")]),
        plain(&["status", &at("c")]),
        plain(&["ids", &at("c")]),
        plain(&["verify", &at("c"), "--output", &at("o")]),
        plain(&["recover", &at("c"), "--output", &at("o")]),
        plain(&["compact", &at("c")]),
        plain(&["gc", &at("c"), "--older-than", "1d"]),
        with("plan", job(&at("in/"), &elsewhere, &format!("{elsewhere}-c"))),
        with("plan", job(&at("in/rows.jsonl"), &elsewhere, &format!("{elsewhere}-c"))),
        with("plan", job(&rows, &at("o"), &format!("{elsewhere}-c"))),
        with("run", job(&rows, &elsewhere, &at("c"))),
    ] {
        let line = plain(&["ckpt", "-q"]).into_iter().chain(args.clone()).map(Into::into);
        let ended = bounded("ckpt", Box::pin(checkpoint_cli::run(line, registry.clone()))).await?;
        ensure!(ended == Exit::Usage, "{args:?}: {ended:?}");
    }
    Ok(())
}
