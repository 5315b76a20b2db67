//! Credentials, regions, buckets and clocks that are wrong: said at once, as what they are, with a hint.

use anyhow::{Result, ensure};
use checkpoint_fs::{DeleteOptions, Error, ErrorKind, ObjectPath, Retry, StorageExt};
use checkpoint_testkit::proxy::Hardship;
use checkpoint_testkit::server::Azurite;
use checkpoint_tests::{Backend, Opening, Stand, on_each_backend};
use serde_json::json;

use crate::objects::{bounded, create, failed, get, path, put};

on_each_backend! { wrong_secrets, missing_buckets, buckets_that_vanish, expired_tokens }
on_each_backend! { wrong_regions: Cos, Oss, Tclake }
on_each_backend! { clocks_off_by_an_hour: Cos, Oss, Tclake, Az }

/// How each operation is refused; the same error for all where it cannot even be opened.
async fn refusals(opening: Opening) -> Result<Vec<Error>> {
    let storage = match bounded("open", opening.open()).await? {
        Ok(storage) => storage,
        Err(error) => return Ok(vec![error]),
    };
    let all = async {
        anyhow::Ok(vec![
            failed("read", get(&storage, "k").await)?,
            failed("write", create(&storage, "new", "x".into()).await)?,
            failed("list", storage.list_files(&ObjectPath::root(), true).await)?,
            failed("delete", storage.delete(&path("k")?, DeleteOptions::new()).await)?,
        ])
    };
    bounded("operations", all).await?
}

async fn expect(what: &str, opening: Opening, kind: ErrorKind, hint: &str) -> Result<()> {
    for error in refusals(opening).await? {
        ensure!(error.kind() == kind && error.retry() == Retry::Never, "{what}: {error:?}");
        ensure!(error.hint().is_some_and(|said| said.contains(hint)), "{what}: no hint of {hint:?}: {error:?}");
        ensure!(!error.operation().is_empty() && !error.url().is_empty(), "{what}: {error:?}");
    }
    Ok(())
}

/// An answer in place of the server's, as S3 and its kind say it.
fn said(status: u16, code: &str, header: (&str, &str)) -> Hardship {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>No.</Message></Error>");
    Hardship::Answered { status, headers: vec![(header.0.to_owned(), header.1.to_owned())], body }
}

async fn wrong_secrets(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    put(&stand.open().await?, "k", "x".into()).await?;
    let wrong = "bm90LXRoZS1zZWNyZXQtb2YtdGhpcy1rZXk=";
    let connection = Azurite::shared().map(Azurite::connection_string).unwrap_or_default();
    let key = connection.split(';').find_map(|part| part.strip_prefix("AccountKey=")).unwrap_or_default();
    let connection = connection.replace(key, wrong);
    let (name, value) = match backend {
        Backend::S3 => ("AWS_SECRET_ACCESS_KEY", wrong),
        Backend::Cos => ("COS_SECRET_KEY", wrong),
        Backend::Oss => ("OSS_ACCESS_KEY_SECRET", wrong),
        Backend::Tclake => ("TENCENTCLOUD_SECRET_KEY", wrong),
        Backend::Gs => ("FSSPEC_GS_TOKEN", wrong),
        Backend::Az => ("AZURE_STORAGE_CONNECTION_STRING", connection.as_str()),
    };
    let opening = stand.opening().variable(name, value);
    for error in refusals(opening.clone()).await? {
        ensure!(!format!("{error:?} {error}").contains(wrong), "{error:?}");
    }
    expect("a wrong secret", opening, ErrorKind::Unauthenticated, "").await
}

