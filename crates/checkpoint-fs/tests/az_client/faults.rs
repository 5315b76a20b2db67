//! Lost replies, refusals and half answers.

use std::sync::{Arc, Mutex};

use checkpoint_fs::{
    CopyOptions, DeleteOptions, Error, ErrorKind, ObjectPath, ReadOptions, Retry, StatOptions, Storage, StorageExt,
    WriteMode, WriteOptions, WriteOutcome,
};

use crate::fake::{Fake, Received, Reply};
use crate::{error, path, storage, with_key};

const TOKEN: &str = "x-ms-meta-checkpointwritetoken";

fn create() -> WriteOptions {
    WriteOptions::new().mode(WriteMode::IfAbsent)
}

/// Closes after the first PUT, refuses the second, and says that `owner` wrote what is there.
async fn loses_the_first_reply(owner: Option<&'static str>) -> Fake {
    let mut token = None;
    Fake::start(move |request, _| match request.method.as_str() {
        "PUT" if token.is_none() => {
            token = Some(request.header(TOKEN).to_owned());
            Reply::Close
        }
        "PUT" => error(409, "BlobAlreadyExists"),
        _ => {
            let own = token.clone().unwrap_or_default();
            Reply::ok("").with("Content-Length", "1").with(TOKEN, owner.map_or(own, str::to_owned))
        }
    })
    .await
}

#[tokio::test]
async fn a_lost_reply_is_settled_by_the_token() {
    let fake = loses_the_first_reply(None).await;
    let outcome = with_key(&fake).write(&path("x"), "1".into(), create()).await.expect("settled");
    assert!(matches!(outcome, WriteOutcome::Done(_)), "{outcome:?}");
    let first = &fake.received()[0];
    assert_eq!((first.header("if-none-match"), first.header("x-ms-blob-type")), ("*", "BlockBlob"));

    let fake = loses_the_first_reply(Some("another")).await;
    let outcome = with_key(&fake).write(&path("x"), "1".into(), create()).await.expect("settled");
    assert!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
}

#[tokio::test]
async fn a_lost_reply_to_the_end_of_a_stream_is_settled_too() {
    let fake = Fake::start(|request, n| match (request.method.as_str(), request.target.contains("comp=blocklist")) {
        ("PUT", true) if n == 2 => Reply::Close,
        ("PUT", true) => error(409, "BlobAlreadyExists"),
        ("PUT", false) => Reply::status(201, ""),
        _ => Reply::ok("").with("Content-Length", "9437184").with(TOKEN, "another"),
    })
    .await;
    let storage = with_key(&fake);
    let mut writer = storage.writer(&path("x"), create()).await.expect("opens");
    writer.write(vec![1; 9 << 20].into()).await.expect("writes");
    let outcome = writer.finish().await.expect("settled");
    assert!(matches!(outcome, WriteOutcome::AlreadyExists), "{outcome:?}");
    let received = fake.received();
    let lists: Vec<&Received> = received.iter().filter(|r| r.target.contains("comp=blocklist")).collect();
    assert_eq!((lists.len(), &lists[0].body), (2, &lists[1].body), "the same again");
    assert!(lists.iter().all(|r| r.header("if-none-match") == "*" && !r.header(TOKEN).is_empty()));
    let mut sizes: Vec<usize> = received[..2].iter().map(|r| r.body.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1 << 20, 8 << 20], "blocks arrive as they come");
}

#[tokio::test]
async fn a_clock_that_is_off_is_named() {
    let body = "<?xml version=\"1.0\"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to authenticate the \
                request.</Message><AuthenticationErrorDetail>Request date header too old: 'Tue, 14 Nov 2023 22:13:20 \
                GMT'</AuthenticationErrorDetail></Error>";
    let fake = Fake::script(vec![Reply::status(403, body).with("x-ms-error-code", "AuthenticationFailed")]).await;
    let failed = with_key(&fake).write(&path("x"), "1".into(), WriteOptions::new()).await.expect_err("refused");
    assert_eq!((failed.kind(), fake.count()), (ErrorKind::Unauthenticated, 1));
    assert!(failed.hint().is_some_and(|hint| hint.contains("clock is wrong")), "{failed:?}");
}

#[tokio::test]
async fn a_busy_service_is_asked_again() {
    let fake = Fake::start(|_, n| match n {
        0 | 1 => error(503, "ServerBusy"),
        _ => Reply::ok("").with("Content-Length", "3"),
    })
    .await;
    assert_eq!(with_key(&fake).stat(&path("x"), StatOptions::new()).await.expect("at last").size, 3);
    let fake = Fake::script(vec![error(503, "ServerBusy")]).await;
    let failed = with_key(&fake).stat(&path("x"), StatOptions::new()).await.expect_err("busy for ever");
    assert_eq!((failed.kind(), failed.retry(), fake.count()), (ErrorKind::RateLimited, Retry::Exhausted, 5));
}

