//! What the S3 backend makes of servers and networks that fail: the right kind of error within a bounded
//! time, or success after retries, and never a guess about a write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::fake::{Fake, Received, Reply};
use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    BucketStorage, CopyOptions, CredentialProvider, Credentials, DeleteOptions, Error, ErrorKind, Guard, ObjectPath,
    ReadOptions, Result, Retry, StatOptions, Storage, StorageExt, WriteMode, WriteOptions, WriteOutcome,
};

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("valid")
}

async fn read(storage: &BucketStorage) -> Result<Bytes> {
    Ok(storage.read(&path("k"), ReadOptions::new()).await?.bytes)
}

async fn create(storage: &BucketStorage) -> Result<WriteOutcome> {
    storage.write(&path("k"), "mine".into(), WriteOptions::new().mode(WriteMode::IfAbsent)).await
}

/// Nothing here may take longer than this.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("within a bounded time")
}

fn cut_short() -> Reply {
    Reply::Raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly a part".to_owned())
}

#[tokio::test]
async fn passing_failures_are_retried() {
    let busy = || Reply::error(503, "ServiceUnavailable");
    for (what, trouble) in [
        ("busy", vec![busy(), busy()]),
        ("internal", vec![Reply::error(500, "InternalError"); 4]),
        ("a bad gateway", vec![Reply::status(502, "<html>bad gateway</html>")]),
        ("throttled", vec![Reply::error(503, "SlowDown"), Reply::status(429, "")]),
        ("closed", vec![Reply::Close, Reply::Close, Reply::Close]),
        ("cut short", vec![cut_short(), cut_short()]),
        (
            "no length, cut short",
            vec![Reply::Raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nabc".to_owned())],
        ),
        ("not HTTP", vec![Reply::Raw("hello\r\n\r\n".to_owned())]),
    ] {
        let attempts = trouble.len() + 1;
        let fake = Fake::script(trouble.into_iter().chain([Reply::ok("whole")]).collect()).await;
        let bytes = soon(read(&fake.storage())).await.unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert_eq!((&bytes[..], fake.count()), (&b"whole"[..], attempts), "{what}");
    }
}

#[tokio::test]
async fn failures_that_do_not_pass_end_with_their_kind() {
    for (reply, kind) in [
        (Reply::error(503, "SlowDown"), ErrorKind::RateLimited),
        (Reply::error(503, "ServiceUnavailable"), ErrorKind::Io),
        (Reply::error(500, "InternalError"), ErrorKind::Io),
        (Reply::Close, ErrorKind::Io),
        (cut_short(), ErrorKind::Corrupt),
    ] {
        let fake = Fake::script(vec![reply.clone()]).await;
        let error = soon(read(&fake.storage())).await.expect_err("never works");
        assert_eq!((error.kind(), error.retry()), (kind, Retry::Exhausted), "{reply:?}: {error:?}");
        assert_eq!(fake.count(), 5, "{reply:?}");
        assert_eq!((error.operation(), error.url()), ("read", "s3://bkt/root/k"));
    }
    for (reply, kind) in [
        (Reply::error(404, "NoSuchKey"), ErrorKind::NotFound),
        (Reply::error(403, "AccessDenied"), ErrorKind::PermissionDenied),
        (Reply::error(403, "SignatureDoesNotMatch"), ErrorKind::Unauthenticated),
        (Reply::error(403, "RequestTimeTooSkewed"), ErrorKind::Unauthenticated),
        (Reply::error(400, "InvalidArgument"), ErrorKind::Io),
    ] {
        let fake = Fake::script(vec![reply.clone()]).await;
        let error = soon(read(&fake.storage())).await.expect_err("never works");
        assert_eq!((error.kind(), error.retry(), fake.count()), (kind, Retry::Never, 1), "{error:?}");
        assert!(error.service_code().is_some() && error.request_id() == Some("REQ1"), "{error:?}");
    }
}

#[tokio::test]
async fn a_stalled_answer_times_out() {
    let options = serde_json::json!({"config_kwargs": {"read_timeout": 0.1, "retries": {"total_max_attempts": 2}}});
    for reply in
        [Reply::Stall(String::new()), Reply::Stall("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly".to_owned())]
    {
        let fake = Fake::script(vec![reply]).await;
        let policy = checkpoint_fs::RetryPolicy::new(2, Duration::ZERO, Duration::ZERO);
        let storage = fake.storage_with(options.clone(), &[], |config| config.with_retry(policy));
        let error = soon(read(&storage)).await.expect_err("stalls");
        assert_eq!((error.kind(), error.retry(), fake.count()), (ErrorKind::Timeout, Retry::Exhausted, 2));
    }
}

#[tokio::test]
async fn an_object_that_may_be_cut_short_is_none() {
    let unbounded = Reply::Raw("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nConnection: close\r\n\r\nonly a part".to_owned());
    assert_eq!(read_kind(&Fake::script(vec![unbounded]).await).await, ErrorKind::Corrupt);
    let chunked = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n";
    let fake = Fake::script(vec![Reply::Raw(format!("{chunked}0\r\n\r\n"))]).await;
    assert_eq!(soon(read(&fake.storage())).await.expect("whole"), "whole");
    assert_eq!(read_kind(&Fake::script(vec![Reply::Raw(chunked.to_owned())]).await).await, ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_part_is_not_read_beyond_its_end() {
    let endless = "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 0-3/4\r\n\
        Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n";
    let fake = Fake::start(move |_, _| Reply::Stall(endless.to_owned())).await;
    assert_eq!(read_kind(&fake).await, ErrorKind::Corrupt);
}

/// What a web page answers to everything is no success, and says nothing of what the store has.
#[tokio::test]
async fn who_is_not_the_store_is_not_believed() {
    for status in [200, 201, 202, 206, 404] {
        let fake = Fake::script(vec![Reply::page(status)]).await;
        for (what, storage) in [("s3", fake.storage()), ("cos", fake.cos())] {
            let kinds = if status == 404 { [ErrorKind::Io; 2] } else { [ErrorKind::Corrupt; 2] };
            let failed = |error: Error| {
                assert!(kinds.contains(&error.kind()), "{what} {status}: {error:?}");
                assert!(error.hint().is_some_and(|hint| hint.contains("endpoint")), "{what} {status}: {error:?}");
            };
            failed(soon(read(&storage)).await.expect_err("no object"));
            failed(soon(storage.stat(&path("k"), StatOptions::new())).await.expect_err("no object"));
            for mode in [WriteMode::IfAbsent, WriteMode::Overwrite] {
                let written = soon(storage.write(&path("k"), "mine".into(), WriteOptions::new().mode(mode))).await;
                assert!(matches!(written, Err(_) | Ok(WriteOutcome::Unknown(_))), "{what} {status}: {written:?}");
            }
            let copied = soon(storage.copy(&path("k"), &path("l"), CopyOptions::new())).await;
            assert!(matches!(copied, Err(_) | Ok(WriteOutcome::Unknown(_))), "{what} {status}: {copied:?}");
            soon(storage.delete(&path("k"), DeleteOptions::new())).await.expect_err("nobody deleted it");
            soon(storage.list_files(&ObjectPath::root(), true)).await.expect_err("no listing");
        }
    }
}

/// It may hide where it says that something is missing, for a moment.
#[tokio::test]
async fn a_gateway_that_knows_no_store_is_asked_again() {
    let fake = Fake::script(vec![Reply::page(404), Reply::page(404), Reply::ok("whole")]).await;
    assert_eq!((soon(read(&fake.storage())).await.expect("there"), fake.count()), ("whole".into(), 3));
}

#[tokio::test]
async fn an_answer_that_has_no_end_is_not_read_to_it() {
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", 1_u64 << 40, " ".repeat(65 << 20));
    let fake = Fake::script(vec![Reply::Raw(long)]).await;
    let error = soon(fake.storage().list_files(&ObjectPath::root(), true)).await.expect_err("too long");
    assert_eq!((error.kind(), fake.count()), (ErrorKind::Corrupt, 1));
}

#[tokio::test]
async fn an_object_that_changes_under_a_range_is_an_error() {
    let replies = vec![Reply::error(416, "InvalidRange"), Reply::ok("longer now")];
    let range = ReadOptions::new().range(Some(4..8));
    let fake = Fake::script(replies).await;
    let error = soon(fake.storage().read(&path("k"), range)).await.expect_err("changed");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Conflict, Retry::Maybe));
}

#[tokio::test]
async fn no_connection_is_an_error_that_says_so() {
    let fake = Fake::script(vec![Reply::ok("")]).await;
    let storage = fake.storage_with(serde_json::json!({"endpoint_url": "http://127.0.0.1:1"}), &[], |c| c);
    let error = soon(read(&storage)).await.expect_err("nobody listens");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Io, Retry::Exhausted));
    assert!(error.hint().expect("has one").contains("endpoint"));
    let outcome = soon(create(&storage)).await;
    assert!(outcome.is_err(), "what never left is not unknown: {outcome:?}");
}

