//! A volume that is open: requests go below its place on COS, with the catalog's credentials.

use futures::TryStreamExt;
use serde_json::json;

use super::server::{Received, Reply, SECRET_KEY, Server, TOKEN, catalog_of, keys, soon, volume_at};
use crate::backend::tclake::config::{SECRET_ID, SECRET_KEY as SECRET_KEY_VARIABLE, TOKEN as TOKEN_VARIABLE};
use crate::error::{Error, ErrorKind};
use crate::logged::Logged;
use crate::options::{Environment, StorageOptions};
use crate::path::ObjectPath;
use crate::registry::Registry;
use crate::storage::{ListOptions, ReadOptions, StorageExt, StorageRef};

const URL: &str = "tclake://volume/cat/s/v/dir";
/// 2100-01-01T00:00:00Z
const FAR: u64 = 4_102_444_800_000;
const DENIED: &str =
    "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message><RequestId>R</RequestId></Error>";

/// A catalog in which all is well and the COS below it, which answers by `cos`; the bucket itself is shut.
fn lake(mut cos: impl FnMut(&Received) -> Reply + Send + 'static) -> impl FnMut(&Received) -> Reply + Send + 'static {
    let mut issued = 0;
    move |request| match request.action() {
        "DescribeCatalog" => catalog_of("VOLUME"),
        "DescribeVolume" => volume_at("cosn://bkt-125/lake/v/"),
        "DescribeCredentials" => {
            issued += 1;
            keys(issued, json!(FAR))
        }
        "" if request.line.contains("versioning") => Reply::Raw(403, DENIED.to_owned()),
        "" => cos(request),
        other => Reply::error(&format!("InvalidAction {other}")),
    }
}

async fn open(server: &Server) -> Result<StorageRef, Error> {
    let options = json!({"tclake": {"endpoint": server.url, "cos_endpoint": server.url}});
    let options = StorageOptions::from_value(options).expect("the right shape");
    let pairs = [(SECRET_ID, "AKIDCALLER"), (SECRET_KEY_VARIABLE, SECRET_KEY), (TOKEN_VARIABLE, TOKEN)];
    let registry = Registry::with_environment(pairs.into_iter().collect::<Environment>());
    soon(registry.open_dir(URL, &options)).await
}

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("valid")
}

async fn read(storage: &StorageRef) -> Result<Vec<u8>, Error> {
    Ok(soon(storage.read(&path("k"), ReadOptions::new())).await?.bytes.to_vec())
}

/// What went to COS about objects.
fn data(server: &Server) -> Vec<Received> {
    let of_cos = |r: &Received| r.action().is_empty() && !r.line.contains("versioning");
    server.received().into_iter().filter(of_cos).collect()
}

fn questions(server: &Server, action: &str) -> usize {
    server.actions().iter().filter(|asked| *asked == action).count()
}

#[tokio::test]
async fn requests_stay_below_the_place_and_are_signed_with_what_the_catalog_gave() {
    let listing = "<ListBucketResult><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>\
        <Contents><Key>lake/v/dir/a/k%2B1</Key><Size>3</Size></Contents></ListBucketResult>";
    let server = Server::start(lake(|request| match request.line.contains("list-type") {
        true => Reply::Raw(200, listing.to_owned()),
        false => Reply::Raw(200, "abc".to_owned()),
    }))
    .await;
    let storage = open(&server).await.expect("opens");
    assert_eq!((storage.url(), storage.url_of(&path("k"))), (URL, format!("{URL}/k")));
    assert_eq!(read(&storage).await.expect("reads"), b"abc");
    let entries = storage.list(&path("a"), ListOptions::new().recursive(true)).try_collect::<Vec<_>>();
    let entries = soon(entries).await.expect("lists");
    assert_eq!(entries.iter().map(|e| e.path().as_str()).collect::<Vec<_>>(), ["a/k+1"]);
    let sent = data(&server);
    assert_eq!(sent[0].line, "GET /bkt-125/lake/v/dir/k HTTP/1.1");
    assert!(sent[1].line.contains("prefix=lake%2Fv%2Fdir%2Fa%2F&"), "{}", sent[1].line);
    for request in sent {
        assert!(request.header("authorization").contains("Credential=AKID-1/"), "{request:?}");
        assert_eq!(request.header("x-amz-security-token"), "t0ken-of-the-volume-1");
    }
    for action in ["DescribeCatalog", "DescribeVolume", "DescribeCredentials"] {
        assert_eq!(questions(&server, action), 1, "{action}");
    }
}

