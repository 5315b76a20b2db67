//! What the S3 backend sends: how many requests, with which headers, to whom, and never a secret in a log.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::{ACCESS_KEY, Fake, Received, Reply, SECRET_KEY};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use checkpoint_fs::{
    CopyOptions, DeleteOptions, Error, ErrorKind, Guard, ListOptions, ObjectPath, ReadOptions, Retry, StatOptions,
    Storage, StorageExt, WriteMode, WriteOptions, WriteOutcome,
};
use md5::{Digest, Md5};

const PAGE: &str = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
const DELETED: &str = "<DeleteResult></DeleteResult>";
const MIB: usize = 1 << 20;

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("valid")
}

/// Answers everything with success, and uploads in parts with the upload ID `UP`.
pub(crate) fn friendly(request: &Received, _: usize) -> Reply {
    let target = request.target.as_str();
    match request.method.as_str() {
        "GET" if target.contains("list-type=2") => Reply::ok(PAGE),
        "POST" if target.contains("delete") => Reply::ok(DELETED),
        "POST" if target.ends_with("?uploads") => {
            Reply::ok("<InitiateMultipartUploadResult><UploadId>UP</UploadId></InitiateMultipartUploadResult>")
        }
        "POST" => Reply::ok("<CompleteMultipartUploadResult><ETag>\"e-2\"</ETag></CompleteMultipartUploadResult>"),
        "PUT" if !request.header("x-amz-copy-source").is_empty() => {
            Reply::ok("<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>")
        }
        "DELETE" => Reply::status(204, ""),
        _ => Reply::ok("abc").with("ETag", "\"e\""),
    }
}

pub(crate) fn seen(fake: &Fake) -> Vec<String> {
    fake.received().iter().map(|r| format!("{} {}", r.method, r.target)).collect()
}

#[tokio::test]
async fn swift_is_known_by_its_answers_and_creates_nothing_for_sure() {
    let create = || WriteOptions::new().mode(WriteMode::IfAbsent);
    for header in ["X-Trans-Id", "X-Openstack-Request-Id"] {
        let swift = |reply: Reply| reply.with(header, "tx2b1d0bd4cd9d4b4d8d5d3-0065f0a1b2");
        let fake = Fake::script(vec![swift(Reply::status(404, "")), Reply::ok("")]).await;
        let storage = fake.storage();
        assert!(storage.capabilities().write_if_absent, "nobody has answered yet");
        storage.stat(&path("k"), StatOptions::new()).await.expect_err("nothing there");
        assert!(!storage.capabilities().write_if_absent);
        assert_eq!(storage.capabilities().versioning, None);
        let error = storage.write(&path("k"), "x".into(), create()).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.hint().is_some_and(|hint| hint.contains("--lease-url")), "{error:?}");
        assert_eq!(fake.count(), 1, "nothing was sent");
        let replaced = storage.write(&path("k"), "x".into(), WriteOptions::new()).await;
        assert!(matches!(replaced, Ok(WriteOutcome::Done(_))), "{replaced:?}");

        let fake = Fake::script(vec![swift(Reply::ok(""))]).await;
        let first = fake.storage().write(&path("k"), "x".into(), create()).await.expect("an outcome");
        assert!(matches!(first, WriteOutcome::Unknown(_)), "others may have won as well: {first:?}");
    }
}