async fn missing_buckets(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let (url, word) = match backend {
        Backend::S3 => ("s3://no-such-bucket-anywhere/root", "bucket"),
        Backend::Cos => ("cos://nowhere-1250000000/root", "bucket"),
        Backend::Oss => ("oss://no-such-bucket-anywhere/root", "bucket"),
        Backend::Tclake => ("tclake://volume/cat/db/nowhere/root", "volume"),
        Backend::Gs => ("gs://no-such-bucket-anywhere/root", "bucket"),
        Backend::Az => ("az://no-such-container/root", "container"),
    };
    let opening = stand.opening().url(url);
    let storage = match bounded("open", opening.open()).await? {
        Err(error) => {
            ensure!(error.kind() == ErrorKind::NotFound, "{error:?}");
            ensure!(error.hint().is_some_and(|hint| hint.contains(word)), "{error:?}");
            return Ok(());
        }
        Ok(storage) => storage,
    };
    let listed = failed("list", bounded("list", storage.list_files(&ObjectPath::root(), true)).await?)?;
    let written = failed("write", bounded("write", create(&storage, "k", "x".into())).await?)?;
    let read = failed("read", bounded("read", get(&storage, "k")).await?)?;
    for error in [listed, written, read] {
        ensure!(error.kind() == ErrorKind::NotFound && error.retry() == Retry::Never, "{error:?}");
        // Of one object the service may not say which of them is missing.
        let is_told = error.operation() != "read" || backend != Backend::Gs;
        ensure!(!is_told || error.hint().is_some_and(|hint| hint.contains(word)), "{error:?}");
    }
    Ok(())
}

/// A delete finds no bucket: nothing is gone, and that is said.
async fn buckets_that_vanish(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let opening = match backend {
        Backend::S3 => stand.opening().url("s3://no-such-bucket-anywhere/root"),
        Backend::Az => stand.opening().url("az://no-such-container/root"),
        _ => stand.opening(),
    };
    let storage = bounded("open", opening.open()).await??;
    if let Some(controls) = stand.controls() {
        controls.remove_bucket(stand.bucket());
    }
    if let Some(mock) = stand.gcs() {
        mock.remove_bucket(stand.bucket());
    }
    let delete = bounded("delete", storage.delete(&path("k")?, DeleteOptions::new())).await?;
    let many = bounded("delete", storage.delete_many(vec![path("k")?, path("l")?], DeleteOptions::new())).await?;
    // The volume's bucket is named by the hint.
    let word = if backend == Backend::Az { "container" } else { "bucket" };
    // Azure answers for each blob.
    let many = many.map_or_else(|error| vec![error], |kept| kept.into_iter().map(|failure| failure.error).collect());
    ensure!(many.len() == if backend == Backend::Az { 2 } else { 1 }, "{many:?}");
    for error in many.into_iter().chain([failed("delete", delete)?]) {
        ensure!(error.kind() == ErrorKind::NotFound && error.retry() == Retry::Never, "{error:?}");
        ensure!(error.hint().is_some_and(|hint| hint.contains(word)), "{error:?}");
        ensure!(error.url().starts_with(storage.url()), "{error:?}");
    }
    Ok(())
}