#[tokio::test]
async fn keys_that_ended_early_are_replaced_once() {
    for (status, code) in [(400, "ExpiredToken"), (403, "InvalidAccessKeyId")] {
        let dead = format!("<Error><Code>{code}</Code><Message>no</Message><RequestId>R</RequestId></Error>");
        let body = dead.clone();
        let first_is_dead = move |request: &Received| match request.header("x-amz-security-token").ends_with("-1") {
            true => Reply::Raw(status, body.clone()),
            false => Reply::Raw(200, "abc".to_owned()),
        };
        let server = Server::start(lake(first_is_dead)).await;
        let storage = open(&server).await.expect("opens");
        assert_eq!(read(&storage).await.expect("with new keys"), b"abc");
        assert_eq!(read(&storage).await.expect("with the same keys"), b"abc");
        assert_eq!((data(&server).len(), questions(&server, "DescribeCredentials")), (3, 2), "{code}");

        let server = Server::start(lake(move |_| Reply::Raw(status, dead.clone()))).await;
        let storage = open(&server).await.expect("opens");
        let error = read(&storage).await.expect_err("always refused");
        assert_eq!((error.kind(), error.service_code()), (ErrorKind::Unauthenticated, Some(code)));
        assert_eq!((data(&server).len(), questions(&server, "DescribeCredentials")), (2, 2), "{code}");
    }
}

#[tokio::test]
async fn errors_name_what_the_user_wrote_and_hint_at_the_place() {
    let refused = |status: u16, code: &str| {
        let body = format!("<Error><Code>{code}</Code><Message>no</Message><RequestId>R</RequestId></Error>");
        Server::start(lake(move |_| Reply::Raw(status, body.clone())))
    };
    for (status, code, kind, hint) in [
        (404, "NoSuchBucket", ErrorKind::NotFound, "cos_endpoint"),
        (403, "AccessDenied", ErrorKind::PermissionDenied, "cosn://bkt-125/lake/v"),
        (404, "NoSuchKey", ErrorKind::NotFound, ""),
    ] {
        let server = refused(status, code).await;
        let storage = open(&server).await.expect("opens without a right to the bucket");
        let error = read(&storage).await.expect_err(code);
        assert_eq!((error.kind(), error.service_code()), (kind, Some(code)));
        assert_eq!((error.operation(), error.url()), ("read", format!("{URL}/k").as_str()));
        let shown = error.hint().unwrap_or_default();
        assert!(shown.contains(hint), "{error:?}");
        assert_eq!(shown.contains("cosn://bkt-125/lake/v"), !hint.is_empty(), "{error:?}");
    }
}

#[tokio::test]
async fn what_the_catalog_refuses_fails_the_opening() {
    let server = Server::start({
        let mut all = lake(|_| Reply::Raw(200, "abc".to_owned()));
        move |request| match request.action() {
            "DescribeCredentials" => Reply::error("UnauthorizedOperation"),
            _ => all(request),
        }
    })
    .await;
    let error = open(&server).await.expect_err("no credentials");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!((error.service_code(), data(&server).len()), (Some("UnauthorizedOperation"), 0));
    assert!(error.url().starts_with("tclake://volume/cat/s/v"), "{error:?}");
}