#[tokio::test]
async fn each_call_costs_what_it_says() {
    let fake = Fake::start(friendly).await;
    let storage = fake.storage();
    let k = path("k k");
    storage.read(&k, ReadOptions::new()).await.expect("reads");
    let _ = storage.write(&k, "x".into(), WriteOptions::new()).await.expect("writes");
    storage.stat(&k, StatOptions::new()).await.expect("stats");
    let _ = storage.copy(&k, &path("c"), CopyOptions::new()).await.expect("copies");
    storage.delete(&k, DeleteOptions::new()).await.expect("deletes");
    storage.list_files(&path("sub"), false).await.expect("lists");
    let after = ListOptions::new().recursive(true).start_after(Some(path("a/b")));
    futures::TryStreamExt::try_collect::<Vec<_>>(storage.list(&ObjectPath::root(), after)).await.expect("lists");
    assert_eq!(
        seen(&fake),
        [
            "GET /bkt/root/k%20k",
            "PUT /bkt/root/k%20k",
            "HEAD /bkt/root/k%20k",
            "HEAD /bkt/root/k%20k",
            "PUT /bkt/root/c",
            "DELETE /bkt/root/k%20k",
            "GET /bkt?list-type=2&prefix=root%2Fsub%2F&delimiter=%2F&encoding-type=url",
            "GET /bkt?list-type=2&prefix=root%2F&encoding-type=url&start-after=root%2Fa%2Fb",
        ]
    );
    let sent = fake.received();
    assert_eq!(sent[4].header("x-amz-copy-source"), "bkt/root/k%20k");
    for request in &sent {
        assert_eq!(request.header("user-agent"), concat!("checkpoint-fs/", env!("CARGO_PKG_VERSION")));
        assert!(request.header("authorization").starts_with("AWS4-HMAC-SHA256 Credential=AKIDFORTHEFAKE/"));
        assert_eq!(request.header("x-amz-content-sha256").len(), 64, "the real digest over plain HTTP");
    }
}

#[tokio::test]
async fn anonymous_requests_and_requester_pays() {
    let fake = Fake::start(friendly).await;
    let storage = fake.storage_with(serde_json::json!({"anon": true, "requester_pays": true}), &[], |c| c);
    storage.read(&path("k"), ReadOptions::new()).await.expect("reads");
    storage.list_files(&ObjectPath::root(), true).await.expect("lists");
    let _ = storage.write(&path("k"), "x".into(), WriteOptions::new()).await.expect("writes");
    for request in fake.received() {
        assert_eq!((request.header("authorization"), request.header("x-amz-request-payer")), ("", "requester"));
    }
}

#[tokio::test]
async fn small_streams_are_one_request_and_large_ones_equal_parts() {
    let fake = Fake::start(friendly).await;
    let storage = fake.storage();
    let write = |name: &'static str, size: usize| {
        let storage = &storage;
        async move {
            let mut writer = storage.writer(&path(name), WriteOptions::new()).await.expect("opens");
            for piece in vec![7; size].chunks(5 * MIB + 3) {
                writer.write(Bytes::copy_from_slice(piece)).await.expect("takes");
            }
            writer.finish().await.expect("finishes")
        }
    };
    let _ = write("small", 8 * MIB).await;
    assert_eq!(seen(&fake), ["PUT /bkt/root/small"]);
    let WriteOutcome::Done(meta) = write("large", 20 * MIB).await else { panic!("done") };
    assert_eq!((meta.size, meta.etag.as_deref()), (20 * MIB as u64, Some("e-2")));
    let sent = &fake.received()[1..];
    let mut parts: Vec<(&str, usize)> = sent.iter().map(|r| (r.target.as_str(), r.body.len())).collect();
    // The parts arrive as they come.
    parts[1..4].sort_unstable();
    assert_eq!(
        parts[..4],
        [
            ("/bkt/root/large?uploads", 0),
            ("/bkt/root/large?partNumber=1&uploadId=UP", 8 * MIB),
            ("/bkt/root/large?partNumber=2&uploadId=UP", 8 * MIB),
            ("/bkt/root/large?partNumber=3&uploadId=UP", 4 * MIB),
        ]
    );
    assert_eq!((sent[4].target.as_str(), sent.len()), ("/bkt/root/large?uploadId=UP", 5));
    assert!(!sent[0].token().is_empty(), "the upload carries the token");
}