#[tokio::test]
async fn half_a_listing_is_no_listing() {
    let whole = "<?xml version=\"1.0\"?><EnumerationResults><Blobs><Blob><Name>base/x</Name><Properties>\
                 <Content-Length>1</Content-Length></Properties></Blob></Blobs><NextMarker/></EnumerationResults>";
    let fake = Fake::script(vec![Reply::ok(&whole[..whole.len() - 20])]).await;
    let failed = with_key(&fake).list_files(&ObjectPath::root(), true).await.expect_err("cut");
    assert_eq!(failed.kind(), ErrorKind::Corrupt);
    let fake = Fake::script(vec![Reply::ok(whole)]).await;
    assert_eq!(with_key(&fake).list_files(&ObjectPath::root(), true).await.expect("whole").len(), 1);
}

/// Answers a batch of two: the first is deleted, the second ends with this status and code.
fn batch(request: &Received, status: u16, code: &str) -> Reply {
    let body = String::from_utf8(request.body.clone()).expect("text");
    let asked = body.matches("\r\nDELETE ").count();
    let mut answer = String::new();
    for id in 0..asked {
        let line =
            if id + 1 == asked { format!("{status} Said\r\nx-ms-error-code: {code}") } else { "202 Accepted".into() };
        answer.push_str(&format!(
            "--r1\r\nContent-Type: application/http\r\nContent-ID: {id}\r\n\r\nHTTP/1.1 {line}\r\n\r\n"
        ));
    }
    answer.push_str("--r1--");
    Reply::status(202, &answer).with("Content-Type", "multipart/mixed; boundary=r1")
}

#[tokio::test]
async fn what_a_batch_keeps_is_reported_or_asked_again() {
    let paths = || vec![path("a"), path("b c")];
    for (status, code, expected) in [
        (403, "AuthorizationPermissionMismatch", Some(ErrorKind::PermissionDenied)),
        (412, "LeaseIdMissing", Some(ErrorKind::Conflict)),
        (404, "BlobNotFound", None),
    ] {
        let fake = Fake::start(move |request, _| batch(request, status, code)).await;
        let failures = with_key(&fake).delete_many(paths(), DeleteOptions::new()).await.expect("answered");
        let kinds: Vec<ErrorKind> = failures.iter().map(|f| f.error.kind()).collect();
        assert_eq!((kinds, fake.count()), (Vec::from_iter(expected), 1), "{code}");
        assert!(failures.iter().all(|f| f.path == path("b c")), "{failures:?}");
    }
    let fake = Fake::start(|request, n| batch(request, if n == 0 { 503 } else { 202 }, "ServerBusy")).await;
    let failures = with_key(&fake).delete_many(paths(), DeleteOptions::new()).await.expect("answered");
    assert!(failures.is_empty(), "{failures:?}");
    let again = String::from_utf8(fake.received()[1].body.clone()).expect("text");
    assert!(again.contains("DELETE /acct/data/base/b%20c HTTP/1.1") && !again.contains("/base/a "), "{again}");
    assert_eq!(again.matches("authorization: SharedKey acct:").count(), 1, "{again}");
}

#[tokio::test]
async fn where_there_are_no_batches_blobs_are_deleted_one_by_one() {
    let fake = Fake::start(|request, _| match request.method.as_str() {
        "POST" => error(405, "UnsupportedHttpVerb"),
        _ => Reply::status(202, ""),
    })
    .await;
    let failures = with_key(&fake).delete_many(vec![path("a"), path("b")], DeleteOptions::new()).await.expect("done");
    assert!(failures.is_empty(), "{failures:?}");
    let deletes = fake.received().iter().filter(|r| r.method == "DELETE").count();
    assert_eq!((deletes, fake.count()), (2, 3));
}

/// Copies on and on, and ends as told.
async fn copies_slowly(end: &'static str) -> Fake {
    let mut token = String::new();
    let mut looks = 0;
    Fake::start(move |request, _| match request.method.as_str() {
        "PUT" => {
            token = request.header(TOKEN).to_owned();
            Reply::status(202, "").with("x-ms-copy-status", "pending")
        }
        "HEAD" if token.is_empty() => {
            Reply::ok("").with("Content-Length", "5").with("ETag", "\"s1\"").with("x-ms-meta-owner", "me")
        }
        "HEAD" => {
            looks += 1;
            let status = if looks < 2 { "pending" } else { end };
            let reply = Reply::ok("").with("Content-Length", "5").with("ETag", "\"t1\"");
            reply.with(TOKEN, token.clone()).with("x-ms-copy-status", status)
        }
        _ => Reply::status(202, ""),
    })
    .await
}