#[tokio::test]
async fn what_is_wrong_with_the_url_or_the_options_is_said_before_any_request() {
    let server = Server::start(|_| Reply::error("InternalError")).await;
    let options = |more: serde_json::Value| {
        let mut all = json!({"sid": "AKIDCALLER", "sk": SECRET_KEY, "endpoint": server.url});
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        StorageOptions::from_value(json!({"tclake": all})).expect("the right shape")
    };
    let registry = Registry::with_environment(Environment::default());
    for url in ["tclake://lakehouse/c/s/t", "tclake://volume/c/s", "tclake://volume/c", "tclake://volume/c/s/v/../w"] {
        let error = registry.open_dir(url, &options(json!({}))).await.expect_err(url);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
        assert_eq!(registry.resolve(url, &options(json!({}))).await.expect_err(url).kind(), ErrorKind::InvalidConfig);
    }
    let error = registry.open_dir(URL, &options(json!({"sk": null}))).await.expect_err("half a pair");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let error = registry.open_dir(URL, &StorageOptions::new()).await.expect_err("no credentials");
    assert_eq!((error.kind(), error.url()), (ErrorKind::Unauthenticated, URL));
    assert!(error.hint().is_some_and(|hint| hint.contains(SECRET_ID)), "{error:?}");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn resolving_asks_nobody_and_shows_no_secret() {
    let pairs = [
        (SECRET_ID, "AKIDCALLER"),
        (SECRET_KEY_VARIABLE, SECRET_KEY),
        (TOKEN_VARIABLE, TOKEN),
        ("TENCENTCLOUD_REGION", "ap-nowhere-1"),
    ];
    let registry = Registry::with_environment(pairs.into_iter().collect::<Environment>());
    let found = registry.resolve(&format!("{URL}/k"), &StorageOptions::new()).await.expect("offline");
    let shown = serde_json::to_value(&found).expect("JSON");
    assert_eq!(
        shown,
        json!({
            "scheme": "tclake", "backend": "tclake", "bucket": null, "key": "dir/k",
            "endpoint": "https://tccatalog.ap-nowhere-1.tencentcloudapi.com",
            "region": "ap-nowhere-1", "signing_region": "ap-nowhere-1", "addressing": null,
            "access_key_id": "AKIDCALLER", "has_session_token": true, "anonymous": false,
            "object_url": null, "list_url": null,
            "sources": {
                "credentials": "environment", "endpoint": "default of the region",
                "region": "environment: TENCENTCLOUD_REGION",
            },
        })
    );
    let bare = Registry::with_environment(Environment::default());
    let found = bare.resolve(URL, &StorageOptions::new()).await.expect("credentials are not needed to resolve");
    assert_eq!((found.access_key_id, found.region.as_deref()), (None, Some("ap-guangzhou")));
    assert!(found.sources["credentials"].contains("TENCENTCLOUD_SECRET_ID"));
}

#[tokio::test]
async fn no_secret_is_logged_or_shown() {
    let log = Logged::start();
    let server = Server::start(lake(|_| Reply::Raw(403, DENIED.to_owned()))).await;
    let storage = open(&server).await.expect("opens");
    let error = read(&storage).await.expect_err("denied");
    let signatures: Vec<String> = server
        .received()
        .iter()
        .map(|r| r.header("authorization").rsplit_once("Signature=").expect("signed").1.to_owned())
        .collect();
    assert!(signatures.len() >= 4, "{}", signatures.len());
    let logged = log.text();
    assert!(logged.contains(URL), "the log is on: {} bytes", logged.len());
    let shown = format!("{storage:?} {error:?} {error}");
    for text in [&logged, &shown] {
        let secrets = [SECRET_KEY, TOKEN, "hunter2-of-the-volume", "t0ken-of-the-volume"];
        for secret in signatures.iter().map(String::as_str).chain(secrets) {
            let at = text.find(secret).map(|at| &text[at.saturating_sub(200)..at]);
            assert_eq!(at, None, "a secret is shown");
        }
    }
}