#[tokio::test]
async fn retry_after_is_heeded() {
    let later = Reply::error(503, "SlowDown").with("Retry-After", "1");
    let fake = Fake::script(vec![later, Reply::ok("whole")]).await;
    let started = tokio::time::Instant::now();
    soon(read(&fake.storage())).await.expect("works in the end");
    assert!(started.elapsed() >= Duration::from_secs(1));
}

/// A server that loses the reply to each PUT that it applies; `there` answers what is read back.
async fn losing(lost: usize, last: Reply, there: impl Fn(&str) -> Reply + Send + 'static) -> Fake {
    let mut token = String::new();
    let mut puts = 0;
    Fake::start(move |request: &Received, _| {
        if request.method == "HEAD" {
            return there(&token);
        }
        assert_eq!((request.method.as_str(), request.header("if-none-match")), ("PUT", "*"));
        assert!(!request.token().is_empty(), "each write carries a token");
        assert!(token.is_empty() || token == request.token(), "and its retries the same");
        request.token().clone_into(&mut token);
        puts += 1;
        if puts <= lost { Reply::Close } else { last.clone() }
    })
    .await
}

fn object_of(token: &str) -> Reply {
    Reply::ok("mine").with("x-amz-meta-checkpoint-write-token", token).with("ETag", "\"e1\"")
}

