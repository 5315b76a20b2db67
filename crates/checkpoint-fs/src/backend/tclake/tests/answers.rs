//! What is made of the catalog's answers.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;

use super::server::{
    ManualClock, Received, Reply, SECRET_KEY, Server, TOKEN, catalog_of, keys, soon, volume, volume_at,
};
use crate::backend::tclake::place::Place;
use crate::error::{Error, ErrorKind, Retry};

const VOLUME_URL: &str = "tclake://volume/cat/ä ö/v%2F";
/// 2026-01-01T00:00:00Z
const NOW: Duration = Duration::from_secs(1_767_225_600);

fn clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::default());
    clock.set(NOW);
    clock
}

/// A catalog in which all is well, but for one action.
fn but(action: &'static str, reply: Reply) -> impl FnMut(&Received) -> Reply {
    move |request| match request.action() {
        asked if asked == action => reply.clone(),
        "DescribeCatalog" => catalog_of("VOLUME"),
        "DescribeSchema" => Reply::Response(json!({"Schema": {"Name": "s"}})),
        "DescribeVolume" => volume_at("cosn://bkt-125/lake/v"),
        "DescribeCredentials" => keys(1, json!((NOW.as_secs() + 43_200) * 1_000)),
        other => Reply::error(&format!("InvalidAction {other}")),
    }
}

async fn place(handler: impl FnMut(&Received) -> Reply + Send + 'static) -> (Result<Place, Error>, Server) {
    let server = Server::start(handler).await;
    let catalog = server.catalog(clock());
    (soon(catalog.place(&volume())).await, server)
}

#[tokio::test]
async fn a_volume_is_found_with_signed_requests_of_the_api() {
    let (place, server) = place(but("", Reply::Silence)).await;
    let place = place.expect("found");
    assert_eq!((place.bucket.as_str(), place.prefix.as_str()), ("bkt-125", "lake/v"));
    let received = server.received();
    assert_eq!(server.actions(), ["DescribeCatalog", "DescribeVolume"]);
    assert_eq!(received[0].parameters(), json!({"CatalogName": "cat"}));
    let names = json!({"CatalogName": "cat", "SchemaName": "ä ö", "VolumeName": "v%2F"});
    assert_eq!(received[1].parameters(), names);
    for request in received {
        assert_eq!(request.line, "POST / HTTP/1.1");
        assert_eq!(format!("http://{}", request.header("host")), server.url);
        assert_eq!(request.header("content-type"), "application/json; charset=utf-8");
        assert_eq!(request.header("x-tc-version"), "2024-10-24");
        assert_eq!(request.header("x-tc-region"), "ap-guangzhou");
        assert_eq!(request.header("x-tc-timestamp"), NOW.as_secs().to_string());
        assert_eq!(request.header("x-tc-token"), TOKEN);
        let authorization = request.header("authorization");
        let start = "TC3-HMAC-SHA256 Credential=AKIDCALLER/2026-01-01/tccatalog/tc3_request, \
                     SignedHeaders=content-type;host, Signature=";
        assert!(authorization.starts_with(start), "{authorization}");
        assert_eq!(authorization.len(), start.len() + 64);
    }
}

#[tokio::test]
async fn only_catalogs_of_volumes_hold_files() {
    for kind in ["LAKEHOUSE", "MODEL", "DLC", "TCC-HIVE", "something new", ""] {
        let (place, server) = place(but("DescribeCatalog", catalog_of(kind))).await;
        let error = place.expect_err(kind);
        assert_eq!((error.kind(), error.retry()), (ErrorKind::InvalidConfig, Retry::Never), "{kind}");
        let text = error.to_string();
        assert!(text.contains("only catalogs of type VOLUME") && text.contains(&format!("type={kind:?}")), "{text}");
        assert!(text.contains("catalog=\"cat\""), "{text}");
        assert_eq!((error.operation(), error.url()), ("open", VOLUME_URL));
        assert_eq!(server.actions(), ["DescribeCatalog"], "nothing else is asked");
    }
}