#[tokio::test]
async fn an_abandoned_upload_is_removed() {
    let fake = Fake::start(friendly).await;
    let storage = fake.storage();
    let mut writer = storage.writer(&path("k"), WriteOptions::new()).await.expect("opens");
    writer.write(vec![7; 20 * MIB].into()).await.expect("takes");
    drop(writer);
    let aborted = "DELETE /bkt/root/k?uploadId=UP".to_owned();
    for _ in 0..100 {
        if seen(&fake).contains(&aborted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", seen(&fake));
}

#[tokio::test]
async fn a_lost_completion_is_settled_by_the_token() {
    for (found, size, done) in [("ours", 9 * MIB, true), ("ours", 8 * MIB, false), ("another", 9 * MIB, false)] {
        let mut token = String::new();
        let mut completions = 0;
        let fake = Fake::start(move |request, n| {
            if !request.token().is_empty() {
                request.token().clone_into(&mut token);
            }
            match request.method.as_str() {
                "POST" if request.target.ends_with("uploadId=UP") => {
                    completions += 1;
                    if completions == 1 { Reply::Close } else { Reply::error(404, "NoSuchUpload") }
                }
                "HEAD" => {
                    let there = if found == "ours" { token.as_str() } else { found };
                    let reply = Reply::ok("").with("Content-Length", size.to_string());
                    reply.with("x-amz-meta-checkpoint-write-token", there)
                }
                _ => friendly(request, n),
            }
        })
        .await;
        let storage = fake.storage();
        let mut writer = storage.writer(&path("k"), WriteOptions::new()).await.expect("opens");
        writer.write(vec![7; 9 * MIB].into()).await.expect("takes");
        match (writer.finish().await.expect("settled or unknown"), done) {
            (WriteOutcome::Done(_), true) | (WriteOutcome::Unknown(_), false) => {}
            (outcome, _) => panic!("{found} {size}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn parts_are_freed_when_the_right_to_write_is_gone() {
    for drops in [true, false] {
        let fake = Fake::start(friendly).await;
        let is_over = Arc::new(AtomicBool::new(false));
        let guard = {
            let is_over = Arc::clone(&is_over);
            Guard::new(move || match is_over.load(Ordering::SeqCst) {
                true => Err(Error::new(ErrorKind::Conflict, "the lease is gone")),
                false => Ok(Duration::from_secs(60)),
            })
        };
        let options = WriteOptions::new().guard(Some(guard));
        let mut writer = fake.storage().writer(&path("k"), options).await.expect("opens");
        writer.write(vec![7; 20 * MIB].into()).await.expect("takes");
        is_over.store(true, Ordering::SeqCst);
        let error = writer.write(vec![7; 20 * MIB].into()).await.expect_err("stopped");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        if drops {
            drop(writer);
        } else {
            writer.abort().await.expect("freed");
        }
        let freed = async {
            while !seen(&fake).contains(&"DELETE /bkt/root/k?uploadId=UP".to_owned()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), freed).await.expect("the parts are freed");
        assert!(!seen(&fake).iter().any(|line| line.starts_with("POST") && line.ends_with("uploadId=UP")));
    }
}

/// A server that holds one object of a size, and copies it in parts.
async fn holding(size: u64, mut part: impl FnMut(usize) -> Reply + Send + 'static) -> Fake {
    let mut parts = 0;
    Fake::start(move |request, n| match request.method.as_str() {
        "HEAD" => Reply::ok("").with("Content-Length", size.to_string()).with("ETag", "\"e1\""),
        "PUT" if request.target.contains("partNumber=") => {
            parts += 1;
            part(parts)
        }
        _ => friendly(request, n),
    })
    .await
}

#[tokio::test]
async fn large_objects_are_copied_in_parts() {
    const GIB: u64 = 1 << 30;
    let copied = |_| Reply::ok("<CopyPartResult><ETag>\"p\"</ETag></CopyPartResult>");
    for (size, parts) in [(GIB - 1, 0), (GIB, 1), (6 * GIB + 5, 7)] {
        let fake = holding(size, copied).await;
        let outcome = fake.storage().copy(&path("a b"), &path("c"), CopyOptions::new()).await;
        let Ok(WriteOutcome::Done(meta)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(meta.size, size);
        let sent = fake.received();
        let copies: Vec<_> = sent.iter().filter(|r| !r.header("x-amz-copy-source").is_empty()).collect();
        assert_eq!((copies.len(), sent.len()), if parts == 0 { (1, 2) } else { (parts, parts + 3) });
        let mut ranges = Vec::new();
        for copy in copies {
            assert_eq!(copy.header("x-amz-copy-source"), "bkt/root/a%20b");
            assert_eq!(copy.header("x-amz-copy-source-if-match"), "\"e1\"", "the parts are all of one source");
            ranges.extend(copy.header("x-amz-copy-source-range").strip_prefix("bytes=").map(str::to_owned));
        }
        ranges.sort_by_key(|range| range.split('-').next().and_then(|first| first.parse::<u64>().ok()));
        let expected: Vec<String> =
            (0..parts as u64).map(|n| format!("{}-{}", n * GIB, ((n + 1) * GIB).min(size) - 1)).collect();
        assert_eq!(ranges, expected);
        if parts > 0 {
            let body = String::from_utf8(sent[sent.len() - 1].body.clone()).expect("text");
            assert_eq!(body.matches("<PartNumber>").count(), parts, "{body}");
        }
    }
}

#[tokio::test]
async fn a_copy_in_parts_that_fails_leaves_no_upload() {
    let fake = holding(3 << 30, |n| match n {
        2 => Reply::ok("<Error><Code>AccessDenied</Code><Message>m</Message></Error>"),
        _ => Reply::ok("<CopyPartResult><ETag>\"p\"</ETag></CopyPartResult>"),
    })
    .await;
    let error = fake.storage().copy(&path("a"), &path("c"), CopyOptions::new()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    let seen = seen(&fake);
    assert_eq!(seen.iter().filter(|line| *line == "DELETE /bkt/root/c?uploadId=UP").count(), 1, "{seen:?}");
    let uploads = seen.iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!(uploads, 1, "it was begun and not completed: {seen:?}");
}

fn keys_of(request: &Received) -> Vec<String> {
    let body = String::from_utf8(request.body.clone()).expect("text");
    body.split("<Key>").skip(1).map(|rest| rest.split("</Key>").next().expect("closed").to_owned()).collect()
}

#[tokio::test]
async fn deletes_go_a_thousand_to_a_request_with_the_digest_of_the_body() {
    let fake = Fake::start(friendly).await;
    let paths: Vec<ObjectPath> = (0..2_500).map(|n| path(&format!("<{n}> & \"co\"'s"))).collect();
    let failures = fake.storage().delete_many(paths, DeleteOptions::new()).await.expect("deletes");
    assert!(failures.is_empty());
    let sent = fake.received();
    assert_eq!(sent.iter().map(|r| keys_of(r).len()).collect::<Vec<_>>(), [1000, 1000, 500]);
    for request in &sent {
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/bkt?delete="));
        assert_eq!(request.header("content-md5"), BASE64_STANDARD.encode(Md5::digest(&request.body)));
    }
    let mut first = keys_of(&sent[2]);
    first.sort();
    assert_eq!(first[0], "root/&lt;2000&gt; &amp; &quot;co&quot;&apos;s");
}

#[tokio::test]
async fn a_key_that_stays_is_reported_and_retried_where_that_helps() {
    let fake = Fake::start(|request, n| {
        let kept =
            |key: &str, code: &str| format!("<Error><Key>{key}</Key><Code>{code}</Code><Message>m</Message></Error>");
        let mut body = String::from("<DeleteResult>");
        for key in keys_of(request) {
            match key.as_str() {
                "root/denied" => body.push_str(&kept(&key, "AccessDenied")),
                "root/once" if n == 0 => body.push_str(&kept(&key, "InternalError")),
                "root/always" => body.push_str(&kept(&key, "SlowDown")),
                "root/gone" => body.push_str(&kept(&key, "NoSuchKey")),
                _ => {}
            }
        }
        Reply::ok(&format!("{body}</DeleteResult>"))
    })
    .await;
    let names = ["fine", "denied", "once", "always", "gone"];
    let mut failures =
        fake.storage().delete_many(names.map(path).to_vec(), DeleteOptions::new()).await.expect("answers");
    failures.sort_by(|a, b| a.path.cmp(&b.path));
    let said: Vec<_> = failures.iter().map(|f| (f.path.as_str(), f.error.kind(), f.error.retry())).collect();
    assert_eq!(
        said,
        [("always", ErrorKind::RateLimited, Retry::Exhausted), ("denied", ErrorKind::PermissionDenied, Retry::Never)]
    );
    assert_eq!(failures[1].error.url(), "s3://bkt/root/denied");
    let asked: Vec<usize> = fake.received().iter().map(|r| keys_of(r).len()).collect();
    assert_eq!(asked, [5, 2, 1, 1, 1]);
}

#[tokio::test]
async fn a_store_without_multi_delete_gets_single_ones() {
    for refusal in [Reply::error(501, "NotImplemented"), Reply::status(405, "")] {
        let fake = Fake::start(move |request, n| match request.method.as_str() {
            "POST" => refusal.clone(),
            _ if request.target.ends_with("denied") => Reply::error(403, "AccessDenied"),
            _ => friendly(request, n),
        })
        .await;
        let paths = ["a", "b", "denied"].map(path).to_vec();
        let failures = fake.storage().delete_many(paths, DeleteOptions::new()).await.expect("deletes");
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(fake.count(), 4);
    }
}

#[tokio::test]
async fn no_more_requests_at_once_than_allowed() {
    let slow = Reply::Slow(Duration::from_millis(50), Box::new(Reply::ok("abc")));
    let fake = Fake::script(vec![slow]).await;
    let storage = fake.storage_with(serde_json::json!({"config_kwargs": {"max_pool_connections": 3}}), &[], |c| c);
    let k = path("k");
    let reads = (0..12).map(|_| storage.read(&k, ReadOptions::new()));
    for read in futures::future::join_all(reads).await {
        read.expect("reads");
    }
    assert_eq!((fake.count(), fake.most_at_once()), (12, 3));
}

#[tokio::test]
async fn proxies_are_used_as_the_environment_says() {
    let fake = Fake::start(friendly).await;
    let proxy = Fake::start(friendly).await;
    let through = |variables: Vec<(&'static str, String)>| {
        let pairs: Vec<(&str, &str)> = variables.iter().map(|(k, v)| (*k, v.as_str())).collect();
        fake.storage_with(serde_json::json!({}), &pairs, |c| c)
    };
    let url = || proxy.url.clone();
    through(vec![("http_proxy", url())]).read(&path("k"), ReadOptions::new()).await.expect("reads");
    assert_eq!((proxy.count(), fake.count()), (1, 0));
    assert_eq!(proxy.received()[0].target, format!("{}/bkt/root/k", fake.url));
    for direct in ["127.0.0.1", "localhost,127.0.0.0/8", "*"] {
        let storage = through(vec![("http_proxy", url()), ("NO_PROXY", direct.to_owned())]);
        storage.read(&path("k"), ReadOptions::new()).await.expect("reads");
        assert_eq!(proxy.count(), 1, "{direct}");
    }
    assert_eq!(fake.count(), 3);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The only test of this file that looks at the log; it gets the lines of the others too, which does no harm.
#[tokio::test]
async fn no_secret_is_logged_or_shown() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).init();
    const TOKEN: &str = "s3ss10n-t0ken-of-the-test";
    let fake = Fake::start(|request, n| match request.method.as_str() {
        "PUT" => Reply::error(403, "SignatureDoesNotMatch"),
        _ => friendly(request, n),
    })
    .await;
    let storage = fake.storage_with(serde_json::json!({}), &[("AWS_SESSION_TOKEN", TOKEN)], |c| c);
    storage.read(&path("k"), ReadOptions::new()).await.expect("reads");
    let error = storage.write(&path("k"), "x".into(), WriteOptions::new()).await.expect_err("refused");
    let signatures: Vec<String> = fake
        .received()
        .iter()
        .map(|r| r.header("authorization").rsplit_once("Signature=").expect("signed").1.to_owned())
        .collect();
    assert_eq!((signatures.len(), fake.received()[0].header("x-amz-security-token")), (2, TOKEN));
    let logged = String::from_utf8_lossy(&log.0.lock().expect("not poisoned")).into_owned();
    assert!(logged.contains("s3://bkt/root/k"), "the log is on: {} bytes", logged.len());
    let shown = format!("{storage:?} {error:?} {error}");
    for text in [&logged, &shown] {
        for secret in signatures.iter().map(String::as_str).chain([SECRET_KEY, TOKEN]) {
            let at = text.find(secret).map(|at| &text[at.saturating_sub(200)..at]);
            assert_eq!(at, None, "a secret is shown");
        }
    }
    assert!(!shown.contains(ACCESS_KEY), "{shown}");
}