#[tokio::test]
async fn a_lost_reply_is_settled_by_the_token() {
    let taken = || Reply::error(412, "PreconditionFailed");
    let missing = |_: &str| Reply::status(404, "");
    let is_unknown = |outcome: &Result<WriteOutcome>| matches!(outcome, Ok(WriteOutcome::Unknown(_)));

    let outcome = soon(create(&losing(1, taken(), object_of).await.storage())).await;
    let Ok(WriteOutcome::Done(meta)) = outcome else { panic!("ours is there: {outcome:?}") };
    assert_eq!((meta.size, meta.etag.as_deref()), (4, Some("e1")));

    let outcome = soon(create(&losing(1, taken(), |_| object_of("another")).await.storage())).await;
    assert!(matches!(outcome, Ok(WriteOutcome::AlreadyExists)), "{outcome:?}");
    let outcome = soon(create(&losing(0, taken(), |_| Reply::ok("no token at all")).await.storage())).await;
    assert!(matches!(outcome, Ok(WriteOutcome::AlreadyExists)), "{outcome:?}");

    let outcome = soon(create(&losing(1, taken(), missing).await.storage())).await;
    assert!(is_unknown(&outcome), "{outcome:?}");
    let outcome = soon(create(&losing(1, taken(), |_| Reply::status(500, "")).await.storage())).await;
    assert!(is_unknown(&outcome), "{outcome:?}");
    let outcome = soon(create(&losing(9, taken(), missing).await.storage())).await;
    assert!(is_unknown(&outcome), "every reply was lost: {outcome:?}");
    let outcome = soon(create(&losing(9, taken(), object_of).await.storage())).await;
    assert!(matches!(outcome, Ok(WriteOutcome::Done(_))), "every reply was lost: {outcome:?}");
    let outcome = soon(create(&losing(1, Reply::error(403, "AccessDenied"), missing).await.storage())).await;
    assert!(is_unknown(&outcome), "the first may still land: {outcome:?}");
}