#[tokio::test]
async fn what_does_not_exist_is_named_and_has_to_be_created() {
    let missing = || Reply::error("ResourceNotFound.Something");
    let with_schema = |schema: Reply| {
        let mut all = but("DescribeVolume", missing());
        move |request: &Received| if request.action() == "DescribeSchema" { schema.clone() } else { all(request) }
    };
    let found = || Reply::Response(json!({"Schema": {"Name": "ä ö"}}));
    let outcomes = [
        (place(but("DescribeCatalog", missing())).await, "no such catalog: catalog=\"cat\"", "create the catalog", 1),
        (place(with_schema(missing())).await, "no such schema: catalog=\"cat\" schema=\"ä ö\"", "create the schema", 3),
        (
            place(with_schema(found())).await,
            "no such volume: catalog=\"cat\" schema=\"ä ö\" volume=\"v%2F\"",
            "create the volume",
            3,
        ),
        (
            place(with_schema(Reply::error("UnauthorizedOperation"))).await,
            "no such schema or volume: catalog=\"cat\"",
            "create the schema or volume",
            3,
        ),
    ];
    for ((place, server), message, hint, requests) in outcomes {
        let error = place.expect_err(message);
        assert_eq!((error.kind(), error.retry()), (ErrorKind::NotFound, Retry::Never), "{error:?}");
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.hint().is_some_and(|h| h.contains(hint) && h.contains("first")), "{error:?}");
        assert_eq!(error.service_code(), Some("ResourceNotFound.Something"));
        assert!(error.request_id().is_some_and(|id| id.starts_with("req-")), "{error:?}");
        assert_eq!((error.operation(), error.url()), ("open", VOLUME_URL));
        assert_eq!(server.actions().len(), requests, "{message}");
    }
}

#[tokio::test]
async fn refusals_come_with_code_request_id_and_what_to_do() {
    for (code, kind, hint) in [
        ("AuthFailure.SignatureFailure", ErrorKind::Unauthenticated, "secret key"),
        ("AuthFailure.SignatureExpire", ErrorKind::Unauthenticated, "clock"),
        ("AuthFailure.TokenFailure", ErrorKind::Unauthenticated, "expired"),
        ("AuthFailure.SecretIdNotFound", ErrorKind::Unauthenticated, "secret ID"),
        ("UnauthorizedOperation.UserNotAllowOperation", ErrorKind::PermissionDenied, "policy"),
        ("InvalidParameter", ErrorKind::InvalidConfig, "names"),
    ] {
        let (place, server) = place(but("DescribeVolume", Reply::error(code))).await;
        let error = place.expect_err(code);
        assert_eq!((error.kind(), error.retry()), (kind, Retry::Never), "{error:?}");
        assert_eq!((error.service_code(), error.request_id()), (Some(code), Some("req-2")));
        assert!(error.to_string().contains(&format!("the catalog says {code}")), "{error}");
        assert!(error.hint().is_some_and(|h| h.contains(hint)), "{error:?}");
        assert_eq!((error.operation(), error.url(), server.actions().len()), ("open", VOLUME_URL, 2));
    }
}

#[tokio::test]
async fn what_passes_is_asked_again() {
    let trouble = || {
        [
            Reply::error("RequestLimitExceeded"),
            Reply::error("RequestLimitExceeded.UinLimitExceeded"),
            Reply::error("InternalError"),
            Reply::error("ResourceUnavailable.ClusterUnavailable"),
            Reply::Raw(502, "<html>bad gateway</html>".to_owned()),
            Reply::Raw(200, r#"{"Response": {"Vol"#.to_owned()),
        ]
    };
    for reply in trouble() {
        let mut all = but("", Reply::Silence);
        let mut left = 2;
        let (place, server) = place(move |request| {
            if request.action() == "DescribeVolume" && left > 0 {
                left -= 1;
                return reply.clone();
            }
            all(request)
        })
        .await;
        place.expect("the third attempt");
        assert_eq!(server.actions().len(), 4);
    }
    let kinds = [
        ErrorKind::RateLimited,
        ErrorKind::RateLimited,
        ErrorKind::Io,
        ErrorKind::Io,
        ErrorKind::Io,
        ErrorKind::Corrupt,
    ];
    for (reply, kind) in trouble().into_iter().zip(kinds) {
        let (place, server) = place(but("DescribeCatalog", reply)).await;
        let error = place.expect_err("for ever");
        assert_eq!((error.kind(), error.retry(), server.actions().len()), (kind, Retry::Exhausted, 3), "{error:?}");
    }
}

#[tokio::test]
async fn a_silent_catalog_is_given_up() {
    let server = Server::start(|_| Reply::Silence).await;
    let catalog = server.catalog(clock()).with_deadline(Duration::from_millis(50));
    let error = soon(catalog.place(&volume())).await.expect_err("silence");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Timeout, Retry::Exhausted));
    assert_eq!((error.operation(), error.url()), ("open", VOLUME_URL));
}