async fn expired_tokens(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    put(&storage, "k", "x".into()).await?;
    let opening = stand.opening();
    let opening = match backend {
        Backend::Cos | Backend::Oss => {
            let controls = stand.controls().ok_or_else(|| anyhow::anyhow!("a mock"))?;
            controls.add_temporary_key("TEMPORARYKEY", "its-secret", "its-token", 3600);
            let opening = if backend == Backend::Cos {
                let opening = opening.variable("COS_SECRET_ID", "TEMPORARYKEY");
                opening.variable("COS_SECRET_KEY", "its-secret").variable("COS_TOKEN", "its-token")
            } else {
                let opening = opening.variable("OSS_ACCESS_KEY_ID", "TEMPORARYKEY");
                opening.variable("OSS_ACCESS_KEY_SECRET", "its-secret").variable("OSS_SESSION_TOKEN", "its-token")
            };
            let storage = opening.clone().open().await?;
            ensure!(get(&storage, "k").await? == "x");
            controls.expire_temporary_keys();
            // One that was open already, too.
            let error = failed("read", get(&storage, "k").await)?;
            ensure!(error.kind() == ErrorKind::Unauthenticated, "{error:?}");
            opening
        }
        Backend::Tclake => {
            // The volume's own credentials are replaced, and the caller sees nothing of it.
            let controls = stand.controls().ok_or_else(|| anyhow::anyhow!("a mock"))?;
            controls.expire_temporary_keys();
            ensure!(bounded("read", get(&storage, "k")).await?? == "x");
            opening.variable("TENCENTCLOUD_TOKEN", "a-token-that-ended")
        }
        Backend::Gs => {
            stand.gcs().ok_or_else(|| anyhow::anyhow!("a mock"))?.set_token("ya29.the-next");
            let error = failed("read", get(&storage, "k").await)?;
            ensure!(error.kind() == ErrorKind::Unauthenticated, "{error:?}");
            opening
        }
        Backend::Az => {
            let server = Azurite::shared()?;
            let sas = server.account_sas("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")?;
            let opening = opening.variable("AZURE_STORAGE_CONNECTION_STRING", "");
            opening.option("account_host", json!(server.endpoint())).option("sas_token", json!(sas))
        }
        Backend::S3 => {
            // The server's own tokens cannot be had here, so the proxy says it in its place.
            stand.proxy.plan(|_| Some(said(400, "ExpiredToken", ("x-amz-request-id", "R1"))));
            opening.variable("AWS_SESSION_TOKEN", "a-token-that-ended")
        }
    };
    expect("an expired token", opening, ErrorKind::Unauthenticated, "").await
}

async fn wrong_regions(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let opening = stand.opening();
    match backend {
        Backend::Cos => {
            let opening = opening.variable("COS_REGION", "ap-beijing");
            let opening = opening.variable("COS_ENDPOINT", "http://cos.ap-beijing.myqcloud.com");
            expect("another region", opening, ErrorKind::NotFound, "region").await
        }
        Backend::Oss => {
            let opening = opening.variable("OSS_REGION", "cn-beijing");
            let opening = opening.variable("OSS_ENDPOINT", "http://oss-cn-beijing.aliyuncs.com");
            expect("another region", opening, ErrorKind::NotFound, "region").await
        }
        Backend::Tclake => {
            let opening = opening.variable("TENCENTCLOUD_REGION", "ap-beijing");
            expect("another region", opening, ErrorKind::InvalidConfig, "region").await
        }
        Backend::S3 | Backend::Gs | Backend::Az => {
            // The server takes any region, so the proxy says what AWS would.
            for (status, code) in [(301, "PermanentRedirect"), (400, "AuthorizationHeaderMalformed")] {
                stand.proxy.plan(move |_| Some(said(status, code, ("x-amz-bucket-region", "eu-west-3"))));
                expect(code, opening.clone(), ErrorKind::InvalidConfig, "region").await?;
            }
            Ok(())
        }
    }
}

async fn clocks_off_by_an_hour(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    let storage = stand.open().await?;
    put(&storage, "k", "x".into()).await?;
    match stand.controls() {
        Some(controls) => {
            for seconds in [3600, -3600] {
                controls.set_clock_ahead(seconds);
                // Credentials that were handed out by the service's clock may have ended for it as well.
                if backend != Backend::Tclake {
                    let error = failed("read", get(&storage, "k").await)?;
                    ensure!(error.kind() == ErrorKind::Unauthenticated, "{seconds}: {error:?}");
                }
                expect("the clock", stand.opening(), ErrorKind::Unauthenticated, "clock").await?;
            }
        }
        // The server's clock is this machine's, so the proxy says it in its place.
        None if backend == Backend::S3 => {
            stand.proxy.plan(|_| Some(said(403, "RequestTimeTooSkewed", ("x-amz-request-id", "R1"))));
            expect("the clock", stand.opening(), ErrorKind::Unauthenticated, "clock").await?;
        }
        None => {
            stand.proxy.plan(|_| Some(said(403, "AuthenticationFailed", ("x-ms-error-code", "AuthenticationFailed"))));
            expect("the clock", stand.opening(), ErrorKind::Unauthenticated, "clock").await?;
        }
    }
    stand.proxy.calm();
    Ok(())
}