#[tokio::test]
async fn contention_is_retried_and_then_an_error() {
    let contended = || Reply::error(409, "ConditionalRequestConflict");
    let fake = Fake::script(vec![contended(), contended(), Reply::ok("")]).await;
    assert!(matches!(soon(create(&fake.storage())).await, Ok(WriteOutcome::Done(_))));
    assert_eq!(fake.count(), 3);

    let fake = losing(0, contended(), |_| Reply::status(404, "")).await;
    let error = soon(create(&fake.storage())).await.expect_err("surely nothing was written");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Conflict, Retry::Exhausted));
    let fake = losing(0, contended(), |_| object_of("another")).await;
    assert!(matches!(soon(create(&fake.storage())).await, Ok(WriteOutcome::AlreadyExists)));
}

#[tokio::test]
async fn a_replacing_write_whose_replies_are_lost_is_settled_too() {
    for (found, done) in [("ours", true), ("another", false)] {
        let mut token = String::new();
        let fake = Fake::start(move |request, _| match request.method.as_str() {
            "HEAD" if found == "ours" => object_of(&token),
            "HEAD" => object_of(found),
            _ => {
                request.token().clone_into(&mut token);
                Reply::Close
            }
        })
        .await;
        let outcome = soon(fake.storage().write(&path("k"), "mine".into(), WriteOptions::new())).await;
        match (outcome.expect("settled or unknown"), done) {
            (WriteOutcome::Done(_), true) | (WriteOutcome::Unknown(_), false) => {}
            (outcome, _) => panic!("{found}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn a_success_with_an_error_inside_is_a_failure() {
    const COPIED: &str = "<CopyObjectResult><ETag>\"e2\"</ETag></CopyObjectResult>";
    let copying = |answers: Vec<Reply>| async move {
        let mut copies = 0;
        let fake = Fake::start(move |request, _| match request.method.as_str() {
            "HEAD" => Reply::ok("1234567").with("ETag", "\"e1\""),
            _ => {
                copies += 1;
                answers[(copies - 1).min(answers.len() - 1)].clone()
            }
        })
        .await;
        soon(fake.storage().copy(&path("a"), &path("b"), CopyOptions::new())).await
    };
    let inside = |code| {
        let Reply::Answer { body, .. } = Reply::error(500, code) else { unreachable!() };
        Reply::ok(&body)
    };
    let cut = Reply::ok(&COPIED[..30]);
    let outcome = copying(vec![inside("InternalError"), inside("SlowDown"), cut.clone(), Reply::ok(COPIED)]).await;
    let Ok(WriteOutcome::Done(meta)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((meta.size, meta.etag.as_deref()), (7, Some("e2")));
    for never in [inside("InternalError"), cut] {
        let outcome = copying(vec![never]).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Unknown(_))), "{outcome:?}");
    }
    let denied = copying(vec![inside("AccessDenied")]).await.expect_err("refused");
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
    let changed = copying(vec![Reply::error(412, "PreconditionFailed")]).await.expect_err("changed");
    assert_eq!((changed.kind(), changed.retry()), (ErrorKind::Conflict, Retry::Maybe));
}

#[tokio::test]
async fn nothing_is_sent_past_the_guard() {
    let fake = Fake::script(vec![Reply::error(503, "SlowDown")]).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let guard = {
        let asked = asked.clone();
        Guard::new(move || match asked.fetch_add(1, Ordering::SeqCst) {
            // Asked before credentials, before each attempt, before its answer is read, and before a pause.
            0..8 => Ok(Duration::from_secs(60)),
            _ => Err(Error::new(ErrorKind::Conflict, "the lease is gone")),
        })
    };
    let options = ReadOptions::new().guard(Some(guard));
    let error = soon(fake.storage().read(&path("k"), options)).await.expect_err("stopped");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "the lease is gone"));
    assert_eq!((error.operation(), fake.count()), ("read", 2));
}