#[tokio::test]
async fn another_server_is_not_taken_for_a_catalog() {
    for (reply, kind) in [
        (Reply::Raw(404, "not here".to_owned()), ErrorKind::InvalidConfig),
        (Reply::Raw(301, String::new()), ErrorKind::InvalidConfig),
        (Reply::Raw(200, "<html>welcome</html>".to_owned()), ErrorKind::Corrupt),
        (Reply::Raw(200, r#"{"ok": true}"#.to_owned()), ErrorKind::Corrupt),
    ] {
        let (place, _) = place(but("DescribeCatalog", reply)).await;
        assert_eq!(place.expect_err("no catalog").kind(), kind);
    }
}

#[tokio::test]
async fn a_location_that_is_none_is_refused() {
    for (location, kind) in [
        (json!("cosn://bkt-125/a/../b"), ErrorKind::Corrupt),
        (json!("cosn://bkt-125//a"), ErrorKind::Corrupt),
        (json!("s3://bkt/a"), ErrorKind::Unsupported),
        (json!(""), ErrorKind::Corrupt),
        (json!(null), ErrorKind::Corrupt),
        (json!(7), ErrorKind::Corrupt),
    ] {
        let reply = Reply::Response(json!({"Volume": {"StorageLocation": location}}));
        let (place, _) = place(but("DescribeVolume", reply)).await;
        let error = place.expect_err("no location");
        assert_eq!((error.kind(), error.url()), (kind, VOLUME_URL), "{location}");
    }
    let (place, _) = place(but("DescribeVolume", Reply::Response(json!({"Volume": null})))).await;
    assert_eq!(place.expect_err("no volume").kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn credentials_are_whole_and_end() {
    let end = NOW.as_secs() + 43_200;
    let life = |seconds: u64| UNIX_EPOCH + NOW + Duration::from_secs(seconds);
    for (expiry, expected) in [
        (json!(end * 1_000), life(43_200)),
        (json!((end * 1_000).to_string()), life(43_200)),
        // An end that is not said is soon.
        (json!(0), life(1_800)),
        (json!(null), life(1_800)),
    ] {
        let server = Server::start(but("DescribeCredentials", keys(7, expiry.clone()))).await;
        let found = soon(server.catalog(clock()).credentials(&volume())).await.expect("given");
        assert_eq!((found.access_key_id(), found.expires_at()), ("AKID-7", Some(expected)), "{expiry}");
        assert_eq!(found.secret_access_key().expose(), "hunter2-of-the-volume-7");
        assert_eq!(found.session_token().map(|t| t.expose()), Some("t0ken-of-the-volume-7"));
    }
    let pair = |key: &str, value: &str| json!({"Key": key, "Value": value});
    let (id, secret) = (pair("cos-access-key-id", "AK"), pair("cos-secret-access-key", "hunter2"));
    for credentials in [
        json!(null),
        json!([]),
        json!([{"CredentialInfo": null, "ExpireTimeInMs": 1}]),
        json!([{"CredentialInfo": [id, secret], "ExpireTimeInMs": 1}]),
        json!([{"CredentialInfo": [id, secret, pair("cos-security-token", "")], "ExpireTimeInMs": 1}]),
        json!([{"CredentialInfo": [id, secret, pair("cos-security-token", "T")], "ExpireTimeInMs": "soon"}]),
        json!([{"CredentialInfo": [id, secret, pair("cos-security-token", "T")], "ExpireTimeInMs": -1}]),
        json!("hunter2"),
        json!([{"CredentialInfo": "hunter2"}]),
    ] {
        let reply = Reply::Response(json!({"Credentials": credentials}));
        let server = Server::start(but("DescribeCredentials", reply)).await;
        let error = soon(server.catalog(clock()).credentials(&volume())).await.expect_err("not whole");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Corrupt, "get credentials"), "{credentials}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn a_refused_caller_is_shown_without_secrets() {
    let (place, server) = place(but("DescribeCatalog", Reply::error("AuthFailure.TokenFailure"))).await;
    let catalog = server.catalog(clock());
    let shown = format!("{:?} {catalog:?}", place.expect_err("refused"));
    for secret in [SECRET_KEY, TOKEN, "Signature="] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