#[tokio::test]
async fn a_copy_that_goes_on_is_waited_for() {
    let fake = copies_slowly("success").await;
    let outcome = with_key(&fake).copy(&path("a"), &path("b"), CopyOptions::new()).await.expect("copies");
    assert!(matches!(&outcome, WriteOutcome::Done(meta) if meta.size == 5), "{outcome:?}");
    let put = fake.received().into_iter().find(|r| r.method == "PUT").expect("a copy");
    assert_eq!(put.header("x-ms-copy-source"), format!("{}/acct/data/base/a", fake.url));
    assert_eq!((put.header("x-ms-source-if-match"), put.header("x-ms-meta-owner")), ("\"s1\"", "me"));
}

#[tokio::test]
async fn what_a_failed_copy_leaves_is_removed() {
    let fake = copies_slowly("failed").await;
    let failed = with_key(&fake).copy(&path("a"), &path("b"), CopyOptions::new()).await.expect_err("failed");
    assert_eq!(failed.kind(), ErrorKind::Io);
    let delete = fake.received().into_iter().find(|r| r.method == "DELETE").expect("removed");
    assert_eq!(delete.header("if-match"), "\"t1\"", "unless it is another's by now");
}

#[tokio::test]
async fn directories_of_a_hierarchical_namespace_are_no_objects() {
    let fake =
        Fake::script(vec![Reply::ok("").with("Content-Length", "0").with("x-ms-meta-hdi_isfolder", "true")]).await;
    let failed = with_key(&fake).stat(&path("d"), StatOptions::new()).await.expect_err("a directory");
    assert!(failed.is_not_found(), "{failed}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_signature_is_never_logged_or_shown() {
    const SIGNATURE: &str = "s3cr3t-signature-of-the-test";
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).init();
    let fake = Fake::start(|request, _| match request.method.as_str() {
        "HEAD" => Reply::ok("").with("Content-Length", "1").with("ETag", "\"1\""),
        _ => error(403, "AuthorizationPermissionMismatch"),
    })
    .await;
    let options = serde_json::json!({"sas_token": format!("?sv=2023-11-03&sig={SIGNATURE}")});
    let storage = storage(&fake, options, &[]);
    storage.stat(&path("x"), StatOptions::new()).await.expect("there");
    let refused = storage.copy(&path("x"), &path("y"), CopyOptions::new()).await.expect_err("refused");
    let put = fake.received().into_iter().find(|r| r.method == "PUT").expect("a copy");
    assert!(put.target.contains(SIGNATURE) && put.header("x-ms-copy-source").contains(SIGNATURE), "{put:?}");
    let logged = String::from_utf8_lossy(&log.0.lock().expect("not poisoned")).into_owned();
    assert!(logged.contains("az://data/base/x"), "the log is on: {} bytes", logged.len());
    for text in [logged, format!("{storage:?} {refused:?} {refused}")] {
        assert!(!text.contains(SIGNATURE), "a secret is shown");
    }
}

/// What a web page answers to everything is no success, and says nothing of what the store has.
#[tokio::test]
async fn who_is_not_the_store_is_not_believed() {
    for (status, kind) in
        [(200, ErrorKind::Corrupt), (201, ErrorKind::Corrupt), (202, ErrorKind::Corrupt), (404, ErrorKind::Io)]
    {
        let fake = Fake::script(vec![Reply::page(status)]).await;
        let storage = with_key(&fake);
        let failed = |error: Error| {
            assert_eq!(error.kind(), kind, "{status}: {error:?}");
            assert!(error.hint().is_some_and(|hint| hint.contains("endpoint")), "{status}: {error:?}");
        };
        failed(storage.read(&path("x"), ReadOptions::new()).await.expect_err("no object"));
        failed(storage.stat(&path("x"), StatOptions::new()).await.expect_err("no object"));
        failed(storage.delete(&path("x"), DeleteOptions::new()).await.expect_err("nobody deleted it"));
        storage.list_files(&ObjectPath::root(), true).await.expect_err("no listing");
        for mode in [WriteMode::IfAbsent, WriteMode::Overwrite] {
            let written = storage.write(&path("x"), "1".into(), WriteOptions::new().mode(mode)).await;
            assert!(matches!(written, Err(_) | Ok(WriteOutcome::Unknown(_))), "{status}: {written:?}");
        }
        let copied = storage.copy(&path("x"), &path("y"), CopyOptions::new()).await;
        assert!(matches!(copied, Err(_) | Ok(WriteOutcome::Unknown(_))), "{status}: {copied:?}");
    }
}