#[tokio::test]
async fn an_attempt_and_a_pause_end_with_the_guard() {
    let short = || Some(Guard::new(|| Ok(Duration::from_millis(200))));
    let fake = Fake::script(vec![Reply::Stall(String::new())]).await;
    let policy = checkpoint_fs::RetryPolicy::new(5, Duration::from_secs(1), Duration::from_secs(1));
    let storage = fake.storage_with(serde_json::json!({}), &[], |c| c.with_retry(policy));
    let started = tokio::time::Instant::now();
    let error = soon(storage.read(&path("k"), ReadOptions::new().guard(short()))).await.expect_err("stalls");
    assert_eq!((error.kind(), fake.count()), (ErrorKind::Timeout, 1), "no pause fits");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());

    let over = Guard::new(|| Ok(Duration::ZERO));
    let error = storage.stat(&path("k"), StatOptions::new().guard(Some(over))).await.expect_err("no time");
    assert_eq!((error.kind(), fake.count()), (ErrorKind::Timeout, 1), "nothing was sent");
}

/// Never gives anything.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl CredentialProvider for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn waiting_for_credentials_ends_with_the_guard() {
    let fake = Fake::script(vec![Reply::ok("whole")]).await;
    let storage = fake.storage_with(serde_json::json!({}), &[], |c| c.with_credentials(Arc::new(Silent)));
    let short = Guard::new(|| Ok(Duration::from_millis(50)));
    let error = soon(storage.read(&path("k"), ReadOptions::new().guard(Some(short)))).await.expect_err("no keys");
    assert_eq!((error.kind(), error.operation(), fake.count()), (ErrorKind::Timeout, "read", 0));
}

/// Gives another key on every load.
#[derive(Debug, Default)]
struct Renewing(AtomicUsize);

#[async_trait]
impl CredentialProvider for Renewing {
    fn name(&self) -> &str {
        "renewing"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        let n = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Some(Credentials::new(format!("AK{n}"), "SK").with_session_token(Some(format!("T{n}")))))
    }
}

#[tokio::test]
async fn expired_credentials_are_renewed_once() {
    for expired in [Reply::error(400, "ExpiredToken"), Reply::status(401, ""), Reply::status(400, "")] {
        let fake = Fake::script(vec![expired.clone(), Reply::ok("whole")]).await;
        let provider = Arc::new(Renewing::default());
        let storage = fake.storage_with(serde_json::json!({}), &[], |c| c.with_credentials(provider));
        soon(read(&storage)).await.unwrap_or_else(|e| panic!("{expired:?}: {e:?}"));
        let tokens: Vec<String> = fake.received().iter().map(|r| r.header("x-amz-security-token").to_owned()).collect();
        assert_eq!(tokens, ["T0", "T1"]);

        let fake = Fake::script(vec![expired]).await;
        let storage =
            fake.storage_with(serde_json::json!({}), &[], |c| c.with_credentials(Arc::new(Renewing::default())));
        let error = soon(read(&storage)).await.expect_err("never accepted");
        assert_eq!((error.kind(), fake.count()), (ErrorKind::Unauthenticated, 2));
    }
    let fake = Fake::script(vec![Reply::error(400, "ExpiredToken")]).await;
    let error = soon(read(&fake.storage())).await.expect_err("fixed keys cannot be renewed");
    assert_eq!((error.kind(), fake.count()), (ErrorKind::Unauthenticated, 1));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Fake::script(vec![Reply::ok("stolen")]).await;
    let away = Reply::error(301, "PermanentRedirect")
        .with("Location", format!("{}/bkt/root/k", elsewhere.url))
        .with("x-amz-bucket-region", "eu-west-1");
    let fake = Fake::script(vec![away]).await;
    let error = soon(read(&fake.storage())).await.expect_err("not followed");
    assert_eq!((error.kind(), elsewhere.count(), fake.count()), (ErrorKind::InvalidConfig, 0, 1));
    assert!(error.hint().expect("has one").contains("eu-west-1"), "{error:?}");
}

#[tokio::test]
async fn a_listing_is_whole_or_an_error() {
    const PAGE: &str = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>root/a</Key><Size>1</Size></Contents></ListBucketResult>";
    let fake = Fake::script(vec![Reply::ok(&PAGE[..80]), Reply::ok(PAGE)]).await;
    let files = soon(fake.storage().list_files(&ObjectPath::root(), true)).await.expect("after a retry");
    assert_eq!(files.len(), 1);
    let fake = Fake::script(vec![Reply::ok(&PAGE[..80])]).await;
    let error = soon(fake.storage().list_files(&ObjectPath::root(), true)).await.expect_err("always cut");
    assert_eq!((error.kind(), error.retry(), fake.count()), (ErrorKind::Corrupt, Retry::Exhausted, 5));
    let endless = PAGE
        .replace("false", "true")
        .replace("<Contents>", "<NextContinuationToken>t</NextContinuationToken><Contents>");
    let fake = Fake::script(vec![Reply::ok(&endless)]).await;
    let error = soon(fake.storage().list_files(&ObjectPath::root(), true)).await.expect_err("goes in circles");
    assert_eq!((error.kind(), fake.count()), (ErrorKind::Corrupt, 2));
}

#[tokio::test]
async fn keys_that_are_no_paths_are_markers_or_errors() {
    let page = |keys: &[&str], prefixes: &[&str]| {
        let files: String = keys.iter().map(|k| format!("<Contents><Key>{k}</Key><Size>0</Size></Contents>")).collect();
        let dirs: String =
            prefixes.iter().map(|p| format!("<CommonPrefixes><Prefix>{p}</Prefix></CommonPrefixes>")).collect();
        Reply::ok(&format!("<ListBucketResult><IsTruncated>false</IsTruncated>{files}{dirs}</ListBucketResult>"))
    };
    let list = |reply: Reply| async move {
        let fake = Fake::script(vec![reply]).await;
        soon(fake.storage().list_files(&ObjectPath::root(), true)).await
    };
    let files = list(page(&["root/", "root/a", "root/sub/", "root/sub/b"], &[])).await.expect("markers are skipped");
    assert_eq!(files.iter().map(|(p, _)| p.as_str()).collect::<Vec<_>>(), ["a", "sub/b"]);
    for bad in ["root//a", "root/a/../b", "root/./a"] {
        let error = list(page(&[bad], &[])).await.expect_err(bad);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(bad), "{error}");
    }
    let error = list(page(&[], &["root//"])).await.expect_err("no name");
    assert!(error.to_string().contains("root//"), "{error}");
    let error = list(page(&["elsewhere/a"], &[])).await.expect_err("not asked for");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_range_is_the_one_that_was_asked_for() {
    let ask = |reply: Reply| async move {
        let fake = Fake::script(vec![reply]).await;
        soon(fake.storage().read(&path("k"), ReadOptions::new().range(Some(2..5)))).await
    };
    let part = |range: &str, body: &str| Reply::status(206, body).with("Content-Range", format!("bytes {range}"));
    let read = ask(part("2-4/10", "234")).await.expect("that range");
    assert_eq!((&read.bytes[..], read.meta.size), (&b"234"[..], 10));
    let read = ask(part("2-3/4", "23")).await.expect("cut at the end");
    assert_eq!((&read.bytes[..], read.meta.size), (&b"23"[..], 4));
    let read = ask(Reply::ok("0123456789")).await.expect("the server ignored the range");
    assert_eq!((&read.bytes[..], read.meta.size), (&b"234"[..], 10));
    for wrong in [part("3-5/10", "345"), part("2-4/10", "23"), part("2-3/10", "23"), Reply::status(206, "234")] {
        let error = ask(wrong.clone()).await.expect_err("another range");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{wrong:?}");
    }
    let whole = Fake::script(vec![part("0-2/10", "012")]).await;
    assert_eq!(read_kind(&whole).await, ErrorKind::Corrupt, "a part is not taken for the whole");
}

async fn read_kind(fake: &Fake) -> ErrorKind {
    soon(read(&fake.storage())).await.expect_err("refused").kind()
}
